/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Wake-up flows and the slices that they begin in.
 *
 * A viewer refuses a flow that begins outside of every slice. The slice of a waker is written
 * when it ends, possibly long after the thread that it woke has run. So a flow waits for its
 * slice: a file that is cut in between contains neither, and a flow whose slice was lost is never
 * written. A slice is identified by its thread and its beginning.
 */
#ifndef INFTRACE_FLOWS_H
#define INFTRACE_FLOWS_H

#include <stdbool.h>
#include <stdint.h>

struct flow {
	uint32_t waker_tgid, waker_tid;
	uint32_t tgid, tid;          /* of the woken thread */
	uint32_t waker_track, track; /* the tracks that their slices are on, instead of their tids */
	uint64_t slice_ns;           /* beginning of the waker's slice */
	uint64_t wake_ns;            /* beginning of the flow, within that slice; not 0 */
	uint64_t end_ns;
	bool is_launch; /* leads to work on a GPU instead of a woken thread */
};

struct flows;

/* The caller frees it with free(). */
struct flows *flows_new(void);

/* A new file begins, without any slices: flows that wait for one will not be written. */
void flows_reset(struct flows *f);

/* A slice in which its thread woke another was written: flows_take() returns its flows. */
void flows_add_slice(struct flows *f, uint32_t tid, uint64_t slice_ns, uint32_t track);

/* Takes one flow that waited for the slice, without the waker's track; false if none is left. */
bool flows_take(struct flows *f, uint32_t tid, uint64_t slice_ns, struct flow *ret_flow);

/* Returns true if the flow's slice was written, so that the flow can be, too, and sets the waker's
 * track; otherwise the flow waits. Room is limited: flows that have waited longest, and slices that
 * were written first, are forgotten. */
bool flows_add(struct flows *f, struct flow *flow);

#endif
