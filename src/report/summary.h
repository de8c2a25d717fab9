/* SPDX-License-Identifier: BSD-2-Clause */
/* A process in numbers: latencies, breakdowns, slow steps and their causes. */
#ifndef INFTRACE_REPORT_SUMMARY_H
#define INFTRACE_REPORT_SUMMARY_H

#include "report/cause.h"
#include "report/stats.h"
#include "report/requests.h"

/* ---- the code in which threads ran and waited: by phase, and for the excess of slow steps ---- */

#define CODE_ROWS_MAX 20

struct code_row {
	uint32_t function, line; /* line: the hottest one of a Python function; 0: unknown */
	double held;             /* ns in the function, and in what it calls in the kernel, the C library and the interpreter */
	double self;             /* in itself alone */
	double key;              /* by which rows are sorted */
	double total;            /* with all that it calls */
	double deviation;        /* of a diff: standard deviation of the total, from the number of samples; 0: exact */
	double held_deviation;
	/* of waits: who ended most of the time, as in struct waker_sum, and how much of it */
	uint32_t by, thread;
	int64_t ended;
};

/* What a phase did in a state. */
struct code_table {
	uint32_t phase; /* a name; 0: outside of steps */
	uint8_t state;  /* STATES: all states together */
	bool wait;      /* the waits, otherwise the samples */
	int64_t ns;
	uint64_t samples;                    /* or waits */
	struct code_row rows[CODE_ROWS_MAX]; /* samples: by self; waits: by held. The longest first */
	size_t n_rows;
};

/* The function that holds most of what took longer. */
struct code_blame {
	uint32_t function, line;      /* function 0: none does, or there are too few samples to tell */
	uint32_t caller, caller_line; /* the Python function that called it, unless it is Python without other callers; 0: none */
	uint32_t user, user_line;     /* if the Python function is in a package: the one outside of it that used it; 0: none */
};

/* Where steps of a phase that were longer in a state than is typical spent the additional time. */
struct code_diff {
	uint32_t phase;
	uint8_t state;
	uint64_t steps;   /* slow ones */
	int64_t part;     /* how much more time their threads spent in the state: exact */
	uint64_t samples; /* in the slow steps */
	double usual;     /* samples in as many typical steps */
	uint64_t waits;
	bool clear;                          /* the first row holds most of `part`, and that is not by chance */
	struct code_blame of;                /* the function is that of the first row, if it is clear */
	struct code_row rows[CODE_ROWS_MAX]; /* by held, but the one that holds most comes first */
	size_t n_rows;
};

struct code_summary {
	LIST(struct code_table, tables); /* by phase: all samples, then the states */
	LIST(struct code_diff, diffs);   /* the most additional time first */
};

/* ---- phases, slow steps and their causes ---- */

/* The steps of one phase. */
struct phase_summary {
	uint32_t phase;
	uint64_t tokens;
	struct percentiles steps;
	int64_t total, own[STATES];
	int64_t workers_total, workers[STATES];
	/* if barriers were left out of some of them: the others, and their time; 0 without any */
	uint64_t barriers_in;
	int64_t barriers_of, barriers;
};

/* Calls of one function that is not a step. */
struct call_summary {
	uint32_t name;
	struct percentiles times;
};

/* A step that took longer than usual, or (gap) the pause before it. */
struct slow_step {
	size_t step;        /* its index among the steps of the process */
	struct cause cause; /* of a gap: only typical and excess are set */
	uint32_t call;      /* of a gap: the call that took more than half of it; 0: unknown */
	int64_t call_ns;
	bool gap;
	uint32_t waiting; /* of a gap of more than 1 s: the requests that waited for its end */
};

/* Slow steps with one cause. */
struct cause_sum {
	enum cause_where where;
	uint8_t state;
	uint32_t by;
	bool by_task; /* ST_RUNNABLE: `by` is a thread, not "idle" or "cpu.max" */
	bool others;  /* the sum of all with small shares; `by` is 0 */
	bool crowded; /* as in struct cause */
	uint64_t steps;
	int64_t excess;
};

/* Each cause once; all zero: none. */
struct cause_sums {
	struct cause_sum *list;
	size_t n, size;
	struct idmap places; /* index of each cause in the list, until it is sorted */
};

/* Adds a step's excess, in ns, to its cause. again: the step already counts under it. Not after cause_sums_sort(). */
void cause_sums_add(struct cause_sums *s, const struct cause_sum *cause, int64_t excess, bool again);
/* The largest excess first. */
void cause_sums_sort(struct cause_sums *s);
void cause_sums_free(struct cause_sums *s);

struct summary {
	LIST(struct phase_summary, phases); /* the one that took longest first */
	LIST(struct call_summary, calls);   /* the one that took longest first */
	struct request_summary requests;
	struct batch_summary batches;
	/* Client latencies, where sockets were seen: until the server had read the request, TTFT, and the whole request. */
	struct percentiles unread, to_engine, ttft, whole;
	struct percentiles first_step;  /* from the first step to the first token, of requests that are not mixed */
	struct percentiles tpot;        /* time per output token */
	bool tpot_of_lines;             /* tpot has each request's mean, from request_prof: requests in batches, or no steps */
	uint64_t pauses;                /* between steps; left out of these times */
	int64_t pause_max;
	double prefill_rate, output_rate; /* tokens per second; 0: unknown */
	LIST(struct slow_step, slow);     /* the largest excess first */
	uint64_t slow_steps, slow_gaps;   /* the numbers of both in `slow` */
	struct cause_sums causes;         /* the largest excess first */
	LIST(struct slow_step, open);     /* steps that had not ended: what they were doing. The longest first */
	uint64_t slow_alone;              /* of slow_steps: those without others to compare with */
	struct crowd {                    /* threads that kept each other off their allowed CPUs */
		uint64_t steps;
		uint32_t threads, cpus; /* the most threads on a step, and their allowed CPUs */
		int64_t waited, total;  /* waiting for one another; all thread time of steps */
		bool spin;              /* much of the rest was spent at barriers */
	} crowd;
	struct crowd limited; /* threads held back by their cgroup's CPU limit, for `waited` */
	int64_t cpu_limit;    /* the lowest, in thousandths of a CPU; 0: unknown */
	uint64_t lossy_steps; /* steps in which the timeline has gaps */
	uint64_t unfinished;
	struct code_summary code;
};

/* Call it after typical_find(). */
struct model;
void summary_make(struct process *p, const struct model *m, const struct phase_names *names, struct summary *ret);
void summary_free(struct summary *s);

/* Part of summary_make(), once the slow steps are known. */
void code_summary_make(const struct model *m, struct process *p, struct summary *sum);

/* The code that holds most of what a slow step took longer in a state. */
struct code_hot {
	struct code_blame of;
	int64_t ns;       /* of cause.part, or of cause.second_part */
	uint64_t samples; /* 0: ns is the length of waits, and exact */
	double usual;     /* samples in a typical step */
};

/* second: for the state cause.second. values_find_deepest() says when a function is named. */
struct code_hot code_find_hot(const struct model *m, const struct process *p, const struct slow_step *slow, bool second);

#endif
