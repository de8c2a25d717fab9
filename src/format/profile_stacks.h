/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The family stack_prof of the profile: samples and waits, summed up by thread, step, state, operator and stack.
 *
 * Stacks arrive some time after the steps that they belong to, since they are unwound first. So the sums of a step are
 * written about a second after its end, those outside of steps about a second after the first of them; whatever comes
 * after that makes a further line. All lines together are exact.
 */
#ifndef INFTRACE_PROFILE_STACKS_H
#define INFTRACE_PROFILE_STACKS_H

#include "format/profile_line.h"
#include "format/profile_ops.h"
#include "sink/sink.h"

struct profile_stacks;

/* `lines`, `rec` and `names`, which has the numbers of operators, must outlive it. -ENOMEM. */
int profile_stacks_new(struct profile_lines *lines, const struct recording *rec, struct profile_ops *names,
	struct profile_stacks **ret_stacks);

void profile_stacks_add(struct profile_stacks *ps, const struct rec_stack *r);
/* The end of a function: of an operator, in which samples were taken. */
void profile_stacks_call(struct profile_stacks *ps, const struct rec_function *r);
void profile_stacks_step(struct profile_stacks *ps, const struct rec_step *r);

/* See struct sink_ops. */
void profile_stacks_settled(struct profile_stacks *ps);
/* Another file begins: the frames of each stack are written again. */
void profile_stacks_rotate(struct profile_stacks *ps);

/* Writes what is left. */
void profile_stacks_finish(struct profile_stacks *ps);
void profile_stacks_free(struct profile_stacks *ps);

#endif
