/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The stacks of a profile (stack_prof): one tree of calls for all files, and for each process how long its threads
 * were at which node of it. Whatever a file contains, this takes at most some 250 MB: each part has a limit, beyond
 * which something is left out and counted.
 */
#ifndef INFTRACE_REPORT_STACKS_H
#define INFTRACE_REPORT_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report/stats.h"

#define STACK_DEPTH_MAX 512 /* frames of a stack: the innermost */
#define STACK_FUNCTIONS_MAX (128u << 10)
#define STACK_NODES_MAX (512u << 10) /* nodes of the tree */
#define STACK_IDS_MAX (512u << 10)   /* stacks of a file */
#define STACK_SUMS_MAX (512u << 10)  /* of all processes */
#define STACK_ROWS_MAX (2u << 20)    /* of steps, of all processes */
#define STACK_OPS_MAX (64u << 10)    /* functions of operators, of all processes */
#define STACK_WAKERS_MAX (16u << 10) /* who ended the waits of functions, of all processes */
#define CODE_NAME_MAX 240            /* bytes of a function's name; of a longer one the middle is left out */

enum code_kind {
	CODE_NATIVE,
	CODE_PYTHON,
	CODE_KERNEL,
	CODE_SYSTEM, /* the C library, the interpreter: known to everyone, and called from everywhere */
	CODE_UNKNOWN,
};

struct code_function {
	uint32_t name; /* in the model's table, without the line */
	uint8_t kind;
};

/* A function that the parent's function calls; in Python with the line that it was in. `plain` is the node of the same
 * calls without lines. */
struct code_node {
	uint32_t parent, function, line, plain;
	uint32_t held_by; /* the function to blame for what happens here: the innermost native or Python one, else its own */
	uint16_t depth;   /* 0: the root */
	bool outermost;   /* its function is not among its callers */
};

/* The first nodes: the root, samples without a known stack, and samples whose stack was left out. */
enum code_first_node {
	CODE_ROOT,
	CODE_UNKNOWN_STACK,
	CODE_LEFT_OUT,
};

/* Time at a node in a step. */
struct stack_row {
	int64_t ns;
	uint32_t recording, step, tid, node;
	uint32_t samples;
	uint8_t state;
	bool wait;     /* off-CPU, with its duration; otherwise samples, each of which stands for a time */
	bool no_phase; /* its line has no phase: stack_times_finish() adds it to the sums once the step is known */
};

/* The same over all steps of a phase. */
struct stack_sum {
	int64_t ns;
	uint64_t samples;
	uint32_t phase, node;
	uint8_t state;
	bool wait;
};

/* Samples that were taken in an operator, by the function that ran. */
struct op_code {
	uint32_t op, function; /* op: a name */
	uint64_t samples;
};

/* Who ended the waits of a function. */
struct waker_sum {
	int64_t ns;
	uint32_t phase, function;
	uint32_t by;     /* the function that ended them; 0: not known */
	uint32_t thread; /* the name of its thread, or "interrupt"; 0: not known */
	uint8_t state;
};

struct code_tree {
	LIST(struct code_node, nodes); /* each behind its parent */
	LIST(struct code_function, functions);
	struct idmap by_call, by_name;
	struct code_call {
		uint32_t function, line;
	} path[STACK_DEPTH_MAX];                /* one stack, innermost first */
	size_t n_rows, n_sums, n_ops, n_wakers; /* of all processes */
	/* what was left out */
	uint64_t cut_deep, cut_nodes, cut_rows, unknown;
};

enum code_who {
	CODE_NOBODY,
	CODE_CALLER, /* the thread that called the step */
	CODE_OTHERS, /* the threads that worked on it */
};

/* A step in which threads were longer in a state than is typical. */
struct code_longer {
	uint32_t step; /* its index */
	uint8_t state, who;
};

/* Of one process. */
struct stack_times {
	LIST(struct stack_row, rows); /* after stack_times_finish(): sorted by step */
	LIST(struct stack_sum, sums);
	struct idmap by_key;
	LIST(struct op_code, ops);
	bool ops_cut; /* there were more */
	struct idmap by_op;
	LIST(struct waker_sum, wakers);
	struct idmap by_waker;
	uint32_t unknown_phase; /* a name, for rows of steps that are not known */
	/* set by code_summary_make() */
	LIST(struct code_longer, longer);
	bool *slow;      /* by step: it is no example of what is typical */
	uint32_t *first; /* set by stack_times_finish(): each step's first row, then the end of the last step's rows */
};

/* The nodes of one file's stacks, by their ids in the file. */
struct stack_ids {
	struct idmap nodes;
};

struct model;
struct op_hot;
struct process;
struct json_node;

void code_tree_free(struct code_tree *t);
void stack_times_free(struct stack_times *s);

/* Reads a line of the profile; frames may be NULL. Returns static text that says why it cannot be used, or NULL. */
const char *stack_times_read(struct model *m, struct process *p, struct stack_ids *ids, const struct json_node *frames,
	const struct json_node *shape, const struct json_node *stages, uint32_t recording);

/* Sorts the rows by step, once the steps are sorted. */
void stack_times_finish(struct model *m, struct process *p);

/* Whether the node or one of its callers belongs to the function. */
bool code_is_called(const struct code_tree *t, uint32_t node, uint32_t function);

/* A frame as the profile has it, taken apart: "name (file.py:12)" is the function "name (file.py)" in line 12. */
struct code_frame {
	char text[CODE_NAME_MAX + 1];
	uint32_t line;
	enum code_kind kind;
};
void code_frame_parse(const char *text, size_t len, struct code_frame *ret);

/* Who ended most of the time that a function waited in a state; NULL: unknown. */
const struct waker_sum *waker_code_find(const struct stack_times *s, uint32_t phase, uint8_t state, uint32_t function);

/* Finds the hottest function of each operator, before the operators are sorted. */
void op_code_finish(const struct code_tree *t, struct process *p);

/* Whether the hottest function is certain enough to be named: see chance_is_clear(). */
bool op_code_is_clear(const struct op_hot *hot);

#endif
