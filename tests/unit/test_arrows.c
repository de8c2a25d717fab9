// SPDX-License-Identifier: BSD-2-Clause
/* Arrows and their slices, in any order. */
#include "format/arrows.h"
#include "unit.h"

static int make(void **state)
{
	*state = arrows_new();
	return 0;
}

static int drop(void **state)
{
	free(*state);
	return 0;
}

static struct arrow arrow_of(uint32_t waker, uint64_t slice_ns, uint32_t woken)
{
	return (struct arrow){ .waker_tid = waker,
		.slice_ns = slice_ns,
		.wake_ns = slice_ns + 1,
		.end_ns = slice_ns + 2,
		.tid = woken };
}

TEST_WITH(test_slice_first, make, drop)
{
	struct arrow arrow = arrow_of(7, 1000, 8), got;

	arrows_add_slice(*state, 7, 1000, 0);
	assert_false(arrows_take(*state, 7, 1000, &got));
	assert_true(arrows_add(*state, &arrow));
	assert_true(arrows_add(*state, &arrow)); /* a slice may wake several */
	assert_false(arrows_take(*state, 7, 1000, &got));
}

TEST_WITH(test_arrow_first, make, drop)
{
	unsigned int woken = 0;
	struct arrow got;

	for (uint32_t i = 0; i < 5; i++) {
		struct arrow arrow = arrow_of(7, 1000, 100 + i);

		assert_false(arrows_add(*state, &arrow));
	}
	/* of another thread, another slice */
	assert_false(arrows_take(*state, 8, 1000, &got));
	assert_false(arrows_take(*state, 7, 1001, &got));
	arrows_add_slice(*state, 7, 1000, 0);
	while (arrows_take(*state, 7, 1000, &got)) {
		assert_in_range(got.tid, 100, 104);
		assert_int_equal(got.wake_ns, 1001);
		assert_int_equal(got.end_ns, 1002);
		woken |= 1u << (got.tid - 100);
	}
	assert_int_equal(woken, 0x1f);
}

/* As many as arrive in one pass over the rings: hardly any is forgotten. */
TEST_WITH(test_many, make, drop)
{
	const unsigned int n = 4000;
	unsigned int found = 0, taken = 0;
	struct arrow arrow, got;

	for (unsigned int i = 0; i < n; i++)
		arrows_add_slice(*state, 1000 + i % 7, 5000000 + i * 1370ull, 0);
	for (unsigned int i = 0; i < n; i++) {
		arrow = arrow_of(1000 + i % 7, 5000000 + i * 1370ull, 1);
		found += arrows_add(*state, &arrow);
	}
	assert_in_range(found, n * 99 / 100, n);

	for (unsigned int i = 0; i < n; i++) {
		arrow = arrow_of(1000 + i % 7, 90000000 + i * 1370ull, i);
		assert_false(arrows_add(*state, &arrow));
	}
	for (unsigned int i = 0; i < n; i++) {
		while (arrows_take(*state, 1000 + i % 7, 90000000 + i * 1370ull, &got)) {
			assert_int_equal(got.tid, i);
			taken++;
		}
	}
	assert_in_range(taken, n * 99 / 100, n);
}

/* Arrows with lost slices make room for newer ones. */
TEST_WITH(test_lost, make, drop)
{
	struct arrow arrow, got;
	unsigned int taken = 0;

	for (uint64_t i = 0; i < 100000; i++) {
		arrow = arrow_of(7, 1000 + i * 3, 1);
		assert_false(arrows_add(*state, &arrow));
	}
	for (uint64_t i = 0; i < 1000; i++) {
		arrow = arrow_of(7, 1000000000 + i * 3, 2);
		assert_false(arrows_add(*state, &arrow));
		taken += arrows_take(*state, 7, 1000000000 + i * 3, &got);
	}
	assert_int_equal(taken, 1000);
}

RUN_TESTS(NULL, NULL)
