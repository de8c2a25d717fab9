/* SPDX-License-Identifier: BSD-2-Clause */
/* Converts the times of CUPTI's clock to CLOCK_BOOTTIME, by comparing both again and again. */
#ifndef INFTRACE_GPU_AGENT_CLOCKS_H
#define INFTRACE_GPU_AGENT_CLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/hand_over.h"

#define CLOCKS_KEPT 64

struct comparison {
	uint64_t gpu, boot;
	double slope; /* how much faster CLOCK_BOOTTIME has run since the comparison before, less 1 */
	bool step;    /* the clocks moved against each other since the comparison before */
};

struct clocks {
	struct comparison kept[CLOCKS_KEPT]; /* a ring: the newest is at (count - 1) % CLOCKS_KEPT */
	uint32_t count;
	uint32_t stepped_at; /* count at the last step, if there was one */
	uint64_t best_ns;    /* the shortest time between the two readings around one of CUPTI's clock */
	struct gpu_ring_clock said;
};

/* A clock that is compared: 0 and its time, or its error. */
typedef int clock_read_fn(uint64_t *ns);

uint64_t clocks_boot_ns(void);

/* Compares the clocks: the best of up to 100 readings. Returns what read() said. */
int clocks_compare(struct clocks *c, clock_read_fn *read);

/* Adds a comparison that was made; uncertain_ns: half of the time between the two readings around it. */
void clocks_add(struct clocks *c, uint64_t gpu, uint64_t boot, uint64_t uncertain_ns);

/* Whether CUPTI's clock, read between two readings of the other one, is where the last comparison points. */
bool clocks_fit(const struct clocks *c, uint64_t before, uint64_t gpu, uint64_t after);

/* Converts. ret_sure: false where the clocks were stepped around it. There must be a comparison. */
uint64_t clocks_convert(const struct clocks *c, uint64_t gpu, bool *ret_sure);

/* Shows the last comparison to the reader. */
void clocks_say(const struct clocks *c, struct gpu_ring_clock *shared);

#endif
