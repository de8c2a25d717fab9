// SPDX-License-Identifier: BSD-2-Clause
/* What calls change of the sequences between steps (sequences.h): which requests they end. */
#include <string.h>

#include "engine/step_requests_inner.h"

/* The context that steps name in their arguments. NULL: it is not known which one, or no step of it was seen. */
static struct step_context *find_context(struct step_requests *q, const struct sequence_change *c)
{
	uint64_t context = sequence_context(q->memories, c);
	struct step_context *only = NULL;

	if (context)
		return step_slots_context(&q->slots, c->tgid, context);
	/* the engine asked for this memory before the recording began: certain only if there is one context */
	for (size_t i = 0; i < q->slots.n_contexts; i++) {
		if (q->slots.contexts[i].tgid != c->tgid)
			continue;
		if (only)
			return NULL;
		only = &q->slots.contexts[i];
	}
	return only;
}

/* Nothing of the sequence is left. */
static void remove_all(struct step_requests *q, struct step_slot *slot)
{
	struct step_request *r = &slot->r;

	if (!r->start)
		return;
	r->end_seen = true;
	/* a prompt that is dropped before its first output has been given up */
	r->cancelled = r->by_parts && slot->in_prompt && !slot->all_outputs && !r->first_output && !r->mixed && !r->lost;
	request_end(q, r);
}

static void shift(struct step_request *r, const struct sequence_change *c)
{
	if (!r->start || r->position <= c->from || r->position > c->to || c->by < -r->position ||
		c->by > POSITION_MAX - r->position)
		return;
	r->position += c->by;
	if (r->draft.rows.position >= 0)
		r->draft.rows.position += c->by;
}

/*
 * What comes at `position` goes on with what was copied, and is a new prompt if it looks like one. A call that drops all
 * behind a position says nothing of the kind: servers make it before each part of a prompt.
 */
static void keep_until(struct step_requests *q, struct step_context *context, uint64_t sequence, int64_t position)
{
	step_slots_get(&q->slots, context, sequence)->kept = position;
}

/* The engine says what its next rows begin: whatever was there before is over. */
static void place(struct step_requests *q, struct step_slot *slot, uint64_t request)
{
	slot->r.end_seen = true;
	request_end(q, &slot->r);
	slot->placed = request;
}

static void change_slot(struct step_requests *q, struct step_slot *slot, const struct sequence_change *c)
{
	/* guesses that were not accepted are dropped: what is left shows how many were */
	if (c->what == SEQUENCE_REMOVE && slot->r.draft.end && c->from > slot->r.draft.rows.position &&
		c->from <= slot->r.position && c->to == INT64_MAX) {
		request_settle_draft(q, &slot->r, c->from);
		slot->r.position = c->from;
	}
	if (c->what == SEQUENCE_SHIFT)
		shift(&slot->r, c);
	else if (c->what != SEQUENCE_REMOVE || (c->from == 0 && c->to == INT64_MAX))
		remove_all(q, slot);
}

static void apply(struct step_requests *q, const struct sequence_change *c)
{
	struct step_context *context = find_context(q, c);
	struct step_slot *slot, *source;

	if (c->draft)
		drafts_add(&q->drafts, c->tgid, c->draft);
	if (!context)
		return;
	if (c->what == SEQUENCE_PLACE) {
		place(q, step_slots_get(&q->slots, context, c->sequence), c->request);
		return;
	}
	if (c->what == SEQUENCE_COPY) {
		source = step_slots_find(&q->slots, context->tgid, context->context, c->source);
		if (c->to < INT64_MAX || (source && source->r.position > 0))
			keep_until(q, context, c->sequence, c->to < INT64_MAX ? c->to : source->r.position);
		return;
	}
	for (slot = context->slots.first; slot; slot = slot_after(slot)) {
		if (c->every || (slot->r.sequence == c->sequence) != (c->what == SEQUENCE_KEEP))
			change_slot(q, slot, c);
	}
}

static void forget(struct step_requests *q, size_t n)
{
	q->n_changes -= n;
	memmove(q->changes, q->changes + n, q->n_changes * sizeof(*q->changes));
}

/* Calls after the last step wait for the next one: calls may go on being recorded where steps do not, and then it is not
 * known whether the request had further steps. */
void step_changes_until(struct step_requests *q, uint64_t ns)
{
	size_t n = 0;

	while (n < q->n_changes && q->changes[n].at_ns <= ns)
		apply(q, &q->changes[n++]);
	if (n)
		forget(q, n);
}

/* The end of a request by the engine's own word is certain wherever the recording stops, and so is which of its last
 * guesses were accepted. */
void step_changes_finish(struct step_requests *q)
{
	for (size_t i = 0; i < q->n_changes; i++) {
		if (q->changes[i].what == SEQUENCE_END || (q->changes[i].what == SEQUENCE_REMOVE && q->changes[i].from > 0))
			apply(q, &q->changes[i]);
	}
	q->n_changes = 0;
}

void step_requests_change(struct step_requests *q, const struct sequence_change *c)
{
	size_t i;

	if (q->n_changes == STEP_CHANGES_MAX)
		forget(q, STEP_CHANGES_MAX / 2);
	for (i = q->n_changes++; i > 0 && q->changes[i - 1].at_ns > c->at_ns; i--)
		q->changes[i] = q->changes[i - 1];
	q->changes[i] = *c;
}

void step_requests_call(struct step_requests *q, const struct rec_function *r)
{
	struct sequence_change c;

	if (sequence_change_of(q->memories, q->probes, r, &c))
		step_requests_change(q, &c);
}
