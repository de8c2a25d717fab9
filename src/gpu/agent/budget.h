/* SPDX-License-Identifier: BSD-2-Clause */
/* What the agent may take of a CPU: where it takes more, it pauses for as long as brings the average back. */
#ifndef INFTRACE_GPU_AGENT_BUDGET_H
#define INFTRACE_GPU_AGENT_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#define LOOK_NS UINT64_C(1000000000) /* what enabling takes at once is no rate */
#define PAUSE_MAX_NS (60 * LOOK_NS)

struct budget {
	uint64_t since_ns, own_ns; /* when what it takes was looked at last, and how much it was by then */
	uint64_t until_ns;         /* of the pause */
};

/* Something is collected from now on. Times are CLOCK_BOOTTIME; own_ns: what the agent has taken so far. */
static inline void budget_begin(struct budget *b, uint64_t now_ns, uint64_t own_ns)
{
	b->since_ns = now_ns;
	b->own_ns = own_ns;
}

/* Whether it has taken more than ppm millionths of the last second or so, and is to pause. ppm 0: never. */
static inline bool budget_exceeded(struct budget *b, uint32_t ppm, uint64_t now_ns, uint64_t own_ns)
{
	uint64_t elapsed = now_ns - b->since_ns, own = own_ns - b->own_ns;
	double pause;

	if (elapsed < LOOK_NS)
		return false;
	budget_begin(b, now_ns, own_ns);
	if (!ppm || own <= elapsed / 1000000 * ppm)
		return false;
	/* as long as makes it the budget of both together */
	pause = (double)own * 1e6 / ppm - (double)elapsed;
	b->until_ns = now_ns + (pause > (double)PAUSE_MAX_NS ? PAUSE_MAX_NS : pause < (double)LOOK_NS ? LOOK_NS
												      : (uint64_t)pause);
	return true;
}

/* Whether the pause is over. */
static inline bool budget_again(const struct budget *b, uint32_t ppm, uint64_t now_ns)
{
	return !ppm || now_ns >= b->until_ns;
}

#endif
