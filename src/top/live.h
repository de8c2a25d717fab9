/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A run in progress, as inftrace top shows it. It is fed with steps, calls and sums, and asked for
 * a frame once per interval. Times are nanoseconds; `now` and a step's ts count from the start of
 * the recording.
 */
#ifndef INFTRACE_TOP_LIVE_H
#define INFTRACE_TOP_LIVE_H

#include "process_sums.h"
#include "report/requests.h"
#include "report/sentences.h"
#include "report/stats.h"

#define LIVE_SLOW_MAX 10
#define LIVE_MINUTE_NS (60 * INT64_C(1000000000))
#define LIVE_TPOT_NS (10 * INT64_C(1000000000)) /* the period that the percentiles cover */

#define LIVE_PHASE_LEN 32

enum live_phase {
	LIVE_OTHER,
	LIVE_PREFILL,
	LIVE_DECODE,
};

/* As struct wait_info; the names are not interned yet. */
struct live_wait {
	struct wait_info row;
	char name[96], comm[TASK_COMM_LEN + 1], behind[TASK_COMM_LEN + 1];
};

/* A step whose names are not interned yet. */
struct live_behind {
	struct behind_info row; /* without `by` */
	char by[TASK_COMM_LEN + 1];
};

struct live_step {
	struct step step; /* without lane, at, gap and ids of names */
	uint32_t pid, workers;
	uint32_t n_parts, parts_left; /* as in struct rec_step */
	const struct row_part *parts; /* n_parts of them; valid during the call only */
	bool own_ids;                 /* as in struct step_seen */
	uint32_t scheduler[SCHEDULER_VALUES]; /* as in struct rec_step */
	bool weighed;                 /* step.tracer is known */
	enum live_phase live_phase;
	char phase[LIVE_PHASE_LEN]; /* as named by the preset */
	char straggler_comm[TASK_COMM_LEN];
	struct live_wait wait;
	struct live_behind behind[2 * BEHIND_MAX]; /* step.n_behind rows of its own, then n_workers_behind */
};

/* Sums over steps. Steps and the gaps before them took total + between. */
struct live_sums {
	uint64_t steps, unfinished, lossy;
	uint64_t tokens, prompt_tokens;
	int64_t total, own[STATES];
	int64_t workers_total, workers[STATES];
	int64_t between;           /* outside of steps */
	int64_t tracer, tracer_of; /* the recorder's overhead, and the time of the steps for which it is known */
	uint32_t left_out;         /* 1 << enum shed_part, by --budget, in any step */
	int64_t idle;              /* pauses in which nobody asked for a token; not included in between */
	uint32_t max_workers;      /* of a step */
};

/* By name, since the last frame and since the start. */
struct live_row {
	char *name;
	uint64_t last_n, run_n;
	int64_t last_ns, run_ns;
};

struct live_rows {
	struct live_row *rows; /* longest time first: since the last frame, at the end since the start */
	size_t len;
};

struct live_slow {
	int64_t at, excess;
	uint32_t pid, number;
	bool gap;
	char text[SENTENCE_MAX];
};

/* A device, as one process uses it. */
#define LIVE_GPUS 8 /* further ones are left out */
struct live_gpu {
	uint32_t device, pid;
	int64_t last, last_of; /* busy ns since the last frame, and the length of the time that they cover */
	int64_t run;           /* busy ns since the start */
};

#define LIVE_PROCESSES_MAX 8 /* counted separately; others are only in the sum */

struct live_process {
	uint32_t pid;
	uint32_t active;         /* requests with rows in the last step of their context */
	uint32_t waiting;        /* requests whose prompt has begun, but without rows in that step */
	struct percentiles ttft; /* of requests that got their first token in the last minute */
	uint32_t scheduler[SCHEDULER_VALUES]; /* of its last step; of all: if it is the only one */
};

struct live_batches {
	struct live_process all; /* pid 0 */
	struct live_process processes[LIVE_PROCESSES_MAX];
	size_t n_processes;
};

struct live_frame {
	int64_t now, interval;
	struct live_sums last, run; /* since the last frame; since the start */
	struct percentiles tpot;    /* time per output token */
	int64_t tpot_span;          /* over this period: less than LIVE_TPOT_NS if there are many steps */
	int64_t ttft;               /* of the last prompt; 0: none yet */
	uint64_t ttft_tokens;
	int64_t ttft_at;
	struct request_summary requests; /* requests left out of these times, since the start */
	struct live_batches batches;
	bool has_batches;             /* there have been requests in batches */
	size_t processes;             /* with steps */
	size_t minute_slow;           /* slow steps, and gaps, of the last minute */
	bool minute_more;             /* there were more than are counted */
	const struct live_slow *slow; /* these, with the largest excess first */
	size_t n_slow;
	struct live_rows ops, syscalls;
	struct live_rows gaps; /* who caused the time between steps; n: the number of gaps */
	const struct live_gpu *gpus;
	size_t n_gpus;
	uint64_t lost, last_lost; /* records */
};

struct live;

struct live *live_new(void);
void live_free(struct live *l);

/* Steps may come in any order within a round: a step must be given before the second live_settled()
 * after its end. */
void live_step(struct live *l, const struct live_step *s);
void live_settled(struct live *l);

void live_op(struct live *l, const char *name, uint64_t ns);

/* Who caused time between steps. Names beyond a few hundred are "(others)". */
void live_gap(struct live *l, const char *name, uint64_t ns);

/* Who made the calling thread of a step wait for longest. Known only after the step. */
void live_wait(struct live *l, uint32_t number, const struct live_wait *wait);

/* Adds `busy` ns in which a device was busy, up to `until`. */
void live_gpu(struct live *l, uint32_t device, uint32_t pid, int64_t until, int64_t busy);

/* All system calls since the start, summed over processes. */
void live_syscalls(struct live *l, const struct process_call *calls, size_t n);

void live_lost(struct live *l, uint64_t records);
/* Some lost records were steps: the requests at about that time get no times. */
void live_lost_steps(struct live *l);

/* Ends the interval. `last`: the recording is over, so do not wait for earlier steps. The frame is
 * valid until the next call. */
const struct live_frame *live_frame(struct live *l, int64_t now, bool last);

#endif
