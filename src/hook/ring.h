/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls that hooks see, one by one, for a timeline. Each slot of hook_slot.h has a ring in memory that the agent shares with inftrace. Its
 * thread writes it, and inftrace reads it; what inftrace is too slow for is overwritten, and counted as lost.
 */
#ifndef INFTRACE_HOOK_RING_H
#define INFTRACE_HOOK_RING_H

#include <stdint.h>

#define HOOK_RING 32768 /* entries: a megabyte, of which the machine has what is in use */

struct hook_entry {
	uint64_t start, dur; /* CLOCK_BOOTTIME ns; start 0: none. dur 0: it is not over */
	uint32_t function;   /* its index in struct hook_order */
	uint32_t value;      /* of its argument */
	uint32_t step;       /* number + 1 of the step on which the thread worked; 0: none */
	uint32_t tid;
};

struct hook_ring {
	uint64_t n; /* entries so far */
	uint32_t barrier; /* the function of the last wait, which is an entry once it is over */
	uint32_t line[5];
	struct hook_entry op; /* the last one that began here. It ends when the thread comes to a barrier; if it goes on from there, at the next
			       * one. It becomes an entry when another one begins */
	struct hook_entry entries[HOOK_RING];
};

#endif
