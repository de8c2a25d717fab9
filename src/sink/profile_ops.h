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

#include "sink/profile_line.h"
#include "sink/sink.h"

struct profile_ops;

/* `lines` and `rec` must outlive it. -ENOMEM. */
int profile_ops_new(
	struct profile_lines *lines, const struct recording *rec, struct profile_ops **ret_ops);

void profile_ops_call(struct profile_ops *o, const struct rec_function *r);
void profile_ops_step(struct profile_ops *o, const struct rec_step *r);

/* See struct sink_ops. */
void profile_ops_settled(struct profile_ops *o);

/* Writes what is left, including the line of the window. `graph`: for that line. */
void profile_ops_finish(struct profile_ops *o, bool graph);
void profile_ops_free(struct profile_ops *o);

#endif
