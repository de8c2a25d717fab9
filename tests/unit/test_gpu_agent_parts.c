// SPDX-License-Identifier: BSD-2-Clause
/*
 * Parts of a GPU's agent. Its clocks on a busy machine: an interrupted comparison is no step of a clock. Its budget: pauses
 * bring the average back to the limit.
 */

/* the agent is a library of its own */
#include "gpu/agent/clocks.c"
#include "unit.h"

#define MS UINT64_C(1000000)
#define BOOT (1000000 * MS)

TEST(test_uncertain)
{
	struct clocks c = { 0 };
	bool sure;

	clocks_add(&c, 10 * MS, BOOT, 100);
	clocks_add(&c, 11 * MS, BOOT + MS + 50000, 50000); /* as if it drifted by 5 % */
	clocks_add(&c, 611 * MS, BOOT + 601 * MS, 100);
	assert_int_equal(c.said.steps, 0);
	for (uint64_t at = 10 * MS; at < 700 * MS; at += MS) {
		uint64_t boot = clocks_convert(&c, at, &sure), truth = BOOT + at - 10 * MS;

		assert_true(sure);
		/* during the next comparison, and after it */
		assert_true(time_distance(boot, truth) <= 2 * c.said.residual_ns + c.said.bend_ns);
	}
}

TEST(test_step)
{
	struct clocks c = { 0 };
	bool sure;

	clocks_add(&c, 10 * MS, BOOT, 100);
	clocks_add(&c, 110 * MS, BOOT + 100 * MS, 100);
	clocks_add(&c, 211 * MS, BOOT + 200 * MS, 100);
	assert_int_equal(c.said.steps, 1);
	clocks_convert(&c, 150 * MS, &sure);
	assert_false(sure);
	clocks_convert(&c, 50 * MS, &sure);
	assert_true(sure);
}

/* Back: the times in between occur twice, and which is meant is unknown. */
TEST(test_back)
{
	struct clocks c = { 0 };
	bool sure;

	clocks_add(&c, 1010 * MS, BOOT, 100);
	clocks_add(&c, 1110 * MS, BOOT + 100 * MS, 100);
	clocks_add(&c, 910 * MS, BOOT + 200 * MS, 100); /* back by 300 ms */
	clocks_add(&c, 1310 * MS, BOOT + 600 * MS, 100);
	assert_int_equal(c.said.steps, 1);
	assert_int_equal(clocks_convert(&c, 950 * MS, &sure), BOOT + 240 * MS);
	assert_true(sure);
	clocks_convert(&c, 1150 * MS, &sure);
	assert_false(sure);
	clocks_convert(&c, 1209 * MS, &sure);
	assert_false(sure);
	assert_int_equal(clocks_convert(&c, 1250 * MS, &sure), BOOT + 540 * MS);
	assert_true(sure);
}

/* ---- budget ---- */

TEST(test_average)
{
	struct budget b = { 0 };
	uint64_t now = 5000 * MS, own = 70 * MS, begun = now, own_begun = own, on = 0, ticks = 0;
	bool paused = false;

	budget_begin(&b, now, own);
	/* it takes 5 % while on, and may take 2 % */
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
	/* the beginning gives no rate yet; what is within the limit goes on; without a limit anything does */
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
