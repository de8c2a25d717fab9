/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Why a step took longer than the steps around it. What is typical of it are the medians of those that have the same
 * process, phase and size; noise is how far steps deviate from them by chance.
 */
#ifndef INFTRACE_REPORT_CAUSE_H
#define INFTRACE_REPORT_CAUSE_H

#include "report/model.h"

/* Times are per unit of the step's size: see steps_size(). */
struct typical {
	double total, own[STATES], workers[STATES];
	double noise;             /* how far totals exceed the median by chance */
	double least;             /* an excess too small to matter, however steady they are */
	double own_noise[STATES]; /* the same for the calling thread's time in each state */
	double gap, gap_noise;    /* not per unit */
	uint32_t compared;        /* the number of steps that it is taken from; 0: too few */
	uint32_t first;           /* where these begin in the process' `grouped` */
};

/* Times are divided by this before they are compared. Up to a few tokens a step costs what reading the weights costs, so
 * only steps with exactly the same number are compared; beyond that, steps with similar numbers, per token. */
double steps_size(const struct steps *s, size_t i);

/* The class of a number of tokens within which times are compared: the number itself, or half an octave. */
uint32_t tokens_class(uint32_t n_tokens);

/* Sets grouped and typicals of the process, and typical of its steps. */
void typical_find(struct process *p);

enum cause_where {
	WHERE_NONE,      /* within noise */
	WHERE_OWN,       /* the calling thread */
	WHERE_STRAGGLER, /* the one thread that it waited for */
	WHERE_WORKERS,   /* worker threads: unknown which, or all */
	WHERE_MAX,
};

struct cause {
	int64_t typical, excess; /* of the total; excess may be negative */
	uint32_t compared;       /* steps; 0: too few, and excess is what the step obviously waited */
	enum cause_where where;
	uint8_t state;             /* the state with the largest excess; STATE_NONE with WHERE_NONE */
	uint8_t second;            /* another state of the calling thread that explains a quarter; STATE_NONE */
	int64_t part, second_part; /* how much more than typical was spent in these */
	int64_t longest;           /* the longest interval in that state; 0: unknown. The following members are about it */
	int64_t late;              /* of a blocked state: woken, but still waiting for a CPU */
	uint32_t tid;              /* the thread in that state, or the one waited for (barrier); 0: unknown */
	uint32_t by, by_tid;       /* who ran instead (for longest), or who woke it; 0: unknown */
	/* ST_RUNNABLE: all that ran instead, the longest first, and the time of which they are parts; the rest
	 * of it has no name */
	const struct behind_info *behind;
	uint32_t n_behind;
	int64_t behind_whole;
	bool behind_all; /* for all workers together, of which tid is one */
	bool unseen;     /* state is ST_CPU, which contains waits at barriers: --budget has left these out */
	bool crowded;    /* threads of the same step kept each other from the CPUs that they may use */
};

/* If the first of several culprits has this share of the whole, the others are not named. */
#define BEHIND_ALONE 0.9
/* A thread with less than this part of the whole counts among the others. */
#define BEHIND_LEAST 100

/* The verdict on a step, after typical_find() of its process. */
void cause_find(const struct process *p, const struct step *s, struct cause *ret_cause);

/* Whether a step that had not ended had lasted longer than the ones like it before, or there are none. */
bool step_is_overdue(const struct process *p, size_t step);

/* What a step that had not ended was doing, as if nothing of it was typical. cause.part is all of the time in the state. */
void cause_open(const struct process *p, const struct step *s, struct cause *ret_cause);

/* How many workers there were at a time, on average and rounded up: engines without a pool make new ones for each graph. */
uint32_t step_workers(const struct step *s);

/* Whether more threads work on the step at a time than CPUs that they may use. */
bool step_crowded(const struct step *s);
/* How long its threads waited for a CPU behind one another. */
int64_t step_waited_for_own(const struct process *p, const struct step *s);
/* How long a CPU limit held back its threads. */
int64_t step_held_back(const struct process *p, const struct step *s);

extern const char *const cause_where_names[WHERE_MAX];

/* How much longer than typical it took from the previous step of the lane to this one; 0: no longer. */
int64_t cause_gap_excess(const struct process *p, const struct step *s, int64_t *ret_typical);

/* How much more time than the steps around it the step spent on one operator, the one with the most; 0: none, or the
 * profile has no operators by step. */
int64_t cause_op(const struct process *p, const struct step *s, uint32_t *ret_name);

/* A longer gap between steps is not part of generating tokens: nobody asked for any. */
#define PAUSE_NS 1000000000LL

/* Bits of states in which a thread makes no progress with its work; no engine intends them. */
#define CAUSE_KEPT_OFF \
	(1u << ST_RUNNABLE | 1u << ST_BLOCKED_IO | 1u << ST_BLOCKED_FAULT | 1u << ST_STOPPED | 1u << ST_IRQ)

#endif
