/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sequences of contexts for which steps were seen, each with its last request, which step_requests.c fills in.
 * Their number is bounded; the one quiet for longest makes room.
 */
#ifndef INFTRACE_REQUESTS_STEP_SLOTS_H
#define INFTRACE_REQUESTS_STEP_SLOTS_H

#include "requests/step_requests.h"
#include "util/map.h"

#define REQUESTS_MAX 1024 /* sequences */
#define CONTEXTS_MAX 256
#define CARRIED_MAX 32768 /* struct carried, the last ones */

/* The time of a context's steps so far, and the time between them. */
struct step_tally {
	uint64_t n; /* steps */
	uint64_t steps, gaps;
	uint64_t steps_states[ST_MAX], gaps_states[ST_MAX];
	uint64_t blind_steps, blind_gaps; /* with unknown states */
};

struct step_slot {
	struct step_request r; /* must be the first member: callers have its address */
	struct step_context *context;
	uint64_t sequence;            /* with context: the slot's key */
	struct step_tally seen;       /* the context's at its last step */
	bool known;                   /* it had an earlier request */
	bool beside_loss;             /* steps were lost since its last one */
	bool in_prompt;               /* none of its rows has given an output yet */
	bool all_outputs;             /* each row of its prompt gave an output, so that an output shows no token */
	struct sequence_change place; /* its next row begins this request; request 0: unknown */
	int64_t kept;                 /* copied from another sequence up to this position; -1: not */
	uint64_t last_output;         /* the end of its last step that gave an output; 0: unknown */
	uint64_t first_due;           /* the end of the step that gave its first output, until its sampling time is known */
	struct sequence_change token; /* sampling of the last token, after the last step; at_ns 0: unknown */
	struct sequence_change begun; /* the engine's start on the placed request; at_ns 0: unknown */
	uint64_t begun_steps;         /* steps of the context until then */
	uint64_t arrived;             /* when its next request did, as the engine says; 0: unknown */
	UT_hash_handle hh;
	struct step_slot *prev, *next;     /* of its context; or in the free list */
	struct step_slot *earlier, *later; /* by use */
};

/* When requests were refused, until a step began, and from then on, for `why`. */
struct refusals {
	uint64_t at;
	uint64_t ns[REFUSALS]; /* so far */
	uint64_t running;      /* from then on, those included whose prompts the step computes */
	int why;	       /* enum refusal; REFUSALS or above: for no reason that is known, or not yet */
};

#define REFUSALS_MAX 4096 /* steps; of a request that arrived before all of these, the rest is not known */

struct step_context {
	uint32_t tgid;
	uint64_t context;
	uint64_t busy_until;
	uint64_t used;         /* value of step_slots.uses at its last use */
	uint64_t last_carried; /* index into carried; 0: none */
	struct step_tally tally;
	struct step_slot *slots;
	struct refusals *refusals; /* number i is at i % REFUSALS_MAX; NULL: the engine does not tell */
	uint64_t n_refusals;
};

/* A request's part of a past step. */
struct carried {
	uint64_t before; /* number of the context's previous one; 0: none */
	uint64_t step;   /* tally.n of the step */
	uint64_t sequence, ns;
	uint32_t serial, tgid;
};

struct step_slots {
	struct step_slot slots[REQUESTS_MAX];
	size_t n;
	struct step_slot *free, *by_key;
	struct step_slot *by_use; /* the one quiet for longest first */
	struct step_context contexts[CONTEXTS_MAX];
	size_t n_contexts;
	uint64_t uses;
	struct carried carried[CARRIED_MAX]; /* number i is at i % CARRIED_MAX */
	uint64_t n_carried;                  /* the last number */
};

/* Finds or adds a context. If another one has to make room, its requests end. */
struct step_context *step_slots_context(struct step_requests *q, uint32_t tgid, uint64_t context);

/* Finds or adds a slot of the context that was looked up last. If another slot has to make room, its request ends. */
struct step_slot *step_slots_get(struct step_requests *q, struct step_context *c, uint64_t sequence);

/* Adds the step to the context's tally. */
void step_context_pass(struct step_context *c, const struct step_seen *s);

/* Takes why other requests are refused from the start of the step on. */
void refusals_add(struct step_context *c, const struct step_seen *s);

/* Sets r->refused, once r->arrived and r->start are known. */
void request_find_refusals(struct step_request *r);

/* NULL: there is none. */
struct step_slot *step_slots_find(const struct step_slots *t, const struct step_context *c, uint64_t sequence);

void carried_add(struct step_slots *t, struct step_context *c, const struct step_request *r, uint64_t ns);

/* NULL: overwritten, or number 0. */
static inline const struct carried *carried_get(const struct step_slots *t, uint64_t number)
{
	return number && number + CARRIED_MAX > t->n_carried ? &t->carried[number % CARRIED_MAX] : NULL;
}

static inline struct step_slot *slot_of(struct step_request *r)
{
	return (struct step_slot *)r;
}

/* ---- the state of step_requests.c ---- */

#define STEP_QUEUE_MAX 8192 /* steps waiting for earlier ones */

#define STEP_CHANGES_MAX 32768       /* of two rounds, with each token of each sequence */
#define POSITION_MAX (INT64_MAX / 2) /* more than any number of tokens */

/* Calls an operation of q->ops, if it is wanted. */
#define TELL_OP(q, op, ...)                                  \
	do {                                                 \
		if ((q)->ops->op)                            \
			(q)->ops->op(__VA_ARGS__, (q)->arg); \
	} while (0)

struct step_requests {
	const struct probe_table *probes;
	const struct step_requests_ops *ops;
	void *arg;
	struct step_seen queue[STEP_QUEUE_MAX]; /* sorted by number */
	size_t n_queue;
	uint64_t round;
	uint32_t serial;
	uint32_t last_number; /* of the step taken last, with numbered */
	bool numbered;
	uint32_t last_lost;   /* step_seen.lost of the same step */
	uint64_t told, found; /* lost steps: by the counters, and by later steps */
	bool loss_due;        /* steps were lost, and it is not yet known where */
	uint64_t loss_until;  /* a step that comes in this round or later does not show the loss */
	bool parts_seen;      /* the rows of some step were known by sequence */
	struct step_slots slots;
	struct shown_contexts memories, drafts;
	struct sequence_change changes[STEP_CHANGES_MAX]; /* by time; full: the first ones are forgotten */
	size_t first_change, n_changes;                   /* pending: first_change to n_changes - 1 */
};

/* ---- one request ---- */

/* Begins a request with the step, or before it if the engine did. A request that has begun already continues. began_before:
 * what came before this step was not seen. */
void request_begin(struct step_requests *q, struct step_request *r, const struct step_seen *s, bool began_before);

/* Ends the slot's request. */
void request_end(struct step_requests *q, struct step_request *r);

void request_set_mixed(struct step_requests *q, struct step_request *r);

/* Adds `n` outputs at the end of the step; the previous one came at `from`. */
void request_add_tokens(
	struct step_requests *q, struct step_request *r, const struct step_seen *s, uint64_t from, uint64_t n);

/* Several outputs of one sequence are drafts (request_keep_draft()), the first of which are accepted: the next step
 * continues after these, at `position`, and settles how many. */
void request_settle_draft(struct step_requests *q, struct step_request *r, int64_t position);
void request_keep_draft(struct step_request *r, const struct step_seen *s, int64_t position, uint64_t n_outputs,
	uint64_t from);

void request_touch(struct step_request *r, const struct step_seen *s);

/* Adds a wait for another request, part of SPAN_OTHERS. w->serial 0: it is unknown for which. */
void request_add_wait(struct step_request *r, const struct step_wait *w);

/* Takes the step whose time was added last as the one of its first output, until another one is known to be. */
void request_keep_first(struct step_request *r);

/* Sets the time of its first output; not before first_due, which ends with it. */
void request_set_first(struct step_requests *q, struct step_request *r, uint64_t at);

#endif
