// SPDX-License-Identifier: BSD-2-Clause
#include "requests/step_slots.h"

#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "util/list.h"

struct slot_key {
	const struct step_context *context;
	uint64_t sequence;
};

static void slot_release(struct step_requests *q, struct step_slot *slot)
{
	struct step_slots *t = &q->slots;

	request_end(q, &slot->r);
	HASH_DEL(t->by_key, slot);
	DL_DELETE2(t->by_use, slot, earlier, later);
	DL_DELETE(slot->context->slots, slot);
	LL_PREPEND(t->free, slot);
}

struct step_context *step_slots_context(struct step_requests *q, uint32_t tgid, uint64_t context)
{
	struct step_slots *t = &q->slots;
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
	while (c->slots)
		slot_release(q, c->slots);
	free(c->refusals);
	*c = (struct step_context){ .tgid = tgid, .context = context, .used = ++t->uses };
	return c;
}

struct step_slot *step_slots_find(const struct step_slots *t, const struct step_context *c, uint64_t sequence)
{
	const struct slot_key key = { c, sequence };
	struct step_slot *slot;

	HASH_FIND(hh, t->by_key, &key, sizeof(key), slot);
	return slot;
}

/* Resets a request, but keeps its allocations. */
static void request_reset(struct step_request *r, uint64_t busy_until)
{
	*r = (struct step_request){
		.tgid = r->tgid,
		.context = r->context,
		.sequence = r->sequence,
		.busy_until = busy_until,
		.intervals = r->intervals,
		.cap = r->cap,
		.waits = r->waits,
		.waits_cap = r->waits_cap,
		.position = -1,
		.cached = -1,
	};
}

struct step_slot *step_slots_get(struct step_requests *q, struct step_context *c, uint64_t sequence)
{
	struct step_slots *t = &q->slots;
	struct step_slot *slot = step_slots_find(t, c, sequence);

	_Static_assert(offsetof(struct step_slot, sequence) == offsetof(struct step_slot, context) + offsetof(struct slot_key, sequence),
		"both are the key");
	if (slot) {
		DL_DELETE2(t->by_use, slot, earlier, later);
		DL_APPEND2(t->by_use, slot, earlier, later);
		return slot;
	}
	if (!t->free && t->n == REQUESTS_MAX)
		slot_release(q, t->by_use);
	slot = t->free;
	if (slot)
		t->free = slot->next;
	else
		slot = &t->slots[t->n++];
	*slot = (struct step_slot){ .context = c, .sequence = sequence, .kept = -1, .r = slot->r };
	slot->r.tgid = c->tgid;
	slot->r.context = c->context;
	slot->r.sequence = sequence;
	request_reset(&slot->r, 0);
	HASH_ADD(hh, t->by_key, context, sizeof(struct slot_key), slot);
	DL_APPEND2(t->by_use, slot, earlier, later);
	DL_APPEND(c->slots, slot);
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

/* ---- why requests wait ---- */

/* What the scheduler says; `unknown` if it does not. */
static uint64_t said_or(const struct step_seen *s, enum scheduler_value value, uint64_t unknown)
{
	return s->scheduler[value] ? s->scheduler[value] - 1 : unknown;
}

#define REFUSED_LATER (REFUSALS + 1) /* the next step tells why */

/* Why a scheduler that tells how many tokens a step may have let no other request in: of `s`, the step with its batch. What is left is
 * that the KV cache has no room: which blocks a request needs, and which of those that are free it has already, is not known. */
static int refusal_of_batch(const struct step_seen *s)
{
	if (said_or(s, SCHEDULER_FULL, 0))
		return REFUSED_KV;
	if (s->tokens >= said_or(s, SCHEDULER_TOKENS_MAX, UINT64_MAX))
		return REFUSED_TOKENS;
	return s->tokens && (s->scheduler[SCHEDULER_KV_FREE] || s->scheduler[SCHEDULER_FULL]) ? REFUSED_KV : REFUSALS;
}

static int refusal_of(const struct step_seen *s)
{
	if (said_or(s, SCHEDULER_RUNNING, 0) >= said_or(s, SCHEDULER_SLOTS, UINT64_MAX))
		return REFUSED_SLOT;
	return said_or(s, SCHEDULER_AHEAD, 0) ? REFUSED_LATER : refusal_of_batch(s);
}

/* The same of one that tells only whether it is full, and computes prompts apart: in a batch without prompts it has let nobody in, with those
 * that ran in the step before, of whom some may be over since, and then it is not full any more. */
static int refusal_of_full(const struct step_seen *s, bool prompts, uint64_t running)
{
	if (running >= said_or(s, SCHEDULER_SLOTS, UINT64_MAX))
		return REFUSED_SLOT;
	return prompts && !said_or(s, SCHEDULER_FULL, 0) ? REFUSED_TOKENS : REFUSED_KV;
}

void refusals_add(struct step_context *c, const struct step_seen *s)
{
	uint64_t requests = (uint64_t)s->n_parts + s->parts_left, running;
	/* a prompt may have one token */
	bool prompts = s->tokens > requests || (s->n_parts && s->parts[0].position >= 0);
	struct refusals *before, *r;

	if (!s->scheduler[SCHEDULER_WAITING] && !c->refusals)
		return;
	if (!c->refusals)
		c->refusals = xcalloc(REFUSALS_MAX, sizeof(*c->refusals));
	before = c->n_refusals ? &c->refusals[(c->n_refusals - 1) % REFUSALS_MAX] : NULL;
	r = &c->refusals[c->n_refusals++ % REFUSALS_MAX];
	*r = (struct refusals){ .at = s->start, .why = REFUSALS, .running = said_or(s, SCHEDULER_RUNNING, 0) + (prompts ? requests : 0) };
	running = before && !prompts ? before->running : r->running;
	if (said_or(s, SCHEDULER_WAITING, 0))
		r->why = s->scheduler[SCHEDULER_TOKENS_MAX] ? refusal_of(s) : refusal_of_full(s, prompts, running);
	if (!before)
		return;
	if (before->why == REFUSED_LATER)
		before->why = refusal_of_batch(s);
	memcpy(r->ns, before->ns, sizeof(r->ns));
	if (before->why < REFUSALS && r->at > before->at)
		r->ns[before->why] += r->at - before->at;
}

void request_find_refusals(struct step_request *r)
{
	const struct step_context *c = slot_of(r)->context;
	uint64_t first = c->n_refusals > REFUSALS_MAX ? c->n_refusals - REFUSALS_MAX : 0, i = c->n_refusals;
	const struct refusals *from = NULL, *to = NULL;

	while (i > first && c->refusals[(i - 1) % REFUSALS_MAX].at >= r->arrived) {
		from = &c->refusals[--i % REFUSALS_MAX];
		if (from->at >= r->start)
			to = from;
	}
	for (i = 0; from && to && i < REFUSALS; i++)
		r->refused[i] = to->ns[i] - from->ns[i];
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

/* ---- one request, whichever way its steps were found ---- */
#define INTERVALS_MAX 65536 /* of one request; with more, it keeps every second, every fourth ... */
#define DRAFTS_MAX 4096     /* outputs of a step that can be drafts */
#define WAITS_MAX 1024      /* kept one by one; time for further ones is in waits_rest */

/* ---- tokens ---- */

static void add_interval(struct step_request *r, uint64_t ns)
{
	if (ns > r->longest)
		r->longest = ns;
	if (r->skip) {
		r->skip--;
		return;
	}
	if (r->n_intervals == INTERVALS_MAX) {
		for (size_t i = 0; i < INTERVALS_MAX / 2; i++)
			r->intervals[i] = r->intervals[2 * i];
		r->n_intervals /= 2;
		r->stride = 2 * r->stride + 1;
	}
	*list_push(r->intervals, r->n_intervals, r->cap) = ns;
	r->skip = r->stride;
}

void request_add_tokens(
	struct step_requests *q, struct step_request *r, const struct step_seen *s, uint64_t from, uint64_t n)
{
	uint64_t gap = s->start > from ? s->start - from : 0, ns = s->end > from ? s->end - from : 0;

	for (uint64_t i = 0; i < n; i++) {
		if (q->ops->done)
			add_interval(r, ns / n);
		TELL_OP(q, token, r, s, ns / n, gap / n);
	}
}

void request_keep_draft(struct step_request *r, const struct step_seen *s, int64_t position, uint64_t n_outputs,
	uint64_t from)
{
	r->drafts++;
	r->draft = *s;
	r->draft.parts = NULL;
	r->draft.n_parts = 0;
	r->draft.rows.position = position;
	r->draft.rows.n_outputs = n_outputs;
	r->draft_from = from;
}

void request_settle_draft(struct step_requests *q, struct step_request *r, int64_t position)
{
	int64_t taken = position >= 0 && r->draft.rows.position >= 0 ? position - r->draft.rows.position : 0;

	if (!r->draft.end)
		return;
	if (taken > 0 && taken <= DRAFTS_MAX && (uint64_t)taken <= r->draft.rows.n_outputs) {
		r->outputs += (uint64_t)taken - 1;
		if (r->draft_from)
			request_add_tokens(q, r, &r->draft, r->draft_from, (uint64_t)taken);
	}
	r->draft.end = 0;
}

/* ---- waits for other requests ---- */

/* Finds an entry, or where to add it. Open addressing by serial, at most half full; serial 0: empty. */
static struct step_wait *find_wait(struct step_wait *waits, size_t cap, uint32_t serial)
{
	size_t i = (serial * 2654435761u) >> 8 & (cap - 1); /* Knuth's multiplicative hash */

	while (waits[i].serial && waits[i].serial != serial)
		i = (i + 1) & (cap - 1);
	return &waits[i];
}

static bool waits_make_room(struct step_request *r)
{
	size_t cap = r->waits_cap ? 2 * r->waits_cap : 16;
	struct step_wait *waits;

	if (2 * r->n_waits < r->waits_cap)
		return true;
	if (r->n_waits == WAITS_MAX)
		return false;
	waits = xcalloc(cap, sizeof(*waits));
	for (size_t i = 0; i < r->waits_cap; i++) {
		if (r->waits[i].serial)
			*find_wait(waits, cap, r->waits[i].serial) = r->waits[i];
	}
	free(r->waits);
	r->waits = waits;
	r->waits_cap = cap;
	return true;
}

void request_add_wait(struct step_request *r, const struct step_wait *w)
{
	struct step_wait *known = w->serial && r->waits_cap ? find_wait(r->waits, r->waits_cap, w->serial) : NULL;

	if (!w->ns)
		return;
	if (known && known->serial) {
		known->ns += w->ns;
	} else if (w->serial && waits_make_room(r)) {
		*find_wait(r->waits, r->waits_cap, w->serial) = *w;
		r->n_waits++;
	} else {
		r->waits_rest += w->ns;
	}
}

static int compare_waits(const void *a, const void *b)
{
	const struct step_wait *x = a, *y = b;

	if (x->ns != y->ns)
		return x->ns < y->ns ? 1 : -1;
	return (x->serial > y->serial) - (x->serial < y->serial);
}

void request_keep_first(struct step_request *r)
{
	r->first_others = r->spans[SPAN_OTHERS];
	r->first_preempted = r->preempted;
	r->first_between = r->spans[SPAN_BETWEEN];
	for (size_t i = 0; i < r->waits_cap && r->n_waits; i++)
		r->waits[i].first_ns = r->waits[i].ns;
}

void request_set_first(struct step_requests *q, struct step_request *r, uint64_t at)
{
	struct step_slot *slot = slot_of(r);

	/* no step of the context ran in between */
	if (slot->first_due && at > slot->first_due)
		r->first_between += at - slot->first_due;
	slot->first_due = 0;
	r->first_output = at;
	if (!r->began_before && !r->mixed)
		TELL_OP(q, first, r);
}

/* Adds part of a gap between steps to SPAN_BETWEEN. off: its off-CPU time, whose state is known if `gap`, the states of the
 * whole gap, has only one off-CPU state. */
static void add_part_of_gap(struct step_request *r, uint64_t ns, bool off_known, uint64_t off, const uint64_t gap[ST_MAX])
{
	int state = ST_CPU;

	r->spans[SPAN_BETWEEN] += ns;
	r->states_unknown[SPAN_BETWEEN] |= !off_known || off > ns;
	if (r->states_unknown[SPAN_BETWEEN])
		return;
	r->span_states[SPAN_BETWEEN][ST_CPU] += ns - off;
	for (int i = ST_CPU + 1; i < ST_MAX && off; i++) {
		r->states_unknown[SPAN_BETWEEN] |= gap[i] && state;
		state = gap[i] ? i : state;
	}
	r->states_unknown[SPAN_BETWEEN] |= off && !state;
	r->span_states[SPAN_BETWEEN][state] += off;
}

/* Moves the start to when the engine began with the request, if that was before its first step `s` with no other in between. */
static void add_lead_in(struct step_slot *slot, const struct step_seen *s)
{
	const struct sequence_change *c = &slot->begun;
	uint64_t known = 0;

	if (!c->at_ns || c->at_ns >= s->start || slot->begun_steps != slot->context->tally.n)
		return;
	for (int i = 0; i < ST_MAX; i++)
		known += s->before_ns[i];
	slot->r.start = c->at_ns;
	add_part_of_gap(&slot->r, s->start - c->at_ns, c->off_known && known >= s->start - c->at_ns,
		(uint32_t)(known - s->before_ns[ST_CPU] - c->off_cpu_ns), s->before_ns);
}

/* Moves the end to when its last token was sampled, if that was after its last step. */
static void add_tail(struct step_slot *slot)
{
	static const uint64_t gap[ST_MAX];
	struct step_request *r = &slot->r;

	if (slot->token.at_ns <= r->last_end)
		return;
	add_part_of_gap(r, slot->token.at_ns - r->last_end, slot->token.off_known, slot->token.off_cpu_ns, gap);
	r->last_end = slot->token.at_ns;
}

/* Sorts the waits, the longest first, and removes empty entries. */
static void sort_waits(struct step_request *r)
{
	size_t n = 0;

	for (size_t i = 0; i < r->waits_cap && n < r->n_waits; i++) {
		if (r->waits[i].serial)
			r->waits[n++] = r->waits[i];
	}
	qsort(r->waits, n, sizeof(*r->waits), compare_waits);
}

/* ---- its life ---- */

void request_begin(struct step_requests *q, struct step_request *r, const struct step_seen *s, bool began_before)
{
	if (r->start)
		return;
	r->start = s->start;
	if (slot_of(r)->arrived < r->start)
		r->arrived = slot_of(r)->arrived;
	slot_of(r)->arrived = 0;
	if (r->arrived)
		request_find_refusals(r);
	add_lead_in(slot_of(r), s);
	slot_of(r)->begun.at_ns = 0;
	r->serial = ++q->serial;
	r->began_before = began_before;
	TELL_OP(q, begin, r, s);
}

void request_set_mixed(struct step_requests *q, struct step_request *r)
{
	if (r->mixed)
		return;
	r->mixed = true;
	TELL_OP(q, mixed, r);
}

void request_touch(struct step_request *r, const struct step_seen *s)
{
	r->cut |= s->cut;
	r->graph |= s->graph;
	r->has_rows |= s->has_rows;
	if (s->end > r->last_end)
		r->last_end = s->end;
	if (s->end > r->busy_until)
		r->busy_until = s->end;
}

void request_end(struct step_requests *q, struct step_request *r)
{
	struct step_slot *slot = slot_of(r);

	if (slot->first_due)
		request_set_first(q, r, slot->first_due);
	add_tail(slot);
	if (r->start && q->ops->done) {
		if (r->n_waits)
			sort_waits(r);
		q->ops->done(r, q->arg);
	}
	if (r->n_waits)
		memset(r->waits, 0, r->waits_cap * sizeof(*r->waits));
	slot->known |= r->start != 0;
	slot->in_prompt = slot->all_outputs = false;
	slot->last_output = slot->token.at_ns = 0;
	request_reset(r, r->busy_until);
}

/* ---- results ---- */

/*
 * If no token has followed the prompt, it is uncertain whether it was complete: llama_batch_get_one() asks for
 * an output of each part.
 */
static bool has_first_token(const struct step_request *r)
{
	if (r->by_parts)
		return r->first_output;
	if (r->began_before || !r->prefill_end || !r->last_outputs)
		return false;
	return r->decodes || (r->has_rows ? r->last_outputs == 1 && r->position >= 0 : r->end_seen);
}

uint64_t step_request_ttft(const struct step_request *r)
{
	uint64_t end = r->by_parts ? r->first_output : r->prefill_end;

	return has_first_token(r) && !r->began_before && !r->lost && end > r->start ? end - r->start : 0;
}

uint64_t step_request_tokens(const struct step_request *r)
{
	return r->outputs + has_first_token(r);
}

bool step_request_split(const struct step_request *r)
{
	return r->by_parts && !r->mixed && !r->lost && !r->unsplit;
}
