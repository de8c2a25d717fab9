/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * GPU time of operators. A kernel belongs to the innermost operator on its launching thread in which it was launched or, as a
 * part of a CUDA graph, captured, where that is known. While several kernels of a process run on a device, the one that began
 * first has the time. So the times of all kernels sum to the time in which any ran.
 */
#ifndef INFTRACE_FORMAT_GPU_OPS_H
#define INFTRACE_FORMAT_GPU_OPS_H

#include <stdbool.h>

#include "record.h"

/* Beyond these, the oldest are forgotten, or counted early. */
#define GPU_OPS_CALLS_MAX (1u << 19)
#define GPU_OPS_KERNELS_MAX (1u << 18)
#define GPU_OPS_STEPS_MAX (1u << 16)

#define GPU_OPS_NONE UINT32_MAX /* in place of an operator's number */

struct gpu_ops;

/* The time of one kernel. */
struct gpu_op_time {
	uint32_t tgid, op; /* GPU_OPS_NONE: its launch was not seen, or not within an operator */
	uint64_t ns;
	uint64_t outside_ns; /* the part outside of all steps of the process */
};

typedef void (*gpu_op_cb)(const struct gpu_op_time *t, void *arg);

struct gpu_ops *gpu_ops_new(void);
void gpu_ops_free(struct gpu_ops *g);

/* In any order: operator calls, steps, and GPU activity, of which only kernels count. */
void gpu_ops_call(struct gpu_ops *g, const struct rec_hdr *h, uint32_t op);
void gpu_ops_step(struct gpu_ops *g, const struct rec_hdr *h);
/* op: the operator in which it was captured for a graph; GPU_OPS_NONE: none or unknown. */
void gpu_ops_kernel(struct gpu_ops *g, const struct rec_gpu *r, uint32_t op, gpu_op_cb cb, void *arg);

/* Reports the time of kernels within a step; nothing if some of them are gone. */
void gpu_ops_divide(const struct gpu_ops *g, const struct rec_hdr *step, gpu_op_cb cb, void *arg);

/* Reports the whole time of kernels, each once. all: even those about which more may become known. */
void gpu_ops_take(struct gpu_ops *g, bool all, gpu_op_cb cb, void *arg);

#endif
