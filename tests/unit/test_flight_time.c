// SPDX-License-Identifier: BSD-2-Clause
/* The flight recorder with a time to keep, and a storm of records. */
#include "flight_model.h"

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

TEST_STORE(test_keep_time)
{
	const uint64_t keep = 200 * MS, step = 10000; /* 20,000 records within it: 1.3 MB */
	uint64_t now = START, bytes = 64 * MB;
	struct flight_dump dump;
	struct flight_stats st;
	struct flight *f = store_new(bytes, keep);
	struct times t;

	for (int i = 0; i < 1000000; i++) {
		now += step;
		append_at(f, now);
		if (i % 1000 == 0)
			flight_expire(f, now);
	}
	flight_get_stats(f, &st);
	assert_true(st.kept >= keep / step);
	assert_true(st.horizon_ns < now - keep);
	/* a chunk at either end, and a few kept in reserve */
	assert_true(st.used_bytes < 3 * MB);
	assert_true(mapping_kb(f, "Rss") < 12 * 1024);
	/* exactly that time */
	t = dump_times(f, now, &dump);
	assert_int_equal(dump.horizon_ns, now - keep);
	assert_int_equal(t.n, keep / step);
	assert_int_equal(t.first_ns, now - keep + step);
	assert_int_equal(t.last_ns, now);
	/* also for the time before a trigger in the past */
	t = dump_times(f, now - 1000, &dump);
	assert_int_equal(dump.horizon_ns, now - keep - 1000);
	assert_int_equal(t.n, keep / step + 1);

	/* a busy phase takes more memory, which is given back afterwards */
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
}

/* More than fits into memory: as with a size. */
TEST_STORE(test_keep_time_cap)
{
	uint64_t now = START;
	struct flight_dump dump;
	struct flight_stats st;
	struct flight *f = store_new(MB, 3600000 * MS);
	struct times t;

	flight_expire(f, 5); /* the machine has run for less than that time */
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
	/* nothing for hours: what is kept is older than the time before the trigger */
	t = dump_times(f, now + 7200000 * MS, &dump);
	assert_int_equal(t.n, 0);
	flight_expire(f, now + 7200000 * MS);
	append_at(f, now + 7200000 * MS);
	t = dump_times(f, now + 7200000 * MS, &dump);
	assert_int_equal(t.n, 1);
}

/* Records expire in the middle of a dump, which has them nevertheless. */
TEST(test_expire_beside_dump)
{
	struct model m;

	model_new(&m, 20 * MB, 100 * MS, 3);
	model_append(&m, 60000);
	model_dump_begin(&m, START + 70 * MS, 100 * MS);
	assert_int_equal(flight_dump_next(m.f, on_dumped, &m, 5000), 1);
	flight_expire(m.f, START + 3600000 * MS);
	model_check(&m);
	for (int i = 0; i < 300000; i++) {
		model_append(&m, 1);
		if (i % 1000 == 0)
			flight_expire(m.f, m.ends[m.n - 1] + 200 * MS);
	}
	model_check(&m);
	model_dump_rest(&m);
	model_check(&m);
	model_free(&m);
}

/* Notes the start of the first record handed over, and counts them all. */
static void first_start(const struct rec_hdr *rec, size_t size, void *arg)
{
	struct times *t = arg;

	t->first_ns = t->n++ && t->first_ns < rec->start_ns ? t->first_ns : rec->start_ns;
}

static struct times dump_last(struct flight *f, struct last last, uint64_t at_ns)
{
	struct flight_dump dump;
	struct times t = {};

	assert_int_equal(flight_dump_begin(f, at_ns, NULL, &dump), 0);
	flight_dump_last(f, last, at_ns, &dump);
	while (flight_dump_next(f, first_start, &t, 100))
		;
	flight_dump_end(f);
	t.last_ns = dump.horizon_ns;
	return t;
}

/* Steps of 10 ms, out of order, with ten system calls in each, over many chunks. */
TEST_STORE(test_last)
{
	struct rec_step step = { .h = { .kind = REC_STEP, .dur_ns = 9 * MS, .tid = TID } };
	struct flight *f = store_new(8 * MB, 0);
	struct times t;

	assert_int_equal(dump_last(f, (struct last){ .n = 1 }, START).n, 0);
	for (uint64_t i = 0; i < 1000; i++) {
		for (uint64_t k = 1; k <= 10; k++)
			append_at(f, START + i * 10 * MS + k * MS);
		step.h.start_ns = START + (i ^ 1) * 10 * MS;
		assert_int_equal(flight_append(f, &step.h, sizeof(step)), 0);
	}
	t = dump_last(f, (struct last){ .n = 3 }, START + 10000 * MS);
	assert_int_equal(t.last_ns, START + 9970 * MS);
	assert_int_equal(t.first_ns, START + 9970 * MS);
	assert_int_equal(t.n, 3 + 30);
	t = dump_last(f, (struct last){ .n = 2000 }, START + 10000 * MS);
	assert_int_equal(t.n, 11000);
	t = dump_last(f, (struct last){ .ns = 20 * MS }, START + 10000 * MS);
	assert_int_equal(t.last_ns, START + 9980 * MS);
	assert_int_equal(t.n, 2 + 20);
	t = dump_last(f, (struct last){ .ns = UINT64_C(1) << 62 }, START + 10000 * MS);
	assert_int_equal(t.n, 11000);
	/* the next one is whole */
	assert_int_equal(dump_last(f, (struct last){ 0 }, START + 10000 * MS).n, 11000);
}

/* A storm: many times the memory, with a dump now and then. */
TEST_STORE(test_storm)
{
	struct rec_off_cpu rec = { .h = { .kind = REC_OFF_CPU, .tid = TID, .tgid = TID } };
	struct flight_dump dump;
	struct flight_stats st;
	struct flight *f = store_new(8 * MB, 0);
	struct times t;

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
}

RUN_TESTS(NULL, NULL)
