// SPDX-License-Identifier: BSD-2-Clause
/* What a step is compared with: its neighbours, and steps of its size. */
#include "series.h"

/* Steps grow with the context, until the next prompt: each is as slow as its neighbours. */
TEST(test_growing)
{
	static const int lengths[] = { 1000, 700, 20, 30, 100, 400, 1000 };
	struct series s;

	series_begin(&s);
	for (size_t request = 0; request < sizeof(lengths) / sizeof(lengths[0]); request++) {
		struct step step = usual(&s);

		step.phase = s.names.prefill;
		step.n_tokens = 100;
		series_add(&s, &step);
		for (int i = 0; i < lengths[request]; i++) {
			step = usual(&s);
			step.own[ST_CPU] += i * 40000;
			series_add(&s, &step);
		}
	}
	verdict(&s, UINT32_MAX);
	series_free(&s);
}

/* The CPU's speed varies; anything else stands out nevertheless. */
TEST(test_scatter)
{
	struct series s;
	struct step step;
	struct cause c;

	series_begin(&s);
	for (int i = 0; i < 200; i++) {
		step = usual(&s);
		step.own[ST_CPU] = about(&s, 37 * MS, 40);
		if (i == 100) {
			step.own[ST_CPU] = 40 * MS;
			step.own[ST_BLOCKED_IO] = 12 * MS;
		}
		series_add(&s, &step);
	}
	c = verdict(&s, 100);
	assert_int_equal(c.where, WHERE_OWN);
	assert_int_equal(c.state, ST_BLOCKED_IO);
	assert_int_equal(c.part, 12 * MS);
	series_free(&s);
}

/* A hundred slow steps in a row do not become the norm. */
TEST(test_long_disturbance)
{
	struct series s;
	struct cause c;
	int found = 0;

	series_begin(&s);
	add_usual(&s, 1000);
	for (int i = 0; i < 120; i++) {
		struct step step = usual(&s);

		step.own[ST_RUNNABLE] += 40 * MS;
		series_add(&s, &step);
	}
	add_usual(&s, 1000);
	series_end(&s);
	for (size_t i = 0; i < s.p->steps.len; i++) {
		const struct step step = steps_load(&s.p->steps, i);

		cause_find(s.p, &step, &c);
		assert_int_equal(c.where != WHERE_NONE, i >= 1000 && i < 1120);
		found += c.where == WHERE_OWN && c.state == ST_RUNNABLE;
	}
	assert_int_equal(found, 120);
	series_free(&s);
}

/* Batches of several sizes in turns, and prompts of any size: steps are compared with similar ones. */
TEST(test_sizes)
{
	struct series s;
	uint32_t slow = 0;
	struct cause c;

	series_begin(&s);
	for (int i = 0; i < 600; i++) {
		struct step step = usual(&s);

		if (i % 10 == 9) {
			step.phase = s.names.prefill;
			step.n_tokens = (uint32_t)about(&s, 512, 15);
			step.own[ST_CPU] = about(&s, step.n_tokens * MS, 2);
		} else {
			step.n_tokens = 1 + (uint32_t)i % 4;
			step.own[ST_CPU] += (step.n_tokens - 1) * 30 * MS;
		}
		if (i == 399) {
			slow = s.number;
			step.own[ST_BLOCKED_FAULT] = 200 * MS;
		}
		series_add(&s, &step);
	}
	c = verdict(&s, slow);
	assert_int_equal(c.state, ST_BLOCKED_FAULT);
	assert_near(c.part, 200 * MS);
	series_free(&s);
}

/* One prompt: nothing to compare with, but its waits can be reported. */
TEST(test_alone)
{
	struct series s;
	struct step step;
	struct cause c;

	series_begin(&s);
	step = usual(&s);
	step.phase = s.names.prefill;
	step.n_tokens = 2000;
	step.own[ST_CPU] = 3000 * MS;
	step.own[ST_STOPPED] = 400 * MS;
	series_add(&s, &step);
	add_usual(&s, 50);
	c = verdict(&s, 0);
	assert_int_equal(c.compared, 0);
	assert_int_equal(c.state, ST_STOPPED);
	assert_int_equal(c.part, 400 * MS);
	assert_sentence(&s,
		"step 0 (prefill of 2000 tokens), 3.40 s: the calling thread was stopped "
		"for 400 ms by a signal or a debugger");
	series_free(&s);
}

/* A cut step is not a slow step, whatever its time. */
TEST(test_unfinished)
{
	struct series s;
	struct step step = step_behind_usual(&s);

	step.unfinished = true;
	step.own[ST_RUNNABLE] += 139 * MS;
	series_add(&s, &step);
	assert_int_equal(verdict(&s, 100).where, WHERE_NONE);
	series_free(&s);
}

RUN_TESTS(NULL, NULL)
