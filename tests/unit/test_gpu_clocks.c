/* SPDX-License-Identifier: BSD-2-Clause */
/* The clocks of a GPU's agent on a busy machine: a comparison that was interrupted is no step of a clock. */

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
		/* while it is compared again, and after that */
		assert_true(apart(boot, truth) <= 2 * c.said.residual_ns + c.said.bend_ns);
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

/* Back: the times between come twice, and it is not known which one is meant. */
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

RUN_TESTS(NULL, NULL)
