/* SPDX-License-Identifier: BSD-2-Clause */
/* Reading a clock, in nanoseconds. Records and steps carry CLOCK_BOOTTIME. */
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

#endif
