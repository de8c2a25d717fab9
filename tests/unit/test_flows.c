// SPDX-License-Identifier: BSD-2-Clause
/* Flows and their slices, in any order. */
#include "format/flows.h"
#include "unit.h"

static int make(void **state)
{
	*state = flows_new();
	return 0;
}

static int drop(void **state)
{
	free(*state);
	return 0;
}

static struct flow flow_of(uint32_t waker, uint64_t slice_ns, uint32_t woken)
{
	return (struct flow){ .waker_tid = waker,
		.slice_ns = slice_ns,
		.wake_ns = slice_ns + 1,
		.end_ns = slice_ns + 2,
		.tid = woken };
}

TEST_WITH(test_slice_first, make, drop)
{
	struct flow flow = flow_of(7, 1000, 8), got;

	flows_add_slice(*state, 7, 1000, 0);
	assert_false(flows_take(*state, 7, 1000, &got));
	assert_true(flows_add(*state, &flow));
	assert_true(flows_add(*state, &flow)); /* a slice may wake several */
	assert_false(flows_take(*state, 7, 1000, &got));
}

TEST_WITH(test_flow_first, make, drop)
{
	unsigned int woken = 0;
	struct flow got;

	for (uint32_t i = 0; i < 5; i++) {
		struct flow flow = flow_of(7, 1000, 100 + i);

		assert_false(flows_add(*state, &flow));
	}
	/* of another thread, another slice */
	assert_false(flows_take(*state, 8, 1000, &got));
	assert_false(flows_take(*state, 7, 1001, &got));
	flows_add_slice(*state, 7, 1000, 0);
	while (flows_take(*state, 7, 1000, &got)) {
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
	struct flow flow, got;

	for (unsigned int i = 0; i < n; i++)
		flows_add_slice(*state, 1000 + i % 7, 5000000 + i * 1370ull, 0);
	for (unsigned int i = 0; i < n; i++) {
		flow = flow_of(1000 + i % 7, 5000000 + i * 1370ull, 1);
		found += flows_add(*state, &flow);
	}
	assert_in_range(found, n * 99 / 100, n);

	for (unsigned int i = 0; i < n; i++) {
		flow = flow_of(1000 + i % 7, 90000000 + i * 1370ull, i);
		assert_false(flows_add(*state, &flow));
	}
	for (unsigned int i = 0; i < n; i++) {
		while (flows_take(*state, 1000 + i % 7, 90000000 + i * 1370ull, &got)) {
			assert_int_equal(got.tid, i);
			taken++;
		}
	}
	assert_in_range(taken, n * 99 / 100, n);
}

/* Flows with lost slices make room for newer ones. */
TEST_WITH(test_lost, make, drop)
{
	struct flow flow, got;
	unsigned int taken = 0;

	for (uint64_t i = 0; i < 100000; i++) {
		flow = flow_of(7, 1000 + i * 3, 1);
		assert_false(flows_add(*state, &flow));
	}
	for (uint64_t i = 0; i < 1000; i++) {
		flow = flow_of(7, 1000000000 + i * 3, 2);
		assert_false(flows_add(*state, &flow));
		taken += flows_take(*state, 7, 1000000000 + i * 3, &got);
	}
	assert_int_equal(taken, 1000);
}

RUN_TESTS(NULL, NULL)
