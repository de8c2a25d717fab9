/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds the call that launched each kernel and copy of a process. They share no id: probes see calls, with the stream's
 * handle and the shape; CUPTI sees activity, with the stream's number. All activity of one call has one correlation
 * number, and these increase with the calls; so calls and activity are taken in order, and fit only if their shapes are
 * equal, and if the stream has been seen with the handle, or neither with another one.
 *
 * AMD's records have the thread and a time within its call: the call is the one of that thread around that time, or none.
 */
#ifndef INFTRACE_GPU_JOIN_H
#define INFTRACE_GPU_JOIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "record.h"

enum launch_kind {
	LAUNCH_KERNEL,
	LAUNCH_GRAPH,
	LAUNCH_COPY,    /* or a set */
	LAUNCH_CAPTURE, /* launches nothing: until LAUNCH_CAPTURE_END, calls to this stream or of this thread become a graph instead */
	LAUNCH_CAPTURE_END,
};

/* A call that launches something. */
struct launch {
	uint64_t start_ns, end_ns;
	uint64_t stream; /* handle */
	uint64_t bytes;
	uint32_t tid;
	uint32_t grid[3], block[3];
	enum launch_kind kind;
	bool has_stream, has_shape, has_bytes;
};

static inline bool launch_is_within(const struct launch *in, const struct launch *out)
{
	return in->tid == out->tid && in->start_ns >= out->start_ns && in->end_ns <= out->end_ns;
}

/* Whether the call can have launched a kernel of this shape, or a copy of so many bytes. */
static inline bool launch_fits(const struct launch *l, bool is_kernel, const uint32_t grid[3], const uint32_t block[3], uint64_t bytes)
{
	if (!is_kernel)
		return l->kind == LAUNCH_COPY && (!l->has_bytes || l->bytes == bytes);
	return l->kind == LAUNCH_KERNEL && (!l->has_shape || (!memcmp(l->grid, grid, sizeof(l->grid)) && !memcmp(l->block, block, sizeof(l->block))));
}

/*
 * ---- graphs.c ----
 *
 * CUDA graphs of a process: the position of each kernel and copy in its graph, and the operator in which it was captured.
 *
 * CUPTI gives each node of a graph a number that stays the same over launches. The first launch seen as a whole gives the order of
 * the nodes, and so the position of each in later launches. A capture is the calls that became nodes instead of being carried out.
 * No number links a graph to its capture, since further calls make one from the other: a graph is matched with a capture of as many
 * calls, of the same kinds, shapes and bytes, in the same order. Where several match, only what they agree on is told.
 */

/* Beyond these, the oldest captures and the least recently launched graphs are forgotten. */
#define GRAPHS_MAX 512
#define GRAPHS_CAPTURES_MAX 256
#define GRAPHS_NODES_MAX (1u << 17)    /* of all graphs; a graph with more than half of them is not learnt */
#define GRAPHS_CAPTURED_MAX (1u << 17) /* calls of all captures */

struct gpu_graphs;

struct gpu_graphs *gpu_graphs_new(void);
void gpu_graphs_free(struct gpu_graphs *g);

/*
 * gpu_join reports captures by number. A call is passed once it is known to be captured, perhaps after the end was reported. ns: the
 * end of the capture; calls that began then or later are not part of it.
 */
void gpu_graphs_captured(struct gpu_graphs *g, uint32_t capture, const struct launch *l);
void gpu_graphs_capture_ended(struct gpu_graphs *g, uint32_t capture, uint64_t ns);

/* Whether something without an operator was captured in this call of a thread; and sets op for that. Inner operators come first. */
bool gpu_graphs_has_captured(const struct gpu_graphs *g, uint32_t tid, uint64_t start_ns, uint64_t end_ns);
void gpu_graphs_operator(struct gpu_graphs *g, uint32_t tid, uint64_t start_ns, uint64_t end_ns, uint32_t op);

/* Sets graph_position and captured_in of the activity of one graph launch, or of a part of it, in the order of start. */
void gpu_graphs_launched(struct gpu_graphs *g, struct rec_gpu *list, size_t n);

/* Records are missing: forgets the graphs that are being learnt, since they are not whole. */
void gpu_graphs_lost(struct gpu_graphs *g);

/* ---- join.c ---- */

#define JOIN_CALLS_MAX (1 << 18) /* calls that wait for their activity; beyond this the oldest are forgotten */

struct gpu_join;

/* Reports captures to `graphs`. */
struct gpu_join *gpu_join_new(struct gpu_graphs *graphs);
void gpu_join_free(struct gpu_join *j);

/* Adds a call, in any order. Captured calls are left out. A call replaces an outer call of the same thread, as a driver function
 * is called within a runtime function. */
void gpu_join_call(struct gpu_join *j, const struct launch *l);

/* Sets launch_tid, launch_ns and launched_ns if the call was seen. Records come in increasing order of correlation numbers.
 * residual_ns: clock uncertainty of the GPU's times. If launch_tid and launch_ns are set already, they are from the record: the
 * thread, and a time within its call; if that call was not seen, the time is kept as launched_ns alone.
 * wait: a call that was not seen may still come, since probes see calls return, perhaps after their activity has ended. Then this
 * returns false and changes nothing; ask again with the same record. */
bool gpu_join_activity(struct gpu_join *j, struct rec_gpu *r, uint64_t residual_ns, bool wait);

/* A thread waited for all activity of earlier calls, on the stream with this handle; NULL: on all. Activity that starts later was
 * launched later, so a call whose kernel is missing does not shift the pairing past the next wait. Waits come in any order. */
void gpu_join_wait(struct gpu_join *j, const uint64_t *stream, uint64_t start_ns, uint64_t end_ns);

/* All activity up to then has been joined: drops the calls left that a wait was over for by then, since they launched nothing. */
void gpu_join_settle(struct gpu_join *j, uint64_t until_ns);

/* Drops the calls that ended before, since their activity will not come. */
void gpu_join_forget(struct gpu_join *j, uint64_t before_ns);

/* Lists at most `max` calls begun before until_ns whose activity has not come. Returns how many there are. */
size_t gpu_join_pending(const struct gpu_join *j, uint64_t until_ns, struct launch *ret_list, size_t max);

/* Calls are seen only up to end_ns: activity that starts later is not counted as missed. */
void gpu_join_end(struct gpu_join *j, uint64_t end_ns);

/* How early or late a device's clock was seen to be since the last call of gpu_join_skew(); 0: it was not. Early: activity began
 * before its call; late: it ended after a wait for it. */
struct join_skew {
	uint64_t early_ns, late_ns;
};
struct join_skew gpu_join_skew(struct gpu_join *j, uint32_t device);

/* Gives how many records were joined so far, and for how many no call was found. */
void gpu_join_counts(const struct gpu_join *j, uint64_t *ret_joined, uint64_t *ret_missed);

#endif
