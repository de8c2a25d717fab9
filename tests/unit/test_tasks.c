// SPDX-License-Identifier: BSD-2-Clause
/* The table of threads, from records as the BPF programs send them. */
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "target/tasks.h"
#include "unit.h"

/* No thread has this number (PID_MAX_LIMIT is 4194304), so /proc does not know it. */
#define TID 5000000u

static int make_table(void **state)
{
	*state = tasks_new();
	return 0;
}

static int free_table(void **state)
{
	tasks_free(*state);
	return 0;
}

static void tell(struct tasks *ts, enum task_event event, uint32_t tgid, uint32_t tid,
	const char *comm, uint8_t flags)
{
	struct rec_task r = {
		.h = { .kind = REC_TASK, .id = event, .tgid = tgid, .tid = tid, .flags = flags }
	};

	snprintf(r.comm, sizeof(r.comm), "%s", comm);
	tasks_update(ts, &r);
}

static void count_process(struct task *t, void *arg)
{
	assert_int_equal(t->tid, t->tgid);
	assert_true(t->traced);
	*(unsigned int *)arg += 1;
}

static unsigned int count_processes(struct tasks *ts)
{
	unsigned int n = 0;

	tasks_each_process(ts, count_process, &n);
	return n;
}

TEST_WITH(test_empty, make_table, free_table)
{
	struct tasks *ts = *state;

	assert_null(tasks_find(ts, TID));
	assert_null(tasks_find(ts, 0));
	assert_int_equal(tasks_alive(ts, false), 0);
	assert_int_equal(count_processes(ts), 0);
	tasks_free(NULL);
}

/* Events of threads, as offsets from TID, and what is known after each. */
static const struct history {
	const char *name;
	struct {
		enum task_event event;
		uint32_t tgid, tid;
		const char *comm;
		uint8_t flags;
		unsigned int alive;      /* processes */
		const char *known;       /* the thread's name */
		bool traced, is_process; /* of its entry */
	} told[8];
} histories[] = {
	{ "life",
		{ { TASK_FORK, 0, 0, "parent's", 0, 1, "parent's", true, true },
			{ TASK_EXEC, 0, 0, "server", 0, 1, "server", true, true },
			{ TASK_FORK, 0, 1, "server", 0, 1, "server", true, false }, /* a thread is not a process */
			{ TASK_COMM, 0, 1, "worker-0", 0, 1, "worker-0", true, false },
			/* the name outlives the thread */
			{ TASK_EXIT, 0, 1, "worker-0", 0, 1, "worker-0", true, false },
			{ TASK_EXIT, 0, 0, "server", TASK_F_LAST, 0, "server", true, false } } },
	/* the process lives as long as its last thread */
	{ "main_thread_first",
		{ { TASK_FORK, 0, 0, "server", 0, 1, "server", true, true },
			{ TASK_FORK, 0, 1, "server", 0, 1, "server", true, false },
			{ TASK_EXIT, 0, 0, "server", 0, 1, "server", true, true },
			{ TASK_EXIT, 0, 1, "server", TASK_F_LAST, 0, "server", true, false } } },
	/* an exec by another thread, which continues under the process's number */
	{ "exec_from_thread",
		{ { TASK_FORK, 0, 0, "shell", 0, 1, "shell", true, true },
			{ TASK_FORK, 0, 1, "shell", 0, 1, "shell", true, false },
			{ TASK_EXIT, 0, 0, "shell", 0, 1, "shell", true, true },
			{ TASK_EXEC, 0, 0, "server", 0, 1, "server", true, true } } },
	/* records of a process whose start was not seen or was lost */
	{ "start_not_seen",
		{ { TASK_EXIT, 0, 0, "x", TASK_F_LAST, 0, NULL, false, false },
			{ TASK_COMM, 0, 1, "thread", 0, 0, "thread", true, false },
			{ TASK_COMM, 0, 0, "main", 0, 1, "main", true, true },
			/* an exit where only the main thread's entry is unknown */
			{ TASK_EXIT, 7, 7, "y", TASK_F_LAST, 1, NULL, false, false },
			/* an event from a future version */
			{ (enum task_event)99, 0, 0, "z", TASK_F_LAST, 1, "main", true, true } } },
	/* the name of a thread that is no target, and nothing else about it */
	{ "stranger",
		{ { TASK_STRANGER, 0, 0, "first", 0, 0, "first", false, false },
			{ TASK_STRANGER, 0, 0, "second", 0, 0, "second", false, false },
			/* the number belongs to another thread now */
			{ TASK_STRANGER, 5, 0, "third", 0, 0, "third", false, false },
			/* a target's own name counts */
			{ TASK_FORK, 1, 1, "target", 0, 1, "target", true, true },
			{ TASK_STRANGER, 1, 1, "other", 0, 1, "target", true, true } } },
};

TEST(test_histories)
{
	for (size_t i = 0; i < ARRAY_SIZE(histories); i++) {
		const struct history *h = &histories[i];
		struct tasks *ts = tasks_new();

		for (size_t k = 0; h->told[k].comm; k++) {
			const struct task *t;

			tell(ts, h->told[k].event, TID + h->told[k].tgid, TID + h->told[k].tid, h->told[k].comm, h->told[k].flags);
			t = tasks_find(ts, TID + h->told[k].tid);
			if (!t != !h->told[k].known || (t && (t->tgid != TID + h->told[k].tgid || strcmp(t->comm, h->told[k].known) ||
								     t->traced != h->told[k].traced || t->alive_process != h->told[k].is_process)))
				fail_msg("%s, %zu: %s", h->name, k, t ? t->comm : "no such thread");
			if (tasks_alive(ts, false) != h->told[k].alive || count_processes(ts) != h->told[k].alive)
				fail_msg("%s, %zu: %u alive", h->name, k, tasks_alive(ts, false));
		}
		tasks_free(ts);
	}
}

/* A reused number: nothing of its former owner remains. */
TEST_WITH(test_reuse, make_table, free_table)
{
	struct tasks *ts = *state;
	struct task *t;

	/* a thread's number becomes a process's */
	tell(ts, TASK_FORK, TID, TID, "first", 0);
	tell(ts, TASK_FORK, TID, TID + 1, "first-thread", 0);
	tasks_find(ts, TID + 1)->written = 7;
	tell(ts, TASK_EXIT, TID, TID + 1, "first-thread", 0);
	tell(ts, TASK_FORK, TID + 1, TID + 1, "second", 0);
	t = tasks_find(ts, TID + 1);
	assert_int_equal(t->tgid, TID + 1);
	assert_string_equal(t->comm, "second");
	assert_int_equal(t->written, 0);
	assert_int_equal(tasks_alive(ts, false), 2);

	/* and a process's number a thread's, even if only one of its records says so */
	tell(ts, TASK_EXIT, TID + 1, TID + 1, "second", TASK_F_LAST);
	tasks_find(ts, TID + 1)->written = 7;
	t = tasks_get(ts, TID, TID + 1);
	assert_int_equal(t->tgid, TID);
	assert_int_equal(t->written, 0);
	assert_string_equal(t->comm, "");
	assert_false(t->alive_process);
	assert_int_equal(tasks_alive(ts, false), 1);

	/* a fork with the same number in the same process is another thread, too */
	tasks_find(ts, TID + 1)->written = 7;
	tell(ts, TASK_FORK, TID, TID + 1, "third", 0);
	assert_int_equal(tasks_find(ts, TID + 1)->written, 0);
	assert_string_equal(tasks_find(ts, TID + 1)->comm, "third");
}

/* What its records tell of a process as a whole. */
TEST_WITH(test_news, make_table, free_table)
{
	static const struct {
		enum task_event event;
		uint32_t tid;
		uint8_t flags;
		enum process_news want;
	} cases[] = {
		{ TASK_FORK, TID, 0, NEWS_FORK },
		{ TASK_FORK, TID + 1, TASK_F_SHARES, NEWS_NONE },
		{ TASK_COMM, TID, 0, NEWS_NONE },
		{ TASK_EXEC, TID, 0, NEWS_EXEC },
		{ TASK_STRANGER, TID, 0, NEWS_NONE },
		{ TASK_EXIT, TID, 0, NEWS_HEADLESS },
		{ TASK_EXIT, TID + 1, 0, NEWS_NONE },
		{ TASK_EXIT, TID + 1, TASK_F_LAST, NEWS_GONE },
		{ TASK_EXIT, TID, TASK_F_LAST, NEWS_GONE },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rec_task r = { .h = { .kind = REC_TASK, .id = cases[i].event, .tgid = TID, .tid = cases[i].tid, .flags = cases[i].flags } };

		assert_int_equal(tasks_update(*state, &r), cases[i].want);
	}
}

/* What the sinks have written is outdated after a change of name. */
TEST_WITH(test_rename, make_table, free_table)
{
	struct tasks *ts = *state;
	struct rec_task r = { .h = { .id = TASK_COMM, .tgid = TID, .tid = TID } };

	tell(ts, TASK_FORK, TID, TID, "old", 0);
	tasks_find(ts, TID)->written = 7;
	tell(ts, TASK_COMM, TID, TID, "new", 0);
	assert_int_equal(tasks_find(ts, TID)->written, 0);
	assert_string_equal(tasks_find(ts, TID)->comm, "new");
	/* a name without a NUL, as in a damaged record */
	memset(r.comm, 'x', sizeof(r.comm));
	tasks_update(ts, &r);
	assert_string_equal(tasks_find(ts, TID)->comm, "xxxxxxxxxxxxxxx");
}

/* More threads than the table starts with, many with colliding slots. */
TEST_WITH(test_many, make_table, free_table)
{
	struct tasks *ts = *state;
	const unsigned int processes = 50, threads = 200;
	char comm[TASK_COMM_LEN];

	for (uint32_t p = 0; p < processes; p++) {
		uint32_t tgid = TID + p * 65536; /* the low bits, which select the slot, are equal */

		for (uint32_t i = 0; i < threads; i++) {
			snprintf(comm, sizeof(comm), "%u-%u", p, i);
			tell(ts, TASK_FORK, tgid, tgid + i, comm, 0);
		}
	}
	assert_int_equal(tasks_alive(ts, false), processes);
	assert_int_equal(count_processes(ts), processes);
	for (uint32_t p = 0; p < processes; p++) {
		uint32_t tgid = TID + p * 65536;

		for (uint32_t i = 0; i < threads; i++) {
			struct task *t = tasks_find(ts, tgid + i);

			assert_non_null(t);
			assert_int_equal(t->tid, tgid + i);
			assert_int_equal(t->tgid, tgid);
			snprintf(comm, sizeof(comm), "%u-%u", p, i);
			assert_string_equal(t->comm, comm);
			assert_int_equal(t->alive_process, i == 0);
		}
		assert_null(tasks_find(ts, tgid + threads));
		tell(ts, TASK_EXIT, tgid, tgid + 5, "", TASK_F_LAST);
	}
	assert_int_equal(tasks_alive(ts, false), 0);
}

/* The table does not grow with threads that come and go under reused numbers. */
TEST_WITH(test_reuse_forever, make_table, free_table)
{
	struct tasks *ts = *state;
	const struct task *slot;

	tell(ts, TASK_FORK, TID, TID, "main", 0);
	slot = tasks_find(ts, TID);
	for (uint32_t i = 0; i < 100000; i++)
		tell(ts, TASK_FORK, TID, TID + 1 + i % 300, "worker", 0);
	assert_ptr_equal(tasks_find(ts, TID), slot);
}

/* Threads that are no targets keep their names while their last records may still arrive, and no longer. No thread has
 * numbers this high, so all count as exited. */
TEST_WITH(test_strangers_kept, make_table, free_table)
{
	struct tasks *ts = *state;
	const uint32_t many = 5000;
	char comm[TASK_COMM_LEN];

	for (uint32_t i = 0; i < many; i++) {
		snprintf(comm, sizeof(comm), "n%u", i);
		tell(ts, TASK_STRANGER, TID + i, TID + i, comm, 0);
	}
	for (uint32_t i = 0; i < many; i++) {
		snprintf(comm, sizeof(comm), "n%u", i);
		assert_string_equal(tasks_get(ts, TID + i, TID + i)->comm, comm);
		tasks_find(ts, TID + i)->exited = true;
		tasks_find(ts, TID + i)->exit_ns = 1;
	}
	/* the number of an exited thread is another's now */
	tell(ts, TASK_STRANGER, TID, TID, "again", 0);
	for (uint32_t i = 0; i < 4 * many; i++)
		tell(ts, TASK_STRANGER, TID + many + i, TID + many + i, "later", 0);
	assert_string_equal(tasks_find(ts, TID)->comm, "again");
	for (uint32_t i = 1; i < many; i++)
		assert_null(tasks_find(ts, TID + i));
}

/* ---- /proc ---- */

struct live {
	pthread_t thread;
	pthread_barrier_t named, done;
	pid_t tid;
};

static void *named_thread(void *arg)
{
	struct live *l = arg;

	prctl(PR_SET_NAME, "test-thread");
	l->tid = (pid_t)syscall(SYS_gettid);
	pthread_barrier_wait(&l->named);
	pthread_barrier_wait(&l->done);
	return NULL;
}

static void start_thread(struct live *l)
{
	assert_int_equal(pthread_barrier_init(&l->named, NULL, 2), 0);
	assert_int_equal(pthread_barrier_init(&l->done, NULL, 2), 0);
	assert_int_equal(pthread_create(&l->thread, NULL, named_thread, l), 0);
	pthread_barrier_wait(&l->named);
}

static void end_thread(struct live *l)
{
	pthread_barrier_wait(&l->done);
	pthread_join(l->thread, NULL);
	pthread_barrier_destroy(&l->named);
	pthread_barrier_destroy(&l->done);
}

TEST_WITH(test_add_process, make_table, free_table)
{
	struct tasks *ts = *state;
	struct live live;
	struct task *t;

	start_thread(&live);
	assert_int_equal(tasks_add_process(ts, getpid()), 0);
	t = tasks_find(ts, (uint32_t)getpid());
	assert_non_null(t);
	assert_true(t->traced && t->alive_process && t->comm[0]);
	t = tasks_find(ts, (uint32_t)live.tid);
	assert_non_null(t);
	assert_int_equal(t->tgid, getpid());
	assert_true(t->traced && !t->alive_process);
	assert_string_equal(t->comm, "test-thread");
	assert_int_equal(tasks_alive(ts, true), 1);

	/* as a waker it is known already; a stranger is looked up */
	assert_ptr_equal(tasks_get_other(ts, (uint32_t)live.tid), t);
	t = tasks_get_other(ts, 1);
	assert_non_null(t);
	assert_int_equal(t->tgid, 1);
	assert_false(t->traced || t->alive_process);
	assert_true(t->comm[0]);
	/* a gone thread has no name, and counts as its own process */
	t = tasks_get_other(ts, TID);
	assert_int_equal(t->tgid, TID);
	assert_string_equal(t->comm, "");
	assert_int_equal(tasks_alive(ts, true), 1);
	assert_int_equal(count_processes(ts), 1);
	end_thread(&live);
	assert_int_equal(tasks_add_process(ts, TID), -ESRCH);
}

/* A waker found by its own thread id: its process has another number. */
TEST_WITH(test_waker_thread, make_table, free_table)
{
	struct tasks *ts = *state;
	struct live live;
	struct task *t;

	start_thread(&live);
	t = tasks_get_other(ts, (uint32_t)live.tid);
	assert_int_equal(t->tgid, getpid());
	assert_string_equal(t->comm, "test-thread");
	assert_false(t->traced);
	end_thread(&live);
}

/* An exit whose record was lost: /proc tells. */
TEST_WITH(test_alive_is_checked, make_table, free_table)
{
	struct tasks *ts = *state;
	int fds[2], status;
	pid_t pid;
	char c;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		close(fds[1]);
		_exit(read(fds[0], &c, 1) != 0);
	}
	close(fds[0]);
	assert_int_equal(tasks_add_process(ts, pid), 0);
	assert_int_equal(tasks_alive(ts, true), 1);
	close(fds[1]);
	/* it has exited, and is a zombie until it is reaped */
	assert_int_equal(waitid(P_PID, (id_t)pid, &(siginfo_t){}, WEXITED | WNOWAIT), 0);
	assert_int_equal(tasks_alive(ts, false), 1);
	assert_int_equal(tasks_alive(ts, true), 0);
	assert_int_equal(tasks_alive(ts, false), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* A user of derived data learns of every change of an entry, and only of changes. */
TEST_WITH(test_changes, make_table, free_table)
{
	struct tasks *ts = *state;
	static const enum task_event events[] = { TASK_FORK, TASK_COMM, TASK_EXEC, TASK_STRANGER, TASK_EXIT };
	uint64_t before = tasks_changes(ts);

	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
		tell(ts, events[i], TID, TID, "name", 0);
		assert_int_not_equal(tasks_changes(ts), before);
		before = tasks_changes(ts);
		tasks_get(ts, TID, TID);
		tasks_find(ts, TID + 1);
		tasks_lives(ts, TID, TID);
		assert_int_equal(tasks_changes(ts), before);
	}
	tasks_get(ts, TID, TID + 1);
	assert_int_not_equal(tasks_changes(ts), before);
	before = tasks_changes(ts);
	tasks_forget_output(ts, 0, TID);
	assert_int_not_equal(tasks_changes(ts), before);
	before = tasks_changes(ts);
	tasks_forget_outputs(ts);
	assert_int_not_equal(tasks_changes(ts), before);
}

RUN_TESTS(NULL, NULL)
