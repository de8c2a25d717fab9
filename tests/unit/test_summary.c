// SPDX-License-Identifier: BSD-2-Clause
/* What the report says about all steps: totals of causes, requests, gaps; and its wording. */
#include "series.h"

static void assert_cause(struct series *s, size_t i, int64_t excess, const char *before, const char *wanted)
{
	const struct cause_sum *c = &s->sum.causes.list[i];
	char text[SENTENCE_MAX];

	snprintf(text, sizeof(text), "%s%s", before, wanted);
	assert_true(i < s->sum.causes.n);
	assert_string_equal(words_cause(&s->m, c, s->text), text);
	assert_near(c->excess, excess);
	assert_int_equal(c->steps, 1);
}

/* Several threads were in the way: each is named with its share, in the sentence and in the totals, and the
 * shares add up to the whole. */
TEST(test_hogs)
{
	for (int workers = 0; workers < 2; workers++) {
		struct series s;
		struct step step = step_behind_usual(&s);
		const struct behind_info rows[] = { behind(&s, "hoga", 990, 50 * MS), behind(&s, "hogb", 991, 40 * MS),
			behind(&s, "hogc", 992, 30 * MS), behind(&s, "hogc", 993, 18 * MS) };
		size_t own = workers ? 0 : 4;
		const char *before = workers ? "workers: " : "";
		char text[SENTENCE_MAX];
		int64_t all = 0;

		process_add_behind(s.p, &step, rows, own, rows, 4 - own);
		step.own[workers ? ST_BARRIER : ST_RUNNABLE] += 140 * MS;
		if (workers) {
			step.workers[ST_RUNNABLE] = 140 * MS;
			step.held = 9 * MS;
		}
		step.wait = (struct wait_info){ .ns = 8 * MS, .tid = workers ? 4712 : 4711, .state = ST_RUNNABLE, .behind_tid = 991 };
		sum_between(&s, &step);
		assert_int_equal(s.sum.causes.n, 4);
		assert_cause(&s, 0, 50 * MS, before, "waited for a CPU behind `hoga`");
		assert_cause(&s, 1, 48 * MS, before, "waited for a CPU behind `hogc`");
		assert_cause(&s, 2, 40 * MS, before, "waited for a CPU behind `hogb`");
		assert_cause(&s, 3, 2 * MS, before, "waited for a CPU behind others");
		for (size_t i = 0; i < s.sum.causes.n; i++)
			all += s.sum.causes.list[i].excess;
		assert_int_equal(all, s.sum.slow[0].cause.excess);
		steps_set(&s.p->steps, 100, STEP_TOTAL, 180 * MS);
		snprintf(text, sizeof(text),
			"step 100, 180 ms instead of 40.0 ms: %s waited 140 ms for a CPU: 50.0 ms behind pid 990 `hoga`, 40.0 ms behind "
			"pid 991 `hogb`, 30.0 ms behind pid 992 `hogc`, 18.0 ms behind pid 993 `hogc`, 2.00 ms behind others",
			workers ? "worker 4712" : "the calling thread");
		assert_sentence(&s, text);
		series_free(&s);
	}
}

/* Most of it was behind an unnamed thread: then no named thread is blamed. */
TEST(test_unnamed)
{
	struct series s;
	struct step step = step_behind_usual(&s);
	const struct behind_info row = behind(&s, "late", 990, 3 * MS);

	process_add_behind(s.p, &step, &row, 1, &row, 0);
	step.own[ST_RUNNABLE] = 200 * MS;
	step.wait = (struct wait_info){ .ns = 200 * MS, .tid = 4711, .state = ST_RUNNABLE, .behind_tid = 990 };
	sum_between(&s, &step);
	assert_int_equal(s.sum.slow[0].cause.by, 0);
	assert_int_equal(s.sum.slow[0].cause.by_tid, 0);
	steps_set(&s.p->steps, 100, STEP_TOTAL, 240 * MS);
	assert_sentence(&s,
		"step 100, 240 ms instead of 40.0 ms: the calling thread waited 200 ms for a CPU: 3.00 ms behind pid 990 "
		"`late`, 197 ms behind others");
	series_free(&s);
}

/* More threads than CPUs: that is the cause, not who happened to be in the way. */
TEST(test_crowd)
{
	struct series s;

	series_begin(&s);
	for (int i = 0; i < 3; i++) {
		struct step step = usual(&s);
		struct behind_info own = behind(&s, "engine", 4712, 500 * MS), worker = behind(&s, "engine", 4711, 400 * MS);

		own.pid = worker.pid = 4711;
		step.n_workers = step.cpus_allowed = 1;
		process_add_behind(s.p, &step, &own, 1, &worker, 1);
		step.own[ST_RUNNABLE] = step.workers[ST_RUNNABLE] = 500 * MS;
		step.own[ST_BARRIER] = step.workers[ST_BARRIER] = 460 * MS;
		series_add(&s, &step);
	}
	series_end(&s);
	series_sum(&s);
	assert_int_equal(s.sum.slow_alone, 3);
	assert_int_equal(s.sum.crowd.steps, 3);
	assert_int_equal(s.sum.crowd.waited, 3 * 900 * MS);
	assert_true(strstr(words_crowd(&s.sum.crowd, s.text),
			    "2 spinning threads share 1 allowed CPU: they waited 2.70 s for it ") == s.text);
	assert_string_equal(words_cause(&s.m, &s.sum.causes.list[0], s.text),
		"waited for a CPU behind one another: more threads than allowed CPUs");
	assert_non_null(strstr(slowest(&s), ": 2 spinning threads share 1 allowed CPU: the calling thread waited 500 ms "
					    "for a CPU behind its own thread 4712 `engine`"));
	/* three workers one after the other count as one at a time */
	for (size_t n = 0; n < 3; n++)
		steps_set(&s.p->steps, n, STEP_N_WORKERS, 3);
	assert_int_equal(series_sum(&s)->crowd.threads, 2);
	/* with a CPU for each it is the scheduler's choice */
	for (size_t n = 0; n < 3; n++)
		steps_set(&s.p->steps, n, STEP_CPUS_ALLOWED, 2);
	assert_int_equal(series_sum(&s)->crowd.threads, 0);
	series_free(&s);
}

TEST(test_limited)
{
	struct series s;

	series_begin(&s);
	for (int i = 0; i < 3; i++) {
		struct step step = usual(&s);
		struct behind_info row = behind(&s, "cpu.max", 0, 50 * MS);

		row.limit = true;
		step.n_workers = 1;
		step.cpus_allowed = 2;
		step.cpu_limit = 1500;
		process_add_behind(s.p, &step, &row, 1, &row, 1);
		step.own[ST_RUNNABLE] = step.workers[ST_RUNNABLE] = 50 * MS;
		step.own[ST_BARRIER] = 40 * MS;
		series_add(&s, &step);
	}
	series_end(&s);
	assert_true(strstr(words_limited(series_sum(&s), s.text),
			    "2 spinning threads share 1.5 CPUs (cgroup cpu.max): held back for 300 ms, ") == s.text);
	assert_non_null(strstr(slowest(&s), "the calling thread was held back for 50.0 ms by a CPU limit"));
	series_free(&s);
}

/* A step that hangs is reported, with what it waits for. */
TEST(test_open)
{
	struct series s;
	struct step step = step_behind_usual(&s);

	step.unfinished = true;
	step.own[ST_STOPPED] = 1090 * MS;
	step.wait = (struct wait_info){ .ns = 1090 * MS, .tid = 4711, .state = ST_STOPPED };
	series_add(&s, &step);
	steps_set(&s.p->steps, 100, STEP_TOTAL, 1130 * MS);
	series_end(&s);
	series_sum(&s);
	assert_int_equal(s.sum.slow_steps, 0);
	assert_int_equal(s.sum.n_open, 1);
	assert_string_equal(words_open(&s.m, s.p, &s.sum.open[0], s.text),
		"step 100 had not ended after 1.13 s: the calling thread was stopped for 1.09 s by a signal or a debugger");
	/* the recording ended within an ordinary step */
	steps_set(&s.p->steps, 100, STEP_TOTAL, steps_get(&s.p->steps, 99, STEP_TOTAL));
	assert_int_equal(series_sum(&s)->n_open, 0);
	series_free(&s);
}

/* A long pause counts only if requests waited for its end: then it is the worst of all. */
TEST(test_stop)
{
	struct request *r = calloc(4, sizeof(*r));
	struct series s;
	int64_t end;

	series_begin(&s);
	add_usual(&s, 100);
	s.now += 60000 * MS;
	add_usual(&s, 100);
	s.now += 5000 * MS;
	add_usual(&s, 100);
	series_end(&s);
	s.p->served.requests = r;
	s.p->served.len = s.p->served.size = 4;
	end = steps_get(&s.p->steps, 100, STEP_AT);
	/* ended in time; came at the end of a pause; computed on both sides of one; came within it */
	r[0] = (struct request){ .at = end - 70000 * MS, .total = 20000 * MS };
	r[1] = (struct request){ .at = end - 900 * MS, .total = 1200 * MS };
	end = steps_get(&s.p->steps, 200, STEP_AT);
	r[2] = (struct request){ .at = end - 5010 * MS, .total = 6000 * MS };
	r[3] = (struct request){ .at = end - 3000 * MS, .total = 4000 * MS };
	assert_sentence(&s, "before step 200, no step for 5.00 s, for 5.00 s of which 2 requests waited");
	assert_int_equal(s.sum.slow_gaps, 1);
	assert_int_equal(s.sum.slow[0].step, 200);
	assert_int_equal(s.sum.slow[0].waiting, 2);
	/* none had begun before it */
	r[2].at = r[3].at;
	assert_sentence(&s, "before step 200, no step for 5.00 s, for 3.00 s of which 2 requests waited");
	series_free(&s);
}

TEST(test_gap)
{
	struct series s;

	series_begin(&s);
	add_usual(&s, 100);
	*list_add(s.p, calls) = (struct call){ s.now + MS, 45 * MS, name_of(&s, "sample"), 0 };
	*list_add(s.p, calls) = (struct call){ s.now + MS + 1000, 100000, name_of(&s, "inner"), 0 };
	s.now += 50 * MS;
	add_usual(&s, 100);
	s.now += 5000 * MS; /* nobody asked for tokens */
	add_usual(&s, 100);
	series_end(&s);
	series_sum(&s);
	assert_int_equal(s.sum.slow_steps, 0);
	assert_int_equal(s.sum.slow_gaps, 1);
	assert_int_equal(s.sum.slow[0].step, 100);
	assert_near(s.sum.slow[0].cause.excess, 50 * MS);
	assert_int_equal(s.sum.pauses, 1);
	assert_int_equal(s.sum.tpot.n, 298);
	assert_near(s.sum.tpot.max, 90 * MS);
	assert_true(strstr(slowest(&s), "before step 100, 50.3 ms instead of ") == s.text);
	assert_non_null(strstr(s.text, "us outside of the engine's steps, 45.0 ms of it in `sample`"));
	assert_int_equal(s.sum.n_calls, 2);
	series_free(&s);
}

/* From the first of several prefill steps to the end of the last one before a decode step. */
TEST(test_ttft)
{
	struct series s;
	int64_t start, last = 0;

	series_begin(&s);
	for (int request = 0; request < 3; request++) {
		start = s.now;
		for (int i = 0; i <= request; i++) {
			struct step step = usual(&s);

			step.phase = s.names.prefill;
			step.n_tokens = 512;
			step.own[ST_CPU] = 500 * MS;
			series_add(&s, &step);
		}
		last = s.now - start;
		add_usual(&s, 20);
	}
	series_end(&s);
	series_sum(&s);
	assert_int_equal(s.sum.first_step.n, 3);
	assert_near(s.sum.first_step.max, last);
	assert_int_equal(s.sum.tpot.n, 60);
	assert_int_equal(s.sum.n_phases, 2);
	assert_int_equal(s.sum.phases[0].phase, s.names.prefill); /* it took longer */
	assert_int_equal(s.sum.phases[0].tokens, 6 * 512);
	series_free(&s);
}

/* Two contexts at once: each one's steps are consecutive. If contexts are unknown, each thread's are; if they are known,
 * threads may change. */
TEST(test_lanes)
{
	for (int contexts = 0; contexts < 2; contexts++) {
		const struct steps *steps;
		struct series s;

		series_begin(&s);
		for (int i = 0; i < 200; i++) {
			struct step step = usual(&s);

			step.context = contexts ? 0xffff000000001000ULL + (uint64_t)i % 2 : 0;
			step.tid = 4711 + (contexts ? (uint32_t)i / 7 % 3 : (uint32_t)i % 2);
			step.ts = i / 2 * 41 * MS + i % 2 * 20 * MS;
			step.own[ST_CPU] = 37 * MS;
			step.own[ST_BARRIER] = 3 * MS;
			series_add(&s, &step);
		}
		series_end(&s);
		series_sum(&s);
		steps = &s.p->steps;
		assert_int_equal(s.sum.tpot.n, 198);
		assert_near(s.sum.tpot.p50, 41 * MS);
		assert_int_equal(steps_get(steps, 0, STEP_LANE), steps_get(steps, 99, STEP_LANE));
		assert_int_equal(steps_get(steps, 100, STEP_LANE), steps_get(steps, 199, STEP_LANE));
		assert_true(steps_get(steps, 0, STEP_LANE) != steps_get(steps, 100, STEP_LANE));
		series_free(&s);
	}
}

/* A second recording in the same file continues the time axis. */
TEST(test_recordings)
{
	struct series s;

	series_begin(&s);
	add_usual(&s, 10);
	s.now = 1 * MS;
	for (int i = 0; i < 10; i++) {
		struct step step = usual(&s);

		step.recording = 1;
		series_add(&s, &step);
	}
	series_end(&s);
	assert_int_equal(s.p->recordings, 2);
	for (size_t i = 1; i < 20; i++)
		assert_true(steps_get(&s.p->steps, i, STEP_AT) >= steps_end(&s.p->steps, i - 1));
	assert_int_equal(steps_get(&s.p->steps, 10, STEP_GAP), -1);
	assert_int_equal(steps_get(&s.p->steps, 10, STEP_TS), 1 * MS);
	series_free(&s);
}

TEST(test_durations)
{
	static const struct {
		int64_t ns;
		const char *text;
	} cases[] = { { 0, "0 ns" }, { 999, "999 ns" }, { 1000, "1.00 us" }, { 9994, "9.99 us" },
		{ 9996, "10.0 us" }, { 99960, "100 us" }, { 999499, "999 us" },
		{ 999600, "1.00 ms" }, { 183000000, "183 ms" }, { 41040000, "41.0 ms" },
		{ 3400000000, "3.40 s" }, { 610000000000, "610 s" }, { -5000, "-5.00 us" } };
	char buf[DURATION_MAX];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(words_duration(buf, cases[i].ns), cases[i].text);
}

/* A culprit has one line, whether the worker that waited for it is known or not. */
TEST(test_one_culprit)
{
	struct series s;
	struct step step = step_behind_usual(&s);
	const struct behind_info row = behind(&s, "cc1plus", 990, 140 * MS);

	for (int i = 0; i < 2; i++) {
		step.own[ST_BARRIER] += 140 * MS;
		step.workers[ST_RUNNABLE] = step.held = 140 * MS;
		if (i) {
			step.straggler_tid = 0;
			process_add_behind(s.p, &step, &row, 0, &row, 1);
		} else {
			step.wait = (struct wait_info){ .ns = 139 * MS, .tid = 4712, .state = ST_RUNNABLE, .behind_tid = 990, .behind = row.by };
		}
		series_add(&s, &step);
		add_usual(&s, 100);
		step = usual(&s);
	}
	series_end(&s);
	series_sum(&s);
	assert_int_equal(s.sum.n_slow, 2);
	assert_int_equal(s.sum.slow[0].cause.where + s.sum.slow[1].cause.where, WHERE_STRAGGLER + WHERE_WORKERS);
	assert_int_equal(s.sum.causes.n, 1);
	assert_int_equal(s.sum.causes.list[0].steps, 2);
	assert_near(s.sum.causes.list[0].excess, 280 * MS);
	assert_string_equal(words_cause(&s.m, &s.sum.causes.list[0], s.text), "workers: waited for a CPU behind `cc1plus`");
	series_free(&s);
}

/* However many causes there are, each has its own sum. */
TEST(test_many_causes)
{
	struct cause_sum cause = { .where = WHERE_NONE, .state = ST_RUNNABLE };
	struct cause_sums sums = { 0 };

	for (uint32_t round = 0; round < 2; round++) {
		for (cause.by = 0; cause.by < 3000; cause.by++)
			cause_sums_add(&sums, &cause, cause.by + 1, round);
	}
	cause.by = 0;
	cause.others = true;
	cause_sums_add(&sums, &cause, 1, false);
	assert_int_equal(sums.n, 3001);
	cause_sums_sort(&sums);
	assert_int_equal(sums.list[0].by, 2999);
	for (uint32_t i = 0; i < 3000; i++) {
		assert_int_equal(sums.list[i].excess, 2 * (3000 - i));
		assert_int_equal(sums.list[i].steps, 1);
	}
	cause_sums_free(&sums);
}

RUN_TESTS(NULL, NULL)
