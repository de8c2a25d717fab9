/* SPDX-License-Identifier: BSD-2-Clause */
/* The functions in which threads ran and waited, as objects of JSON. */
#ifndef INFTRACE_REPORT_CODE_OBJECT_H
#define INFTRACE_REPORT_CODE_OBJECT_H

#include "report/json.h"
#include "report/summary.h"

/* "code" and "slow_code" of a process, if there are stacks. */
void code_put(struct json_build *b, struct json_object *o, const struct model *m, const struct code_summary *c);
/* "code" and "second_code" of a slow step, if a function holds most of its excess in that state. Returns 0 or -ENOMEM. */
int code_put_hot(struct json_build *b, struct json_object *o, const struct model *m, const struct process *p,
	const struct slow_step *slow);
/* "stacks_left_out" of the report, if there is something. */
void code_put_left_out(struct json_build *b, struct json_object *o, const struct model *m);

/* The trees that the page draws; NULL if there are none. */
struct json_object *code_flames(
	struct json_build *b, const struct model *m, const struct process *p, const struct summary *sum);

#endif
