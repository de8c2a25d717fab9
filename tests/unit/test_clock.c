// SPDX-License-Identifier: BSD-2-Clause
/* The programs in the kernel read CLOCK_MONOTONIC and add what user space says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "util/clock.h"

static void offset_makes_boot_time_of_monotonic_time(void **state)
{
	uint64_t before, boot, after, offset;

	(void)state;
	for (int i = 0; i < 100; i++) {
		offset = clock_boot_offset_ns();
		before = clock_mono_ns();
		boot = clock_boot_ns();
		after = clock_mono_ns();
		assert_true(boot + NSEC_PER_MSEC >= before + offset);
		assert_true(boot <= after + offset + NSEC_PER_MSEC);
	}
}

/* session_drain() changes what the programs add only when the machine was suspended. */
static void offset_is_the_same_each_time(void **state)
{
	uint64_t first = clock_boot_offset_ns();

	(void)state;
	for (int i = 0; i < 100; i++) {
		uint64_t again = clock_boot_offset_ns();

		assert_true(again + NSEC_PER_MSEC >= first && again <= first + NSEC_PER_MSEC);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(offset_makes_boot_time_of_monotonic_time),
		cmocka_unit_test(offset_is_the_same_each_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
