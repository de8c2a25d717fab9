/* SPDX-License-Identifier: BSD-2-Clause */
/* Why a step took longer than those around it. */
#ifndef INFTRACE_REPORT_CAUSE_H
#define INFTRACE_REPORT_CAUSE_H

#include "report/typical.h"

enum cause_where {
	WHERE_NONE,      /* within noise */
	WHERE_OWN,       /* the calling thread */
	WHERE_STRAGGLER, /* the one thread that it waited for */
	WHERE_WORKERS,   /* worker threads, which one is not known or all */
	WHERE_MAX,
};

struct cause {
	int64_t typical, excess; /* of the total; excess may be negative */
	uint32_t compared;       /* steps; 0: too few, excess is what the step plainly waited */
	enum cause_where where;
	uint8_t state;  /* the state with the largest excess; STATE_NONE with WHERE_NONE */
	uint8_t second; /* another, of the calling thread, that explains a quarter; STATE_NONE */
	int64_t part, second_part; /* how much more than typical was spent in these */
	int64_t longest;     /* interval of that, at once; 0: not known. What follows is of it */
	int64_t late;        /* of a blocked state: woken, but waiting for a CPU */
	uint32_t tid;        /* that was in that state, or (barrier) was waited for; 0: not known */
	uint32_t by, by_tid; /* who ran instead (for longest), or who woke it; 0: not known */
	/* ST_RUNNABLE: all who ran instead, the longest first, and the time that they are parts of; the rest of
	 * it has no name */
	const struct behind_info *behind;
	uint32_t n_behind;
	int64_t behind_whole;
	bool behind_all; /* of all workers together, of whom tid is one */
	bool crowded;	 /* threads that work on the step have kept each other from the CPUs that they may use */
};

/* The first of several culprits that need not be told of the others: it has this share of the whole. */
#define BEHIND_ALONE 0.9
/* Who has less than this part of the whole is one of the others. */
#define BEHIND_LEAST 100

/* The verdict on a step, whose process went through typical_find. */
void cause_find(const struct process *p, const struct step *s, struct cause *ret_cause);

/*
 * What a step that had not ended was doing: as if nothing of it was usual. cause.part is all the time in the
 * state.
 */
void cause_open(const struct process *p, const struct step *s, struct cause *ret_cause);

/* Of these the thread may use fewer than there are threads that work on the step. */
bool step_crowded(const struct process *p, const struct step *s);
/* How long its threads have waited for a CPU behind one another. */
int64_t step_waited_for_own(const struct process *p, const struct step *s);
/* How long a CPU limit held its threads back. */
int64_t step_held_back(const struct process *p, const struct step *s);

/* "none", "own", "straggler", "workers". */
const char *cause_where_name(enum cause_where where);

/* Time between a step and the one before it in its lane, beyond what is usual; 0 when it is.
 * *ret_typical is what is. */
int64_t cause_gap_excess(const struct process *p, const struct step *s, int64_t *ret_typical);

/*
 * The operator on which the step spent more time than steps around it, and how much; 0 when the
 * profile has no operators by step. Returns 0 or -ENOMEM.
 */
int cause_op(const struct process *p, const struct step *s, uint32_t *ret_name, int64_t *ret_ns);

/* A pause between steps that is no part of generating tokens: nobody asked for any. */
#define PAUSE_NS 1000000000LL

#endif
