/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files of code.h. */
#ifndef INFTRACE_REPORT_CODE_INNER_H
#define INFTRACE_REPORT_CODE_INNER_H

#include "report/code.h"
#include "report/summary.h"

/* What differs by more standard deviations than this does so not by chance, but for one case in 40: see
 * util/chance.h, too. */
#define CODE_SIGMAS 2.0

struct function_time {
	struct code_value held, self, total;
	double depth; /* how deep it was called in slow steps, on average */
	bool listed;
};

struct function_times {
	struct function_time *of; /* by function */
	uint32_t *list;           /* those that have a time, in the order of their numbers */
	size_t n;
};

/* Sums up the values by function; values become totals. Returns 0 or -ENOMEM; call function_times_free in both cases. */
int code_times(const struct model *m, struct code_values *v, struct function_times *ret);
void function_times_free(struct function_times *t);

/*
 * The function that holds most of the additional time; of several, which then call one another, the one that is called
 * by the others. Of a kind in the mask. 0: none.
 *
 * It holds most if it would be strange otherwise: if half of the additional time were what it holds, fewer than one
 * recording in 40 would show as many samples of it in the slow steps. With nothing else in a step, that takes six samples of
 * six. Waits are measured, and not sampled: there it holds most if it has more than half. A function that nearly all
 * stacks have, as they have main(), is named only for what it does itself.
 */
uint32_t code_holder(
	const struct model *m, const struct function_times *t, const struct code_whole *w, uint32_t kinds);
/* The same of Python functions that call one that typical steps call for others as well: from which of them. 0: none. */
uint32_t code_caller(const struct model *m, const struct function_times *t, const struct code_whole *w, uint32_t helper);
/* The same of those that call a Python function of a package that is installed, and are in another file or package. */
uint32_t code_user(const struct model *m, const struct function_times *t, const struct code_whole *w, uint32_t function);
#define CODE_KINDS_OWN (1u << CODE_NATIVE | 1u << CODE_PYTHON)
#define CODE_KINDS_NAMED (CODE_KINDS_OWN | 1u << CODE_SYSTEM | 1u << CODE_KERNEL)

/* The line in which a function in Python was longest; 0: unknown. */
uint32_t code_line(const struct model *m, const struct code_values *totals, uint32_t function);

/* Puts a row among those that are sorted by a key. */
void code_rows_add(struct code_row rows[CODE_ROWS_MAX], double keys[CODE_ROWS_MAX], size_t *n, const struct code_row *row,
	double key);

int code_diffs_make(const struct model *m, struct process *p, const struct slow_step *slow, size_t n_slow,
	struct code_summary *c);

#endif
