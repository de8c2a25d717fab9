// SPDX-License-Identifier: BSD-2-Clause
/* Causes over an interval, from gaps that lie in it, or across its edges. */
#include "unit.h"
#include "waits/gap_log.h"

#define CONTEXT 7

/* A gap of two threads, half each: 1 on a CPU, and before that 2 asleep; the segment of thread 2 may be missing. */
static struct rec_gap gap_of(uint32_t tgid, uint64_t start, uint64_t end, bool whole)
{
	uint64_t half = (end - start) / 2;
	const struct gap_segment one = { .start_ns = start + half, .dur_ns = half, .tid = 1, .state = ST_CPU };
	const struct gap_segment two = { .start_ns = start, .dur_ns = half, .tid = 2, .state = ST_BLOCKED_SLEEP };

	return (struct rec_gap){
		.h = { .start_ns = start, .dur_ns = end - start, .tgid = tgid, .kind = REC_GAP },
		.context = CONTEXT,
		.n_causes = 2,
		.n = whole ? 2 : 1,
		.seg = { one, two, one, two },
	};
}

static struct gap_log *log_of_three(bool whole)
{
	struct gap_log *l = gap_log_new();
	struct rec_gap gaps[] = { gap_of(10, 1000, 1200, whole), gap_of(11, 1000, 1200, true), gap_of(10, 2000, 2200, whole), gap_of(10, 3000, 3200, whole) };

	for (size_t i = 0; i < ARRAY_SIZE(gaps); i++)
		gap_log_add(l, &gaps[i]);
	return l;
}

static uint64_t cause_ns(const struct causes *c, uint32_t tid)
{
	for (size_t i = 0; i < c->n; i++) {
		if (c->list[i].tid == tid)
			return c->list[i].dur_ns;
	}
	return 0;
}

TEST(intervals)
{
	static const struct {
		uint64_t from, to;
		bool queued, whole;
		uint64_t sum, one, two, unknown, estimated;
	} cases[] = {
		{ 900, 3300, false, true, 600, 300, 300, 0, 0 },
		{ 1150, 2050, false, true, 100, 50, 50, 0, 0 },     /* across both edges */
		{ 1150, 2050, false, false, 100, 50, 50, 0, 50 },   /* what is not listed is estimated ... */
		{ 900, 2100, false, false, 300, 100, 200, 0, 0 },   /* ... but not all of it */
		{ 900, 2500, false, false, 400, 200, 200, 0, 0 },
		{ 1200, 2000, true, true, 0, 0, 0, 0, 0 },        /* steps ran */
		{ 500, 1100, true, true, 600, 0, 100, 500, 0 },   /* before anything is known */
		{ 500, 800, true, true, 300, 0, 0, 300, 0 },
		{ 500, 800, false, true, 0, 0, 0, 0, 0 },
		{ 3300, 4000, true, true, 0, 0, 0, 0, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct gap_log *l = log_of_three(cases[i].whole);
		struct causes c = {};

		assert_int_equal(gap_log_sum(l, 10, CONTEXT, cases[i].from, cases[i].to, cases[i].queued, &c), cases[i].sum);
		assert_int_equal(cause_ns(&c, 1), cases[i].one);
		assert_int_equal(cause_ns(&c, 2), cases[i].two);
		assert_int_equal(c.unknown_ns, cases[i].unknown);
		assert_int_equal(c.estimated_ns, cases[i].estimated);
		gap_log_free(l);
	}
}

/* Of the time that has no segments: the causes beyond the listed ones, in proportion, to the nanosecond; before that it is unknown. */
TEST(not_listed)
{
	struct rec_gap gap = {
		.h = { .start_ns = 1000, .dur_ns = 1000, .tgid = 10, .kind = REC_GAP },
		.context = CONTEXT,
		.others_ns = 101,
		.unknown_ns = 200,
		.n_causes = 2,
		.n = 2,
		.seg = { { .dur_ns = 500, .tid = 1, .state = ST_CPU, .by_ns = 500 }, { .dur_ns = 199, .tid = 2, .state = ST_RUNNABLE, .by_tid = 1, .by_ns = 90 },
			{ .start_ns = 1900, .dur_ns = 100, .tid = 1, .state = ST_CPU }, { .start_ns = 1899, .dur_ns = 1, .tid = 3, .state = ST_CPU } },
	};
	static const struct {
		uint64_t from, to, one, two, others, unknown, estimated;
	} cases[] = {
		{ 1000, 2000, 500, 199, 101, 200, 0 },
		{ 1100, 2000, 500, 199, 101, 100, 0 },
		{ 1200, 2000, 500, 199, 101, 0, 0 },
		{ 1899, 2000, 100, 0, 1, 0, 0 },
		{ 1550, 2000, 299, 99, 52, 0, 349 }, /* 400, 199 and 100 of 699 */
		{ 1898, 2000, 100, 0, 2, 0, 1 },
		{ 1000, 1150, 0, 0, 0, 150, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct gap_log *l = gap_log_new();
		struct causes c = {};

		gap_log_add(l, &gap);
		assert_int_equal(gap_log_sum(l, 10, CONTEXT, cases[i].from, cases[i].to, false, &c), cases[i].to - cases[i].from);
		assert_int_equal(cause_ns(&c, 1), cases[i].one);
		assert_int_equal(cause_ns(&c, 2), cases[i].two);
		assert_int_equal(c.others_ns + cause_ns(&c, 3), cases[i].others);
		assert_int_equal(c.unknown_ns, cases[i].unknown);
		assert_int_equal(c.estimated_ns, cases[i].estimated);
		gap_log_free(l);
	}
}

TEST(others_contexts)
{
	struct gap_log *l = log_of_three(true);
	struct causes c = {};

	assert_int_equal(gap_log_sum(l, 10, CONTEXT + 1, 0, 9000, false, &c), 0);
	assert_int_equal(gap_log_sum(l, 11, CONTEXT, 0, 9000, false, &c), 200);
	gap_log_free(l);
}

/* Of a request that was passed on: from when it came, whatever else the thread did before. */
TEST(passed_on)
{
	static const struct {
		uint64_t id, from, to, sent, one, two, unknown;
	} cases[] = {
		{ 77, 1000, 1300, 1200, 100, 100, 0 },
		{ 77, 1050, 1200, 1200, 100, 50, 0 },
		{ 77, 900, 1200, 1200, 100, 100, 100 }, /* it came before what is known of it */
		{ 77, 1000, 1199, 0, 0, 0, 0 },		/* passed on later than it arrived: another one of its name */
		{ 77, 1200, 1300, 0, 0, 0, 0 },
		{ CONTEXT, 1000, 1300, 0, 0, 0, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct gap_log *l = gap_log_new();
		struct rec_gap gap = gap_of(10, 1000, 1200, true);
		struct causes c = {};

		gap.h.kind = REC_SENT;
		gap.context = 77;
		gap_log_add(l, &gap);
		assert_int_equal(gap_log_sent(l, cases[i].id, cases[i].from, cases[i].to, &c), cases[i].sent);
		assert_int_equal(cause_ns(&c, 1), cases[i].one);
		assert_int_equal(cause_ns(&c, 2), cases[i].two);
		assert_int_equal(c.unknown_ns, cases[i].unknown);
		gap_log_free(l);
	}
}

/* The oldest make room, and are unknown then. */
TEST(room)
{
	struct gap_log *l = gap_log_new();
	struct rec_gap g = gap_of(10, 1000, 1200, true);
	struct causes c = {};
	size_t n = GAP_LOG_BYTES / REC_GAP_SIZE(4) + 1;

	for (size_t i = 0; i < n; i++, g.h.start_ns += 1000)
		gap_log_add(l, &g);
	assert_true(gap_log_sum(l, 10, CONTEXT, 0, 5000, true, &c) == 5000);
	assert_int_equal(c.unknown_ns, 5000);
	assert_int_equal(gap_log_sum(l, 10, CONTEXT, n * 1000, (n + 1) * 1000, false, &c), 200);
	gap_log_free(l);
}

/* Waits of a thread for a CPU are one cause, which names who ran for longest; more causes than a line has are summed. */
TEST(finished)
{
	struct gap_segment s = { .dur_ns = 10, .tid = 1, .state = ST_RUNNABLE, .by_tid = 5 };
	struct causes c = {};

	causes_add(&c, &s);
	s.by_tid = 6;
	s.dur_ns = 30;
	causes_add(&c, &s);
	s.flags = GAP_SEGMENT_F_LIMITED;
	causes_add(&c, &s);
	for (uint32_t i = 0; i < 2 * CAUSES_FINE; i++)
		causes_add(&c, &(struct gap_segment){ .dur_ns = 1, .tid = 100 + i, .state = ST_CPU });
	causes_add(&c, &(struct gap_segment){ .dur_ns = 9, .state = ST_MAX });
	causes_finish(&c, 2);
	assert_int_equal(c.n, 2);
	assert_int_equal(c.list[0].dur_ns, 40);
	assert_int_equal(c.list[0].by_tid, 6);
	assert_int_equal(c.list[0].by_ns, 30);
	assert_int_equal(c.list[1].dur_ns, 30);
	assert_int_equal(c.others_ns, 2 * CAUSES_FINE);
	assert_int_equal(c.unknown_ns, 9);
}

/* A cause has a file if all of it was spent on that one. */
TEST(files)
{
	struct gap_segment one = { .dur_ns = 10, .tid = 1, .state = ST_BLOCKED_IO, .file = 77 }, two = { .dur_ns = 20, .tid = 2, .state = ST_BLOCKED_IO, .file = 77 };
	struct causes c = {};

	causes_add(&c, &one);
	causes_add(&c, &two);
	causes_add(&c, &one);
	two.file = 78;
	causes_add(&c, &two);
	two.file = 77;
	causes_add(&c, &two);
	causes_finish(&c, 4);
	assert_int_equal(c.n, 2);
	assert_int_equal(c.list[0].tid, 2);
	assert_int_equal(c.list[0].file, 0);
	assert_int_equal(c.list[1].file, 77);
}

/* A chain of many threads, each for a moment, and then one that sleeps. */
TEST(long_after_many_short)
{
	struct causes c = {};

	for (uint32_t i = 0; i < 10 * CAUSES_FINE; i++)
		causes_add(&c, &(struct gap_segment){ .dur_ns = 2, .tid = 1 + i, .state = ST_CPU });
	causes_add(&c, &(struct gap_segment){ .dur_ns = 1000, .tid = 7777, .state = ST_BLOCKED_SLEEP });
	causes_add(&c, &(struct gap_segment){ .dur_ns = 1, .tid = 7778, .state = ST_CPU });
	causes_finish(&c, GAP_CAUSES_MAX);
	assert_int_equal(c.n, GAP_CAUSES_MAX);
	assert_int_equal(c.list[0].tid, 7777);
	assert_int_equal(c.list[0].dur_ns, 1000);
	assert_int_equal(c.others_ns, 2 * (10 * CAUSES_FINE - (GAP_CAUSES_MAX - 1)) + 1);
}

RUN_TESTS(NULL, NULL)
