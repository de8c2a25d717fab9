// SPDX-License-Identifier: BSD-2-Clause
/*
 * Steps that say which of their rows belong to which sequence. Each sequence has a request of its own. The
 * time of a request, from the start of its first step to the end of its last one, is divided:
 *
 *   in a step that has rows of it   by rows: the share of other requests' prompt rows is SPAN_OTHERS, the
 *                                   rest its own. Decodes of several requests run together, since the weights are
 *                                   read once for all of them: they are not in each other's way
 *   between two of these steps      while other steps of the context ran SPAN_OTHERS, else SPAN_BETWEEN
 *
 * This attribution is exact: it is done in integers, and the last part gets the remainder.
 */
#include "engine/step_requests_inner.h"

/* Divides a whole in proportion to parts; after each part, what was given so far is exact. */
struct division {
	uint64_t whole, of; /* of: the sum of the parts */
	uint64_t parts, given; /* so far */
};

static uint64_t share_of(uint64_t whole, uint64_t part, uint64_t of)
{
	return of ? (uint64_t)((unsigned __int128)whole * part / of) : 0;
}

static uint64_t division_next(struct division *d, uint64_t part)
{
	uint64_t until = share_of(d->whole, d->parts += part, d->of), share = until - d->given;

	d->given = until;
	return share;
}

/* A part of a step, and its slot. */
struct taken {
	struct step_slot *slot;
	struct row_part part;
	uint32_t prompt; /* how many of its rows */
};

struct taken_step {
	const struct step_seen *s;
	struct taken parts[STEP_PARTS_MAX];
	uint32_t n;
	uint64_t rows;	      /* of all; one of several sequences counts once if that is known */
	uint64_t part_rows;   /* counts it in each sequence */
	uint64_t prompt_rows; /* likewise */
};

/* ---- the request of a part ---- */

static bool outputs_known(const struct row_part *p)
{
	return p->outputs != ROW_PART_UNKNOWN;
}

/* Rows that are neither tokens just sampled nor drafts: those give an output each. */
static bool is_prompt_like(const struct row_part *p)
{
	return outputs_known(p) ? p->outputs < p->rows : p->rows > 1;
}

/* Without a position only the pattern of a prompt's parts helps: equal ones, then a smaller rest. */
static bool is_new_unplaced(struct step_requests *q, struct step_slot *slot, const struct row_part *p)
{
	struct step_request *r = &slot->r;

	if (!slot->in_prompt)
		return is_prompt_like(p);
	if (r->prefills && p->rows > 1 && p->rows >= r->last_chunk &&
		(p->rows != r->last_chunk || p->rows != r->first_chunk))
		request_set_mixed(q, r);
	return false;
}

/* Whether the request in its slot is over, and this part belongs to the next one. */
static bool is_new(struct step_requests *q, struct step_slot *slot, const struct row_part *p)
{
	const struct step_request *r = &slot->r;

	if (slot->placed)
		return true;
	if (p->position < 0)
		return is_new_unplaced(q, slot, p);
	if (p->position == 0)
		return true;
	if (r->position < 0)
		return !slot->in_prompt && is_prompt_like(p);
	if (p->position < r->position) {
		/* drafts that were not accepted are decoded again */
		return !r->draft.end || p->position <= r->draft.rows.position || is_prompt_like(p);
	}
	if (p->position > r->position)
		return !slot->in_prompt && (!r->lost || is_prompt_like(p));
	return !slot->in_prompt && is_prompt_like(p);
}

static void begin(
	struct step_requests *q, struct step_slot *slot, const struct step_seen *s, const struct row_part *p, bool leapt)
{
	struct step_request *r = &slot->r;
	/* a prompt may begin after a kept part of another one, but that shows only if that one was seen */
	bool kept = p->position > 0 && p->position == slot->kept && is_prompt_like(p);
	bool before = p->position < 0 ? !is_prompt_like(p) : p->position > 0 && ((!slot->known && !kept) || leapt || slot->beside_loss);

	before &= !slot->placed;
	slot->kept = -1;
	slot->in_prompt = !before || is_prompt_like(p);
	before |= s->began_before;
	r->by_parts = true;
	r->cached = before ? -1 : p->position;
	r->lost = slot->beside_loss && p->position != 0;
	slot->beside_loss = false;
	slot->seen = slot->context->tally;
	r->given = slot->placed;
	slot->placed = 0;
	request_begin(q, r, s, before);
}

/* Finds its request, which may begin with it. */
static void find_request(struct step_requests *q, struct taken *t, const struct step_seen *s)
{
	struct step_slot *slot = t->slot;
	struct step_request *r = &slot->r;
	const struct row_part *p = &t->part;
	bool over = r->start && is_new(q, slot, p), leapt = false;

	request_settle_draft(q, r, p->position);
	if (over) {
		/* a single row far beyond the last one: how it came there was not seen */
		leapt = r->position >= 0 && p->position > r->position && !is_prompt_like(p);
		r->end_seen = true;
		request_end(q, r);
	}
	if (!r->start)
		begin(q, slot, s, p, leapt);
	else if (!r->by_parts)
		r->unsplit = true;
}

/* How many of its rows are prompt: all, or none. */
static uint32_t prompt_rows(struct step_slot *slot, const struct row_part *p)
{
	bool single = p->rows == 1 && slot->r.prefills;

	if (!slot->in_prompt)
		return 0;
	/* after prompts whose rows all give outputs, if the output of a prompt cannot be seen, and if it may have been in a
	 * lost step */
	if (single && (slot->all_outputs || !outputs_known(p) || p->position < 0 || (slot->r.lost && !is_prompt_like(p)))) {
		slot->in_prompt = false;
		return 0;
	}
	return p->rows;
}

/* ---- its tokens ---- */

static void set_first(struct step_slot *slot, uint64_t at)
{
	slot->r.first_output = at;
	slot->last_output = at;
}

static void take_prompt(const struct taken *t, const struct step_seen *s)
{
	struct step_slot *slot = t->slot;
	struct step_request *r = &slot->r;
	const struct row_part *p = &t->part;
	/* with llama_batch_get_one() each part of a prompt has an output, whether it is the last or not */
	bool seen = outputs_known(p) && (p->position >= 0 || p->rows == 1);

	if (!r->prefills++)
		r->first_chunk = p->rows;
	r->last_chunk = p->rows;
	r->prompt_tokens += p->rows;
	r->prefill_end = s->cut ? 0 : s->end;
	r->last_outputs = seen ? p->outputs : UINT64_MAX;
	/* its first output may be this step's, which for some shows later */
	request_keep_first(r);
	if (!seen || !p->outputs || s->cut)
		return;
	slot->all_outputs = p->outputs == p->rows && p->rows > 1;
	slot->in_prompt = slot->all_outputs;
	if (p->outputs == 1)
		set_first(slot, s->end);
}

static void take_decode(struct step_requests *q, const struct taken *t, const struct step_seen *s)
{
	struct step_slot *slot = t->slot;
	struct step_request *r = &slot->r;
	const struct row_part *p = &t->part;

	if (s->cut || !p->outputs)
		return;
	/* now it is clear that the prompt was over */
	if (!r->decodes && !r->first_output && r->prefill_end && r->last_outputs == UINT64_MAX)
		set_first(slot, r->prefill_end);
	r->decodes++;
	r->outputs++;
	if (outputs_known(p) && p->outputs > 1)
		request_keep_draft(r, s, p->position, p->outputs, slot->last_output);
	else if (slot->last_output && !s->began_before)
		request_add_tokens(q, r, s, slot->last_output, 1);
	slot->last_output = s->end;
}

/* ---- its time ---- */

/* Adds waits for the requests that had rows in steps while this one had none. */
static void add_waits_between(struct step_requests *q, struct step_slot *slot, uint64_t ns)
{
	const struct carried *c = carried_get(&q->slots, slot->context->last_carried);

	for (; c && c->step >= slot->seen.n && ns; c = carried_get(&q->slots, c->before)) {
		struct step_wait w = { c->serial, c->tgid, c->sequence, c->ns < ns ? c->ns : ns, 0 };

		request_add_wait(&slot->r, &w);
		ns -= w.ns;
	}
	request_add_wait(&slot->r, &(struct step_wait){ .ns = ns });
}

/* Adds the time from its last step to this one. */
static void add_between(struct step_requests *q, struct step_slot *slot)
{
	const struct step_tally *now = &slot->context->tally, *then = &slot->seen;
	struct step_request *r = &slot->r;
	uint64_t others = now->steps - then->steps;

	r->spans[SPAN_OTHERS] += others;
	r->spans[SPAN_BETWEEN] += now->gaps - then->gaps;
	r->states_unknown[SPAN_OTHERS] |= now->blind_steps != then->blind_steps;
	r->states_unknown[SPAN_BETWEEN] |= now->blind_gaps != then->blind_gaps;
	for (int i = 0; i < ST_MAX; i++) {
		r->span_states[SPAN_OTHERS][i] += now->steps_states[i] - then->steps_states[i];
		r->span_states[SPAN_BETWEEN][i] += now->gaps_states[i] - then->gaps_states[i];
	}
	if (others)
		add_waits_between(q, slot, others);
}

/* Adds the time of a step with rows of it. */
static uint64_t add_within(const struct taken_step *ts, const struct taken *t)
{
	const struct step_seen *s = ts->s;
	struct step_request *r = &t->slot->r;
	enum request_span own = t->prompt ? SPAN_OWN_PREFILL : SPAN_OWN_DECODE;
	uint64_t total = s->end - s->start, prompts = ts->prompt_rows - t->prompt;
	/* rows shared with it are not another request's */
	uint64_t not_own = ts->rows > t->part.rows ? ts->rows - t->part.rows : 0;
	uint64_t others = share_of(total, prompts < not_own ? prompts : not_own, ts->rows);
	struct division waits = { .whole = others, .of = prompts }, states = { .whole = others, .of = total };

	r->spans[SPAN_OTHERS] += others;
	r->spans[own] += total - others;
	r->states_unknown[own] |= !s->has_states;
	r->states_unknown[SPAN_OTHERS] |= !s->has_states && others;
	for (int i = 0; i < ST_MAX; i++) {
		uint64_t ns = division_next(&states, s->ns[i]);

		r->span_states[SPAN_OTHERS][i] += ns;
		r->span_states[own][i] += s->ns[i] - ns;
	}
	for (uint32_t i = 0; i < ts->n && others; i++) {
		const struct taken *other = &ts->parts[i];
		const struct step_request *o = &other->slot->r;

		if (other == t || !other->prompt)
			continue;
		request_add_wait(r, &(struct step_wait){
					    o->serial, o->tgid, o->sequence, division_next(&waits, other->prompt), 0 });
	}
	return others;
}

/* ---- a step ---- */

static bool is_in(const struct taken_step *ts, const struct step_slot *slot)
{
	for (uint32_t i = 0; i < ts->n; i++) {
		if (ts->parts[i].slot == slot)
			return true;
	}
	return false;
}

static void take_parts(struct step_requests *q, struct step_context *c, struct taken_step *ts)
{
	const struct step_seen *s = ts->s;

	for (uint32_t i = 0; i < s->n_parts && i < STEP_PARTS_MAX; i++) {
		struct taken *t = &ts->parts[ts->n];

		*t = (struct taken){ .part = s->parts[i] };
		if (!t->part.rows)
			continue;
		t->slot = step_slots_get(&q->slots, c, t->part.sequence);
		if (is_in(ts, t->slot))
			continue;
		ts->n++;
		if (t->part.position > POSITION_MAX)
			t->part.position = -1;
		find_request(q, t, s);
		t->prompt = prompt_rows(t->slot, &t->part);
		ts->part_rows += t->part.rows;
		ts->prompt_rows += t->prompt;
	}
	ts->rows = s->tokens && s->tokens <= UINT32_MAX ? s->tokens : ts->part_rows;
}

/* Of some sequences nothing is known: they may be any that are not in the step. */
static void set_untold(struct step_requests *q, struct step_context *c, const struct taken_step *ts)
{
	struct step_slot *slot;

	for (slot = c->slots.first; slot; slot = slot_after(slot)) {
		if (!slot->r.start)
			continue;
		if (is_in(ts, slot))
			slot->r.unsplit = true;
		else
			request_set_mixed(q, &slot->r);
	}
}

static void give(struct step_requests *q, const struct taken_step *ts, const struct taken *t)
{
	const struct step_seen *s = ts->s;
	struct step_request *r = &t->slot->r;
	struct request_part part = { .rows = &t->part, .prompt = t->prompt };
	bool had_first = r->first_output;

	add_between(q, t->slot);
	part.others_ns = add_within(ts, t);
	part.own_ns = s->end - s->start - part.others_ns;
	r->steps++;
	r->shared += ts->n > 1 || s->parts_left;
	if (t->prompt)
		take_prompt(t, s);
	else
		take_decode(q, t, s);
	request_touch(r, s);
	r->position = t->part.position >= 0 ? t->part.position + t->part.rows : -1;
	if (q->ops->part)
		q->ops->part(r, s, &part, q->arg);
	if (q->ops->first && r->first_output && !had_first && !r->began_before && !r->mixed)
		q->ops->first(r, s, q->arg);
}

void step_parts_take(struct step_requests *q, struct step_context *c, const struct step_seen *s)
{
	struct taken_step ts = { .s = s };
	bool overlaps = s->start < c->busy_until;
	struct division carried = { .whole = s->end - s->start };

	take_parts(q, c, &ts);
	if (s->parts_left)
		set_untold(q, c, &ts);
	carried.of = ts.part_rows;
	for (uint32_t i = 0; i < ts.n; i++) {
		if (overlaps)
			request_set_mixed(q, &ts.parts[i].slot->r);
		give(q, &ts, &ts.parts[i]);
	}
	for (uint32_t i = 0; i < ts.n; i++)
		carried_add(&q->slots, c, &ts.parts[i].slot->r, division_next(&carried, ts.parts[i].part.rows));
	step_context_pass(c, s);
	for (uint32_t i = 0; i < ts.n; i++)
		ts.parts[i].slot->seen = c->tally;
	if (q->ops->step && ts.n)
		q->ops->step(&ts.parts[0].slot->r, s, q->arg);
}
