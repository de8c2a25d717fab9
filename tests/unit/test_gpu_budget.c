/* SPDX-License-Identifier: BSD-2-Clause */
/* What a GPU's agent may take: the pauses bring the average back to that. */

/* the agent is a library of its own */
#include "gpu/agent/agent.h"
#include "unit.h"

#define MS UINT64_C(1000000)

TEST(test_average)
{
	struct budget b = { 0 };
	uint64_t now = 5000 * MS, own = 70 * MS, begun = now, own_begun = own, on = 0, ticks = 0;
	bool paused = false;

	budget_begin(&b, now, own);
	/* it takes 5 % while it is on, and may take 2 % */
	for (; now < 1000000 * MS; now += 100 * MS, ticks++) {
		on += !paused;
		own += paused ? 0 : 5 * MS;
		if (paused && budget_again(&b, 20000, now)) {
			paused = false;
			budget_begin(&b, now, own);
		} else if (!paused) {
			paused = budget_exceeded(&b, 20000, now, own);
		}
	}
	assert_in_range(own - own_begun, (now - begun) / 1000 * 17, (now - begun) / 1000 * 23);
	assert_in_range(on * 100 / ticks, 34, 46);
}

TEST(test_bounds)
{
	struct budget b = { 0 };

	budget_begin(&b, 0, 0);
	/* the beginning is no rate; what is within it goes on; without a limit anything does */
	assert_false(budget_exceeded(&b, 20000, 999 * MS, 500 * MS));
	assert_false(budget_exceeded(&b, 20000, 1000 * MS, 20 * MS));
	assert_false(budget_exceeded(&b, 0, 2000 * MS, 1000 * MS));
	/* a short pause is a second, a long one a minute */
	assert_true(budget_exceeded(&b, 20000, 3000 * MS, 1021 * MS));
	assert_false(budget_again(&b, 20000, 3999 * MS));
	assert_true(budget_again(&b, 20000, 4000 * MS));
	assert_true(budget_exceeded(&b, 1, 5000 * MS, 1900 * MS));
	assert_false(budget_again(&b, 1, 64999 * MS));
	assert_true(budget_again(&b, 1, 65000 * MS));
	assert_true(budget_again(&b, 0, 5001 * MS));
}

RUN_TESTS(NULL, NULL)
