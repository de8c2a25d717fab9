/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Wake-up arrows and the slices that they begin in.
 *
 * A viewer refuses an arrow that begins outside of every slice. The slice of a waker is written
 * when it ends, possibly long after the thread that it woke has run. So an arrow waits for its
 * slice: a file that is cut in between contains neither, and an arrow whose slice was lost is never
 * written. A slice is identified by its thread and its beginning.
 */
#ifndef INFTRACE_ARROWS_H
#define INFTRACE_ARROWS_H

#include <stdbool.h>
#include <stdint.h>

struct arrow {
	uint32_t waker_tgid, waker_tid;
	uint32_t tgid, tid;          /* of the woken thread */
	uint32_t waker_track, track; /* the tracks that their slices are on, instead of their tids */
	uint64_t slice_ns;           /* beginning of the waker's slice */
	uint64_t wake_ns;            /* beginning of the arrow, within that slice; not 0 */
	uint64_t end_ns;
	bool is_launch; /* leads to work on a GPU instead of a woken thread */
};

struct arrows;

/* The caller frees it with free(). */
struct arrows *arrows_new(void);

/* A new file begins, without any slices: arrows that wait for one will not be written. */
void arrows_reset(struct arrows *a);

/* A slice in which its thread woke another was written: arrows_take() returns its arrows. */
void arrows_add_slice(struct arrows *a, uint32_t tid, uint64_t slice_ns, uint32_t track);

/* Takes one arrow that waited for the slice, without the waker's track; false if none is left. */
bool arrows_take(struct arrows *a, uint32_t tid, uint64_t slice_ns, struct arrow *ret_arrow);

/* Returns true if the arrow's slice was written, so that the arrow can be, too, and sets the waker's
 * track; otherwise the arrow waits. Room is limited: arrows that have waited longest, and slices that
 * were written first, are forgotten. */
bool arrows_add(struct arrows *a, struct arrow *arrow);

#endif
