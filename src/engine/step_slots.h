/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sequences of contexts for which steps were seen, each with its last request, which step_requests.c
 * and step_parts.c fill in. The number is bounded; the one that was quiet for longest makes room.
 */
#ifndef INFTRACE_ENGINE_STEP_SLOTS_H
#define INFTRACE_ENGINE_STEP_SLOTS_H

#include "engine/step_requests.h"

#define REQUESTS_MAX 1024 /* sequences */
#define CONTEXTS_MAX 256
#define SLOT_BUCKETS 2048 /* a power of two */
#define CARRIED_MAX 32768 /* the last parts of steps that requests had */

/* The time of a context's steps so far, and the time between them. */
struct step_tally {
	uint64_t n;	/* steps */
	uint64_t steps, gaps;
	uint64_t steps_states[ST_MAX], gaps_states[ST_MAX];
	uint64_t blind_steps, blind_gaps; /* with unknown states */
	uint64_t untold; /* steps for which it is unknown whose rows they had, or that overlapped another one */
};

/* A slot is in two lists. */
enum slot_order {
	BY_USE,
	OF_CONTEXT,
	SLOT_ORDERS,
};

struct slot_list {
	struct step_slot *first, *last;
};

struct step_slot {
	struct step_request r; /* must be the first member: callers have its address */
	struct step_context *context;
	struct step_tally seen; /* of the context at its last step */
	bool known;	  /* it had an earlier request */
	bool beside_loss; /* steps were lost since its last one */
	bool in_prompt;	  /* none of its rows has given an output yet */
	bool all_outputs; /* each row of its prompt gave one, so that no token follows from that */
	uint64_t placed;  /* the engine's number, plus 1, of the request that its next row begins; 0: unknown */
	int64_t kept;	  /* it was copied from another sequence until there; -1: not */
	uint64_t last_output; /* the end of its last step that gave one; 0: unknown */
	struct step_slot *next; /* in its bucket, or in the free list */
	struct {
		struct step_slot *before, *after;
	} links[SLOT_ORDERS];
};

struct step_context {
	uint32_t tgid;
	uint64_t context;
	uint64_t busy_until;
	uint64_t used; /* when, by the table's counter */
	uint64_t last_carried; /* index into carried; 0: none */
	struct step_tally tally;
	struct slot_list slots;
};

/* The part of a step that belonged to a request, which was in its slot then. */
struct carried {
	uint64_t before; /* the previous one of the same context; 0: none */
	uint64_t step;	 /* tally.n of the step */
	uint64_t sequence, ns;
	uint32_t serial, tgid;
};

struct step_slots {
	struct step_slot slots[REQUESTS_MAX];
	size_t n;
	struct step_slot *free, *buckets[SLOT_BUCKETS];
	struct slot_list by_use; /* the one quiet for longest first */
	struct step_context contexts[CONTEXTS_MAX];
	size_t n_contexts;
	uint64_t uses;
	struct carried carried[CARRIED_MAX]; /* number i at i % CARRIED_MAX */
	uint64_t n_carried;		     /* the last number */
	/* Called for slots that make room, while they still exist. */
	void (*leaves)(struct step_slot *slot, void *arg);
	void *arg;
};

void step_slots_init(struct step_slots *t, void (*leaves)(struct step_slot *, void *), void *arg);
void step_slots_clear(struct step_slots *t);

struct step_context *step_slots_context(struct step_slots *t, uint32_t tgid, uint64_t context);

/* Of the context that was looked up last. */
struct step_slot *step_slots_get(struct step_slots *t, struct step_context *c, uint64_t sequence);

/* Adds the step to the past of the context. */
void step_context_pass(struct step_context *c, const struct step_seen *s);

/* NULL: none. */
struct step_slot *step_slots_find(struct step_slots *t, uint32_t tgid, uint64_t context, uint64_t sequence);

void carried_add(struct step_slots *t, struct step_context *c, const struct step_request *r, uint64_t ns);

/* NULL: it was overwritten, or does not exist. */
static inline const struct carried *carried_get(const struct step_slots *t, uint64_t number)
{
	return number && number + CARRIED_MAX > t->n_carried ? &t->carried[number % CARRIED_MAX] : NULL;
}

static inline struct step_slot *slot_after(const struct step_slot *slot)
{
	return slot->links[OF_CONTEXT].after;
}

static inline struct step_slot *slot_of(struct step_request *r)
{
	return (struct step_slot *)r;
}

#endif
