/* SPDX-License-Identifier: BSD-2-Clause */
/* How much longer a step took because it was recorded. */
#ifndef INFTRACE_STEP_OVERHEAD_H
#define INFTRACE_STEP_OVERHEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "probe.h"

/* The cost of a hit of each kind for the thread that it occurs on, in nanoseconds. */
struct probe_costs {
	bool known;
	uint64_t ns[HIT_MAX];
	/* a sample takes sample_ns and is taken once in sample_period_ns of CPU time; 0: none are */
	uint64_t sample_ns, sample_period_ns;
};

/*
 * Combines the times of programs that were timed with what the kernel needs to reach one. A kind that was never timed
 * is assumed to cost as much as the others on average. Without any, nothing is known. What p says of samples stays.
 * counters: of the second program that runs at a switch, with -e +pmu; NULL: without.
 */
void probe_costs_make(struct probe_costs *p, const struct hit_time timed[HIT_MAX], const struct hit_time *counters, const uint64_t outside_ns[HIT_MAX]);

struct step_overhead {
	uint64_t ns;        /* the total */
	uint64_t waited_ns; /* of that, the time spent waiting for a CPU behind threads of the recorder */
};

/*
 * The threads of a step pass its probes side by side, so the step loses what they lose on average; a thread that waits
 * for a CPU holds up all of them. self: the recorder. Returns false while nothing is known.
 */
bool step_overhead_of(const struct rec_step *r, const struct probe_costs *p, uint32_t self, struct step_overhead *ret_weight);

#endif
