/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds the call that launched each kernel and copy of a process. No number is in both: calls are seen by probes, with
 * the stream's handle and the shape, and what ran by CUPTI, with the stream's number. What CUPTI saw of one call has one
 * correlation number, and these increase with the calls; so calls and what ran are taken in order, and fit only if
 * their shapes are equal, and if the stream has been seen with the handle, or neither with another one.
 *
 * Of AMD's the thread and a time within its call are known: the call is the one of that thread around that time, or none.
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
	LAUNCH_CAPTURE, /* nothing: until the end of it, calls to this stream or of this thread launch nothing, but become a graph */
	LAUNCH_CAPTURE_END,
};

/* A call that launches something. */
struct launch {
	uint64_t start_ns, end_ns;
	uint64_t stream; /* its handle */
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

/* Whether a call can have launched a kernel of this shape, or a copy of so many bytes. */
static inline bool launch_fits(const struct launch *l, bool is_kernel, const uint32_t grid[3], const uint32_t block[3], uint64_t bytes)
{
	if (!is_kernel)
		return l->kind == LAUNCH_COPY && (!l->has_bytes || l->bytes == bytes);
	return l->kind == LAUNCH_KERNEL && (!l->has_shape || (!memcmp(l->grid, grid, sizeof(l->grid)) && !memcmp(l->block, block, sizeof(l->block))));
}

/*
 * ---- graphs.c ----
 *
 * CUDA graphs of a process: which part of its graph each kernel and copy is, and where it was captured.
 *
 * CUPTI gives each node of a graph a number that stays the same with each launch. The first launch that was seen as a whole tells
 * their order, and of a node that is launched again its place in it. A capture is the calls that became nodes instead of being carried
 * out. No number says which capture a graph is of, since what is launched was made of it by further calls: a graph is of a
 * capture with as many calls, of the same kinds, shapes and bytes, in the same order. Where several are alike, what they differ in is not told.
 */

/* Of more, the oldest captures are forgotten, and the graphs that have not been launched for longest. */
#define GRAPHS_MAX 512
#define GRAPHS_CAPTURES_MAX 256
#define GRAPHS_NODES_MAX (1u << 17)    /* of all graphs; one with more of them is not known */
#define GRAPHS_CAPTURED_MAX (1u << 17) /* calls of all captures */

struct gpu_graphs;

struct gpu_graphs *gpu_graphs_new(void);
void gpu_graphs_free(struct gpu_graphs *g);

/*
 * What gpu_join learns of captures, which have numbers. A call is passed once it is known that it was captured, though perhaps not
 * before the end, which comes as a time: what began then or later is not a part of it.
 */
void gpu_graphs_captured(struct gpu_graphs *g, uint32_t capture, const struct launch *l);
void gpu_graphs_capture_ended(struct gpu_graphs *g, uint32_t capture, uint64_t ns);

/* Whether something was captured in this call of a thread, and if so, that this operator is what it was captured in. Calls
 * within this one come first. */
bool gpu_graphs_has_captured(const struct gpu_graphs *g, uint32_t tid, uint64_t start_ns, uint64_t end_ns);
void gpu_graphs_operator(struct gpu_graphs *g, uint32_t tid, uint64_t start_ns, uint64_t end_ns, uint32_t op);

/* What one launch of a graph ran, or a part of it, in the order of the begin: sets graph_position and captured_in. */
void gpu_graphs_launched(struct gpu_graphs *g, struct rec_gpu *list, size_t n);

/* Records are missing: what was being learnt is not the whole. */
void gpu_graphs_lost(struct gpu_graphs *g);

/* ---- join.c ---- */

#define JOIN_CALLS_MAX (1 << 18) /* that wait for what they have launched; of more, the oldest are forgotten */

struct gpu_join;

/* What is learnt of captures goes to `graphs`. */
struct gpu_join *gpu_join_new(struct gpu_graphs *graphs);
void gpu_join_free(struct gpu_join *j);

/* In any order. Captured calls are left out. A call replaces the call of the same thread that it lies within, as a function of the
 * driver lies within one of the runtime. */
void gpu_join_call(struct gpu_join *j, const struct launch *l);

/* Of each correlation number, in increasing order: sets launch_tid, launch_ns and launched_ns if the call was seen. Times
 * of the GPU are known to residual_ns. Where launch_tid and launch_ns are set already, they are what the record says: any
 * thread, and any time within its call; if that call was not seen, that time stays as launched_ns alone.
 * wait: a call that was not seen may still come, since calls are seen when they return, which may be after what they
 * launched has ended. Then false is returned, nothing has changed, and it is to be asked again with this record. */
bool gpu_join_activity(struct gpu_join *j, struct rec_gpu *r, uint64_t residual_ns, bool wait);

/* A thread waited for all that calls before had launched, on the stream of this handle; NULL: on all. What starts later was launched
 * later, so that a call whose kernel is missing does not shift the calls behind the next wait. In any order. */
void gpu_join_wait(struct gpu_join *j, const uint64_t *stream, uint64_t start_ns, uint64_t end_ns);

/* All that ran up to then has been taken: calls that are left, and had been waited for by then, launched nothing. */
void gpu_join_settle(struct gpu_join *j, uint64_t until_ns);

/* Nothing more will come of calls that ended before. */
void gpu_join_forget(struct gpu_join *j, uint64_t before_ns);

/* Lists at most `max` of the calls until then of which nothing has come. Returns how many there are. */
size_t gpu_join_pending(const struct gpu_join *j, uint64_t until_ns, struct launch *ret_list, size_t max);

/* Calls are seen up to then only: what starts later is not counted as missed. */
void gpu_join_end(struct gpu_join *j, uint64_t end_ns);

/* How early or late a device's clock was seen to be since this was asked last; 0: it was not. Early: its work began before the call;
 * late: it ended after a wait for it. */
struct join_skew {
	uint64_t early_ns, late_ns;
};
struct join_skew gpu_join_skew(struct gpu_join *j, uint32_t device);

/* How much has been joined so far, and for how much no call was found. */
void gpu_join_counts(const struct gpu_join *j, uint64_t *ret_joined, uint64_t *ret_missed);

#endif
