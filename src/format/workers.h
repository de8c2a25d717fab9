/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tracks that short-lived threads share.
 *
 * An engine without a pool starts a thread for each piece of work, and a track for each would make
 * hundreds in a minute. So once a process has shown that its threads do not last, each of its new
 * threads begins on a lane, which it takes over from one that has ended.
 *
 * Slices of one lane must nest, though spans of the previous owner still arrive when the next has
 * begun, and a span may end after its thread's exit was reported. So each owner of a lane has an
 * interval of time there, and these do not overlap: a span that is not within the interval of its
 * thread is on the thread's own track.
 */
#ifndef INFTRACE_WORKERS_H
#define INFTRACE_WORKERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record.h"

/* Per process; beyond that threads have tracks of their own. */
#define WORKERS_LANES 64
/* How many threads of a process must have been short-lived before others share lanes; and how short
 * their lives are. */
#define WORKERS_SHORT_LIVED 8
#define WORKERS_SHORT_NS UINT64_C(1000000000)
/* A thread is on a lane for this long; if it lasts longer, it is on its own track from then on. */
#define WORKERS_STAY_NS UINT64_C(10000000000)

struct worker;

/* All zero: no threads. */
struct workers {
	struct worker *slots; /* open addressing by tid, since every record is looked up here (see util/map.h) */
	size_t cap, used;
	uint64_t now_ns; /* the time of the newest birth or death */
	uint32_t crews;  /* processes that have had a short-lived thread */
	bool share;      /* the threads of some process share lanes */
};

void workers_free(struct workers *ws);

/* Takes births and deaths, which must come in their order; spans may come in any order after the
 * birth of their thread. */
void workers_task(struct workers *ws, const struct rec_task *r);

/* The lane of a span, from 1; 0: it is on its thread's own track. `ret_new`: nothing has been on
 * the lane in this file. */
unsigned int workers_lane(struct workers *ws, const struct rec_hdr *h, bool *ret_new);

/* A new file begins: all lanes are new in it. */
void workers_forget_names(struct workers *ws);

#endif
