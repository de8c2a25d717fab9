/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests, as an engine's steps show them: a run of prefill steps and the decode steps behind it
 * are one. Steps of several contexts of a process are told apart by the step's argument `context`, and
 * those of several sequences of a context where the preset describes the rows of a step (rows.h).
 *
 * Where a step's record says which of its rows belong to which sequence (struct row_part), each of the
 * sequences has its own request, with a partition of its whole time.
 *
 * What cannot be told apart is `mixed`: requests whose steps were shared with other sequences where it is not
 * known which of the rows were whose, and those that ran at the same time.
 */
#ifndef INFTRACE_ENGINE_STEP_REQUESTS_H
#define INFTRACE_ENGINE_STEP_REQUESTS_H

#include "engine/engine.h"
#include "engine/rows.h"
#include "engine/sequences.h"
#include "record.h"

enum step_phase {
	PHASE_PREFILL,
	PHASE_DECODE,
	PHASE_SHARED, /* rows of several sequences, or of which ones could not be read */
};

/* What is needed of a step's record. */
struct step_seen {
	uint64_t start, end, context;
	uint64_t tokens; /* 0: not known */
	uint64_t round;
	uint32_t number, tgid;
	enum step_phase phase;
	struct step_rows rows; /* with has_rows */
	bool has_rows;
	bool has_states; /* ns is known */
	bool cut; /* it went on */
	bool began_before;
	bool graph;
	uint32_t parts_left;
	/* Its rows by sequence. While it is queued they are a copy that belongs to the queue. */
	uint32_t n_parts; /* 0: not known */
	const struct row_part *parts;
	uint64_t ns[ST_MAX]; /* the caller's time by state: sums to end - start */
	uint64_t before_ns[ST_MAX]; /* the same since the end of its thread's last step; all 0: not known */
};

/* The parts of a request's whole time, which they sum to. */
enum request_span {
	SPAN_QUEUED, /* from the first byte on its socket to its first step; without a socket none */
	SPAN_OWN_PREFILL,
	SPAN_OWN_DECODE,
	SPAN_OTHERS,  /* for prompt rows of others in its steps, and for steps of others between those */
	SPAN_BETWEEN, /* no step of its context ran */
	SPAN_MAX,
};

/* How long it waited for one other request: of SPAN_OTHERS. */
struct step_wait {
	uint32_t serial, tgid;
	uint64_t sequence, ns;
	uint64_t first_ns; /* of it: before its own first output */
};

/* What a step has of a request. */
struct request_part {
	const struct row_part *rows; /* sequence, position (-1: not known), rows, outputs */
	uint32_t prompt; /* so many of its rows are prompt, the others are decodes */
	uint64_t own_ns, others_ns; /* sum to the step's time; 0 and 0: not known */
};

struct step_request {
	uint32_t tgid;
	uint32_t serial; /* 1, 2, ... in the order in which they began: its number */
	uint64_t context, sequence;
	uint64_t start, last_end;
	uint64_t busy_until; /* the last end of this one and of those before it */
	uint64_t prefill_end; /* of its last prefill step; 0: not seen */
	uint64_t first_output; /* the end of the step that gave its first one; 0: not known */
	uint64_t prompt_tokens, prefills;
	uint64_t decodes; /* steps that gave tokens */
	uint64_t outputs; /* tokens that they gave, at least */
	uint64_t shared; /* steps that had rows of other sequences too */
	uint64_t drafts; /* steps with several outputs: how many were taken shows in the next one's position */
	bool began_before, cut, mixed, graph;
	bool end_seen;	     /* another one has begun in its place */
	bool lost;	     /* steps were lost while it ran, perhaps its own */
	bool has_rows;
	bool marked;         /* of the one who is told */
	uint64_t *intervals; /* between tokens */
	size_t n_intervals;
	uint64_t longest; /* of them */

	/* With by_parts only. */
	bool by_parts; /* its rows are known in each of its steps */
	bool unsplit;  /* what of a step was others' is not known */
	bool cancelled;
	int64_t cached;	       /* position of its first row: what a kept prefix saved; -1: not known */
	uint64_t steps;	       /* that had rows of it */
	uint64_t queued_from;  /* 0: not known */
	uint64_t spans[SPAN_MAX];
	uint64_t span_states[SPAN_MAX][ST_MAX]; /* each sums to its span, unless states_unknown */
	bool states_unknown[SPAN_MAX];
	/* With first_output: these, and SPAN_OWN_PREFILL, sum to the time from start to first_output. */
	uint64_t first_others, first_between; /* of SPAN_OTHERS and SPAN_BETWEEN: before it */
	struct step_wait *waits; /* whom it waited for; in order, the longest first, as of `done` */
	size_t n_waits, waits_cap;
	uint64_t waits_rest; /* for those that are not in waits: the sum of both is SPAN_OTHERS */

	uint64_t first_chunk, last_chunk; /* tokens of prefill steps */
	uint64_t last_outputs; /* of the last prefill step; UINT64_MAX: not known */
	int64_t position;      /* of the row behind its last step; -1: not known */
	struct step_seen draft; /* the last step, if it had several outputs */
	uint64_t draft_from;	/* the end of the step before that */
	size_t cap;
	uint64_t stride, skip;
};

struct step_requests_ops {
	/* A request begins with this step. NULL: not wanted, as are the next two. */
	void (*begin)(struct step_request *r, const struct step_seen *s, void *arg);
	/* A step's part was given to a request. After `begin`, and before `step` of the same step. */
	void (*part)(struct step_request *r, const struct step_seen *s, const struct request_part *p, void *arg);
	/* After `part`. Its first output is known, as of r->first_output: with the step that gave it, or where only
	 * the next one shows that, with that. Not told of one whose beginning was not seen, or that is mixed. */
	void (*first)(struct step_request *r, const struct step_seen *s, void *arg);
	/* A step, in the order in which they began, after its request was brought up to it. A shared step
	 * is told once, with one of its requests. */
	void (*step)(struct step_request *r, const struct step_seen *s, void *arg);
	/* A token took `ns` since the one before it, `gap` of them outside of steps. `mixed` may become true
	 * later: what was told of this request then counts for nothing. */
	void (*token)(struct step_request *r, const struct step_seen *s, uint64_t ns, uint64_t gap, void *arg);
	/* A request has become mixed. */
	void (*mixed)(struct step_request *r, void *arg);
	/* A request is over. NULL: not wanted, and no intervals are kept. */
	void (*done)(struct step_request *r, void *arg);
};

struct step_requests;

/* `probes` and `ops` must outlive it. -ENOMEM. probes: NULL without step_requests_step(). */
int step_requests_new(const struct probe_table *probes, const struct step_requests_ops *ops,
	void *arg, struct step_requests **ret_requests);
void step_requests_free(struct step_requests *q);

/* Steps that are neither a prefill nor a decode by name, and have no rows, are left out. */
void step_requests_step(struct step_requests *q, const struct rec_step *r);

/* A call may change what is kept of sequences: of all functions but steps. */
void step_requests_call(struct step_requests *q, const struct rec_function *r);

/* The same, of what it changes; in any order. */
void step_requests_change(struct step_requests *q, const struct sequence_change *c);

/* A step that began after all that were given before. */
void step_requests_add(struct step_requests *q, const struct step_seen *s);

/* Steps were lost: whose is not known. */
void step_requests_lost(struct step_requests *q);

/* See struct sink_ops. */
void step_requests_settled(struct step_requests *q);

/* Those that are not over. */
void step_requests_finish(struct step_requests *q);

/* From the start of the request to the end of the step that gave its first token; 0: not known. */
uint64_t step_request_ttft(const struct step_request *r);

/* Whether spans is known: they sum to the time from start to last_end, or from queued_from. */
bool step_request_split(const struct step_request *r);

/* Tokens that it gave, at least; of one that is mixed by its own steps. */
uint64_t step_request_tokens(const struct step_request *r);

/* The rows of a step as the only part of it; false: they are not known, or of several sequences. */
bool step_seen_whole(const struct step_seen *s, struct row_part *ret);

/* Tokens that a step gave, at least: of several outputs of a sequence it may be that only the first is
 * taken (drafts that are verified). */
uint64_t step_seen_tokens(const struct step_seen *s);

#endif
