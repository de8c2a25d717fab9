// SPDX-License-Identifier: BSD-2-Clause
/* The steps of a report by column: what is stored can be read back. */
#include "report/model.h"
#include "unit.h"

static uint64_t random_state = 1;

static uint64_t draw(void)
{
	return next_random(&random_state);
}

/* Of all sizes, mostly small. */
static uint64_t number(unsigned int bits)
{
	return draw() >> (64 - bits) >> draw() % bits;
}

static struct step random_step(void)
{
	struct step s = { 0 };

#define DRAW(name, member, ...) s.member = (typeof(s.member))number(8 * sizeof(s.member));
#define DRAW_ALL(name, member, n)        \
	for (size_t i = 0; i < (n); i++) \
	DRAW(name, member[i])
	STEP_FIELDS(DRAW, DRAW, DRAW, DRAW_ALL)
	/* some are constant in all steps, or narrow */
	s.tid = 4711;
	s.cpus_allowed = 2;
	s.gap = (int64_t)number(20) - 1;
	s.phase = (uint32_t)number(3);
	for (size_t i = 0; i < STATES; i++)
		s.workers[i] = i % 3 ? 0 : s.workers[i];
	return s;
}

static void assert_step(const struct step *a, const struct step *b)
{
#define EQUAL(name, member, ...) assert_true(a->member == b->member);
#define EQUAL_ALL(name, member, n) assert_memory_equal(a->member, b->member, sizeof(a->member));
	STEP_FIELDS(EQUAL, EQUAL, EQUAL, EQUAL_ALL)
}

#define COUNT 1000

TEST(test_round_trip)
{
	static struct step made[COUNT];
	struct steps steps = { 0 };
	uint32_t order[COUNT];
	struct step got;

	for (size_t i = 0; i < COUNT; i++) {
		made[i] = random_step();
		steps_add(&steps, &made[i]);
		order[i] = (uint32_t)((i * 7) % COUNT);
	}
	for (size_t i = 0; i < COUNT; i++) {
		got = steps_load(&steps, i);
		assert_step(&got, &made[i]);
	}
	steps_reorder(&steps, order);
	for (size_t i = 0; i < COUNT; i++) {
		got = steps_load(&steps, i);
		assert_step(&got, &made[order[i]]);
	}
	steps_free(&steps);
}

/* A value of any size may come at any time, even in a column that was constant. */
TEST(test_widths)
{
	static const int64_t values[] = { 5, 5, -1, 127, 128, -32768, 32768, INT32_MIN, 1LL << 31,
		INT64_MIN, INT64_MAX, 0 };
	const size_t n = sizeof(values) / sizeof(values[0]);
	const struct step none = { 0 };
	struct steps steps = { 0 };

	for (size_t i = 0; i < 3 * n; i++)
		steps_add(&steps, &none);
	assert_true(steps_all_zero(&steps, STEP_GAP));
	for (size_t i = 0; i < n; i++) {
		steps_set(&steps, n + i, STEP_GAP, values[i]);
		for (size_t k = 0; k < 3 * n; k++)
			assert_true(steps_get(&steps, k, STEP_GAP) ==
				    (k >= n && k <= n + i ? values[k - n] : 0));
	}
	assert_true(!steps_all_zero(&steps, STEP_GAP));
	assert_true(steps_load(&steps, n + 10).gap == INT64_MAX);
	steps_free(&steps);
}

/* A column that is constant takes no memory. */
TEST(test_same)
{
	const struct step s = { .tid = 7, .own = { 1, 2, 3 }, .rows = { 4 }, .unfinished = true };
	struct steps steps = { 0 };
	struct step got;

	for (size_t i = 0; i < 100; i++)
		steps_add(&steps, &s);
	for (size_t c = 0; c < STEP_COLUMNS; c++)
		assert_null(steps.columns[c].values);
	got = steps_load(&steps, 99);
	assert_step(&got, &s);
	steps_free(&steps);
}

RUN_TESTS(NULL, NULL)
