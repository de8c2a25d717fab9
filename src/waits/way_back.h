/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who made a thread wait: the way back through wake-ups, from the instant at which it went on to the begin of the interval.
 *
 * While the thread ran, or could have, the time is its own. Where it waited, the thread that woke it had to do something
 * first: from the wake-up back, the time is that thread's, and so on through as many threads and processes as it takes. A
 * wait that an interrupt ended (a timer, a disk, the network) belongs to the thread that waited. Each nanosecond has one
 * owner: the segments touch each other and sum to the interval.
 */
#ifndef INFTRACE_WAITS_WAY_BACK_H
#define INFTRACE_WAITS_WAY_BACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wait_log.h"
#include "waits/causes.h"

/* The logs of all CPUs, where the programs write them. */
struct wait_log {
	const struct ran *ran;              /* cpus << shift entries, as in src/wait_log.h */
	const struct wake *wakes;           /* likewise */
	const struct wait_log_heads *heads; /* cpus of them */
	unsigned int cpus, shift;
	const struct collection *collections; /* COLLECTIONS_MAX; while a thread ran, this is what it did */
	const uint64_t *n_collections;        /* so far */
	const struct handed *handed;          /* HANDED_MAX, or none */
	const uint64_t *n_handed;
};

/* Walks back through logs. */
struct wait_walker;

struct wait_walker *wait_walker_new(const struct wait_log *log);
void wait_walker_free(struct wait_walker *w);

struct way {
	enum gap_end end;
	struct causes causes; /* finished, GAP_CAUSES_MAX of them */
	size_t n;
	struct gap_segment seg[GAP_SEGMENTS_MAX]; /* the latest ones, the last one first */
};

/* The way back of a thread that ran at to_ns, to from_ns; nothing was logged before since_ns. If it does not reach that far,
 * the rest is unknown. Quick if the times of successive calls are near each other. */
void way_back(struct wait_walker *w, uint32_t tid, uint64_t since_ns, uint64_t from_ns, uint64_t to_ns, struct way *ret);

/*
 * As way_back(), of a thread that deals with many things at a time: what it read last, if that was written after it woke, counts more
 * than what woke it. Not what processes have written for which is_answer() is true. It ends after GAP_SEGMENTS_MAX
 * segments, since where to end is not known; a whole wait for a CPU is one, and by_ns of it was spent behind `by`.
 */
void way_back_of_request(struct wait_walker *w, uint32_t tid, uint64_t since_ns, uint64_t from_ns, uint64_t to_ns,
	bool (*is_answer)(uint32_t tgid, void *arg), void *arg, struct way *ret);

/* A wait at a barrier for another thread, perhaps without leaving the CPU. by 0: none. */
struct held {
	uint32_t by;
	uint64_t from_ns, to_ns;
};

/* As way_back(), but only of what the thread waited within from_ns..to_ns: each wait is followed to its own begin, and the
 * segments only touch each other within one. If the way ends early, what is left of it is in no cause. */
void waits_back(struct wait_walker *w, uint32_t tid, uint64_t since_ns, uint64_t from_ns, uint64_t to_ns, const struct held *held, struct way *ret);

/* As way_back(), but only of what the thread itself waited for a CPU within from_ns..to_ns, in causes that are not finished: their
 * by_ns was spent behind `by`. */
void behind_back(struct wait_walker *w, uint32_t tid, uint64_t since_ns, uint64_t from_ns, uint64_t to_ns, struct way *ret);

/* When a thread last left the CPU; UINT64_MAX: it runs; 0: not known. With *ret_before it was before that instant, from which on
 * the logs are complete. */
uint64_t last_run_end(struct wait_walker *w, uint32_t tid, uint64_t since_ns, uint64_t now_ns, bool *ret_before);

/* Who woke a thread most often, other than an interrupt or a thread of the kernel. */
struct frequent_waker {
	uint32_t tid; /* 0: nobody */
	uint64_t wakes, of; /* by it; by all threads */
};

void frequent_waker_find(struct wait_walker *w, uint32_t tid, uint64_t since_ns, struct frequent_waker *ret);

#endif
