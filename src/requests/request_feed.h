/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The requests of a recording, found in its steps (step_requests.h) and joined with those seen on sockets (request_join.h) once
 * for all sinks, so that these agree. A finished request waits until it is clear which one of the other kind is the same. The
 * number of waiting requests is bounded: when it is reached, all are reported with what is known then.
 *
 * The feed is itself a sink, in front of the one that writes: it passes a record on first, and only then looks at it. Its
 * readers are formats behind it, which have then seen the step that a call is about.
 */
#ifndef INFTRACE_REQUEST_FEED_H
#define INFTRACE_REQUEST_FEED_H

#include "requests/request_join.h"
#include "requests/step_requests.h"
#include "sink/sink.h"

/* The first five as in struct step_requests_ops. NULL: not wanted. */
struct request_reader_ops {
	void (*begin)(struct step_request *r, const struct step_seen *s, void *arg);
	void (*part)(struct step_request *r, const struct step_seen *s, const struct request_part *p, void *arg);
	void (*first)(struct step_request *r, void *arg);
	void (*step)(struct step_request *r, const struct step_seen *s, void *arg);
	void (*mixed)(struct step_request *r, void *arg);
	/* A request is over. Returns what to call `sequence` with, allocated with malloc(); NULL: not to call it. */
	void *(*done)(struct step_request *r, void *arg);
	/* request: what `done` returned, freed afterwards. socket: the same request on a socket; NULL: none found, see `why`. */
	void (*sequence)(void *request, const struct rec_request *socket, enum join_result why, void *arg);
	/* A request on a socket that no steps belong to. alone: no step showed any request. */
	void (*socket)(const struct rec_request *r, bool alone, enum join_result why, void *arg);
};

struct request_feed;

/* rec->probes must outlive the feed. */
struct request_feed *request_feed_new(const struct recording *rec);

/* Only for a feed that is no sink yet: request_feed_sink(). */
void request_feed_free(struct request_feed *f);

/* Adds a reader, before the first record. `ops` must outlive the feed. f NULL: there will be no calls. */
void request_feed_add(struct request_feed *f, const struct request_reader_ops *ops, void *arg);

/* Removes the reader that was added with `arg`. f NULL: does nothing. */
void request_feed_remove(struct request_feed *f, const void *arg);

/* Whether requests on sockets are recorded as well, so that requests are joined. f NULL: no. */
bool request_feed_joins(const struct request_feed *f);

/* The number of the record that is being passed on, from 1: the same for all sinks. f NULL: 0. */
uint64_t request_feed_number(const struct request_feed *f);

/* Why a request is not joined: "several fit" and so on. */
const char *request_pairs_why(enum join_result why);

/* The `id` in an answer, as the OpenAI API has it; false: there is none, and ret is "". */
bool request_answer_id(const struct rec_request *r, char ret[FUNC_STR_LEN]);

/* Makes the feed a sink in front of `inner`, which it owns from then on: closing the feed closes both. */
struct sink *request_feed_sink(struct request_feed *f, struct sink *inner);

/* The sink behind a feed; any other sink itself. */
const struct sink *request_feed_inner(const struct sink *s);

#endif
