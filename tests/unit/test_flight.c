// SPDX-License-Identifier: BSD-2-Clause
/* The store of the flight recorder, against a model that keeps everything. */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "cases.h"
#include "record/flight_store.h"

#define MB (UINT64_C(1) << 20)
#define START UINT64_C(1000000000000)
#define MS UINT64_C(1000000)
#define TID 5000000u /* no such thread: /proc does not know it */

static uint64_t next_random(uint64_t *seed)
{
	*seed ^= *seed << 13; /* Marsaglia's xorshift64 */
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

/* ---- the model ---- */

union any_rec {
	struct rec_hdr h;
	struct rec_task task;
	uint8_t bytes[REC_SIZE_MAX];
};

/* Record number n is the same whenever it is made, so that the model needs to keep its end alone.
 */
struct model {
	struct flight *f;
	struct tasks *tasks;
	uint64_t seed;    /* of the records */
	uint64_t *ends;   /* of record 0, 1, ... */
	uint64_t *latest; /* of those and all before */
	size_t n, cap;
	/* of the dump */
	uint64_t horizon_ns;
	size_t dump_next, dump_end; /* the next to come, if it is no older than the horizon */
	size_t handed_over;
};

static size_t make_record(const struct model *m, size_t n, union any_rec *ret_rec)
{
	static const size_t sizes[REC_KIND_MAX] = {
		[REC_SYSCALL] = sizeof(struct rec_syscall),
		[REC_OFF_CPU] = sizeof(struct rec_off_cpu),
		[REC_ON_CPU] = sizeof(struct rec_on_cpu),
		[REC_FAULT] = sizeof(struct rec_fault),
		[REC_STEP] = sizeof(struct rec_step),
		[REC_TASK] = sizeof(struct rec_task),
		[REC_IRQ] = sizeof(struct rec_irq),
		[REC_MEMORY] = sizeof(struct rec_memory),
		[REC_REQUEST] = sizeof(struct rec_request),
		[REC_HOLD] = sizeof(struct rec_hold),
		[REC_PLACED] = sizeof(struct rec_placed),
	};
	uint64_t seed = m->seed + n * UINT64_C(0x9e3779b97f4a7c15), r = 0;
	enum rec_kind kind;
	size_t size;

	for (int i = 0; i < 4; i++)
		r = next_random(&seed);
	/* large ones are rare */
	kind = r % 64 ? (enum rec_kind)(r / 64 % REC_KIND_MAX) : REC_REQUEST;
	if (kind == REC_MAPPED || (kind == REC_STEP && r % 5) || (kind == REC_REQUEST && r % 64))
		kind = REC_SYSCALL;
	size = sizes[kind];
	if (kind == REC_FUNCTION) /* of any length, also one that is no multiple of 8 */
		size = REC_FUNCTION_SIZE(next_random(&seed) % (FUNC_VALS_MAX + 1)) +
		       next_random(&seed) % (FUNC_STRS_MAX * FUNC_STR_LEN);
	if (kind == REC_FUNCTION && size > sizeof(struct rec_function))
		size = sizeof(struct rec_function);
	for (size_t i = 0; i < size; i++)
		ret_rec->bytes[i] = (uint8_t)(next_random(&seed) >> 32);
	/* one a microsecond, ends up to 2 ms out of order, some of them long */
	ret_rec->h.kind = kind;
	ret_rec->h.start_ns = START + n * 1000 + next_random(&seed) % (2 * MS);
	ret_rec->h.dur_ns = next_random(&seed) % 100 ? next_random(&seed) % 50000 : 0;
	if (next_random(&seed) % 1000 == 0) {
		ret_rec->h.dur_ns = next_random(&seed) % (500 * MS);
		ret_rec->h.start_ns -= ret_rec->h.dur_ns;
	}
	if (next_random(&seed) % 1000 == 0) /* of a ring that is ahead of the others */
		ret_rec->h.start_ns += 5 * MS;
	if (kind == REC_TASK) {
		ret_rec->h.id = TASK_COMM;
		ret_rec->h.tid = TID + n % 1000;
		ret_rec->h.tgid = TID;
		ret_rec->h.dur_ns = 0;
	}
	return size;
}

static void model_new(struct model *m, uint64_t bytes, uint64_t keep_ns, uint64_t seed)
{
	*m = (struct model){ .seed = seed * 1000003 };
	assert_int_equal(tasks_new(&m->tasks), 0);
	assert_int_equal(flight_new(bytes, keep_ns, m->tasks, &m->f), 0);
}

static void model_free(struct model *m)
{
	flight_free(m->f);
	tasks_free(m->tasks);
	free(m->ends);
	free(m->latest);
}

static void model_append(struct model *m)
{
	union any_rec rec;
	size_t size = make_record(m, m->n, &rec);
	uint64_t end = rec.h.start_ns + rec.h.dur_ns;

	if (m->n == m->cap) {
		m->cap = m->cap ? m->cap * 2 : 1024;
		m->ends = realloc(m->ends, m->cap * sizeof(*m->ends));
		m->latest = realloc(m->latest, m->cap * sizeof(*m->latest));
		assert_true(m->ends && m->latest);
	}
	m->ends[m->n] = end;
	m->latest[m->n] = m->n && m->latest[m->n - 1] > end ? m->latest[m->n - 1] : end;
	m->n++;
	assert_int_equal(flight_append(m->f, &rec.h, size), 0);
}

/* What is kept is the last of what was appended, and the horizon the latest end of all the others.
 */
static struct flight_stats model_check(const struct model *m)
{
	struct flight_stats st;
	uint64_t sum = 0;

	flight_get_stats(m->f, &st);
	assert_int_equal(st.kept + st.evicted, m->n);
	assert_int_equal(st.horizon_ns, st.evicted ? m->latest[st.evicted - 1] : 0);
	for (int k = 0; k < REC_KIND_MAX; k++)
		sum += st.records[k];
	assert_int_equal(sum, st.kept);
	assert_true(st.used_bytes < st.bytes);
	return st;
}

static void skip_older(struct model *m)
{
	while (m->dump_next < m->dump_end && m->ends[m->dump_next] <= m->horizon_ns)
		m->dump_next++;
}

static void model_dump_begin(struct model *m, uint64_t at_ns, uint64_t keep_ns)
{
	struct flight_stats st;
	struct flight_dump dump;

	assert_int_equal(flight_dump_begin(m->f, at_ns, NULL, &dump), 0);
	assert_int_equal(flight_dump_begin(m->f, at_ns, NULL, &dump), -EBUSY);
	st = model_check(m); /* of what the dump has: spare chunks were made before */
	m->horizon_ns = st.horizon_ns;
	if (keep_ns && at_ns - keep_ns > m->horizon_ns)
		m->horizon_ns = at_ns - keep_ns;
	assert_int_equal(dump.horizon_ns, m->horizon_ns);
	assert_non_null(dump.names);
	m->dump_next = st.evicted;
	m->dump_end = m->n;
	m->handed_over = 0;
	skip_older(m);
}

/* Each record that is expected, in order, with each of its bytes. */
static void on_dumped(const struct rec_hdr *rec, size_t size, void *arg)
{
	struct model *m = arg;
	union any_rec expected;

	assert_true(m->dump_next < m->dump_end);
	assert_int_equal(size, make_record(m, m->dump_next, &expected));
	assert_memory_equal(rec, &expected, size);
	m->dump_next++;
	m->handed_over++;
	skip_older(m);
}

static void model_dump_rest(struct model *m)
{
	while (flight_dump_next(m->f, on_dumped, m, 1000))
		;
	assert_int_equal(m->dump_next, m->dump_end);
	flight_dump_end(m->f);
}

/* ---- tests ---- */

static void test_refused(void **state)
{
	union any_rec rec = { .h = { .kind = REC_ON_CPU, .start_ns = START, .dur_ns = 5 } };
	struct flight_stats st;
	struct flight *f;
	struct tasks *ts;

	(void)state;
	assert_int_equal(tasks_new(&ts), 0);
	assert_int_equal(flight_new(0, 0, ts, &f), -EINVAL);
	assert_int_equal(flight_new(MB - 1, 0, ts, &f), -EINVAL);
	assert_int_equal(flight_new(UINT64_MAX, 0, ts, &f), -EINVAL);
	assert_int_equal(flight_new(MB, 0, ts, &f), 0);
	assert_int_equal(flight_append(f, &rec.h, sizeof(rec.h) - 1), -EINVAL);
	assert_int_equal(flight_append(f, &rec.h, REC_SIZE_MAX + 1), -EINVAL);
	rec.h.kind = REC_KIND_MAX;
	assert_int_equal(flight_append(f, &rec.h, sizeof(rec.h)), -EINVAL);
	rec.h.kind = REC_TASK;
	assert_int_equal(flight_append(f, &rec.h, sizeof(rec.h)), -EINVAL);
	rec.h.kind = REC_MAPPED;
	assert_int_equal(flight_append(f, &rec.h, sizeof(rec.h)), 0);
	flight_get_stats(f, &st);
	assert_int_equal(st.kept, 0);
	assert_int_equal(st.oldest_ns, 0);
	assert_int_equal(st.used_bytes, 0);
	rec.h.kind = REC_REQUEST;
	assert_int_equal(flight_append(f, &rec.h, REC_SIZE_MAX), 0);
	flight_get_stats(f, &st);
	assert_int_equal(st.kept, 1);
	assert_int_equal(st.records[REC_REQUEST], 1);
	assert_int_equal(st.oldest_ns, START);
	assert_int_equal(st.horizon_ns, 0);
	flight_free(f);
	flight_free(NULL);
	tasks_free(ts);
}

static void test_empty_dump(void **state)
{
	struct rec_hdr open = { .kind = REC_SYSCALL, .start_ns = START };
	struct flight_dump dump;
	struct model m;

	(void)state;
	model_new(&m, MB, 0, 1);
	assert_false(flight_dump_has(m.f, &open, 0));
	assert_int_equal(flight_dump_next(m.f, on_dumped, &m, 10), 0);
	flight_dump_end(m.f);
	assert_int_equal(flight_dump_begin(m.f, START, NULL, &dump), 0);
	assert_int_equal(dump.horizon_ns, 0);
	/* what comes after the beginning is none of it */
	model_append(&m);
	assert_int_equal(flight_dump_next(m.f, on_dumped, &m, 10), 0);
	flight_dump_end(m.f);
	model_dump_begin(&m, START, 0);
	model_dump_rest(&m);
	assert_int_equal(m.handed_over, 1);
	/* freed in the midst of one */
	model_dump_begin(&m, START, 0);
	model_free(&m);
}

/* In kB, of the mapping that the store is in: "Size", "Rss". */
static unsigned long mapping_kb(const void *at, const char *key)
{
	FILE *smaps = fopen("/proc/self/smaps", "re");
	unsigned long from, to, value = 0;
	bool within = false;
	char line[512];

	assert_non_null(smaps);
	while (fgets(line, sizeof(line), smaps)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			within = (uintptr_t)at >= from && (uintptr_t)at < to;
		else if (within && !strncmp(line, key, strlen(key)) && line[strlen(key)] == ':')
			value = strtoul(line + strlen(key) + 1, NULL, 10);
	}
	fclose(smaps);
	return value;
}

/* One that is never filled takes next to nothing, however large. */
static void test_large(void **state)
{
	const uint64_t bytes = 40000 * MB;
	struct model m;
	void *probe;

	(void)state;
	probe = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (probe == MAP_FAILED)
		SKIP("vm.overcommit_memory is 2, or memory is limited");
	munmap(probe, bytes);
	model_new(&m, bytes, 0, 1);
	assert_true(mapping_kb(m.f, "Rss") <= 2048);
	for (int i = 0; i < 100000; i++)
		model_append(&m);
	assert_true(mapping_kb(m.f, "Rss") <= 32 * 1024);
	model_dump_begin(&m, START, 0);
	model_dump_rest(&m);
	assert_int_equal(m.handed_over, 100000);
	model_free(&m);
}

/* All of it is one mapping of no more than was asked for, most of it is records, and pages that are
 * not used yet are not taken. */
static void test_bound(void **state)
{
	static const uint64_t sizes[] = { MB, MB + 4095, 3 * MB + 12345, 20 * MB, 64 * MB };

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct flight_stats st;
		struct model m;

		model_new(&m, sizes[i], 0, i + 1);
		flight_get_stats(m.f, &st);
		assert_true(st.bytes <= sizes[i]);
		assert_true(mapping_kb(m.f, "Size") * 1024 <= sizes[i]);
		assert_true(mapping_kb(m.f, "Rss") <= 64 + 32); /* headers */
		do {
			model_append(&m);
			flight_get_stats(m.f, &st);
		} while (!st.evicted);
		for (size_t k = m.n; k > 0; k--)
			model_append(&m);
		st = model_check(&m);
		assert_true(st.used_bytes <= st.bytes);
		assert_true(st.used_bytes >= sizes[i] / 100 * 83);
		model_dump_begin(&m, START, 0);
		for (size_t k = m.n / 4; k > 0; k--)
			model_append(&m);
		assert_true(mapping_kb(m.f, "Size") * 1024 <= sizes[i]);
		assert_true(mapping_kb(m.f, "Rss") * 1024 <= sizes[i]);
		model_dump_rest(&m);
		model_free(&m);
	}
}

/* Appends, dumps of whatever speed, several of them after each other: always all that ended after
 * the horizon, in order, and the horizon no later than it must be. */
static void test_against_model(void **state)
{
	static const uint64_t sizes[] = { MB, MB + 70000, 2 * MB };

	(void)state;
	for (uint64_t seed = 1; seed <= 12; seed++) {
		uint64_t dice = seed * 7919;
		unsigned int dumps = 0;
		struct model m;

		model_new(&m, sizes[seed % 3], 0, seed);
		for (unsigned int turn = 0; turn < 60; turn++) {
			unsigned int speed = (unsigned int)(next_random(&dice) % 4);

			for (uint64_t i = next_random(&dice) % 8000; i > 0; i--)
				model_append(&m);
			model_check(&m);
			if (next_random(&dice) % 2)
				continue;
			model_dump_begin(&m, START, 0);
			dumps++;
			/* from much slower than the records come to much faster */
			for (unsigned int part = 0; part < 40; part++) {
				if (!flight_dump_next(m.f, on_dumped, &m,
					    (unsigned int)(next_random(&dice) % 500) << speed))
					break;
				for (uint64_t i = next_random(&dice) % 600; i > 0; i--)
					model_append(&m);
			}
			model_check(&m);
			if (next_random(&dice) % 4 == 0)
				flight_dump_end(m.f);
			else
				model_dump_rest(&m);
			model_check(&m);
		}
		assert_true(dumps > 10);
		model_free(&m);
	}
}

/* A dump that nothing is handed over of: it loses nothing, and the newest go round in the rest. */
static void test_overwrite_beside_dump(void **state)
{
	struct flight_stats before, st;
	struct model m;

	(void)state;
	model_new(&m, MB, 0, 77);
	for (int i = 0; i < 50000; i++)
		model_append(&m);
	model_dump_begin(&m, START, 0);
	before = model_check(&m);
	for (int i = 0; i < 200000; i++) {
		model_append(&m);
		if (i % 1000 == 0)
			model_check(&m);
	}
	st = model_check(&m);
	assert_true(st.kept > 0 && st.kept < before.kept / 4);
	/* what the dump alone holds is memory in use */
	assert_true(st.used_bytes >= before.used_bytes);
	model_dump_rest(&m);
	/* with that gone there is room again */
	for (int i = 0; i < 50000; i++)
		model_append(&m);
	st = model_check(&m);
	assert_true(st.kept > before.kept / 10 * 9);
	model_dump_begin(&m, START, 0);
	model_dump_rest(&m);
	model_free(&m);
}

/* A dump of a full store, and so many records beside it; UINT_MAX: until any must leave. Returns
 * how many it took. */
static unsigned int fill_beside_dump(struct model *m, unsigned int max)
{
	unsigned int n = 0;
	size_t evicted;

	model_new(m, MB, 0, 78);
	for (int i = 0; i < 50000; i++)
		model_append(m);
	model_dump_begin(m, START, 0);
	for (evicted = model_check(m).evicted; n < max && model_check(m).evicted == evicted; n++)
		model_append(m);
	model_dump_rest(m);
	return n;
}

/* Another dump right after one beside which all memory was used. */
static void test_dump_in_full_memory(void **state)
{
	struct model m;
	unsigned int n;

	(void)state;
	n = fill_beside_dump(&m, UINT_MAX);
	model_free(&m);
	assert_int_equal(fill_beside_dump(&m, n - 1), n - 1);
	for (int round = 0; round < 5; round++) {
		model_dump_begin(&m, START, 0);
		for (int i = 0; i < 20000; i++)
			model_append(&m);
		model_check(&m);
		model_dump_rest(&m);
		assert_true(round || m.handed_over > 3000);
	}
	model_free(&m);
}

/* What was handed over stays: a second dump has it again. */
static void test_dump_twice(void **state)
{
	struct model m;
	size_t first;

	(void)state;
	model_new(&m, MB, 0, 5);
	for (int i = 0; i < 3000; i++)
		model_append(&m);
	model_dump_begin(&m, START, 0);
	model_dump_rest(&m);
	first = m.handed_over;
	assert_int_equal(first, 3000);
	for (int i = 0; i < 10; i++)
		model_append(&m);
	model_dump_begin(&m, START, 0);
	model_dump_rest(&m);
	assert_int_equal(m.handed_over, 3010);
	/* many dumps of little do not use up the memory */
	for (int i = 0; i < 500; i++) {
		model_append(&m);
		model_dump_begin(&m, START, 0);
		model_dump_rest(&m);
	}
	assert_int_equal(m.handed_over, 3510);
	model_free(&m);
}

/* Each pass has all, whatever comes meanwhile; and a dump that ends early holds nothing. */
static void test_passes(void **state)
{
	struct flight_process *list;
	struct tasks *names;
	size_t first, n;
	struct model m;

	(void)state;
	model_new(&m, MB, 0, 6);
	for (int i = 0; i < 50000; i++)
		model_append(&m);
	model_dump_begin(&m, START, 0);
	first = m.dump_next;
	assert_int_equal(flight_dump_passes(m.f, 3), 0);
	for (int pass = 0; pass < 3; pass++) {
		m.dump_next = first;
		m.handed_over = 0;
		if (pass)
			assert_int_equal(flight_dump_again(m.f, &names), 0);
		while (flight_dump_next(m.f, on_dumped, &m, 1000)) {
			for (int i = 0; i < 1000; i++)
				model_append(&m);
		}
		assert_true(m.handed_over > 3000);
		assert_int_equal(m.dump_next, m.dump_end);
	}
	flight_dump_end(m.f);
	for (int i = 0; i < 50000; i++)
		model_append(&m);
	model_dump_begin(&m, START, 0);
	assert_int_equal(flight_dump_processes(m.f, &list, &n), 0);
	free(list);
	assert_int_equal(flight_dump_passes(m.f, 2), 0);
	flight_dump_next(m.f, on_dumped, &m, 100);
	flight_dump_end(m.f);
	for (int i = 0; i < 50000; i++)
		model_append(&m);
	assert_true(model_check(&m).kept > 3000);
	model_dump_begin(&m, START, 0);
	model_dump_rest(&m);
	model_free(&m);
}

static void test_processes(void **state)
{
	struct rec_fault rec = { .h = { .kind = REC_FAULT, .dur_ns = 5 } };
	uint64_t of[301] = { 0 };
	unsigned int cut = 0;
	struct flight_process *list;
	struct flight_dump dump;
	struct flight *f;
	struct tasks *ts;
	size_t n;

	(void)state;
	assert_int_equal(tasks_new(&ts), 0);
	assert_int_equal(flight_new(MB, 0, ts, &f), 0);
	assert_int_equal(flight_dump_begin(f, START, NULL, &dump), 0);
	assert_int_equal(flight_dump_processes(f, &list, &n), 0);
	assert_int_equal(n, 0);
	free(list);
	flight_dump_end(f);
	/* process n has n records, of 44,850 */
	for (uint32_t round = 0; round < 300; round++) {
		for (uint32_t tgid = 300; tgid > round; tgid--) {
			rec.h.tgid = tgid;
			rec.h.start_ns += 10;
			assert_int_equal(flight_append(f, &rec.h, sizeof(rec)), 0);
		}
	}
	assert_int_equal(flight_dump_begin(f, START, NULL, &dump), 0);
	assert_int_equal(flight_dump_processes(f, &list, &n), 0);
	for (size_t i = 0; i < n; i++) {
		assert_in_range(list[i].tgid, 1, 300);
		assert_int_equal(of[list[i].tgid], 0);
		of[list[i].tgid] = list[i].records;
	}
	/* the last round is of process 300 alone, the one before of two, ...; of the first one kept a
	 * part may have left */
	for (uint32_t tgid = 300; tgid > 1 && of[tgid - 1]; tgid--) {
		cut += of[tgid - 1] == of[tgid];
		assert_int_equal(of[tgid - 1], of[tgid] - (of[tgid - 1] != of[tgid]));
	}
	assert_true(of[300] > 50 && cut <= 1);
	free(list);
	flight_free(f);
	tasks_free(ts);
}

static void append_within(const struct rec_hdr *rec, size_t size, void *arg)
{
	struct model *m = arg;

	on_dumped(rec, size, m);
	for (int i = 0; i < 5; i++)
		model_append(m);
}

static void test_append_from_callback(void **state)
{
	struct model m;

	(void)state;
	model_new(&m, MB, 0, 9);
	for (int i = 0; i < 40000; i++)
		model_append(&m);
	for (int round = 0; round < 3; round++) {
		model_dump_begin(&m, START, 0);
		while (flight_dump_next(m.f, append_within, &m, 100))
			;
		assert_int_equal(m.dump_next, m.dump_end);
		flight_dump_end(m.f);
		model_check(&m);
	}
	model_free(&m);
}

/* ---- by time ---- */

static void append_at(struct flight *f, uint64_t end_ns)
{
	struct rec_syscall rec = {
		.h = { .kind = REC_SYSCALL, .start_ns = end_ns - 1000, .dur_ns = 1000, .tid = TID }
	};

	assert_int_equal(flight_append(f, &rec.h, sizeof(rec)), 0);
}

struct times {
	uint64_t first_ns, last_ns;
	size_t n;
};

static void on_time(const struct rec_hdr *rec, size_t size, void *arg)
{
	struct times *t = arg;
	uint64_t end_ns = rec->start_ns + rec->dur_ns;

	assert_int_equal(size, sizeof(struct rec_syscall));
	if (!t->n)
		t->first_ns = end_ns;
	else
		assert_true(end_ns > t->last_ns);
	t->last_ns = end_ns;
	t->n++;
}

static struct times dump_times(struct flight *f, uint64_t at_ns, struct flight_dump *ret_dump)
{
	struct times t = {};

	assert_int_equal(flight_dump_begin(f, at_ns, NULL, ret_dump), 0);
	while (flight_dump_next(f, on_time, &t, 100))
		;
	flight_dump_end(f);
	return t;
}

static void test_keep_time(void **state)
{
	const uint64_t keep = 200 * MS, step = 10000; /* 20,000 records within it: 1.3 MB */
	uint64_t now = START, bytes = 64 * MB;
	struct flight_dump dump;
	struct flight_stats st;
	struct flight *f;
	struct tasks *ts;
	struct times t;

	(void)state;
	assert_int_equal(tasks_new(&ts), 0);
	assert_int_equal(flight_new(bytes, keep, ts, &f), 0);
	for (int i = 0; i < 1000000; i++) {
		now += step;
		append_at(f, now);
		if (i % 1000 == 0)
			flight_expire(f, now);
	}
	flight_get_stats(f, &st);
	assert_true(st.kept >= keep / step);
	assert_true(st.horizon_ns < now - keep);
	/* a chunk at either end, and a few that are kept for later */
	assert_true(st.used_bytes < 3 * MB);
	assert_true(mapping_kb(f, "Rss") < 12 * 1024);
	/* exactly that time */
	t = dump_times(f, now, &dump);
	assert_int_equal(dump.horizon_ns, now - keep);
	assert_int_equal(t.n, keep / step);
	assert_int_equal(t.first_ns, now - keep + step);
	assert_int_equal(t.last_ns, now);
	/* and that before a trigger which is past already */
	t = dump_times(f, now - 1000, &dump);
	assert_int_equal(dump.horizon_ns, now - keep - 1000);
	assert_int_equal(t.n, keep / step + 1);

	/* a time in which much happens takes more memory, which is given back behind it */
	for (int i = 0; i < 600000; i++)
		append_at(f, now += 200);
	flight_expire(f, now);
	assert_true(mapping_kb(f, "Rss") > 30 * 1024);
	t = dump_times(f, now, &dump);
	assert_int_equal(t.n, 600000 + (keep - 600000 * 200) / step);
	for (int i = 0; i < 100000; i++) {
		append_at(f, now += step);
		flight_expire(f, now);
	}
	assert_true(mapping_kb(f, "Rss") < 12 * 1024);
	flight_free(f);
	tasks_free(ts);
}

/* More than there is memory for: as with a size. */
static void test_keep_time_cap(void **state)
{
	uint64_t now = START;
	struct flight_dump dump;
	struct flight_stats st;
	struct flight *f;
	struct tasks *ts;
	struct times t;

	(void)state;
	assert_int_equal(tasks_new(&ts), 0);
	assert_int_equal(flight_new(MB, 3600000 * MS, ts, &f), 0);
	flight_expire(f, 5); /* the machine runs for less than that time */
	for (int i = 0; i < 200000; i++) {
		append_at(f, now += 1000);
		flight_expire(f, now);
	}
	flight_get_stats(f, &st);
	assert_int_equal(st.kept + st.evicted, 200000);
	assert_int_equal(st.horizon_ns, START + st.evicted * 1000);
	assert_true(mapping_kb(f, "Rss") <= 1024);
	t = dump_times(f, now, &dump);
	assert_int_equal(dump.horizon_ns, st.horizon_ns);
	assert_int_equal(t.n, st.kept);
	/* nothing for hours: what is kept is not of the time before the trigger */
	t = dump_times(f, now + 7200000 * MS, &dump);
	assert_int_equal(t.n, 0);
	flight_expire(f, now + 7200000 * MS);
	append_at(f, now + 7200000 * MS);
	t = dump_times(f, now + 7200000 * MS, &dump);
	assert_int_equal(t.n, 1);
	flight_free(f);
	tasks_free(ts);
}

/* It expires in the midst of a dump, which has it all the same. */
static void test_expire_beside_dump(void **state)
{
	struct model m;

	(void)state;
	model_new(&m, 20 * MB, 100 * MS, 3);
	for (int i = 0; i < 60000; i++)
		model_append(&m);
	model_dump_begin(&m, START + 70 * MS, 100 * MS);
	assert_int_equal(flight_dump_next(m.f, on_dumped, &m, 5000), 1);
	flight_expire(m.f, START + 3600000 * MS);
	model_check(&m);
	for (int i = 0; i < 300000; i++) {
		model_append(&m);
		if (i % 1000 == 0)
			flight_expire(m.f, m.ends[m.n - 1] + 200 * MS);
	}
	model_check(&m);
	model_dump_rest(&m);
	model_check(&m);
	model_free(&m);
}

/* A storm: many times the memory, with a dump every now and then. */
static void test_storm(void **state)
{
	struct rec_off_cpu rec = { .h = { .kind = REC_OFF_CPU, .tid = TID, .tgid = TID } };
	struct flight_dump dump;
	struct flight_stats st;
	struct flight *f;
	struct tasks *ts;
	struct times t;

	(void)state;
	assert_int_equal(tasks_new(&ts), 0);
	assert_int_equal(flight_new(8 * MB, 0, ts, &f), 0);
	for (uint64_t i = 0; i < 10000000; i++) {
		uint64_t now = START + i * 1000;

		rec.h.start_ns = now - 5000;
		rec.h.dur_ns = 5000;
		if (flight_append(f, &rec.h, sizeof(struct rec_syscall)))
			fail();
		if (i % 1000000 == 999999) {
			t = dump_times(f, now, &dump);
			assert_int_equal(t.last_ns, now);
			assert_int_equal(t.first_ns, dump.horizon_ns + 1000);
			assert_int_equal(t.n, (now - dump.horizon_ns) / 1000);
			assert_true(t.n > 8 * MB / 56 / 100 * 80);
		}
	}
	flight_get_stats(f, &st);
	assert_int_equal(st.kept + st.evicted, 10000000);
	flight_free(f);
	tasks_free(ts);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_empty_dump),
		cmocka_unit_test(test_bound),
		cmocka_unit_test(test_large),
		cmocka_unit_test(test_against_model),
		cmocka_unit_test(test_overwrite_beside_dump),
		cmocka_unit_test(test_dump_in_full_memory),
		cmocka_unit_test(test_dump_twice),
		cmocka_unit_test(test_passes),
		cmocka_unit_test(test_processes),
		cmocka_unit_test(test_append_from_callback),
		cmocka_unit_test(test_keep_time),
		cmocka_unit_test(test_keep_time_cap),
		cmocka_unit_test(test_expire_beside_dump),
		cmocka_unit_test(test_storm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
