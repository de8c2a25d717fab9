// SPDX-License-Identifier: BSD-2-Clause
/* Symbols read by an unprivileged process: this program is the file. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "engine/inspect.h"
#include "unit.h"

int inspected_function(int n);
__attribute__((noinline)) int inspected_function(int n)
{
	return n + 1;
}

/* Names similar to steps, and not. */
#define LIKE(name)                                      \
	void name(void);                                \
	__attribute__((noinline)) void name(void)       \
	{                                               \
		__asm__ volatile(#name "_at:" ::      \
					 : "memory"); \
	}
LIKE(inspected_much_longer_step)
LIKE(inspected_stepper)
LIKE(inspected_long_step)
LIKE(inspected_run)

struct seen_sites {
	size_t n;
	char name[64];
	int stop;
};

static int note_site(const struct probe_site *ps, void *arg)
{
	struct seen_sites *s = arg;

	s->n++;
	snprintf(s->name, sizeof(s->name), "%s", ps->symbol->name);
	assert_true(ps->symbol->offset && ps->site.offset >= ps->symbol->offset);
	return s->stop;
}

static int give_up(void *arg)
{
	++*(int *)arg;
	return -ECANCELED;
}

/* valgrind's own system calls are not allowed for the reader. */
static bool on_valgrind(void)
{
	const char *preloaded = getenv("LD_PRELOAD");

	return preloaded && strstr(preloaded, "vgpreload");
}

static void add(struct probe_table *pt, const char *symbol)
{
	char option[256];

	snprintf(option, sizeof(option), "/x/%s:%s", "program", symbol);
	assert_int_equal(probe_table_add_option(pt, option), 0);
}

TEST(test_sites)
{
	struct probe_table pt = {};
	struct seen_sites seen = {};
	struct inspector *ins;
	char build_id[ELF_BUILD_ID_MAX], instead[256];
	struct inspect_loaded loaded;
	int fd, null, waits = 0, err;

	if (on_valgrind())
		skip();
	add(&pt, "inspected_function");
	add(&pt, "inspected_functoin");
	assert_int_equal(inspector_new(&pt, &ins), 0);
	fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(inspector_sites(ins, fd, "/x/program", false, INSPECT_MS_MAX, build_id, note_site, &seen), 0);
	assert_int_equal(seen.n, 1);
	assert_string_equal(seen.name, "inspected_function");
	/* a file of another name has none */
	assert_int_equal(inspector_sites(ins, fd, "/x/other", false, INSPECT_MS_MAX, NULL, note_site, &seen), 0);
	assert_int_equal(seen.n, 1);
	seen.stop = -EIO;
	assert_int_equal(inspector_sites(ins, fd, "/x/program", false, INSPECT_MS_MAX, NULL, note_site, &seen), -EIO);

	assert_int_equal(inspector_check(ins, fd, 0, instead, sizeof(instead)), 0);
	assert_int_equal(inspector_check(ins, fd, 1, instead, sizeof(instead)), -ENOENT);
	assert_non_null(strstr(instead, "inspected_function"));

	/* candidates for its step: in C, whole words, the most similar first, and not named by the preset itself */
	assert_int_equal(inspector_steps(ins, fd, 0, instead, sizeof(instead)), 0);
	assert_string_equal(instead, "inspected_run, inspected_long_step");

	assert_int_equal(inspector_loaded(ins, fd, &loaded), 0);
	assert_true(loaded.machine && loaded.n_code >= 1 && loaded.code[0].size > 0);
	assert_true(!loaded.functions[INSPECT_DLOPEN]);

	/* not an ELF file, and an unreadable one */
	null = memfd_create("empty", MFD_CLOEXEC);
	assert_int_equal(inspector_sites(ins, null, "/x/program", false, INSPECT_MS_MAX, NULL, note_site, &seen), -ENOEXEC);
	close(null);
	null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	assert_int_equal(inspector_sites(ins, null, "/x/program", false, INSPECT_MS_MAX, NULL, note_site, &seen), -ENOEXEC);
	close(null);

	/* the caller may end the wait; the next request is still answered */
	inspector_set_wait(ins, give_up, &waits);
	err = inspector_sites(ins, fd, "/x/program", false, INSPECT_MS_MAX, NULL, note_site, &(struct seen_sites){});
	assert_true(waits ? err == -ECANCELED : !err);
	inspector_set_wait(ins, NULL, NULL);
	seen = (struct seen_sites){};
	assert_int_equal(inspector_sites(ins, fd, "/x/program", false, INSPECT_MS_MAX, NULL, note_site, &seen), 0);
	assert_int_equal(seen.n, 1);
	close(fd);
	inspector_free(ins);
	probe_table_free(&pt);
}

/* ---- what a worker sends ---- */

struct taken {
	size_t n;
	uint64_t last; /* the number of the message */
};

static int take(struct inspect_answer *a, size_t size, void *arg)
{
	struct taken *t = arg;

	assert_true(size >= offsetof(struct inspect_answer, text));
	t->n++;
	t->last = a->offset;
	return a->kind == ANSWER_END;
}

static int send_one(int fd, enum inspect_kind kind, uint64_t number, int flags)
{
	struct inspect_answer a = { .kind = kind, .offset = number };

	return send(fd, &a, offsetof(struct inspect_answer, text), MSG_NOSIGNAL | flags) < 0 ? -errno : 0;
}

/* The descriptors of a worker that has sent n messages, and ended with the last one if `ended`. */
static int fds[2];

static void send_many(size_t n, bool ended)
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
	for (uint64_t i = 0; i < n; i++)
		assert_int_equal(send_one(fds[1], ended && i == n - 1 ? ANSWER_END : ANSWER_SITE, i, 0), 0);
}

static int close_pair(void **state)
{
	close(fds[0]);
	close(fds[1]);
	return 0;
}

/* This process was late: the time is over, but the answer is there. */
TEST_WITH(test_late, NULL, close_pair)
{
	struct taken t = {};
	const struct answers as = { .take = take, .arg = &t };

	send_many(5, true);
	assert_int_equal(answers_read(fds[0], 1, &as), 0);
	assert_int_equal(t.n, 5);
	assert_int_equal(t.last, 4);
}

/* A part of the answer is not enough. */
TEST_WITH(test_late_part, NULL, close_pair)
{
	struct taken t = {};
	const struct answers as = { .take = take, .arg = &t };

	send_many(1, false);
	assert_int_equal(answers_read(fds[0], 1, &as), -ETIMEDOUT);
	assert_int_equal(t.n, 1);
	/* what it sends then is lost */
	assert_int_equal(send_one(fds[1], ANSWER_END, 1, 0), -EPIPE);
}

/* A worker that keeps sending, as fast as it is read, is cut off: here one more message for each one taken. */
static int take_endless(struct inspect_answer *a, size_t size, void *arg)
{
	send_one(fds[1], ANSWER_SITE, ++*(size_t *)arg, MSG_DONTWAIT);
	return 0;
}

TEST_WITH(test_endless, NULL, close_pair)
{
	size_t taken = 0, sent = 0;
	const struct answers as = { .take = take_endless, .arg = &taken };

	send_many(0, false);
	while (!send_one(fds[1], ANSWER_SITE, sent, MSG_DONTWAIT))
		sent++;
	assert_int_equal(answers_read(fds[0], 1, &as), -ETIMEDOUT);
	assert_int_equal(taken, sent);
}

/* It ended without the last message. */
TEST_WITH(test_ended, NULL, close_pair)
{
	struct taken t = {};
	const struct answers as = { .take = take, .arg = &t };

	send_many(1, false);
	assert_int_equal(shutdown(fds[1], SHUT_RDWR), 0);
	assert_int_equal(answers_read(fds[0], UINT64_MAX, &as), -EPROTO);
	assert_int_equal(t.n, 1);
}

RUN_TESTS(NULL, NULL)
