/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The families of the profile that come from calls of functions: op_prof, graph_prof and
 * sample_prof.
 *
 * Operators are summed up, per step or for the whole window. The calls of a step arrive through
 * several rings, drained in any order, and a worker's last operator arrives when it begins its next
 * one. So the line of a step waits for a while; calls that arrive even later make a further line of
 * the same step.
 */
#ifndef INFTRACE_PROFILE_OPS_H
#define INFTRACE_PROFILE_OPS_H

#include "format/profile_line.h"
#include "sink/sink.h"

struct frame;
struct profile_ops;

/* `lines` and `rec` must outlive it. -ENOMEM. */
int profile_ops_new(
	struct profile_lines *lines, const struct recording *rec, struct profile_ops **ret_ops);

void profile_ops_call(struct profile_ops *o, const struct rec_function *r);

/* The number that an operator's name has here, and the name of a number, which stays valid. */
uint32_t profile_ops_number(struct profile_ops *o, const struct rec_function *r);
const char *profile_ops_name(const struct profile_ops *o, uint32_t number);

/* A sample that was taken in an operator: its number, and the innermost function. step: as in struct rec_stack. */
void profile_ops_sample(struct profile_ops *o, uint32_t tgid, uint32_t step, uint32_t number, const struct frame *f);

void profile_ops_step(struct profile_ops *o, const struct rec_step *r);
void profile_ops_gpu(struct profile_ops *o, const struct rec_gpu *r);
void profile_ops_gpu_step(struct profile_ops *o, const struct rec_gpu_step *r);

/* See struct sink_ops. */
void profile_ops_settled(struct profile_ops *o);

/* Writes what is left, including the line of the window. */
void profile_ops_finish(struct profile_ops *o);
void profile_ops_free(struct profile_ops *o);

#endif
