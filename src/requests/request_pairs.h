/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests that are over, until it is clear which of those seen on sockets and which of those seen in the steps of an
 * engine are the same (request_join.h). Bounded: when it is full, all are told with what is known then.
 */
#ifndef INFTRACE_REQUEST_PAIRS_H
#define INFTRACE_REQUEST_PAIRS_H

#include "record.h"
#include "requests/request_join.h"
#include "requests/step_requests.h"

struct request_pairs_ops {
	/* One seen in steps, as it was passed to request_pairs_done(); it is the callee's now. socket: the request that it
	 * is; NULL: none, because of `why`. */
	void (*sequence)(void *request, const struct rec_request *socket, enum join_result why, void *arg);
	/* One seen on a socket that is none of the others. alone: there were no others. NULL: not wanted. */
	void (*socket)(const struct rec_request *r, bool alone, enum join_result why, void *arg);
	/* One that was passed to request_pairs_done() is told of no more, and is the callee's now. */
	void (*dropped)(void *request, void *arg);
};

struct request_pairs;

/* `ops` must outlive it. -ENOMEM. */
int request_pairs_new(const struct request_pairs_ops *ops, void *arg, struct request_pairs **ret_pairs);

/* Those that were passed to request_pairs_done() and not told are dropped. */
void request_pairs_free(struct request_pairs *p);

/* Of struct step_requests_ops. */
void request_pairs_begin(struct request_pairs *p, const struct step_request *r);
void request_pairs_first(struct request_pairs *p, const struct step_request *r);

/* request NULL: no socket is looked for. */
void request_pairs_done(struct request_pairs *p, const struct step_request *r, void *request);

/* A request seen on a socket, which is copied. */
void request_pairs_socket(struct request_pairs *p, const struct rec_request *r);

/* A thread has passed on what it has read from a socket, as the request with this number. */
void request_pairs_received(struct request_pairs *p, const struct rec_hdr *call, uint64_t given);

/* A step has ended: time goes on. */
void request_pairs_step(struct request_pairs *p, uint64_t end_ns);

/* See struct sink_ops: tells those that need not wait for another one. */
void request_pairs_settled(struct request_pairs *p);

/* Tells all that are left. */
void request_pairs_finish(struct request_pairs *p);

/* "several fit" and so on, of those that are not joined. */
const char *request_pairs_why(enum join_result why);

#endif
