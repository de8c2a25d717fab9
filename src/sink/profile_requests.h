/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * request_prof, from sockets and from the engine's steps (engine/step_requests.h). If both are recorded, a line is held
 * until it is clear whether one of the other kind is the same request: such a pair becomes one line.
 */
#ifndef INFTRACE_PROFILE_REQUESTS_H
#define INFTRACE_PROFILE_REQUESTS_H

#include "sink/profile_line.h"
#include "sink/profile_steps.h"
#include "sink/sink.h"

struct profile_requests;

/* `lines`, `rec` and `steps`, which it tells what the rows of a step were, must outlive it. -ENOMEM. */
int profile_requests_new(struct profile_lines *lines, const struct recording *rec, struct profile_steps *steps,
	struct profile_requests **ret_requests);

void profile_requests_step(struct profile_requests *q, const struct rec_step *r);

/* Any other call. */
void profile_requests_call(struct profile_requests *q, const struct rec_function *r);

/* A request seen on a socket. */
void profile_requests_socket(struct profile_requests *q, const struct rec_request *r);

/* `n` steps were lost. */
void profile_requests_lost(struct profile_requests *q, uint64_t n);

/* See struct sink_ops. */
void profile_requests_settled(struct profile_requests *q);

/* Writes the requests that are not over. */
void profile_requests_finish(struct profile_requests *q);
void profile_requests_free(struct profile_requests *q);

#endif
