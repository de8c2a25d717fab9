/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sequences of contexts for which steps were seen, each with its last request, which step_requests.c
 * fills in. The number is bounded; the one that was quiet for longest makes room.
 */
#ifndef INFTRACE_REQUESTS_STEP_SLOTS_H
#define INFTRACE_REQUESTS_STEP_SLOTS_H

#include "requests/step_requests.h"
#include "util/map.h"

#define REQUESTS_MAX 1024 /* sequences */
#define CONTEXTS_MAX 256
#define CARRIED_MAX 32768 /* the last parts of steps that requests had */

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
	uint64_t sequence;            /* with context: its key */
	struct step_tally seen;       /* of the context at its last step */
	bool known;                   /* it had an earlier request */
	bool beside_loss;             /* steps were lost since its last one */
	bool in_prompt;               /* none of its rows has given an output yet */
	bool all_outputs;             /* each row of its prompt gave one, so that no token follows from that */
	struct sequence_change place; /* its next row begins that request; request 0: unknown */
	int64_t kept;                 /* it was copied from another sequence until there; -1: not */
	uint64_t last_output;         /* the end of its last step that gave one; 0: unknown */
	uint64_t first_due;           /* the end of the step that gave its first output, until it is known when that was sampled */
	struct sequence_change token; /* its last one was sampled, after the last step; at_ns 0: not known */
	struct sequence_change begun; /* the engine began with the request that is placed; at_ns 0: not known */
	uint64_t begun_steps;         /* the context had so many until then */
	UT_hash_handle hh;
	struct step_slot *prev, *next;     /* of its context; or in the free list */
	struct step_slot *earlier, *later; /* by use */
};

struct step_context {
	uint32_t tgid;
	uint64_t context;
	uint64_t busy_until;
	uint64_t used;         /* when, by the table's counter */
	uint64_t last_carried; /* index into carried; 0: none */
	struct step_tally tally;
	struct step_slot *slots;
};

/* The part of a step that belonged to a request, which was in its slot then. */
struct carried {
	uint64_t before; /* the previous one of the same context; 0: none */
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
	struct carried carried[CARRIED_MAX]; /* number i at i % CARRIED_MAX */
	uint64_t n_carried;                  /* the last number */
};

/* Finds it, or adds it: the requests of what has to make room end. */
struct step_context *step_slots_context(struct step_requests *q, uint32_t tgid, uint64_t context);

/* The same, of the context that was looked up last. */
struct step_slot *step_slots_get(struct step_requests *q, struct step_context *c, uint64_t sequence);

/* Adds the step to the past of the context. */
void step_context_pass(struct step_context *c, const struct step_seen *s);

/* NULL: none. */
struct step_slot *step_slots_find(const struct step_slots *t, const struct step_context *c, uint64_t sequence);

void carried_add(struct step_slots *t, struct step_context *c, const struct step_request *r, uint64_t ns);

/* NULL: it was overwritten, or does not exist. */
static inline const struct carried *carried_get(const struct step_slots *t, uint64_t number)
{
	return number && number + CARRIED_MAX > t->n_carried ? &t->carried[number % CARRIED_MAX] : NULL;
}

static inline struct step_slot *slot_of(struct step_request *r)
{
	return (struct step_slot *)r;
}

/* ---- what step_requests.c knows of all of them ---- */

#define STEP_QUEUE_MAX 8192 /* steps waiting for earlier ones */

#define STEP_CHANGES_MAX 32768       /* of two rounds, with each token of each sequence */
#define POSITION_MAX (INT64_MAX / 2) /* no number of tokens */

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
	uint32_t last_number; /* of the step that was taken last, with numbered */
	bool numbered;
	uint32_t last_lost;   /* the same step's count */
	uint64_t told, found; /* lost steps: by the counters, and by later steps */
	bool loss_due;        /* steps were lost, and where is not known yet */
	uint64_t loss_until;  /* a step that comes in this round or later shows nothing of it */
	bool parts_seen;      /* the rows of some step were known by sequence */
	struct step_slots slots;
	struct shown_contexts memories, drafts;
	struct sequence_change changes[STEP_CHANGES_MAX]; /* by time; full: the first ones are forgotten */
	size_t first_change, n_changes;                   /* those from first_change up to n_changes - 1 */
};

/* ---- one request ---- */

/* With the step, or before it where the engine did. `began_before`: what came before this step was not seen. A request that has begun already continues. */
void request_begin(struct step_requests *q, struct step_request *r, const struct step_seen *s, bool began_before);

/* Afterwards the slot has no request. */
void request_end(struct step_requests *q, struct step_request *r);

void request_set_mixed(struct step_requests *q, struct step_request *r);

/* `n` outputs at the end of the step; the previous one was there at `from`. */
void request_add_tokens(
	struct step_requests *q, struct step_request *r, const struct step_seen *s, uint64_t from, uint64_t n);

/* Several outputs of one sequence are drafts, of which a first part is accepted: the next step continues
 * after those, at `position`. */
void request_settle_draft(struct step_requests *q, struct step_request *r, int64_t position);
void request_keep_draft(struct step_request *r, const struct step_seen *s, int64_t position, uint64_t n_outputs,
	uint64_t from);

void request_touch(struct step_request *r, const struct step_seen *s);

/* It waited for another one, as part of SPAN_OTHERS. serial 0: it is unknown for which. */
void request_add_wait(struct step_request *r, const struct step_wait *w);

/* Its first output, as far as is known, is that of the step whose time was added last. */
void request_keep_first(struct step_request *r);

/* Its first output was there at `at`; not before first_due, which waits for it. */
void request_set_first(struct step_requests *q, struct step_request *r, uint64_t at);

#endif
