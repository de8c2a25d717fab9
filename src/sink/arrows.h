/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Wake-up arrows and the slices that they begin in.
 *
 * A viewer refuses an arrow that begins outside of every slice. The slice of a waker is written
 * when it ends, and that may be long after the thread that it woke has run: an arrow waits for its
 * slice, so that a file that is cut in between holds neither, and one whose slice was lost is never
 * written. A slice is known by its thread and its begin.
 */
#ifndef INFTRACE_ARROWS_H
#define INFTRACE_ARROWS_H

#include <stdbool.h>
#include <stdint.h>

struct arrow {
	uint32_t waker_tgid, waker_tid;
	uint32_t tgid, tid; /* of the woken */
	uint32_t waker_track, track; /* that their slices are on, in place of their tids */
	uint64_t slice_ns;  /* begin of the waker's slice */
	uint64_t wake_ns;   /* the arrow's begin, within it; not 0 */
	uint64_t end_ns;
};

struct arrows;

/* -ENOMEM */
int arrows_new(struct arrows **ret_arrows);
void arrows_free(struct arrows *a);

/* Another file begins, in which no slice was written: what waits for one will not be. */
void arrows_reset(struct arrows *a);

/* A slice in which its thread woke another was written: then its arrows are to be taken. */
void arrows_add_slice(struct arrows *a, uint32_t tid, uint64_t slice_ns, uint32_t track);

/* One of the arrows that waited for the slice, each once, without the waker's track; false when there is
 * none left. */
bool arrows_take(struct arrows *a, uint32_t tid, uint64_t slice_ns, struct arrow *ret_arrow);

/* Returns true when the arrow's slice was written, so that it can be too, and sets the waker's track;
 * else it waits. Room is limited: what waits, or was written, longest is forgotten. */
bool arrows_add(struct arrows *a, struct arrow *arrow);

#endif
