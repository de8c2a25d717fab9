/* SPDX-License-Identifier: BSD-2-Clause */
/* How much longer a step took because it was recorded. */
#ifndef INFTRACE_SINK_WEIGHT_H
#define INFTRACE_SINK_WEIGHT_H

#include <stdbool.h>
#include <stdint.h>

#include "probe.h"

/* What a hit of each kind costs the thread that it is on, in nanoseconds. */
struct prices {
	bool known;
	uint64_t ns[HIT_MAX];
};

/*
 * Of programs that were timed, and of what the kernel needs to get to one. A kind of which none was timed yet is taken
 * to need what the others do on average. Without any, nothing is known.
 */
void prices_make(struct prices *p, const struct hit_time timed[HIT_MAX], const uint64_t outside_ns[HIT_MAX]);

struct weight {
	uint64_t ns;        /* in all */
	uint64_t waited_ns; /* of it: for a CPU, behind threads of the recorder */
};

/*
 * The threads of a step pass its probes side by side, so the step pays what they pay on average; a thread that waits for
 * a CPU holds up all. self: the recorder. Returns false while nothing is known.
 */
bool weight_of(const struct rec_step *r, const struct prices *p, uint32_t self, struct weight *ret_weight);

#endif
