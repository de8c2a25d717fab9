// SPDX-License-Identifier: BSD-2-Clause
/* From the registers and the copied stack of a thread to the names of its functions: of children that are this program. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "stack/stack.h"
#include "stack_sample.h"

#define PLAIN __attribute__((noinline, optimize("omit-frame-pointer", "no-optimize-sibling-calls")))

static int ready = -1;

/* Waits for ever. */
PLAIN static int inner_wait(int n)
{
	char byte = (char)n;
	pid_t tid = (pid_t)syscall(SYS_gettid);

	if (write(ready, &tid, sizeof(tid)) != sizeof(tid))
		_exit(1);
	while (ready >= 0)
		byte += (char)pause();
	return byte;
}

PLAIN static int middle_wait(int n)
{
	volatile char buf[300];

	buf[0] = (char)inner_wait(n);
	return buf[0] + n;
}

/* The frame is not of a fixed size, and the stack is realigned. */
PLAIN static int outer_wait(int n)
{
	volatile char buf[n] __attribute__((aligned(64)));

	buf[0] = (char)middle_wait(n);
	return buf[0] + n;
}

PLAIN static int compare_wait(const void *a, const void *b)
{
	return outer_wait(17) + (a < b);
}

PLAIN static void run_plain(void)
{
	outer_wait(100);
}

PLAIN static void run_through_library(void)
{
	int some[2] = { 1, 0 };

	qsort(some, 2, sizeof(some[0]), compare_wait);
}

PLAIN static void *thread_wait(void *arg)
{
	outer_wait(5);
	return arg;
}

PLAIN static void run_thread(void)
{
	pthread_t t;

	if (!pthread_create(&t, NULL, thread_wait, NULL))
		pthread_join(t, NULL);
}

PLAIN static void on_signal(int sig)
{
	outer_wait(sig);
}

PLAIN static void run_signal(void)
{
	signal(SIGUSR1, on_signal);
	raise(SIGUSR1);
}

struct child {
	pid_t pid, tid;
};

static struct child child_start(void (*run)(void))
{
	struct child c;
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	c.pid = fork();
	assert_true(c.pid >= 0);
	if (!c.pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		ready = fds[1];
		run();
		_exit(1);
	}
	close(fds[1]);
	assert_int_equal(read(fds[0], &c.tid, sizeof(c.tid)), sizeof(c.tid));
	close(fds[0]);
	return c;
}

static void child_end(const struct child *c)
{
	kill(c->pid, SIGKILL);
	while (waitpid(c->pid, NULL, 0) < 0)
		assert_int_equal(errno, EINTR);
}

static struct stacks *new_stacks(bool in_process)
{
	const struct stacks_config config = { .in_process = in_process };
	struct stacks *s = NULL;

	assert_int_equal(stacks_new(&config, &s), 0);
	return s;
}

static void print_stack(const struct stacks *s, uint32_t id)
{
	const uint32_t *frames;
	unsigned int n = stacks_get(s, id, &frames);

	for (unsigned int i = 0; i < n; i++) {
		const struct frame *f = stacks_frame(s, frames[i]);

		print_message("# %2u %s [%s] %lx kind %d\n", i, f->name, f->file ? f->file : "", (unsigned long)f->rel_pc, f->kind);
	}
}

/* Whether the stack has these functions in this order, others between them. */
static bool has_frames(const struct stacks *s, uint32_t id, const char *const *names)
{
	const uint32_t *frames;
	unsigned int n = stacks_get(s, id, &frames), found = 0;

	for (unsigned int i = 0; i < n && names[found]; i++)
		found += !strcmp(stacks_frame(s, frames[i])->name, names[found]);
	if (names[found]) {
		print_message("# %s is missing in\n", names[found]);
		print_stack(s, id);
	}
	return !names[found];
}

static void check(struct stacks *s, void (*run)(void), const char *const *names)
{
	struct child c = child_start(run);
	struct stacks_stats before, after;
	size_t size = 0;
	struct rec_sample *r = sample_take(c.pid, c.tid, &size);
	uint32_t id;

	assert_non_null(r);
	stacks_stats(s, &before);
	id = stacks_take(s, r, size);
	stacks_stats(s, &after);
	assert_true(has_frames(s, id, names));
	if (after.complete != before.complete + 1)
		print_stack(s, id);
	assert_int_equal(after.complete, before.complete + 1);
	/* again the same */
	assert_int_equal(stacks_take(s, r, size), id);
	stacks_stats(s, &before);
	assert_int_equal(before.stacks, after.stacks);
	assert_int_equal(before.lookups, after.lookups);
	free(r);
	child_end(&c);
}

static const char *const plain[] = { "inner_wait", "middle_wait", "outer_wait", "run_plain", "main", NULL };
static const char *const library[] = { "inner_wait", "middle_wait", "outer_wait", "compare_wait", "qsort_r", "main", NULL };
static const char *const thread[] = { "inner_wait", "middle_wait", "outer_wait", "thread_wait", NULL };
static const char *const signalled[] = { "inner_wait", "outer_wait", "on_signal", "run_signal", "main", NULL };

static void unwinds(void **state)
{
	bool in_process = *state == NULL;
	struct stacks *s = new_stacks(in_process);

	check(s, run_plain, plain);
	check(s, run_through_library, library);
	check(s, run_thread, thread);
	check(s, run_signal, signalled);
	stacks_free(s);
}

int main(void)
{
	static int other;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unwinds),
		{ "unwinds with another process that reads", unwinds, NULL, NULL, &other },
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
