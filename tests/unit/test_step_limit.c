// SPDX-License-Identifier: BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "capture/step_limit.h"

static bool take(struct step_limit *l, uint32_t tgid, uint8_t kind, uint64_t start_ns, uint8_t flags)
{
	struct rec_hdr h = {
		.tgid = tgid, .tid = tgid, .kind = kind, .start_ns = start_ns, .dur_ns = 10, .flags = flags
	};

	return step_limit_take(l, &h);
}

/* Of each process two; what began before the end of the second is kept. */
static void test_each(void **state)
{
	struct step_limit *l;

	(void)state;
	assert_int_equal(step_limit_new(2, &l), 0);
	for (int window = 0; window < 2; window++) {
		assert_true(take(l, 1, REC_STEP, 50, REC_F_OPEN_START));
		assert_true(take(l, 1, REC_STEP, 100, 0));
		assert_true(take(l, 1, REC_SYSCALL, 130, 0));
		assert_true(take(l, 1, REC_STEP, 120, 0));
		assert_true(take(l, 1, REC_SYSCALL, 129, 0));
		assert_false(take(l, 1, REC_SYSCALL, 130, 0));
		assert_false(take(l, 1, REC_STEP, 140, 0));
		assert_true(take(l, 1, REC_TASK, 150, 0));
		assert_true(take(l, 2, REC_STEP, 140, 0));
		assert_true(take(l, 2, REC_STEP, 160, 0));
		assert_false(take(l, 2, REC_STEP, 180, 0));
		step_limit_reset(l);
	}
	step_limit_free(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
