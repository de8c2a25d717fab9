/* SPDX-License-Identifier: BSD-2-Clause */
/* The function in which an operator was most often sampled. */
#ifndef INFTRACE_REPORT_OP_CODE_H
#define INFTRACE_REPORT_OP_CODE_H

#include "report/model.h"

/* A sample, or several, in an operator. Those of a thread that waits for the others at a barrier within it say nothing of its
 * code, and are left out by the caller. Returns 0 or -ENOMEM. */
int op_code_add(struct code_tree *t, struct stack_times *s, const struct stack_row *row, uint32_t op);

/* Before the operators are sorted: finds the hottest function of each. */
void op_code_finish(const struct code_tree *t, struct process *p);

/* Whether the hottest function is certain enough to be named: see chance_is_clear(). */
bool op_code_is_clear(const struct op_hot *hot);

#endif
