/* SPDX-License-Identifier: BSD-2-Clause */
/* What the formats have in common for records of GPUs. */
#ifndef INFTRACE_FORMAT_GPU_H
#define INFTRACE_FORMAT_GPU_H

#include "gpu/info.h"
#include "sink/sink.h"

/* Pseudo processes, one for each device, and their tracks: above every real pid, see format/chrome.h. */
#define PID_GPU 4195000
#define TID_GPU 4196000

/* "kernel", "gpu_memcpy", "gpu_memset" */
const char *gpu_category(const struct rec_gpu *r);
/* Of a slice. */
const char *gpu_name(const struct gpu_info *info, const struct rec_gpu *r);
/* Of a copy or a set; 0: unknown. */
uint64_t gpu_megabytes_per_s(const struct rec_gpu *r);

#define GPU_LABEL_MAX 192
/* "GPU 0", or "GPU 0: NVIDIA H200 (0000:1b:00.0)" where that is known; of an instance, its UUID as well. Returns buf. */
const char *gpu_label(const struct gpu_info *info, uint32_t device, char buf[GPU_LABEL_MAX]);

/* Of a step, those that are told one by one. */
static inline uint32_t gpu_step_devices(const struct rec_gpu_step *r)
{
	return r->n_devices < GPU_STEP_DEVICES ? r->n_devices : GPU_STEP_DEVICES;
}

/* "gpu_busy_us", "gpu_busy_ns" */
const char *gpu_part_key(int part);
const char *gpu_part_name(int part);

/* Counters of a device. */
enum gpu_counter {
	GPU_COUNTER_BUSY, /* percent of the time */
	GPU_COUNTER_WAITS,
	GPU_COUNTERS,
};

#define GPU_COUNTER_NAME_MAX 48
/* "busy", "launched, not done"; of further processes on the same device "busy (pid 4711)". Returns buf. */
const char *gpu_counter_name(const struct gpu_info *info, enum gpu_counter c, const struct rec_gpu_load *r, char buf[GPU_COUNTER_NAME_MAX]);
const char *gpu_counter_unit(enum gpu_counter c);
/* false: it is not known */
bool gpu_counter_value(enum gpu_counter c, const struct rec_gpu_load *r, uint64_t *ret_value);

/* Whether an arrow leads to it from the call that launched it. */
static inline bool gpu_has_arrow(const struct rec_gpu *r, const struct recording *rec)
{
	return r->h.flags & GPU_F_FIRST && r->launch_tid && r->launch_ns >= rec->start_boot_ns &&
	       r->h.start_ns >= r->launch_ns && r->h.dur_ns;
}

#endif
