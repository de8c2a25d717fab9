/* SPDX-License-Identifier: BSD-2-Clause */
/* What the agent may take of a CPU: where it takes more, it pauses for as long as brings the average back. */
#ifndef INFTRACE_GPU_AGENT_BUDGET_H
#define INFTRACE_GPU_AGENT_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

struct budget {
	uint64_t since_ns, own_ns; /* when what it takes was looked at last, and how much it was by then */
	uint64_t until_ns;         /* of the pause */
};

/* Something is collected from now on. Times are CLOCK_BOOTTIME; own_ns: what the agent has taken so far. */
void budget_begin(struct budget *b, uint64_t now_ns, uint64_t own_ns);

/* Whether it has taken more than ppm millionths of the last second or so, and is to pause. ppm 0: never. */
bool budget_exceeded(struct budget *b, uint32_t ppm, uint64_t now_ns, uint64_t own_ns);

/* Whether the pause is over. */
bool budget_again(const struct budget *b, uint32_t ppm, uint64_t now_ns);

#endif
