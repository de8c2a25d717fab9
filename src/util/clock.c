// SPDX-License-Identifier: BSD-2-Clause
#include "util/clock.h"

#include <stdio.h>
#include <string.h>

struct clock_shift clock_shift_read_file(const char *path)
{
	struct clock_shift shift = { 0 };
	FILE *f = fopen(path, "re");
	long long s, ns;
	char clock[16];

	/* "boottime -50 500000000": seconds and nanoseconds to be added; the latter are never negative */
	while (f && fscanf(f, "%15s %lld %lld", clock, &s, &ns) == 3) {
		int64_t *which = !strcmp(clock, "monotonic") ? &shift.mono_ns : !strcmp(clock, "boottime") ? &shift.boot_ns
													    : NULL;

		if (which)
			*which = s * (int64_t)NSEC_PER_SEC + ns;
	}
	if (f)
		fclose(f);
	return shift;
}

struct clock_shift clock_shift_read(void)
{
	return clock_shift_read_file("/proc/self/timens_offsets");
}
