/* SPDX-License-Identifier: BSD-2-Clause */
/* In which code threads ran and waited: of each phase, and of slow steps what is not typical of them. */
#ifndef INFTRACE_REPORT_CODE_H
#define INFTRACE_REPORT_CODE_H

#include "report/cause.h"

#define CODE_ROWS_MAX 20

struct code_row {
	uint32_t function, line; /* line: of a function in Python that in which it was longest; 0: unknown */
	double held;             /* ns in the function, and in what it calls in the kernel, the C library and the interpreter */
	double self;             /* in itself alone */
	double key;              /* by which rows are sorted */
	double total;            /* with all that it calls */
	double deviation;        /* of a difference: that of total by chance, since there are so few samples; 0: exact */
	double held_deviation;
	/* of waits: who ended the most of them, as in struct waker_sum, and of how much */
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
	uint32_t caller, caller_line; /* the function in Python that called it, if it is none itself, or others call it, too; 0: none */
	uint32_t user, user_line;     /* if the Python function is in a package: the one outside of it that used it; 0: none */
};

/* What the steps of a phase that were longer in a state than those that they are compared with did more in it. */
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
	LIST(struct code_diff, diffs); /* the most additional time first */
};

struct model;
struct slow_step;

/* What differs by more standard deviations than this does so not by chance, but for one case in 40: see
 * util/chance.h, too. */
#define CODE_SIGMAS 2.0

/* Call it when the slow steps are known. Returns 0 or -ENOMEM; call code_summary_free in both cases. */
int code_summary_make(
	const struct model *m, struct process *p, const struct slow_step *slow, size_t n_slow, struct code_summary *ret);
void code_summary_free(struct code_summary *c);

/* Of what a step took longer. */
struct code_hot {
	struct code_blame of;
	int64_t ns;       /* how much of cause.part, or of second_part */
	uint64_t samples; /* 0: ns is the length of waits, and exact */
	double usual;     /* samples in a typical step */
};

/* second: of the state that comes second. Whether a function is named is decided as in find_deepest().
 * Returns 0 or -ENOMEM. */
int code_find_hot(const struct model *m, const struct process *p, const struct slow_step *slow, bool second,
	struct code_hot *ret);

/* --- nodes, for flame graphs --- */

/* What there is of a node of the tree, or of a function; ns. */
struct code_value {
	double sampled, count; /* count: of samples */
	double waited;
	double usual, usual_var; /* sampled in typical steps, and by how much that varies by chance, squared */
	double usual_waited;
};

/* Of a difference: what is known exactly of the time of threads in a state, whatever samples say. */
struct code_whole {
	double slow;  /* in slow steps */
	double usual; /* in as many typical ones; below 0: not known, as of one worker */
	double part;  /* what there is more of, of which a function may hold most */
	struct code_value all;
};

/* How much there is of it in slow steps, how much in typical ones, and by how much that differs by chance. */
double code_slow(const struct code_whole *w, const struct code_value *v);
double code_usual(const struct code_whole *w, const struct code_value *v);
double code_deviation(const struct code_whole *w, const struct code_value *v);

void code_value_add(struct code_value *to, const struct code_value *v);

/* Values of those nodes that have one, a slow step has few of all; then those of functions. */
struct code_values {
	const struct model *m;
	struct code_value *of; /* by node */
	bool *has;
	uint32_t *nodes; /* each behind its parent, once they are sorted */
	size_t n;
	struct code_whole whole; /* of a difference */
	struct function_time *functions; /* by function */
	uint32_t *list;                  /* those that have a time, in the order of their numbers */
	size_t n_functions;
};

/* Returns 0 or -ENOMEM; call code_values_free in both cases. */
int code_values_new(const struct model *m, struct code_values *ret);
void code_values_free(struct code_values *v);
/* The value of a node; its callers have one, too. */
struct code_value *code_values_at(struct code_values *v, uint32_t node);
/* Call it when all are there. */
void code_values_sort(struct code_values *v);
/* Adds to the value of each node those of its calls. */
void code_values_total(struct code_values *v);
/* These add what a table, or a difference, is made of, and sort. The latter returns 0 or -ENOMEM. */
void code_add_table(const struct process *p, const struct code_table *table, struct code_values *v);
int code_add_diff(const struct process *p, const struct code_diff *diff, struct code_values *v);

#endif
