/* SPDX-License-Identifier: BSD-2-Clause */
/* The families of the profile that are written once per process, at the end of the window. */
#ifndef INFTRACE_PROFILE_SUMS_H
#define INFTRACE_PROFILE_SUMS_H

#include "process_sums.h"

struct profile_family {
	const char *event;
	/* Writes the rest of shape, and stage_us, and returns the end; NULL if there is nothing to
	 * say about this process. At most PROFILE_SUMS_MAX bytes. */
	char *(*format)(char *p, const struct process_totals *t, const char *comm);
	bool needs_faults; /* nothing is to be said where page faults are not recorded */
};

#define PROFILE_SUMS_FAMILIES 4
extern const struct profile_family profile_sums[PROFILE_SUMS_FAMILIES];

/* syscall_prof is the longest: each name twice, with a number and a time. */
#define PROFILE_SUMS_MAX (128 * 1024)

#endif
