/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * request_prof, from sockets and from the engine's steps (request_feed.h). If both are recorded, a line is held
 * until it is clear whether one of the other kind is the same request: such a pair becomes one line. It is also held until it is
 * known what the GPU did in its steps.
 */
#ifndef INFTRACE_PROFILE_REQUESTS_H
#define INFTRACE_PROFILE_REQUESTS_H

#include "format/profile_line.h"
#include "format/profile_steps.h"
#include "sink/sink.h"

struct profile_requests;

/* `lines`, `rec` with its requests, and `steps`, which it tells what the rows of a step were, must outlive it. -ENOMEM. */
int profile_requests_new(struct profile_lines *lines, const struct recording *rec, struct profile_steps *steps,
	struct profile_requests **ret_requests);

/* The step's record, before its request is told. */
void profile_requests_step(struct profile_requests *q, const struct rec_step *r);
void profile_requests_gpu(struct profile_requests *q, const struct rec_gpu_step *r);

/* Writes what is left. */
void profile_requests_finish(struct profile_requests *q);
void profile_requests_free(struct profile_requests *q);

#endif
