/* SPDX-License-Identifier: BSD-2-Clause */
/* What a thread did while a GPU was idle: its states in an interval, from its records. */
#ifndef INFTRACE_FORMAT_GPU_GAPS_H
#define INFTRACE_FORMAT_GPU_GAPS_H

#include "sink/sink.h"

/* Further threads are not tracked, and of a thread only the newest spans are kept. */
#define GPU_GAPS_THREADS_MAX 512
#define GPU_GAPS_SPANS_MAX 4096

struct gpu_gaps;

struct gap_cause {
	uint64_t ns[ST_MAX];   /* they sum to the interval */
	enum time_state state; /* the longest */
	uint32_t waker_tid;    /* of a blocking state: who ended the longest wait; 0: unknown */
	uint32_t syscall;      /* number of the longest; SYSCALL_NONE */
	uint32_t stack;        /* the most frequent of the samples; STACK_NONE */
};

#define SYSCALL_NONE UINT32_MAX

/* `rec` must outlive it. */
struct gpu_gaps *gpu_gaps_new(const struct recording *rec);
void gpu_gaps_free(struct gpu_gaps *g);

void gpu_gaps_record(struct gpu_gaps *g, const struct rec_hdr *h);
void gpu_gaps_loss(struct gpu_gaps *g, const struct loss *l);

/* false: unknown, since records are missing or were not recorded */
bool gpu_gaps_cause(const struct gpu_gaps *g, uint32_t tid, uint64_t start_ns, uint64_t end_ns, struct gap_cause *ret_cause);

#endif
