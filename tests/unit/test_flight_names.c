// SPDX-License-Identifier: BSD-2-Clause
/* What a dump of the flight recorder knows about threads and open spans. */
#include "flight_model.h"

/* ---- names ---- */

#define THREADS 40

/* The names that threads TID+1.. of process TID have after each event, and records with the number of the name that they
 * must be shown with. */
struct people {
	struct flight *f;
	uint64_t now_ns, dice;
	uint32_t name[THREADS]; /* number of its name, 0: no such thread */
	bool exited[THREADS];
	uint32_t names;
	struct tasks *dump_names;
	size_t checked, exited_checked;
};

static void tell(
	struct flight *f, uint64_t at_ns, enum task_event event, uint32_t tid, uint32_t name)
{
	struct rec_task rec = {
		.h = { .kind = REC_TASK, .start_ns = at_ns, .id = event, .tid = tid, .tgid = TID }
	};

	snprintf(rec.comm, sizeof(rec.comm), "n%u", name);
	assert_int_equal(flight_append(f, &rec.h, sizeof(rec)), 0);
}

static void live_on(struct people *p)
{
	uint64_t r = next_random(&p->dice);
	uint32_t i = (uint32_t)(r % THREADS);
	struct rec_syscall rec = {
		.h = { .kind = REC_SYSCALL, .start_ns = p->now_ns, .tid = TID + 1 + i, .tgid = TID }
	};

	p->now_ns += 1000;
	r = next_random(&p->dice) % 1000;
	if (!p->name[i] || r < 3) {
		/* new, or another one under the same number */
		p->name[i] = ++p->names;
		p->exited[i] = false;
		tell(p->f, p->now_ns, TASK_FORK, rec.h.tid, p->name[i]);
	} else if (r < 5 && !p->exited[i]) {
		p->name[i] = ++p->names;
		tell(p->f, p->now_ns, TASK_COMM, rec.h.tid, p->name[i]);
	} else if (r < 8 && !p->exited[i]) {
		p->exited[i] = true;
		tell(p->f, p->now_ns, TASK_EXIT, rec.h.tid, p->name[i]);
	} else if (!p->exited[i] || r < 100) { /* a few arrive after the exit */
		rec.arg0 = p->name[i];
		rec.ret = p->exited[i];
		assert_int_equal(flight_append(p->f, &rec.h, sizeof(rec)), 0);
	}
}

static void on_person(const struct rec_hdr *h, size_t size, void *arg)
{
	const struct rec_syscall *rec = (const struct rec_syscall *)h;
	struct people *p = arg;
	char name[TASK_COMM_LEN];
	struct task *t;

	if (h->kind == REC_TASK)
		return;
	assert_int_equal(size, sizeof(*rec));
	t = tasks_find(p->dump_names, h->tid);
	assert_non_null(t);
	snprintf(name, sizeof(name), "n%u", (unsigned int)rec->arg0);
	assert_string_equal(t->comm, name);
	assert_int_equal(t->tgid, TID);
	p->checked++;
	p->exited_checked += (size_t)rec->ret;
}

TEST_STORE(test_names)
{
	struct people p = { .f = store_new(MB, 0), .now_ns = START, .dice = 4711 };
	struct flight_dump dump;

	for (unsigned int turn = 0; turn < 60; turn++) {
		for (int i = 0; i < 30000; i++)
			live_on(&p);
		assert_int_equal(flight_dump_begin(p.f, p.now_ns, NULL, &dump), 0);
		p.dump_names = dump.names;
		p.checked = 0;
		/* finally much more arrives than is handed over, and the dump is evicted from the store */
		while (flight_dump_next(p.f, on_person, &p, 200)) {
			for (unsigned int i = 0; i < turn * 20; i++)
				live_on(&p);
		}
		assert_true(p.checked > 1000);
		flight_dump_end(p.f);
	}
	assert_true(p.exited_checked > 1000);
}

/* The name is older than everything handed over. */
TEST_STORE(test_names_before_horizon)
{
	struct people p = { .f = store_new(MB, 100 * MS) };
	struct rec_syscall rec = { .h = { .kind = REC_SYSCALL, .start_ns = START, .tid = TID, .tgid = TID } };
	struct flight_dump dump;

	tell(p.f, START, TASK_FORK, TID, 17);
	for (int i = 0; i < 5000; i++)
		assert_int_equal(flight_append(p.f, &rec.h, sizeof(rec)), 0);
	rec.h.start_ns = START + 1000 * MS;
	rec.arg0 = 17;
	assert_int_equal(flight_append(p.f, &rec.h, sizeof(rec)), 0);
	assert_int_equal(flight_dump_begin(p.f, START + 1000 * MS, NULL, &dump), 0);
	p.dump_names = dump.names;
	while (flight_dump_next(p.f, on_person, &p, 100))
		;
	assert_int_equal(p.checked, 1);
	flight_dump_end(p.f);
}

/* Threads that existed at the start, and non-targets, which only the live table knows. */
TEST(test_names_from_outside)
{
	struct rec_task fork = { .h = { .kind = REC_TASK, .id = TASK_FORK, .start_ns = START, .tgid = TID, .tid = TID }, .comm = "server" };
	struct flight_dump dump;
	struct tasks *live;
	struct flight *f;
	struct task *t;

	live = tasks_new();
	tasks_update(live, &fork);
	tasks_find(live, TID)->written = 3;
	assert_int_equal(flight_new(MB, 0, live, &f), 0);
	/* it has exited and is forgotten, and its number is reused: the dump must not know of that */
	fork.h.id = TASK_COMM;
	memcpy(fork.comm, "renamed", sizeof("renamed"));
	tasks_update(live, &fork);
	assert_int_equal(flight_append(f, &fork.h, sizeof(fork)), 0);
	t = tasks_get_other(live, TID + 9); /* a waker */
	assert_non_null(t);
	memcpy(t->comm, "stranger", sizeof("stranger"));
	t->written = 1;

	assert_int_equal(flight_dump_begin(f, START, live, &dump), 0);
	t = tasks_find(dump.names, TID);
	assert_non_null(t);
	assert_string_equal(t->comm, "server");
	assert_true(t->alive_process && t->traced);
	assert_int_equal(t->written, 0);
	t = tasks_find(dump.names, TID + 9);
	assert_non_null(t);
	assert_string_equal(t->comm, "stranger");
	assert_false(t->traced || t->alive_process);
	assert_int_equal(t->written, 0);
	assert_int_equal(tasks_alive(dump.names, false), 1);
	assert_string_equal(tasks_find(live, TID)->comm, "renamed");
	flight_dump_end(f);
	flight_free(f);
	tasks_free(live);
}

/* ---- open spans ---- */

static void append_span(struct flight *f, enum rec_kind kind, uint32_t tid, uint32_t id,
	uint64_t start_ns, uint64_t end_ns)
{
	struct rec_off_cpu rec = { .h = { .kind = kind, .tid = tid, .id = id, .start_ns = start_ns, .dur_ns = end_ns - start_ns } };

	assert_int_equal(flight_append(f, &rec.h, sizeof(rec)), 0);
}

static bool has(struct flight *f, enum rec_kind kind, uint32_t tid, uint32_t id, uint64_t start_ns,
	uint64_t since_ns)
{
	return dump_has(f, (struct rec_hdr){ .kind = kind, .tid = tid, .id = id, .start_ns = start_ns }, since_ns);
}

/* `n` other records, so that there may not be room for all keys. */
static void check_open_spans(uint64_t bytes, unsigned int n)
{
	const uint64_t since = START + 1000 * MS;
	struct flight *f = store_new(bytes, 0);
	struct flight_dump dump;

	append_span(f, REC_SYSCALL, TID, 202, START, since - 1);
	append_span(f, REC_SYSCALL, TID + 1, 202, START, since);
	append_span(f, REC_OFF_CPU, TID, ST_BLOCKED_FUTEX, START + 7, since + 5);
	append_span(f, REC_FUNCTION, TID, 3, START, since + 5);
	for (unsigned int i = 0; i < n; i++)
		append_span(f, REC_SYSCALL, TID + 2, 202, START + i, since + i);
	append_span(f, REC_STEP, TID, 1, START + 1, since + 5);
	assert_false(has(f, REC_SYSCALL, TID + 1, 202, START, since)); /* no dump */

	assert_int_equal(flight_dump_begin(f, since, NULL, &dump), 0);
	append_span(f, REC_SYSCALL, TID + 3, 202, START, since); /* not part of the dump */
	assert_false(has(f, REC_SYSCALL, TID, 202, START, since));
	assert_true(has(f, REC_SYSCALL, TID + 1, 202, START, since));
	assert_true(has(f, REC_OFF_CPU, TID, 0, START + 7, since));
	assert_false(has(f, REC_OFF_CPU, TID, 0, START + 8, since));
	assert_false(has(f, REC_OFF_CPU, TID + 1, 0, START + 7, since));
	assert_true(has(f, REC_FUNCTION, TID, 3, START, since));
	assert_false(has(f, REC_FUNCTION, TID, 4, START, since));
	assert_false(has(f, REC_STEP, TID, 3, START + 1, since));
	assert_true(has(f, REC_STEP, TID, 1, START + 1, since));
	assert_true(has(f, REC_FUNCTION, TID, 1, START + 1, since)); /* the call that is the step */
	assert_false(has(f, REC_SYSCALL, TID + 3, 202, START, since));
	if (n) {
		assert_true(has(f, REC_SYSCALL, TID + 2, 202, START, since));
		assert_true(has(f, REC_SYSCALL, TID + 2, 202, START + n - 1, since));
		assert_false(has(f, REC_SYSCALL, TID + 2, 202, START + n, since));
		/* the time asked for differs */
		assert_false(has(f, REC_SYSCALL, TID + 2, 202, START, since + 1));
	}
	assert_true(has(f, REC_SYSCALL, TID, 202, START, since - 1));
	flight_dump_end(f);
	/* the next dump has what was appended since */
	assert_int_equal(flight_dump_begin(f, since, NULL, &dump), 0);
	assert_true(has(f, REC_SYSCALL, TID + 3, 202, START, since));
	store_free(NULL);
}

TEST(test_open_spans)
{
	check_open_spans(MB, 0);
	check_open_spans(MB, 700);
	check_open_spans(MB, 5000);
	check_open_spans(16 * MB, 100000);
}

RUN_TESTS(NULL, NULL)
