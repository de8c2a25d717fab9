/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a device did during a step: the time of the step is divided among the parts in enum gpu_part, which sum to it. The
 * device is the one that was busy for longest. A launch counts from the return of its call, or from the begin of what
 * it launched if that was earlier: up to there the call launches, and nothing waits.
 */
#ifndef INFTRACE_GPU_PARTITION_H
#define INFTRACE_GPU_PARTITION_H

#include <stdbool.h>
#include <stddef.h>

#include "record.h"

/* What ran, or waits to run. */
struct gpu_run {
	uint64_t start_ns, end_ns;     /* UINT64_MAX: that is not known, only that it was launched */
	uint64_t launched_ns;          /* 0: it is not known when */
	uint32_t device;               /* if start_ns is known */
	bool is_kernel, is_collective; /* which is a kernel, too */
	uint32_t launch_tid;           /* 0: it is not known who launched it */
};

/* Whether it was launched in that time. */
static inline bool gpu_run_is_of(const struct gpu_run *r, uint64_t start_ns, uint64_t end_ns)
{
	return r->start_ns != UINT64_MAX && r->launched_ns > start_ns && r->launched_ns <= end_ns;
}

/* list: of the step's process, in any order, with what was launched before the end of the step. Sets device, kernels, copies, ns,
 * after_ns and gaps of ret. -ENOMEM. */
int gpu_partition(const struct gpu_run *list, size_t n, uint64_t start_ns, uint64_t end_ns, struct rec_gpu_step *ret);

#endif
