/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests, derived from an engine's steps: a run of prefill steps and the following decode steps are
 * one. The step's argument `context` tells the contexts of a process apart, and the rows of a step tell
 * the sequences of a context apart, where the preset describes them (rows.h).
 *
 * If a step's record tells which of its rows belong to which sequence (struct row_part), each sequence
 * has its own request, with a partition of its whole time.
 *
 * Requests that cannot be told apart are `mixed`: they overlapped, or shared steps with other sequences
 * where it is unknown which rows were whose.
 */
#ifndef INFTRACE_REQUESTS_STEP_REQUESTS_H
#define INFTRACE_REQUESTS_STEP_REQUESTS_H

#include "engine/rows.h"
#include "engine/sequences.h"
#include "engine/spec.h"
#include "record.h"

enum step_phase {
	PHASE_PREFILL,
	PHASE_DECODE,
	PHASE_SHARED, /* rows of several sequences, or of sequences that could not be read */
};

/* What is needed of a step's record. */
struct step_seen {
	uint64_t start, end, context;
	uint64_t tokens; /* 0: unknown */
	uint64_t round;
	uint32_t number, tgid;
	enum step_phase phase;
	struct step_rows rows; /* with has_rows */
	bool has_rows;
	bool own_ids;  /* each sequence is one request, from its first row to its last */
	bool placed_once; /* with own_ids: a position in a later step of a request's tells that it was preempted, whatever it is */
	bool no_rows;  /* with own_ids: it has none */
	bool no_ends;  /* with own_ids: the engine does not tell when a request is over */
	bool has_states; /* ns is known */
	bool cut;        /* it continued after the end of the recording */
	bool began_before;
	bool graph;
	uint32_t parts_left;
	uint32_t lost; /* steps lost before this one, since the recording began */
	/* Its rows by sequence. While the step is queued they are a copy owned by the queue. */
	uint32_t n_parts; /* 0: unknown */
	const struct row_part *parts;
	uint32_t scheduler[SCHEDULER_VALUES]; /* as in struct rec_step */
	uint64_t ns[ST_MAX];        /* the caller's time by state: sums to end - start */
	uint64_t before_ns[ST_MAX]; /* the same since the end of its thread's last step; all 0: unknown */
};

/* The parts of a request's whole time, which they add up to. */
enum request_span {
	SPAN_OWN_PREFILL,
	SPAN_OWN_DECODE,
	SPAN_OTHERS,  /* prompt rows of others in its steps, and steps of others in between */
	SPAN_BETWEEN, /* no step of its context ran */
	SPAN_MAX,
};

/* How long a request waited for one other request, as part of SPAN_OTHERS. */
struct step_wait {
	uint32_t serial, tgid;
	uint64_t sequence, ns;
	uint64_t first_ns; /* part of ns before the waiting request's first output */
};

/* The part of a step that belongs to a request. */
struct request_part {
	const struct row_part *rows; /* sequence, position (-1: unknown), rows, outputs */
	uint32_t prompt;             /* how many of its rows are prompt; the others are decodes */
	uint32_t again;              /* of all these: how many were computed before, until a preemption */
	bool resumed;                /* with it the request goes on after it was preempted */
	uint64_t own_ns, others_ns;  /* add up to the step's time; 0 and 0: unknown */
};

#define PREEMPTIONS_KEPT 4

struct step_request {
	uint32_t tgid;
	uint64_t given;  /* the engine's number of it, plus 1; 0: unknown */
	uint32_t serial; /* its number: 1, 2, ... in the order in which requests began */
	uint64_t context, sequence;
	uint64_t arrived; /* before start, as the engine says; 0: unknown */
	uint64_t refused[REFUSALS]; /* of the time since it arrived, until start */
	uint64_t start, last_end; /* last_end: of its last step; once it is over, when its last token was sampled if later */
	uint64_t busy_until;      /* the last end of the slot's requests so far */
	uint64_t prefill_end;     /* of its last prefill step; 0: not seen */
	/* When its first token was sampled; if the engine does not tell that, the end of the step that gave it. 0: unknown */
	uint64_t first_output;
	/* With by_parts: the start of its first decode step, plus the number of parts before its own in that, which orders the
	 * requests of a context. 0: none */
	uint64_t second;
	uint64_t prompt_tokens, prefills;
	uint64_t decodes; /* steps that gave tokens */
	uint64_t outputs; /* tokens from these, at least */
	uint64_t shared;  /* steps that also had rows of other sequences */
	uint64_t drafts;  /* steps with several outputs: the next step's position shows how many were accepted */
	bool began_before, cut, mixed, graph;
	bool own_ids;  /* its sequence has no other request, and its name is the engine's id of it: handles.h */
	bool end_seen; /* another request has begun in its slot, or its sequence was removed */
	bool lost;     /* steps were lost while it ran, perhaps its own */
	bool has_rows;
	bool marked;         /* for use by the ops */
	uint64_t *intervals; /* times between tokens */
	size_t n_intervals;
	uint64_t longest; /* the longest of them */

	/* Only with by_parts. */
	bool by_parts; /* its rows are known in each of its steps */
	bool unsplit;  /* for some step the others' share is unknown */
	bool cancelled;
	int64_t cached; /* position of its first row, saved by a kept prefix; -1: unknown */
	uint64_t steps; /* that had rows of it */
	uint64_t spans[SPAN_MAX];
	uint64_t span_states[SPAN_MAX][ST_MAX]; /* each adds up to its span, except with states_unknown */
	bool states_unknown[SPAN_MAX];
	/* With first_output: these, and SPAN_OWN_PREFILL, sum to the time from start to first_output. */
	uint64_t first_others, first_between; /* SPAN_OTHERS and SPAN_BETWEEN before it */
	uint64_t first_preempted; /* `preempted`, likewise a part of these */
	/* With own_ids: how often its scheduler took its memory away and went on with it later; of its time, until then since its
	 * last step, and its own in steps for rows that it had computed before; and how many rows these were. */
	uint32_t preemptions;
	struct {
		uint64_t from, to;
	} out[PREEMPTIONS_KEPT]; /* when, of the first ones */
	uint64_t preempted, recompute, recomputed;
	int64_t computed; /* rows before this position are computed again */
	struct step_wait *waits;              /* whom it waited for; sorted for `done`, the longest first */
	size_t n_waits, waits_cap;
	uint64_t waits_rest; /* for requests not in waits: the sum of both is SPAN_OTHERS */

	uint64_t first_chunk, last_chunk; /* tokens of prefill steps */
	uint64_t last_outputs;            /* of the last prefill step; UINT64_MAX: unknown */
	uint32_t prefill_step;            /* number of the last prefill step; in `first`: of the one that gave the first output */
	int64_t position;                 /* of the row after its last step; -1: unknown */
	struct step_seen draft;           /* the last step, if it had several outputs */
	uint64_t draft_from;              /* the end of the previous step */
	size_t cap;
	uint64_t stride, skip;
};

struct step_requests_ops {
	/* A request begins with this step. NULL: not wanted, here and below. */
	void (*begin)(struct step_request *r, const struct step_seen *s, void *arg);
	/* A part of a step was assigned to a request. Called after `begin`, and before `step` for the same step. */
	void (*part)(struct step_request *r, const struct step_seen *s, const struct request_part *p, void *arg);
	/* Its r->first_output is known; called after `part` of the step that gave it. Not called for a request whose beginning was
	 * not seen, or that is mixed. */
	void (*first)(struct step_request *r, void *arg);
	/* A step, in the order in which steps began, after its request was updated. Called once for a shared step, with one of
	 * its requests. */
	void (*step)(struct step_request *r, const struct step_seen *s, void *arg);
	/* A token came `ns` after the previous one, `gap` of that outside of steps. If the request becomes mixed later, these
	 * tokens do not count. */
	void (*token)(struct step_request *r, const struct step_seen *s, uint64_t ns, uint64_t gap, void *arg);
	/* A request has become mixed. */
	void (*mixed)(struct step_request *r, void *arg);
	/* A request is over. NULL: not wanted, and no intervals are kept. */
	void (*done)(struct step_request *r, void *arg);
};

struct step_requests;

/* `probes` and `ops` must outlive it. probes NULL: if step_requests_step() is not used. */
struct step_requests *step_requests_new(const struct probe_table *probes, const struct step_requests_ops *ops, void *arg);
void step_requests_free(struct step_requests *q);

/* Queues a step. Ignores steps that are neither named prefill nor decode, and have no rows. */
void step_requests_step(struct step_requests *q, const struct rec_step *r);

/* Takes a call of any function but a step: it may change what is kept of sequences. */
void step_requests_call(struct step_requests *q, const struct rec_function *r);

/* The same, for a known change; in any order. */
void step_requests_change(struct step_requests *q, const struct sequence_change *c);

/* Takes a step that began after all earlier ones. */
void step_requests_add(struct step_requests *q, const struct step_seen *s);

/* The loss counters show `n` more lost steps, of unknown requests. */
void step_requests_lost(struct step_requests *q, uint64_t n);

/* See struct sink_ops. */
void step_requests_settled(struct step_requests *q);

/* Ends all open requests. */
void step_requests_finish(struct step_requests *q);

/* TTFT: from the start of the request to first_output, or without by_parts to prefill_end; 0: unknown. */
uint64_t step_request_ttft(const struct step_request *r);

/* Whether spans are known: they add up to the time from start to last_end. */
bool step_request_split(const struct step_request *r);

/* Its tokens, at least; for a mixed request those of its own steps. */
uint64_t step_request_tokens(const struct step_request *r);

/* Makes all rows of a step its only part; false: they are unknown, or of several sequences. */
bool step_seen_whole(const struct step_seen *s, struct row_part *ret);

/* Tokens that a step gave, at least: of several outputs of a sequence perhaps only the first is accepted (draft tokens). */
uint64_t step_seen_tokens(const struct step_seen *s);

#endif
