/* SPDX-License-Identifier: BSD-2-Clause */
/* GPU activity of a process: joined with its launches, and divided into the parts of each step. */
#ifndef INFTRACE_GPU_PROCESS_H
#define INFTRACE_GPU_PROCESS_H

#include <stdbool.h>
#include <stddef.h>

#include "gpu/info.h"
#include "gpu/join.h"
#include "gpu/ring.h"
#include "record.h"

/*
 * The time of a step is divided among the parts in enum gpu_part, which sum to it, once for each device and once for all together,
 * which are idle only while each of them is. A launch counts from the return of its call, or from the start of its activity if
 * that was earlier: until then the call launches, and nothing waits. The device of a launch that has not run is not known, so it
 * counts for each.
 */

/* Activity that ran, or waits to run. */
struct gpu_run {
	uint64_t start_ns, end_ns;     /* UINT64_MAX: not known, only that it was launched */
	uint64_t launched_ns;          /* 0: not known */
	uint32_t device;               /* valid if start_ns is known */
	bool is_kernel, is_collective; /* a collective is a kernel, too */
	uint32_t launch_tid;           /* 0: not known */
};

/* Whether it was launched in that time. */
static inline bool gpu_run_is_of(const struct gpu_run *r, uint64_t start_ns, uint64_t end_ns)
{
	return r->start_ns != UINT64_MAX && r->launched_ns > start_ns && r->launched_ns <= end_ns;
}

/* list: activity of the step's process, in any order, with all that was launched before the end of the step. Sets in ret: device,
 * unless no device did anything, kernels, copies, n_devices, ns, after_ns, gaps, and devices without their tracks. */
void gpu_partition(const struct gpu_run *list, size_t n, uint64_t start_ns, uint64_t end_ns, struct rec_gpu_step *ret);

/*
 * One process that uses GPUs: its ring, launches and steps. Activity is handed over in the order of its start, once everything that
 * ended before it has arrived, and its call, which it waits for up to a second; a step's partition once nothing can change it any more.
 */

/* Beyond the first two, older records are handed over early or forgotten; steps that this concerns say that records are missing. */
#define GPU_HELD_MAX (1u << 18) /* records that wait for earlier ones */
#define GPU_RUNS_MAX (1u << 18) /* activity kept for steps to come */
#define GPU_STEPS_MAX 4096      /* steps that wait; further ones get no partition */
#define GPU_NAME_IDS_MAX (1u << 16)

struct gpu_process;

typedef void (*gpu_record_cb)(const struct rec_hdr *h, size_t size, void *arg);

struct gpu_counts {
	enum gpu_vendor vendor;
	uint64_t kept, lost, dropped_cupti, bad;
	uint64_t joined, missed; /* activity whose launch was seen, or not */
	uint64_t pending;        /* launches without activity */
	uint64_t residual_ns;
	uint64_t waited_ns; /* by the agent, for room in the ring */
	uint64_t over_ns;   /* how long collecting paused, since it exceeded the budget */
	bool is_over;       /* it is paused now */
};

int gpu_process_new(uint32_t tgid, struct gpu_info *info, uint64_t now_ns, struct gpu_process **ret_process);
void gpu_process_free(struct gpu_process *p);

struct gpu_feed *gpu_process_feed(struct gpu_process *p);

/* Add what probes see: a launch; a wait for all launched work, on the stream with this handle (NULL: on all); a step. */
void gpu_process_call(struct gpu_process *p, const struct launch *l);
void gpu_process_wait(struct gpu_process *p, const uint64_t *stream, uint64_t start_ns, uint64_t end_ns);
/* A call of an operator, during which something may have been captured for a graph. */
void gpu_process_operator(struct gpu_process *p, const struct rec_hdr *h, const char *name);
/* Returns whether its partition will follow. */
bool gpu_process_step(struct gpu_process *p, const struct rec_step *r);

/* Drains a bounded number of records, and hands over what is complete. Returns whether there is more. */
bool gpu_process_drain(struct gpu_process *p, uint64_t now_ns, gpu_record_cb cb, void *arg);

/* The recording ends at end_ns: activity that starts later is not handed over. UINT64_MAX: no end, or it begins again. */
void gpu_process_end(struct gpu_process *p, uint64_t end_ns);

/* Nothing more will arrive: hands over the rest. */
void gpu_process_finish(struct gpu_process *p, uint64_t now_ns, gpu_record_cb cb, void *arg);

/* As of the last drain. */
void gpu_process_state(const struct gpu_process *p, struct gpu_feed_state *ret_state);
void gpu_process_counts(const struct gpu_process *p, struct gpu_counts *ret_counts);

#endif
