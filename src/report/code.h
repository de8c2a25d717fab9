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

/* Call it when the slow steps are known. */
void code_summary_make(
	const struct model *m, struct process *p, const struct slow_step *slow, size_t n_slow, struct code_summary *ret);

/* Of what a step took longer. */
struct code_hot {
	struct code_blame of;
	int64_t ns;       /* how much of cause.part, or of second_part */
	uint64_t samples; /* 0: ns is the length of waits, and exact */
	double usual;     /* samples in a typical step */
};

/* second: of the state that comes second. Whether a function is named is decided as in find_deepest(). */
struct code_hot code_find_hot(const struct model *m, const struct process *p, const struct slow_step *slow, bool second);

#endif
