// SPDX-License-Identifier: BSD-2-Clause
/* The kernel programs read CLOCK_MONOTONIC and add what user space tells them. */
#include "unit.h"
#include "util/clock.h"

TEST(offset_makes_boot_time_of_monotonic_time)
{
	struct clock_shift shift = clock_shift_read();
	uint64_t before, boot, after, offset;

	for (int i = 0; i < 100; i++) {
		offset = (uint64_t)clock_boot_offset_ns(&shift);
		before = clock_mono_ns() - (uint64_t)shift.mono_ns;
		boot = clock_boot_ns();
		after = clock_mono_ns() - (uint64_t)shift.mono_ns;
		assert_true(boot + NSEC_PER_MSEC >= before + offset);
		assert_true(boot <= after + offset + NSEC_PER_MSEC);
	}
}

/* session_drain() changes what the programs add only when the machine was suspended. */
TEST(offset_is_the_same_each_time)
{
	struct clock_shift shift = clock_shift_read();
	int64_t first = clock_boot_offset_ns(&shift);

	for (int i = 0; i < 100; i++) {
		assert_true(llabs(clock_boot_offset_ns(&shift) - first) <= (int64_t)NSEC_PER_MSEC);
	}
}

TEST(readings_are_of_one_time)
{
	for (int i = 0; i < 100; i++) {
		uint64_t boot = clock_boot_ns(), mono = clock_mono_ns(), real = clock_ns(CLOCK_REALTIME);
		struct clock_reading r = clock_read();

		assert_in_range(r.boot_ns, boot, clock_boot_ns());
		assert_in_range(r.mono_ns, mono, clock_mono_ns());
		assert_in_range(r.real_ns, real, clock_ns(CLOCK_REALTIME));
	}
}

RUN_TESTS(NULL, NULL)
