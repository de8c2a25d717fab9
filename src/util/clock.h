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

static inline int64_t clock_mono_ms(void)
{
	return (int64_t)(clock_mono_ns() / NSEC_PER_MSEC);
}

static inline uint64_t clock_boot_ns(void)
{
	return clock_ns(CLOCK_BOOTTIME);
}

struct clock_reading {
	uint64_t boot_ns, mono_ns, real_ns;
};

/* Reads all clocks at one instant, to relate files to each other. The reader can be interrupted between two clocks, so the
 * shortest of several tries counts. */
static inline struct clock_reading clock_read(void)
{
	struct clock_reading r = { 0 }, best = { 0 };
	uint64_t took, least = UINT64_MAX;

	for (int try = 0; try < 8 && least > 1000; try++) {
		r.boot_ns = clock_boot_ns();
		r.mono_ns = clock_mono_ns();
		r.real_ns = clock_ns(CLOCK_REALTIME);
		took = clock_boot_ns() - r.boot_ns;
		if (took >= least)
			continue;
		least = took;
		best = r;
		best.boot_ns += took / 2;
	}
	return best;
}

/* What a time namespace adds to this process's clocks (time_namespaces(7)). Programs in the kernel read them without it. */
struct clock_shift {
	int64_t mono_ns, boot_ns;
};

/* Zero without such a namespace, and where it cannot be known: before Linux 5.6, or without /proc. */
struct clock_shift clock_shift_read(void);
/* Reads a /proc/PID/timens_offsets. */
struct clock_shift clock_shift_read_file(const char *path);

/* Returns how far this process's CLOCK_BOOTTIME is ahead of the kernel programs' CLOCK_MONOTONIC: the time that the machine
 * was suspended since boot, plus what the time namespace adds. */
static inline int64_t clock_boot_offset_ns(const struct clock_shift *shift)
{
	uint64_t before, boot, after, best = UINT64_MAX, offset = 0;

	/* the time between the readings is not known exactly; an offset of 0 is by far the most frequent */
	for (int try = 0; try < 8 && best > 1000; try++) {
		before = clock_mono_ns() - (uint64_t)shift->mono_ns;
		boot = clock_boot_ns() - (uint64_t)shift->boot_ns;
		after = clock_mono_ns() - (uint64_t)shift->mono_ns;
		if (after - before >= best)
			continue;
		best = after - before;
		offset = boot <= after ? 0 : boot - before - best / 2;
	}
	return (int64_t)offset + shift->boot_ns;
}

#endif
