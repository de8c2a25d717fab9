/* SPDX-License-Identifier: BSD-2-Clause */
/* What the formats have in common for records of GPUs. */
#ifndef INFTRACE_SINK_GPU_H
#define INFTRACE_SINK_GPU_H

#include "gpu/info.h"
#include "sink/sink.h"

/* Pseudo processes, one for each device, and their tracks: above every real pid, see sink/chrome.h. */
#define PID_GPU 4195000
#define TID_GPU 4196000

/* "kernel", "gpu_memcpy", "gpu_memset" */
const char *gpu_category(const struct rec_gpu *r);
/* Of a slice. */
const char *gpu_name(const struct gpu_info *info, const struct rec_gpu *r);
/* Of a copy or a set; 0: unknown. */
uint64_t gpu_megabytes_per_s(const struct rec_gpu *r);

/* "gpu_busy_us", "gpu_busy_ns" */
const char *gpu_part_key(int part);
const char *gpu_part_name(int part);

/* Whether an arrow leads to it from the call that launched it. */
static inline bool gpu_has_arrow(const struct rec_gpu *r, const struct recording *rec)
{
	return r->h.flags & GPU_F_FIRST && r->launch_tid && r->launch_ns >= rec->start_boot_ns &&
	       r->h.start_ns >= r->launch_ns && r->h.dur_ns;
}

#endif
