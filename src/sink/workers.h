/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tracks that short-lived threads share.
 *
 * An engine without a pool starts a thread for each piece of work, and a track for each of them
 * would be hundreds in a minute. So once a process has shown that its threads do not last, each of
 * its new threads begins on a lane, which it takes over from one that has ended.
 *
 * Slices of one lane must nest, though spans of the one before still come when the next has begun,
 * and a span may end after its thread's exit was told. So each owner of a lane has an interval of
 * time there, and these do not overlap: a span that is not within its thread's is on the thread's
 * own track.
 */
#ifndef INFTRACE_WORKERS_H
#define INFTRACE_WORKERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record.h"

/* Of a process; beyond them threads have tracks of their own. */
#define WORKERS_LANES 64
/* Threads of a process that did not last, before others share lanes; and how short their lives are.
 */
#define WORKERS_SHORT_LIVED 8
#define WORKERS_SHORT_NS UINT64_C(1000000000)
/* A thread is on a lane so long; one that lasts longer is on its own track from then on. */
#define WORKERS_STAY_NS UINT64_C(10000000000)

struct worker;

/* All zero is one without threads. */
struct workers {
	struct worker *slots; /* open addressing by tid: every record looks here (see util/map.h) */
	size_t cap, used;
	uint64_t now_ns; /* of the newest thread's birth or death */
	uint32_t crews;  /* processes that have had a short-lived thread */
	bool share;      /* there is a process whose threads do */
};

void workers_free(struct workers *ws);

/* Follows births and deaths. They are to come in their order, spans may come in any behind their
 * thread's birth. */
void workers_task(struct workers *ws, const struct rec_task *r);

/* The lane of a span, from 1; 0: it is on its thread's own track. `ret_new`: in this file nothing
 * was on it. */
unsigned int workers_lane(struct workers *ws, const struct rec_hdr *h, bool *ret_new);

/* Another file begins: all lanes are new in it. */
void workers_forget_names(struct workers *ws);

#endif
