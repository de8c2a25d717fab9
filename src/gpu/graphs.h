/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CUDA graphs of a process: which part of its graph each kernel and copy is, and where it was captured.
 *
 * CUPTI gives each node of a graph a number that stays the same with each launch. The first launch that was seen as a whole tells
 * their order, and of a node that is launched again its place in it. A capture is the calls that became nodes instead of being carried
 * out. No number says which capture a graph is of, since what is launched was made of it by further calls: a graph is of a
 * capture with as many calls, of the same kinds, shapes and bytes, in the same order. Where several are alike, what they differ in is not told.
 */
#ifndef INFTRACE_GPU_GRAPHS_H
#define INFTRACE_GPU_GRAPHS_H

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

#endif
