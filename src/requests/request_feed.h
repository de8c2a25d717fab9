/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The requests of a recording, found in its steps (step_requests.h) and joined with those seen on sockets (request_join.h) once for all
 * of its sinks, so that all of them say the same. A request that is over waits until it is clear which one of the other kind it is.
 * The number of those that wait is bounded: when it is full, all are told with what is known then.
 *
 * It is itself a sink, in front of the one that writes: a record is passed on first, and only then looked at. Its
 * readers are formats behind it, which have seen the step of which they are told.
 */
#ifndef INFTRACE_REQUEST_FEED_H
#define INFTRACE_REQUEST_FEED_H

#include "requests/request_join.h"
#include "requests/step_requests.h"
#include "sink/sink.h"

/* The first five as in struct step_requests_ops, the others when it is clear which belong together. NULL: not wanted. */
struct request_reader_ops {
	void (*begin)(struct step_request *r, const struct step_seen *s, void *arg);
	void (*part)(struct step_request *r, const struct step_seen *s, const struct request_part *p, void *arg);
	void (*first)(struct step_request *r, void *arg);
	void (*step)(struct step_request *r, const struct step_seen *s, void *arg);
	void (*mixed)(struct step_request *r, void *arg);
	/* A request is over. Returns what `sequence` shall be called with, allocated with malloc(); NULL: it shall not be called
	 * for this one. */
	void *(*done)(struct step_request *r, void *arg);
	/* request: what `done` returned, freed afterwards. socket: the same request on a socket; NULL: not found, because of `why`. */
	void (*sequence)(void *request, const struct rec_request *socket, enum join_result why, void *arg);
	/* A request on a socket that no steps belong to. alone: no step showed any request. */
	void (*socket)(const struct rec_request *r, bool alone, enum join_result why, void *arg);
};

struct request_feed;

/* rec->probes must outlive it. */
struct request_feed *request_feed_new(const struct recording *rec);

/* Only if it is not a sink yet. */
void request_feed_free(struct request_feed *f);

/* Before the first record. `ops` must outlive it. f NULL: there will be no calls. */
void request_feed_add(struct request_feed *f, const struct request_reader_ops *ops, void *arg);

/* A reader that was added is gone. f NULL: does nothing. */
void request_feed_remove(struct request_feed *f, const void *arg);

/* Whether requests on sockets are recorded as well, so that `sequence` is called. f NULL: no. */
bool request_feed_joins(const struct request_feed *f);

/* The number of the record that it is passing on, from 1: the same one for all of its sinks. f NULL: 0. */
uint64_t request_feed_number(const struct request_feed *f);

/* Why a request is not joined: "several fit" and so on. */
const char *request_pairs_why(enum join_result why);

/* Makes it the sink in front of another one, which it takes over: closing it closes that. */
struct sink *request_feed_sink(struct request_feed *f, struct sink *inner);

/* The sink behind it; of any other sink, itself. */
const struct sink *request_feed_inner(const struct sink *s);

#endif
