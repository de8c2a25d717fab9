/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What devices did during a step: the time of the step is divided among the parts in enum gpu_part, which sum to it, once for
 * each device and once for all together, which are idle only while each of them is. A launch counts from the return of its call,
 * or from the begin of what it launched if that was earlier: up to there the call launches, and nothing waits. Of which device a
 * launch is that has not run is not known: of each.
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

/* list: of the step's process, in any order, with what was launched before the end of the step. Sets device, unless none did anything,
 * kernels, copies, n_devices, ns, after_ns, gaps, and devices of ret but for their tracks. -ENOMEM. */
int gpu_partition(const struct gpu_run *list, size_t n, uint64_t start_ns, uint64_t end_ns, struct rec_gpu_step *ret);

#endif
