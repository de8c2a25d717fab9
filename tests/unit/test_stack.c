// SPDX-License-Identifier: BSD-2-Clause
/* From the registers and the copied stack of a thread to the names of its functions: of children that are this program. */
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

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

/* What stands for the interpreter: its function for Python frames calls an extension, which calls it again. */
int _PyEval_EvalFrameDefault(int n);

PLAIN static int extension(int n)
{
	return _PyEval_EvalFrameDefault(n - 1) + 1;
}

PLAIN int _PyEval_EvalFrameDefault(int n)
{
	return (n ? extension(n) : outer_wait(3)) + 1;
}

PLAIN static void run_python(void)
{
	_PyEval_EvalFrameDefault(1);
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
static const char *const library[] = { "inner_wait", "middle_wait", "outer_wait", "compare_wait", "run_through_library", "main", NULL };
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

/* ---- Python ---- */

static int name_python(void *arg, uint32_t tgid, uint64_t code, uint64_t instr, struct python_name *ret_name)
{
	static char name[32];

	assert_string_equal(arg, "arg");
	assert_true(tgid);
	if (code == 99)
		return -ENOENT;
	snprintf(name, sizeof(name), "py%lu", (unsigned long)code);
	*ret_name = (struct python_name){ .name = name, .file = "m.py", .line = (uint32_t)instr };
	return 0;
}

static const char *name_task(void *arg, uint32_t tgid, const struct python_task *task)
{
	assert_string_equal(arg, "arg");
	assert_true(tgid);
	return task->bytes ? "[task t]" : NULL;
}

#define ENTRY STACK_PYTHON_ENTRY
#define EVAL "_PyEval_EvalFrameDefault"

/* A sample like r with Python frames and a task, of which the first `within` are. */
static uint32_t take_with_task(struct stacks *s, const struct rec_sample *r, const struct python_frame *frames, uint16_t n,
	uint32_t within, uint32_t bytes)
{
	size_t at = n * sizeof(*frames), size = REC_SAMPLE_SIZE(0, n, r->stack_bytes) + sizeof(struct python_task);
	struct python_task task = { .frames = within, .bytes = bytes };
	struct rec_sample *p = calloc(1, size);
	uint32_t id;

	assert_non_null(p);
	*p = *r;
	p->python_n = n;
	p->task = 1;
	memcpy(p + 1, frames, at);
	memcpy((char *)(p + 1) + at, &task, sizeof(task));
	memcpy((char *)(p + 1) + at + sizeof(task), r + 1, r->stack_bytes);
	id = stacks_take(s, p, size);
	assert_int_equal(stacks_take(s, p, size - 8), STACK_NONE);
	free(p);
	return id;
}

/* The task's frame is outside of those that are within it, wherever the native functions are. */
static void tasks_are_merged(void **state)
{
	static const struct python_frame frames[] = { { 1, 7 }, { 2, 8 | ENTRY }, { 3, 9 }, { 4, 10 | ENTRY } };
	static const struct {
		uint32_t within, bytes;
		const char *wanted[12];
	} cases[] = {
		{ 1, 8, { "outer_wait", "py1", "[task t]", "py2", "extension", "py3", "py4", "run_python", "main" } },
		{ 2, 8, { "outer_wait", "py1", "py2", "[task t]", "extension", "py3", "py4", "run_python", "main" } },
		{ 3, 8, { "outer_wait", "py1", "py2", "extension", "py3", "[task t]", "py4", "run_python", "main" } },
		{ 4, 8, { "outer_wait", "py1", "py2", "extension", "py3", "py4", "[task t]", "run_python", "main" } },
		/* wrong, and without a name */
		{ 0, 8, { "outer_wait", "py1", "py2", "extension", "py3", "py4", "run_python", "main" } },
		{ 5, 8, { "outer_wait", "py1", "py2", "extension", "py3", "py4", "run_python", "main" } },
		{ 2, 0, { "outer_wait", "py1", "py2", "extension", "py3", "py4", "run_python", "main" } },
	};
	const struct stacks_config config = {
		.in_process = true, .python = name_python, .python_task = name_task, .python_arg = (void *)"arg"
	};
	struct child c = child_start(run_python);
	size_t size = 0;
	struct rec_sample *r = sample_take(c.pid, c.tid, &size);
	struct stacks *s;

	assert_non_null(r);
	assert_int_equal(stacks_new(&config, &s), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_true(has_frames(s, take_with_task(s, r, frames, 4, cases[i].within, cases[i].bytes), cases[i].wanted));
	stacks_free(s);
	free(r);
	child_end(&c);
}

static void python_is_merged(void **state)
{
	static const struct {
		struct python_frame frames[6];
		uint16_t n;
		const char *wanted[12];
	} cases[] = {
		{ { { 1, 7 }, { 2, 8 | ENTRY }, { 3, 9 }, { 4, 10 | ENTRY } }, 4,
			{ "outer_wait", "py1", "py2", "extension", "py3", "py4", "run_python", "main" } },
		/* one for each without marks, and the innermost the rest */
		{ { { 1, 7 }, { 2, 8 } }, 2, { "outer_wait", "py1", "extension", "py2", "run_python" } },
		{ { { 1, 7 }, { 2, 8 }, { 3, 9 } }, 3, { "outer_wait", "py1", "py2", "extension", "py3", "run_python" } },
		/* fewer than the interpreter has, too many, unknown, none */
		{ { { 1, 7 } }, 1, { "outer_wait", "py1", "extension", EVAL, "run_python" } },
		{ { { 1, ENTRY }, { 2, ENTRY }, { 3, ENTRY } }, 3,
			{ "outer_wait", "py1", "extension", "py2", "py3", "run_python" } },
		{ { { 99, ENTRY }, { 2, ENTRY } }, 2, { "outer_wait", "[python]", "extension", "py2", "run_python" } },
		{ {}, 0, { "outer_wait", EVAL, "extension", EVAL, "run_python" } },
	};
	const struct stacks_config config = { .in_process = true, .python = name_python, .python_arg = (void *)"arg" };
	struct child c = child_start(run_python);
	size_t size = 0, stack, size_python;
	struct rec_sample *r = sample_take(c.pid, c.tid, &size), *p;
	struct stacks *s;

	assert_non_null(r);
	assert_int_equal(stacks_new(&config, &s), 0);
	stack = r->stack_bytes;
	p = calloc(1, size + sizeof(cases[0].frames));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_python = cases[i].n * sizeof(cases[i].frames[0]);
		*p = *r;
		p->python_n = cases[i].n;
		memcpy(p + 1, cases[i].frames, size_python);
		memcpy((char *)(p + 1) + size_python, r + 1, stack);
		assert_true(has_frames(s, stacks_take(s, p, size + size_python), cases[i].wanted));
	}
	/* the native part ends first */
	p->stack_bytes = 64;
	p->python_n = 1;
	memcpy(p + 1, cases[0].frames, size_python = sizeof(cases[0].frames[0]));
	memcpy((char *)(p + 1) + size_python, r + 1, 64);
	{
		static const char *const wanted[] = { "[cut]", "py1", NULL };

		assert_true(has_frames(s, stacks_take(s, p, sizeof(*p) + size_python + 64), wanted));
	}
	stacks_free(s);
	free(p);
	free(r);
	child_end(&c);
}

/* ---- all kinds ---- */

/* A child that makes code and names it, as engines do. */
static void run_made_code(void)
{
	/* push %rbp; mov %rsp,%rbp; call *%rdi; pop %rbp; ret */
	static const unsigned char code[] = { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3 };
	unsigned char *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	f = fopen(path, "w");
	if (at == MAP_FAILED || !f)
		_exit(1);
	fprintf(f, "%lx %zx made code\n", (unsigned long)at, sizeof(code));
	fclose(f);
	memcpy(at, code, sizeof(code));
	((void (*)(void (*)(void)))at)(run_plain);
}

static void all_kinds(void **state)
{
	static const char *const wanted[] = { "inner_wait", "run_plain", "made code", NULL };
	struct child c = child_start(run_made_code);
	struct stacks *s = new_stacks(true);
	struct stacks_stats stats;
	char path[64];
	size_t size = 0;
	struct rec_sample *r = sample_take(c.pid, c.tid, &size), *k;
	const uint32_t *frames;
	uint64_t kernel[2] = { 0xfff, 0x1000 };
	uint32_t id;

	assert_non_null(r);
	id = stacks_take(s, r, size);
	assert_true(has_frames(s, id, wanted));
	k = calloc(1, size + sizeof(kernel));
	*k = *r;
	k->kernel_n = 2;
	memcpy(k + 1, kernel, sizeof(kernel));
	memcpy((char *)(k + 1) + sizeof(kernel), r + 1, r->stack_bytes);
	id = stacks_take(s, k, size + sizeof(kernel));
	assert_true(has_frames(s, id, wanted));
	assert_true(stacks_get(s, id, &frames) > 5);
	assert_int_equal(stacks_frame(s, frames[0])->kind, FRAME_KERNEL);
	assert_int_equal(stacks_frame(s, frames[1])->kind, FRAME_KERNEL);
	assert_int_equal(stacks_frame(s, frames[2])->kind, FRAME_NATIVE);
	stacks_stats(s, &stats);
	assert_int_equal(stats.made, 0);
	stacks_free(s);
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", c.pid);
	unlink(path);
	/* whose names are not to be had is counted */
	s = new_stacks(true);
	stacks_take(s, r, size);
	stacks_stats(s, &stats);
	assert_int_equal(stats.made, 1);
	assert_true(stats.places > 3);
	free(k);
	free(r);
	child_end(&c);
	stacks_free(s);
}

/* What is known of a process stays when it is gone, until it is forgotten; what it maps later is found. */
static void processes_end(void **state)
{
	struct child c = child_start(run_plain);
	struct stacks *s = new_stacks(true);
	size_t size = 0;
	struct rec_sample *r = sample_take(c.pid, c.tid, &size);
	struct stacks_stats stats;
	uint32_t id, again;

	assert_non_null(r);
	stacks_know_process(s, (uint32_t)c.pid);
	id = stacks_take(s, r, size);
	assert_true(has_frames(s, id, plain));
	child_end(&c);
	stacks_remap_process(s, (uint32_t)c.pid);
	again = stacks_take(s, r, size);
	assert_int_equal(again, id);
	stacks_forget_process(s, (uint32_t)c.pid);
	stacks_stats(s, &stats);
	assert_int_equal(stats.processes, 0);
	again = stacks_take(s, r, size);
	assert_int_not_equal(again, id);
	assert_true(has_frames(s, again, (const char *const[]){ "[unknown]", NULL }));
	free(r);
	stacks_free(s);
}

int main(void)
{
	static int other;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unwinds),
		cmocka_unit_test(python_is_merged),
		cmocka_unit_test(tasks_are_merged),
		cmocka_unit_test(all_kinds),
		cmocka_unit_test(processes_end),
		{ "unwinds with another process that reads", unwinds, NULL, NULL, &other },
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
