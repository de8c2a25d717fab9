/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Why a step took longer than the steps around it. Typical times are the medians of steps with the same process, phase and
 * size; noise is how far steps deviate from them by chance.
 */
#ifndef INFTRACE_REPORT_CAUSE_H
#define INFTRACE_REPORT_CAUSE_H

#include "report/model.h"

/* Times are per unit of the step's size: see steps_size(). */
struct typical {
	double total, own[STATES], workers[STATES];
	double noise;             /* how far totals exceed the median by chance */
	double least;             /* an excess up to this does not matter, however steady the steps are */
	double own_noise[STATES]; /* noise of the calling thread's time in each state */
	double gap, gap_noise;    /* not per unit */
	uint32_t compared;        /* number of steps that the medians are taken from; 0: too few */
	uint32_t first;           /* index of the first of them in the process' `grouped` */
};

/* The divisor for a step's times before they are compared. Up to a few tokens a step costs what reading the weights costs,
 * so only steps with exactly the same number are compared; beyond that, steps with similar numbers, per token. */
double steps_size(const struct steps *s, size_t i);

/* Steps are compared within a class of token counts: the count itself up to a few tokens, then half an octave. */
uint32_t tokens_class(uint32_t n_tokens);

/* Sets grouped and typicals of the process, and typical of its steps. */
void typical_find(struct process *p);

enum cause_where {
	WHERE_NONE,      /* within noise */
	WHERE_OWN,       /* the calling thread */
	WHERE_STRAGGLER, /* the one thread that the calling thread waited for */
	WHERE_WORKERS,   /* worker threads: unknown which, or all */
	WHERE_MAX,
};

struct cause {
	int64_t typical, excess; /* of the total; excess may be negative */
	uint32_t compared;       /* number of steps compared with; 0: too few, and excess is obvious waiting */
	enum cause_where where;
	uint8_t state;             /* the state with the largest excess; STATE_NONE with WHERE_NONE */
	uint8_t second;            /* another state of the calling thread that explains a quarter of the excess, or STATE_NONE */
	int64_t part, second_part; /* ns beyond typical in these two states */
	uint32_t tid;              /* the thread in that state, or the one waited for (barrier); 0: unknown */
	uint32_t by, by_tid;       /* who ran instead (for longest), was in the way, or continued it; 0: unknown, or nobody */
	uint32_t wait;             /* what that one did, or where the thread itself waited: struct wait_info; 0: unknown */
	int64_t wait_ns;
	/* ST_RUNNABLE: the threads that ran instead, longest first, as parts of behind_whole; its rest has no name */
	const struct behind_info *behind;
	uint32_t n_behind;
	int64_t behind_whole;
	bool behind_all; /* `behind` is of all workers together; tid is one of them */
	bool unseen;     /* state is ST_CPU and contains waits at barriers, which --budget left out */
	bool crowded;    /* threads of the step kept each other off their allowed CPUs */
};

/* If the first of several culprits has this share of the whole, the others are not named. */
#define BEHIND_ALONE 0.9
/* A thread with less than 1 / BEHIND_LEAST of the whole counts among the others. */
#define BEHIND_LEAST 100

/* The verdict on a step, after typical_find() of its process. */
void cause_find(const struct process *p, const struct step *s, struct cause *ret_cause);

/* Whether an unfinished step had already taken longer than typical for such steps before it; true if there are none. */
bool step_is_overdue(const struct process *p, size_t step);

/* What an unfinished step was doing, judged against a typical of 0: cause.part is all of the time in the state. */
void cause_open(const struct process *p, const struct step *s, struct cause *ret_cause);

/* Average number of concurrent workers, rounded up: engines without a pool create new ones for each graph. */
uint32_t step_workers(const struct step *s);

/* Whether the step has more concurrent threads than allowed CPUs. */
bool step_crowded(const struct step *s);
/* How long its threads waited for a CPU behind one another. */
int64_t step_waited_for_own(const struct process *p, const struct step *s);
/* How long a CPU limit held back its threads. */
int64_t step_held_back(const struct process *p, const struct step *s);

extern const char *const cause_where_names[WHERE_MAX];

/* ns by which the gap before the step exceeds the typical one; 0: no excess, and *ret_typical is not set. */
int64_t cause_gap_excess(const struct process *p, const struct step *s, int64_t *ret_typical);

/* The operator with the largest excess over the steps around it, and this excess in ns; 0: none, or the profile has no
 * operators by step. */
int64_t cause_op(const struct process *p, const struct step *s, uint32_t *ret_name);

/* A longer gap between steps is not part of generating tokens: nobody asked for any. */
#define PAUSE_NS 1000000000LL

/* Bits of states in which a thread makes no progress with its work; no engine intends them. */
#define CAUSE_KEPT_OFF \
	(1u << ST_RUNNABLE | 1u << ST_BLOCKED_IO | 1u << ST_BLOCKED_FAULT | 1u << ST_STOPPED | 1u << ST_IRQ)

#endif
