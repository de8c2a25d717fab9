/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads clocks, in nanoseconds. Records and steps carry CLOCK_BOOTTIME. */
#ifndef INFTRACE_UTIL_CLOCK_H
#define INFTRACE_UTIL_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NSEC_PER_MSEC UINT64_C(1000000)
#define NSEC_PER_SEC UINT64_C(1000000000)

static inline uint64_t clock_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

static inline uint64_t clock_mono_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

static inline uint64_t clock_boot_ns(void)
{
	return clock_ns(CLOCK_BOOTTIME);
}

/* How long the machine has been suspended since it booted, which is how far CLOCK_BOOTTIME is ahead of
 * CLOCK_MONOTONIC. */
static inline uint64_t clock_boot_offset_ns(void)
{
	uint64_t before, boot, after, best = UINT64_MAX, offset = 0;

	/* the time between the readings is not known exactly; an offset of 0 is by far the most frequent */
	for (int try = 0; try < 8 && best > 1000; try++) {
		before = clock_mono_ns();
		boot = clock_boot_ns();
		after = clock_mono_ns();
		if (after - before >= best)
			continue;
		best = after - before;
		offset = boot <= after ? 0 : boot - before - best / 2;
	}
	return offset;
}

#endif
