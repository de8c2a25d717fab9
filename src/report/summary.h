/* SPDX-License-Identifier: BSD-2-Clause */
/* A process in numbers: latencies, breakdowns, slow steps and their causes. */
#ifndef INFTRACE_REPORT_SUMMARY_H
#define INFTRACE_REPORT_SUMMARY_H

#include "report/cause.h"
#include "report/code.h"
#include "report/stats.h"
#include "report/requests.h"

/* The steps of one phase. */
struct phase_summary {
	uint32_t phase;
	uint64_t tokens;
	struct percentiles steps;
	int64_t total, own[STATES];
	int64_t workers_total, workers[STATES];
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
	uint32_t call; /* of a gap: the call that took more than half of it; 0: unknown */
	int64_t call_ns;
	bool gap;
	uint32_t waiting; /* of a gap of more than 1 s: the requests that waited for its end */
};

/* Slow steps with one cause. */
struct cause_sum {
	enum cause_where where;
	uint8_t state;
	uint32_t by;
	bool by_task; /* `by` is the name of a thread; otherwise what there was instead */
	bool others;  /* all with small shares: `by` is none of them */
	bool crowded; /* as in struct cause */
	uint64_t steps;
	int64_t excess;
};

/* Each cause once; all zero: none. */
struct cause_sums {
	struct cause_sum *list;
	size_t n, size;
	struct idmap places; /* of each in the list, until they are sorted */
};

/* Adds what a step took more than usual to its cause. again: the step has been counted under that. Not after
 * cause_sums_sort(). */
void cause_sums_add(struct cause_sums *s, const struct cause_sum *cause, int64_t excess, bool again);
/* The largest excess first. */
void cause_sums_sort(struct cause_sums *s);
void cause_sums_free(struct cause_sums *s);

struct summary {
	LIST(struct phase_summary, phases); /* the one that took longest first */
	LIST(struct call_summary, calls); /* the one that took longest first */
	struct request_summary requests;
	struct batch_summary batches;
	struct percentiles ttft, whole; /* what clients saw: until their first token, and in all. Only where sockets were seen */
	struct percentiles first_step;  /* from the first step to the first token, of requests that are not mixed */
	struct percentiles tpot;        /* time per output token */
	bool tpot_of_lines;             /* the mean of each request, from request_prof: requests in batches, or no steps */
	uint64_t pauses;         /* between steps; left out of these times */
	int64_t pause_max;
	double prefill_rate, output_rate; /* tokens per second; 0: unknown */
	LIST(struct slow_step, slow);           /* the largest excess first */
	uint64_t slow_steps, slow_gaps; /* the numbers of both in `slow` */
	struct cause_sums causes;       /* the largest excess first */
	LIST(struct slow_step, open); /* steps that had not ended: what they were doing. The longest first */
	uint64_t slow_alone; /* of slow_steps: those without others to compare with */
	struct crowd {	     /* threads that kept each other from the CPUs that they may use */
		uint64_t steps;
		uint32_t threads, cpus; /* the most threads on a step, and the CPUs that these may use */
		int64_t waited, total;	/* for one another; all time of their threads */
		bool spin;		/* much of the rest was spent at barriers */
	} crowd;
	struct crowd limited;  /* threads held back by a CPU limit of their cgroup: waited */
	int64_t cpu_limit;     /* the lowest, in thousandths of a CPU; 0: unknown */
	uint64_t lossy_steps; /* steps in which the timeline has gaps */
	uint64_t unfinished;
	struct code_summary code; /* made by code_summary_make() */
};

/* The names of the phases in which a prompt is read and in which tokens are produced. */
struct phase_names {
	uint32_t prefill, decode;
};

/* Call it after typical_find(). */
struct model;
void summary_make(const struct process *p, const struct model *m, const struct phase_names *names,
	struct summary *ret);
void summary_free(struct summary *s);

#endif
