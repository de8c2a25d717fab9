/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests, as an engine's steps show them: a run of prefill steps and the decode steps behind it
 * are one. Steps of several contexts of a process are told apart by the step's argument `context`.
 * What cannot be told apart, such as the sequences of one batch, is one request that is `mixed`.
 */
#ifndef INFTRACE_ENGINE_STEP_REQUESTS_H
#define INFTRACE_ENGINE_STEP_REQUESTS_H

#include "engine/engine.h"

enum step_phase {
	PHASE_PREFILL,
	PHASE_DECODE,
};

/* What is needed of a step's record. */
struct step_seen {
	uint64_t start, end, context;
	uint64_t tokens; /* 0: not known */
	uint64_t round;
	uint32_t number, tgid;
	enum step_phase phase;
	bool cut; /* it went on */
	bool graph;
};

struct step_request {
	uint32_t tgid;
	uint64_t context;
	uint64_t start, last_end;
	uint64_t busy_until; /* the last end of this one and of those before it */
	uint64_t prefill_end; /* its first token; 0: not seen */
	uint64_t prompt_tokens, decodes, prefills;
	bool began_before, cut, mixed, graph;
	bool marked;         /* of the one who is told */
	uint64_t *intervals; /* between tokens */
	size_t n_intervals;
	uint64_t longest; /* of them */

	uint64_t first_chunk, last_chunk; /* tokens of prefill steps */
	size_t cap;
	uint64_t stride, skip;
};

struct step_requests_ops {
	/* A step, in the order in which they began, after its request was brought up to it. */
	void (*step)(struct step_request *r, const struct step_seen *s, void *arg);
	/* A request is over. NULL: not wanted, and no intervals are kept. */
	void (*done)(struct step_request *r, void *arg);
};

struct step_requests;

/* `probes` and `ops` must outlive it. -ENOMEM. */
int step_requests_new(const struct probe_table *probes, const struct step_requests_ops *ops,
	void *arg, struct step_requests **ret_requests);
void step_requests_free(struct step_requests *q);

/* Steps that are neither a prefill nor a decode by name are left out. */
void step_requests_step(struct step_requests *q, const struct rec_step *r);

/* See struct sink_ops. */
void step_requests_settled(struct step_requests *q);

/* Those that are not over. */
void step_requests_finish(struct step_requests *q);

#endif
