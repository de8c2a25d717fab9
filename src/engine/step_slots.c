// SPDX-License-Identifier: BSD-2-Clause
#include "engine/step_slots.h"

#include <stdlib.h>
#include <string.h>

static size_t bucket_of(uint32_t tgid, uint64_t context, uint64_t sequence)
{
	/* 2^64 / golden ratio: the upper bits are spread best */
	uint64_t h = (context ^ tgid) * UINT64_C(0x9e3779b97f4a7c15);

	h = (h ^ sequence ^ h >> 32) * UINT64_C(0x9e3779b97f4a7c15);
	return h >> 32 & (SLOT_BUCKETS - 1);
}

static size_t bucket_of_slot(const struct step_slot *slot)
{
	return bucket_of(slot->r.tgid, slot->r.context, slot->r.sequence);
}

static void list_append(struct slot_list *list, struct step_slot *slot, enum slot_order order)
{
	slot->links[order].before = list->last;
	slot->links[order].after = NULL;
	if (list->last)
		list->last->links[order].after = slot;
	else
		list->first = slot;
	list->last = slot;
}

static void list_remove(struct slot_list *list, struct step_slot *slot, enum slot_order order)
{
	struct step_slot *before = slot->links[order].before, *after = slot->links[order].after;

	if (before)
		before->links[order].after = after;
	else
		list->first = after;
	if (after)
		after->links[order].before = before;
	else
		list->last = before;
}

static void leave(struct step_slots *t, struct step_slot *slot)
{
	struct step_slot **p = &t->buckets[bucket_of_slot(slot)];

	t->leaves(slot, t->arg);
	while (*p != slot)
		p = &(*p)->next;
	*p = slot->next;
	list_remove(&t->by_use, slot, BY_USE);
	list_remove(&slot->context->slots, slot, OF_CONTEXT);
	slot->next = t->free;
	t->free = slot;
}

struct step_context *step_slots_context(struct step_slots *t, uint32_t tgid, uint64_t context)
{
	struct step_context *c = t->contexts;
	size_t i;

	for (i = 0; i < t->n_contexts; i++) {
		struct step_context *other = &t->contexts[i];

		if (other->tgid == tgid && other->context == context) {
			other->used = ++t->uses;
			return other;
		}
		if (other->used < c->used)
			c = other;
	}
	if (i < CONTEXTS_MAX)
		c = &t->contexts[t->n_contexts++];
	while (c->slots.first)
		leave(t, c->slots.first);
	*c = (struct step_context){ .tgid = tgid, .context = context, .used = ++t->uses };
	return c;
}

struct step_slot *step_slots_find(struct step_slots *t, uint32_t tgid, uint64_t context, uint64_t sequence)
{
	struct step_slot *slot = t->buckets[bucket_of(tgid, context, sequence)];

	while (slot && (slot->r.tgid != tgid || slot->r.context != context || slot->r.sequence != sequence))
		slot = slot->next;
	return slot;
}

struct step_slot *step_slots_get(struct step_slots *t, struct step_context *c, uint64_t sequence)
{
	struct step_slot *slot = step_slots_find(t, c->tgid, c->context, sequence);
	size_t bucket;

	if (slot) {
		list_remove(&t->by_use, slot, BY_USE);
		list_append(&t->by_use, slot, BY_USE);
		return slot;
	}
	if (!t->free && t->n == REQUESTS_MAX)
		leave(t, t->by_use.first);
	slot = t->free;
	if (slot)
		t->free = slot->next;
	else
		slot = &t->slots[t->n++];
	/* reuses what was allocated for the previous one */
	*slot = (struct step_slot){
		.context = c,
		.kept = -1,
		.r = {
			.tgid = c->tgid,
			.context = c->context,
			.sequence = sequence,
			.position = -1,
			.cached = -1,
			.intervals = slot->r.intervals,
			.cap = slot->r.cap,
			.waits = slot->r.waits,
			.waits_cap = slot->r.waits_cap,
		},
	};
	bucket = bucket_of_slot(slot);
	slot->next = t->buckets[bucket];
	t->buckets[bucket] = slot;
	list_append(&t->by_use, slot, BY_USE);
	list_append(&c->slots, slot, OF_CONTEXT);
	return slot;
}

void step_context_pass(struct step_context *c, const struct step_seen *s)
{
	struct step_tally *t = &c->tally;

	t->n++;
	if (s->end <= c->busy_until)
		return;
	t->steps += s->end - (s->start > c->busy_until ? s->start : c->busy_until);
	if (!s->has_states || s->start < c->busy_until)
		t->blind_steps++;
	for (int i = 0; i < ST_MAX; i++)
		t->steps_states[i] += s->ns[i];
	c->busy_until = s->end;
}

void carried_add(struct step_slots *t, struct step_context *c, const struct step_request *r, uint64_t ns)
{
	uint64_t number = ++t->n_carried;

	t->carried[number % CARRIED_MAX] = (struct carried){
		.before = c->last_carried,
		.step = c->tally.n,
		.sequence = r->sequence,
		.ns = ns,
		.serial = r->serial,
		.tgid = r->tgid,
	};
	c->last_carried = number;
}

void step_slots_init(struct step_slots *t, void (*leaves)(struct step_slot *, void *), void *arg)
{
	t->leaves = leaves;
	t->arg = arg;
}

void step_slots_clear(struct step_slots *t)
{
	for (size_t i = 0; i < t->n; i++) {
		free(t->slots[i].r.intervals);
		free(t->slots[i].r.waits);
	}
}
