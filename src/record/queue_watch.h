/* SPDX-License-Identifier: BSD-2-Clause */
/* How long requests waited between their sockets and their first steps, for those that can be joined with a socket. */
#ifndef INFTRACE_RECORD_QUEUE_WATCH_H
#define INFTRACE_RECORD_QUEUE_WATCH_H

#include "engine/step_requests.h"

struct queue_watch;

/* -ENOMEM. */
int queue_watch_new(struct queue_watch **ret_watch);
void queue_watch_free(struct queue_watch *w);

/* Of struct step_requests_ops. */
void queue_watch_begin(struct queue_watch *w, const struct step_request *r);
void queue_watch_first(struct queue_watch *w, const struct step_request *r);
void queue_watch_done(struct queue_watch *w, const struct step_request *r);

/* The exchange is over. */
void queue_watch_socket(struct queue_watch *w, const struct rec_request *r);

struct queued_request {
	uint64_t from, to, sequence;
	uint32_t tgid;
};

/* The next request that could be joined, each once; false: no more for now. */
bool queue_watch_next(struct queue_watch *w, struct queued_request *ret);

#endif
