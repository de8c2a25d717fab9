/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * token_prof: one line per engine step, whose stages add up to its total to the nanosecond. Which rows of a batch were
 * prompts shows when the steps before it are known: such a line waits until the requests have taken the step. What a GPU did shows
 * some seconds later: the lines of a process with one wait for that.
 */
#ifndef INFTRACE_PROFILE_STEPS_H
#define INFTRACE_PROFILE_STEPS_H

#include "format/profile_line.h"
#include "requests/step_requests.h"
#include "sink/sink.h"

struct profile_steps;

/* `lines` and `rec` must outlive it. -ENOMEM. */
int profile_steps_new(struct profile_lines *lines, const struct recording *rec, struct profile_steps **ret_steps);
void profile_steps_free(struct profile_steps *ps);

/* Writes its line, or keeps it. */
void profile_steps_add(struct profile_steps *ps, const struct rec_step *r);

/* Of struct step_requests_ops: what the rows of a step were, and that this is all. */
void profile_steps_part(struct profile_steps *ps, const struct step_seen *s, const struct request_part *p);
void profile_steps_taken(struct profile_steps *ps, const struct step_seen *s);

/* What the GPU did during a step. */
void profile_steps_gpu(struct profile_steps *ps, const struct rec_gpu_step *r);

/* Any record, and any loss: for what threads did while the GPU was idle. */
void profile_steps_record(struct profile_steps *ps, const struct rec_hdr *h);
void profile_steps_loss(struct profile_steps *ps, const struct loss *l);

/* Writes those that are still waiting. */
void profile_steps_finish(struct profile_steps *ps);

#endif
