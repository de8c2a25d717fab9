// SPDX-License-Identifier: BSD-2-Clause
#include "requests/step_requests.h"

#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "engine/check.h"
#include "requests/step_slots.h"
#include "util/clock.h"

/* ---- changes of sequences between steps (sequences.h), which end requests ---- */

/* The context of a change, as steps name it. NULL: it is unknown, or ambiguous. */
static struct step_context *change_find_context(struct step_requests *q, const struct sequence_change *c)
{
	uint64_t context = sequence_context(&q->memories, c);
	struct step_context *only = NULL;

	if (context)
		return step_slots_context(q, c->tgid, context);
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

/* Ends the request: nothing of the sequence is left. */
static void slot_end_request(struct step_requests *q, struct step_slot *slot)
{
	struct step_request *r = &slot->r;

	if (!r->start)
		return;
	r->end_seen = true;
	/* a prompt that is dropped before its first output has been given up */
	r->cancelled = r->by_parts && slot->in_prompt && !slot->all_outputs && !r->first_output && !r->mixed && !r->lost;
	request_end(q, r);
}

static void request_shift_position(struct step_request *r, const struct sequence_change *c)
{
	if (!r->start || r->position <= c->from || r->position > c->to || c->by < -r->position ||
		c->by > POSITION_MAX - r->position)
		return;
	r->position += c->by;
	if (r->draft.rows.position >= 0)
		r->draft.rows.position += c->by;
}

/* The time that the engine tells may be anything: it is believed only if it lies between SEQUENCE_PLACE and this call. */
static void take_begin(struct step_slot *slot, const struct sequence_change *c)
{
	const struct sequence_change *place = &slot->place;

	if (!place->request || slot->begun.at_ns)
		return;
	slot->begun = *c;
	slot->begun_steps = slot->context->tally.n;
	if (c->said_ns < place->at_ns || c->said_ns > c->at_ns)
		return;
	slot->begun.at_ns = c->said_ns;
	slot->begun.off_known &= place->off_known && place->off_cpu_ns == c->off_cpu_ns;
}

/* Takes the time of a token only if no other step of the context has followed: then all time since is between steps. */
static void take_token(struct step_requests *q, struct step_slot *slot, const struct sequence_change *c)
{
	struct step_request *r = &slot->r;

	if (!r->start || !r->by_parts || slot->seen.n != slot->context->tally.n || c->at_ns < r->last_end)
		return;
	slot->token = *c;
	if (c->said_ns >= r->last_end && c->said_ns <= c->at_ns) {
		slot->token.at_ns = c->said_ns;
		slot->token.off_known &= !c->off_cpu_ns;
	}
	if (slot->first_due)
		request_set_first(q, r, slot->token.at_ns);
}

static void change_slot(struct step_requests *q, struct step_slot *slot, const struct sequence_change *c)
{
	struct step_request *r = &slot->r;

	switch (c->what) {
	case SEQUENCE_BEGIN:
		take_begin(slot, c);
		return;
	case SEQUENCE_TOKEN:
		take_token(q, slot, c);
		return;
	case SEQUENCE_FIRST:
		if (!r->start) {
			slot->arrived = c->said_ns;
		} else if (c->said_ns < r->start) {
			r->arrived = c->said_ns;
			request_find_refusals(r);
		}
		return;
	case SEQUENCE_SHIFT:
		request_shift_position(r, c);
		return;
	case SEQUENCE_REMOVE:
		/* draft tokens that were not accepted are dropped: what is left shows how many were */
		if (r->draft.end && c->from > r->draft.rows.position && c->from <= r->position && c->to == INT64_MAX) {
			request_settle_draft(q, r, c->from);
			r->position = c->from;
		}
		if (c->from || c->to < INT64_MAX)
			return;
		break;
	default:
		break;
	}
	slot_end_request(q, slot);
}

static void change_apply(struct step_requests *q, const struct sequence_change *c)
{
	struct step_context *context = change_find_context(q, c);
	struct step_slot *slot, *source;

	if (c->draft)
		drafts_add(&q->drafts, c->tgid, c->draft);
	if (!context)
		return;
	if (c->what == SEQUENCE_PLACE) { /* its next rows begin this request: the previous one is over */
		slot = step_slots_get(q, context, c->sequence);
		slot->r.end_seen = true;
		request_end(q, &slot->r);
		slot->place = *c;
		slot->begun.at_ns = 0;
		return;
	}
	if (c->what == SEQUENCE_COPY) {
		/* Rows that follow the copied part are a new prompt if they look like one. A call that drops all behind a
		 * position tells no such thing: servers make it before each part of a prompt. */
		source = step_slots_find(&q->slots, context, c->source);
		if (c->to < INT64_MAX || (source && source->r.position > 0))
			step_slots_get(q, context, c->sequence)->kept = c->to < INT64_MAX ? c->to : source->r.position;
		return;
	}
	if (c->what == SEQUENCE_FIRST) { /* perhaps before a step has shown it: its batch waits for the results of the one before */
		change_slot(q, step_slots_get(q, context, c->sequence), c);
		return;
	}
	DL_FOREACH(context->slots, slot)
	{
		if (c->every || (slot->r.sequence == c->sequence) != (c->what == SEQUENCE_KEEP))
			change_slot(q, slot, c);
	}
}

/* Applies the changes up to the start of a step. Calls after the last step wait for the next one: calls may still be recorded
 * when steps no longer are, and then it is unknown whether the request had further steps. */
static void step_changes_until(struct step_requests *q, uint64_t ns)
{
	while (q->first_change < q->n_changes && q->changes[q->first_change].at_ns <= ns)
		change_apply(q, &q->changes[q->first_change++]);
	if (q->first_change == q->n_changes)
		q->first_change = q->n_changes = 0;
}

/* Applies the changes left that are certain wherever the recording stops: the end of a request and its last token, as the
 * engine tells, and which of its last draft tokens were accepted. */
static void step_changes_finish(struct step_requests *q)
{
	for (size_t i = q->first_change; i < q->n_changes; i++) {
		const struct sequence_change *c = &q->changes[i];

		if (c->what == SEQUENCE_TOKEN || c->what == SEQUENCE_END || c->what == SEQUENCE_FIRST ||
			(c->what == SEQUENCE_REMOVE && c->from > 0))
			change_apply(q, c);
	}
	q->first_change = q->n_changes = 0;
}

void step_requests_change(struct step_requests *q, const struct sequence_change *c)
{
	size_t i;

	if (q->n_changes == STEP_CHANGES_MAX) {
		size_t n = q->first_change ? q->first_change : STEP_CHANGES_MAX / 2;

		q->n_changes -= n;
		q->first_change = 0;
		memmove(q->changes, q->changes + n, q->n_changes * sizeof(*q->changes));
	}
	for (i = q->n_changes++; i > q->first_change && q->changes[i - 1].at_ns > c->at_ns; i--)
		q->changes[i] = q->changes[i - 1];
	q->changes[i] = *c;
}

void step_requests_call(struct step_requests *q, const struct rec_function *r)
{
	struct sequence_change c;

	if (sequence_change_of(&q->memories, q->probes, r, &c))
		step_requests_change(q, &c);
}

/*
 * ---- steps whose rows are known by sequence ----
 *
 * Each sequence has a request of its own. The time of a request, from the start of its first step to the end of its last one,
 * is divided:
 *
 *   in a step that has rows of it   by rows: the share of other requests' prompt rows is SPAN_OTHERS, the
 *                                   rest its own. Decodes of several requests run together, since the weights are
 *                                   read once for all of them: they are not in each other's way
 *   between two of these steps      while other steps of the context ran SPAN_OTHERS, else SPAN_BETWEEN
 *
 * This attribution is exact: it is done in integers, and the last part gets the remainder.
 */

/* Divides a whole in proportion to parts. After each part, the sum given so far is exact. */
struct division {
	uint64_t whole, of;    /* of: the sum of the parts */
	uint64_t parts, given; /* so far */
};

static uint64_t pro_rata_share(uint64_t whole, uint64_t part, uint64_t of)
{
	return of ? (uint64_t)((unsigned __int128)whole * part / of) : 0;
}

static uint64_t division_next(struct division *d, uint64_t part)
{
	uint64_t until = pro_rata_share(d->whole, d->parts += part, d->of), share = until - d->given;

	d->given = until;
	return share;
}

/* A part of a step, and its slot. */
struct taken {
	struct step_slot *slot;
	struct row_part part;
	uint32_t prompt; /* how many of its rows are prompt */
	uint32_t again;	 /* how many of its rows were computed before a preemption */
	bool resumed;	 /* it goes on after that */
};

/* How many of its rows others in the step wait for. */
static uint32_t taken_heavy(const struct taken *t)
{
	return t->prompt ? t->prompt : t->again;
}

struct taken_step {
	const struct step_seen *s;
	uint32_t n;
	uint64_t rows;        /* of the step; a row of several sequences counts once if that is known */
	uint64_t part_rows;   /* the sum of the parts' rows */
	uint64_t prompt_rows; /* the sum of their prompt rows, and of those of decodes that are computed again */
	struct taken parts[STEP_PARTS_MAX];
};

/* ---- prompts ---- */

/*
 * Whether a prefill may continue the prompt: one longer than a batch comes in equal parts and a smaller rest. If
 * rows are unknown, other runs of prefills are batches of several sequences, which are named prefill as well.
 */
static bool is_next_part(const struct step_request *r, uint64_t tokens)
{
	return tokens < r->last_chunk || (tokens == r->last_chunk && tokens == r->first_chunk);
}

/* again: tokens that were counted before */
static void count_prefill(struct step_request *r, const struct step_seen *s, uint64_t tokens, uint64_t again, uint64_t outputs)
{
	if (!r->prefills++)
		r->first_chunk = tokens;
	r->last_chunk = tokens;
	r->prompt_tokens += tokens - again;
	r->prefill_end = s->cut ? 0 : s->end;
	r->last_outputs = outputs;
	r->prefill_step = s->number;
}

/* ---- the request of a part ---- */

static bool part_has_known_outputs(const struct row_part *p)
{
	return p->outputs != ROW_PART_UNKNOWN;
}

/* Whether the rows are a prompt: just sampled tokens and drafts give an output each. */
static bool is_prompt_like(const struct row_part *p)
{
	return part_has_known_outputs(p) ? p->outputs < p->rows : p->rows > 1;
}

/* part_is_new_request() without a position: only the pattern of a prompt's parts helps, equal ones and a smaller rest. */
static bool part_is_new_unplaced(struct step_requests *q, struct step_slot *slot, const struct row_part *p)
{
	struct step_request *r = &slot->r;

	if (!slot->in_prompt)
		return is_prompt_like(p);
	if (r->prefills && p->rows > 1 && !is_next_part(r, p->rows))
		request_set_mixed(q, r);
	return false;
}

/* Whether the slot's request is over, and this part belongs to the next one. */
static bool part_is_new_request(struct step_requests *q, struct step_slot *slot, const struct row_part *p)
{
	const struct step_request *r = &slot->r;

	if (slot->place.request)
		return true;
	if (p->position < 0)
		return part_is_new_unplaced(q, slot, p);
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

static void slot_begin_request(
	struct step_requests *q, struct step_slot *slot, const struct step_seen *s, const struct row_part *p, bool leapt)
{
	struct step_request *r = &slot->r;
	/* a prompt may begin after a kept part of another one, but that shows only if the other one was seen */
	bool kept = p->position > 0 && p->position == slot->kept && is_prompt_like(p);
	bool before = p->position < 0 ? !is_prompt_like(p) : p->position > 0 && ((!slot->known && !kept) || leapt || slot->beside_loss);

	if (s->own_ids) /* the engine says of a new one where it begins */
		before = p->position < 0;
	before &= !slot->place.request;
	slot->kept = -1;
	slot->in_prompt = !before || is_prompt_like(p);
	before |= s->began_before;
	r->by_parts = true;
	r->own_ids = s->own_ids;
	r->cached = before ? -1 : p->position;
	r->lost = slot->beside_loss && p->position != 0;
	slot->beside_loss = false;
	slot->seen = slot->context->tally;
	r->given = slot->place.request;
	slot->place.request = 0;
	request_begin(q, r, s, before);
}

/* A request whose end is not told is over if it had no step for this long, when another one begins. */
#define IDLE_NS (10 * NSEC_PER_SEC)

static void end_idle(struct step_requests *q, struct step_context *c, uint64_t now)
{
	struct step_slot *slot;

	DL_FOREACH(c->slots, slot)
	{
		if (slot->r.start && slot->r.last_end && slot->r.last_end + IDLE_NS < now) /* not one that begins with this step, too */
			request_end(q, &slot->r);
	}
}

/* Finds the request of a part, which may begin with it. */
static void find_request(struct step_requests *q, struct taken *t, const struct step_seen *s)
{
	struct step_slot *slot = t->slot;
	struct step_request *r = &slot->r;
	const struct row_part *p = &t->part;
	bool over = r->start && !s->own_ids && part_is_new_request(q, slot, p), leapt = false;

	request_settle_draft(q, r, p->position);
	if (over) {
		/* a single row beyond the expected position: what came in between was not seen */
		leapt = r->position >= 0 && p->position > r->position && !is_prompt_like(p);
		r->end_seen = true;
		request_end(q, r);
	}
	if (!r->start && s->no_ends)
		end_idle(q, slot->context, s->start);
	if (!r->start)
		slot_begin_request(q, slot, s, p, leapt);
	else if (!r->by_parts)
		r->unsplit = true;
}

/* A part of a request that its engine numbers: whether it was preempted before, and which rows it had computed already. */
static void find_preemption(struct taken *t, const struct step_seen *s)
{
	struct step_request *r = &t->slot->r;
	struct row_part *p = &t->part;
	bool placed = p->position >= 0;

	if (!s->own_ids || r->position < 0)
		return;
	if (!placed)
		p->position = r->position;
	else if (r->steps)
		t->resumed = s->placed_once || p->position < r->position;
	if (t->resumed && r->position > r->computed)
		r->computed = r->position;
	if (p->position > r->computed && t->resumed) { /* others have computed what it had not, with the same beginning */
		r->cached += p->position - r->computed;
		r->computed = p->position;
	}
	if (p->position < r->computed)
		t->again = r->computed - p->position < p->rows ? (uint32_t)(r->computed - p->position) : p->rows;
}

/* How many rows of the part are prompt: all, or none. */
static uint32_t prompt_rows(struct step_slot *slot, const struct row_part *p, bool own_ids)
{
	bool single = p->rows == 1 && slot->r.prefills && !(own_ids && part_has_known_outputs(p));

	if (!slot->in_prompt)
		return 0;
	/* a single row is a decode after a prompt whose rows all give outputs, if the prompt's output cannot be seen, or if it
	 * may have been in a lost step */
	if (single && (slot->all_outputs || !part_has_known_outputs(p) || p->position < 0 || (slot->r.lost && !is_prompt_like(p)))) {
		slot->in_prompt = false;
		return 0;
	}
	return p->rows;
}

/* ---- its tokens ---- */

static void take_prompt(const struct taken *t, const struct step_seen *s)
{
	struct step_slot *slot = t->slot;
	struct step_request *r = &slot->r;
	const struct row_part *p = &t->part;
	/* with llama_batch_get_one() each part of a prompt has an output, whether it is the last or not */
	bool seen = part_has_known_outputs(p) && (p->position >= 0 || p->rows == 1 || s->own_ids);

	count_prefill(r, s, p->rows, t->again, seen ? p->outputs : UINT64_MAX);
	/* this step may give its first output, which sometimes shows only later */
	request_keep_first(r);
	if (!seen || !p->outputs || s->cut)
		return;
	slot->all_outputs = p->outputs == p->rows && p->rows > 1 && !s->own_ids;
	slot->in_prompt = slot->all_outputs;
	if (p->outputs == 1 || s->own_ids)
		slot->last_output = slot->first_due = s->end;
}

static void take_decoded_rows(struct step_requests *q, const struct taken *t, const struct step_seen *s)
{
	struct step_slot *slot = t->slot;
	struct step_request *r = &slot->r;
	const struct row_part *p = &t->part;
	uint64_t n;

	if (s->cut || !p->outputs)
		return;
	/* now it is clear that the prompt was over */
	if (!r->decodes && !r->first_output && r->prefill_end && r->last_outputs == UINT64_MAX)
		slot->last_output = slot->first_due = r->prefill_end;
	r->decodes++;
	n = s->own_ids && p->outputs != ROW_PART_UNKNOWN ? p->outputs : 1; /* these are accepted ones */
	r->outputs += n;
	if (part_has_known_outputs(p) && p->outputs > 1 && !s->own_ids)
		request_keep_draft(r, s, p->position, p->outputs, slot->last_output);
	else if (slot->last_output && !s->began_before)
		request_add_tokens(q, r, s, slot->last_output, n);
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
static void slot_add_time_between(struct step_requests *q, struct step_slot *slot)
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

/* Adds the time of a step that has rows of the request. Returns the part that is SPAN_OTHERS. */
static uint64_t taken_add_step_time(const struct taken_step *ts, const struct taken *t)
{
	const struct step_seen *s = ts->s;
	struct step_request *r = &t->slot->r;
	enum request_span own = t->prompt ? SPAN_OWN_PREFILL : SPAN_OWN_DECODE;
	uint64_t total = s->end - s->start, prompts = ts->prompt_rows - taken_heavy(t);
	/* rows that it shares are not another request's */
	uint64_t not_own = ts->rows > t->part.rows ? ts->rows - t->part.rows : 0;
	uint64_t others = pro_rata_share(total, prompts < not_own ? prompts : not_own, ts->rows);
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

		if (other == t || !taken_heavy(other))
			continue;
		request_add_wait(r, &(struct step_wait){
					    o->serial, o->tgid, o->sequence, division_next(&waits, taken_heavy(other)), 0 });
	}
	return others;
}

/* ---- a step ---- */

static bool taken_has_slot(const struct taken_step *ts, const struct step_slot *slot)
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
		t->slot = step_slots_get(q, c, t->part.sequence);
		if (taken_has_slot(ts, t->slot))
			continue;
		ts->n++;
		if (t->part.position > POSITION_MAX)
			t->part.position = -1;
		find_request(q, t, s);
		find_preemption(t, s);
		t->prompt = prompt_rows(t->slot, &t->part, s->own_ids);
		ts->part_rows += t->part.rows;
		ts->prompt_rows += taken_heavy(t);
	}
	ts->rows = s->tokens && s->tokens <= UINT32_MAX ? s->tokens : ts->part_rows;
}

/* The step has sequences without a part: these may be any of the context that it does not show. */
static void slots_mark_partless(struct step_requests *q, struct step_context *c, const struct taken_step *ts)
{
	struct step_slot *slot;

	DL_FOREACH(c->slots, slot)
	{
		if (!slot->r.start)
			continue;
		if (taken_has_slot(ts, slot))
			slot->r.unsplit = true;
		else
			request_set_mixed(q, &slot->r);
	}
}

static void request_add_preemption(struct step_request *r, uint64_t until)
{
	if (until < r->last_end) /* its steps overlap: it is mixed */
		return;
	if (r->preemptions < PREEMPTIONS_KEPT) {
		r->out[r->preemptions].from = r->last_end;
		r->out[r->preemptions].to = until;
	}
	r->preemptions++;
	r->preempted += until - r->last_end;
}

/* How far a part has moved its request: by the drafts that were accepted, whether these are among its rows or not. */
static uint32_t part_computed(const struct taken *t, const struct step_seen *s)
{
	const struct row_part *p = &t->part;

	return s->own_ids && !taken_heavy(t) && part_has_known_outputs(p) && p->outputs ? p->outputs : p->rows;
}

static void request_take_part(struct step_requests *q, const struct taken_step *ts, const struct taken *t)
{
	const struct step_seen *s = ts->s;
	struct step_request *r = &t->slot->r;
	struct request_part part = { .rows = &t->part, .prompt = t->prompt, .again = t->again, .resumed = t->resumed };

	if (t->slot->first_due)
		request_set_first(q, r, t->slot->first_due);
	slot_add_time_between(q, t->slot);
	part.others_ns = taken_add_step_time(ts, t);
	part.own_ns = s->end - s->start - part.others_ns;
	if (t->resumed)
		request_add_preemption(r, s->start);
	r->recomputed += t->again;
	r->recompute += pro_rata_share(part.own_ns, t->again, t->part.rows);
	r->steps++;
	r->shared += ts->n > 1 || s->parts_left;
	if (t->prompt)
		take_prompt(t, s);
	else
		take_decoded_rows(q, t, s);
	if (!t->prompt && !r->second) /* a step takes more nanoseconds than it has parts */
		r->second = s->start + (uint64_t)(t - ts->parts);
	request_touch(r, s);
	r->position = t->part.position >= 0 ? t->part.position + part_computed(t, s) : -1;
	TELL_OP(q, part, r, s, &part);
	/* an engine that numbers its requests also tells later when it sampled this step's token */
	if (t->slot->first_due && (t->slot->first_due < s->end || !r->given))
		request_set_first(q, r, t->slot->first_due);
}

static void step_parts_take(struct step_requests *q, struct step_context *c, const struct step_seen *s)
{
	struct taken_step ts; /* its parts, 10 KB, need no zeros */
	bool overlaps = s->start < c->busy_until;
	struct division carried = { .whole = s->end - s->start };

	ts.s = s;
	ts.n = 0;
	ts.part_rows = ts.prompt_rows = 0;
	take_parts(q, c, &ts);
	if (s->parts_left)
		slots_mark_partless(q, c, &ts);
	carried.of = ts.part_rows;
	for (uint32_t i = 0; i < ts.n; i++) {
		if (overlaps)
			request_set_mixed(q, &ts.parts[i].slot->r);
		request_take_part(q, &ts, &ts.parts[i]);
	}
	for (uint32_t i = 0; i < ts.n; i++)
		carried_add(&q->slots, c, &ts.parts[i].slot->r, division_next(&carried, ts.parts[i].part.rows));
	step_context_pass(c, s);
	for (uint32_t i = 0; i < ts.n; i++)
		ts.parts[i].slot->seen = c->tally;
	if (ts.n)
		TELL_OP(q, step, &ts.parts[0].slot->r, s);
}

/* ---- all steps ---- */

uint64_t step_seen_tokens(const struct step_seen *s)
{
	if (s->cut)
		return 0;
	if (!s->has_rows)
		return s->phase != PHASE_DECODE ? 0 : s->tokens ? s->tokens
								: 1;
	if (s->n_parts) {
		uint64_t n = 0;

		for (uint32_t i = 0; i < s->n_parts; i++) {
			if (part_has_known_outputs(&s->parts[i]))
				n += s->own_ids || !s->parts[i].outputs ? s->parts[i].outputs : 1;
		}
		return n;
	}
	if (!s->rows.outputs_known)
		return s->phase == PHASE_DECODE;
	if (s->phase == PHASE_SHARED)
		return s->rows.n_outputs < s->rows.n_sequences ? s->rows.n_outputs : s->rows.n_sequences;
	return s->rows.n_outputs > 0;
}

/* ---- steps whose rows are not known by sequence ---- */

static void take_prefill(struct step_requests *q, struct step_request *r, const struct step_seen *s)
{
	if (r->prefills && s->phase == PHASE_PREFILL && (r->position < 0 || !s->has_rows) &&
		!is_next_part(r, s->tokens))
		request_set_mixed(q, r);
	count_prefill(r, s, s->tokens, 0, s->has_rows && s->rows.outputs_known ? s->rows.n_outputs : UINT64_MAX);
}

static void take_decode(struct step_requests *q, struct step_request *r, const struct step_seen *s)
{
	uint64_t from = r->decodes || r->prefill_end ? r->last_end : 0;

	if (s->cut || (s->has_rows && s->rows.outputs_known && !s->rows.n_outputs))
		return;
	r->decodes++;
	r->outputs += step_seen_tokens(s);
	if (s->has_rows && s->rows.n_outputs > 1)
		request_keep_draft(r, s, s->rows.position, s->rows.n_outputs, from);
	else if (from && !s->began_before)
		request_add_tokens(q, r, s, from, 1);
}

static struct step_request *request_set_shared(struct step_requests *q, struct step_request *r, const struct step_seen *s)
{
	request_begin(q, r, s, false);
	request_set_mixed(q, r);
	r->shared++;
	r->position = -1;
	r->draft.end = 0;
	request_touch(r, s);
	return r;
}

#define NO_SEQUENCE UINT64_MAX

/* Takes a shared step for the requests that had a part in it; if it is unknown which, for all of the context. */
static void take_shared(struct step_requests *q, struct step_context *c, const struct step_seen *s)
{
	struct step_request *r = NULL;
	struct step_slot *slot;

	for (uint64_t i = 0; i < 64 && s->rows.mask; i++) {
		if (s->rows.mask & UINT64_C(1) << i)
			r = request_set_shared(q, &step_slots_get(q, c, i)->r, s);
	}
	if (!s->rows.mask) {
		DL_FOREACH(c->slots, slot)
		{
			if (slot->r.start)
				r = request_set_shared(q, &slot->r, s);
		}
	}
	if (!r)
		r = request_set_shared(q, &step_slots_get(q, c, NO_SEQUENCE)->r, s);
	TELL_OP(q, step, r, s);
}

/* Whether no other request of the context has had a later step. */
static bool request_is_latest(struct step_request *r)
{
	const struct step_slot *other;

	DL_FOREACH(slot_of(r)->context->slots, other)
	{
		if (other->r.last_end > r->last_end)
			return false;
	}
	return true;
}

/* Whether a prefill step continues the prompt of the slot's request. */
static bool prompt_is_continued(struct step_request *r, const struct step_seen *s)
{
	if (r->decodes || r->began_before)
		return false;
	if (!s->has_rows || s->rows.position < 0)
		return !r->shared;
	if (r->position >= 0)
		return s->rows.position == r->position;
	/* the rest of what did not fit the shared step just before; else a new request with a prefix kept from an earlier one */
	return s->rows.position > 0 && r->shared && request_is_latest(r);
}

/* Calls `part` and `first` as for a step with parts. */
static void tell_alone_part(struct step_requests *q, struct step_request *r, const struct step_seen *s, bool prompt)
{
	const struct row_part rows = {
		.sequence = r->sequence,
		.position = s->has_rows ? s->rows.position : -1,
		.rows = (uint32_t)s->tokens,
		.outputs = s->has_rows && s->rows.outputs_known ? (uint32_t)s->rows.n_outputs : ROW_PART_UNKNOWN,
	};
	const struct request_part part = { .rows = &rows, .prompt = prompt ? rows.rows : 0 };

	TELL_OP(q, part, r, s, &part);
	if (r->first_output || r->mixed || !step_request_ttft(r))
		return;
	request_set_first(q, r, r->prefill_end);
}

static void take_alone_step(struct step_requests *q, struct step_context *c, const struct step_seen *s)
{
	struct step_request *r = &step_slots_get(q, c, s->has_rows ? s->rows.sequence : 0)->r;
	/* if so, two requests are mixed: the one whose step is running, and the one that this step may begin */
	bool overlaps = s->start < r->busy_until, prompt;

	if (overlaps)
		request_set_mixed(q, r);
	request_settle_draft(q, r, s->has_rows ? s->rows.position : -1);
	if (s->phase == PHASE_PREFILL && r->start && !prompt_is_continued(r, s)) {
		r->end_seen = true;
		request_end(q, r);
	}
	if (!r->start) {
		request_begin(q, r, s, s->phase == PHASE_DECODE || s->began_before);
		if (overlaps)
			request_set_mixed(q, r);
	}
	/* its rows were known in other steps */
	r->unsplit |= r->by_parts;
	/* a single row after parts without an output is the prompt's last one */
	prompt = s->phase == PHASE_PREFILL || (r->prefills && !r->decodes && !r->last_outputs);
	if (prompt)
		take_prefill(q, r, s);
	else
		take_decode(q, r, s);
	request_touch(r, s);
	r->position = s->has_rows && s->rows.position >= 0 ? s->rows.position + (int64_t)s->tokens : -1;
	tell_alone_part(q, r, s, prompt);
	TELL_OP(q, step, r, s);
}

/* ---- the timeline of a context ---- */

/* Adds the gap before a step to the context's tally. Its states are known only if the thread's last step was the context's. */
static void context_add_gap(struct step_context *c, const struct step_seen *s)
{
	uint64_t gap = s->start - c->busy_until, known = 0;

	for (int i = 0; i < ST_MAX; i++)
		known += s->before_ns[i];
	c->tally.gaps += gap;
	if (known != gap) {
		c->tally.blind_gaps++;
		return;
	}
	for (int i = 0; i < ST_MAX; i++)
		c->tally.gaps_states[i] += s->before_ns[i];
}

/* Moves the context up to the start of a step. Overlapping steps would be counted twice in each other's partition. */
static void context_pass_gap(struct step_requests *q, struct step_context *c, const struct step_seen *s)
{
	struct step_slot *slot;

	if (!c->busy_until || s->start == c->busy_until)
		return;
	if (s->start > c->busy_until) {
		context_add_gap(c, s);
		return;
	}
	DL_FOREACH(c->slots, slot)
	{
		if (slot->r.by_parts && slot->r.last_end > s->start)
			request_set_mixed(q, &slot->r);
	}
}

static void slots_set_lost(struct step_requests *q)
{
	struct step_slots *t = &q->slots;

	for (size_t i = 0; i < t->n; i++) {
		t->slots[i].r.lost |= t->slots[i].r.start != 0;
		t->slots[i].beside_loss = true;
	}
}

/*
 * Whether steps were lost before this one. The step tells what the kernel side has lost. For steps dropped later only their
 * number is missing, like those of other processes' steps: that counts only where the counters show a loss.
 */
static bool find_loss(struct step_requests *q, const struct step_seen *s)
{
	bool gap = q->numbered && s->number != q->last_number + 1 && s->round < q->loss_until;
	uint32_t more = q->numbered && s->lost > q->last_lost ? s->lost - q->last_lost : 0;

	q->last_number = s->number;
	if (!q->numbered || more)
		q->last_lost = s->lost;
	q->numbered = true;
	if (!gap && !more)
		return false;
	q->found += more;
	if (gap && q->found < q->told)
		q->found = q->told;
	q->loss_due &= q->found < q->told;
	return true;
}

void step_requests_add(struct step_requests *q, const struct step_seen *s)
{
	struct step_context *c = step_slots_context(q, s->tgid, s->context);
	bool lost = find_loss(q, s);

	/* A sequence may have been removed before or after the lost steps: neither the request that it ended nor the slot's
	 * next one is whole. */
	if (lost)
		slots_set_lost(q);
	step_changes_until(q, s->start);
	if (lost)
		slots_set_lost(q);
	if (drafts_have(&q->drafts, s->tgid, s->context))
		return;
	context_pass_gap(q, c, s);
	refusals_add(c, s);
	if (s->n_parts)
		step_parts_take(q, c, s);
	else if (s->no_rows)
		; /* it is in nobody's way but by its time */
	else if (s->phase == PHASE_SHARED)
		take_shared(q, c, s);
	else
		take_alone_step(q, c, s);
	if (!s->n_parts)
		step_context_pass(c, s);
}

/*
 * A full ring's records come before the steps that found room in it again, and those come within the next rounds. If no
 * number is missing until then, the lost steps were the last ones, or came before the first.
 */
void step_requests_lost(struct step_requests *q, uint64_t n)
{
	if (!q->probes) { /* called in the order of the steps */
		slots_set_lost(q);
		return;
	}
	q->told += n;
	if (q->told <= q->found)
		return;
	q->loss_due = true;
	q->loss_until = q->round + 3;
}

static void settle_loss(struct step_requests *q)
{
	if (!q->loss_due)
		return;
	slots_set_lost(q);
	q->found = q->told;
	q->loss_due = false;
}

/* ---- steps, in the order in which they began ---- */

static void queue_take_first(struct step_requests *q, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		step_requests_add(q, &q->queue[i]);
		free((void *)q->queue[i].parts);
	}
	q->n_queue -= n;
	memmove(q->queue, q->queue + n, q->n_queue * sizeof(*q->queue));
}

bool step_seen_whole(const struct step_seen *s, struct row_part *ret)
{
	if (!s->has_rows || !s->rows.readable || !s->rows.one || s->rows.position < 0 || !s->rows.outputs_known ||
		!s->tokens || s->tokens > INT32_MAX)
		return false;
	*ret = (struct row_part){
		s->rows.sequence, s->rows.position, (uint32_t)s->tokens, (uint32_t)s->rows.n_outputs
	};
	return true;
}

static void copy_parts(struct step_requests *q, struct step_seen *seen, const struct rec_step *r)
{
	const struct row_part *parts = ((const struct rec_step_parts *)r)->parts;
	uint32_t n = r->n_parts <= STEP_PARTS_MAX ? r->n_parts : 0;
	struct row_part all;

	q->parts_seen |= n > 0;
	/* once a step had parts, all get them if possible, so that all requests of a sequence are treated alike */
	if (!n && q->parts_seen && step_seen_whole(seen, &all)) {
		parts = &all;
		n = 1;
	}
	if (!n)
		return;
	seen->parts = memcpy(xmalloc(n * sizeof(*parts)), parts, n * sizeof(*parts));
	seen->n_parts = n;
	seen->parts_left = r->n_parts ? r->parts_left : 0;
}

void step_requests_step(struct step_requests *q, const struct rec_step *r)
{
	const struct probe_spec *s = &q->probes->specs[r->h.id];
	const char *name = probe_spec_name(s, r->vals);
	struct step_seen seen = {
		.start = r->h.start_ns,
		.end = r->h.start_ns + r->h.dur_ns,
		.round = q->round,
		.number = r->number,
		.tgid = r->h.tgid,
		.cut = r->h.flags & REC_F_OPEN_END,
		.began_before = r->h.flags & REC_F_OPEN_START,
		.graph = r->n.graphs > 0,
	};
	size_t i;

	seen.lost = r->steps_lost;
	seen.has_rows = rows_of_step(s, r->vals, &seen.rows);
	seen.own_ids = probe_spec_own_ids(s);
	seen.placed_once = s->batch && !s->batch->len[PYTHON_POSITIONS];
	seen.no_ends = s->batch ? !s->batch->len[PYTHON_FINISHED] && !s->batch->len[PYTHON_OVER] : seen.own_ids;
	seen.no_rows = s->batch ? !r->vals[0] || r->vals[0] == PYTHON_NO_BATCH : seen.own_ids && !seen.rows.one;
	if (!strcmp(name, "decode"))
		seen.phase = PHASE_DECODE;
	else if (!strcmp(name, "prefill"))
		seen.phase = PHASE_PREFILL;
	else if (seen.has_rows)
		seen.phase = PHASE_SHARED;
	else
		return;
	check_value(s, r->vals, "n_tokens", &seen.tokens);
	check_value(s, r->vals, "context", &seen.context);
	if (q->n_queue == STEP_QUEUE_MAX)
		queue_take_first(q, STEP_QUEUE_MAX / 2);
	for (i = q->n_queue++; i > 0 && q->queue[i - 1].number > seen.number; i--)
		q->queue[i] = q->queue[i - 1];
	copy_parts(q, &seen, r);
	memcpy(seen.scheduler, r->scheduler, sizeof(seen.scheduler));
	memcpy(seen.ns, r->ns, sizeof(seen.ns));
	memcpy(seen.before_ns, r->before_ns, sizeof(seen.before_ns));
	seen.has_states = true;
	q->queue[i] = seen;
}

void step_requests_settled(struct step_requests *q)
{
	size_t n = 0;

	q->round++;
	/* the first round may have begun before the record of the step arrived */
	while (n < q->n_queue && q->queue[n].round + 2 <= q->round)
		n++;
	if (n)
		queue_take_first(q, n);
	if (q->round >= q->loss_until + 2) /* the steps of that round have been taken */
		settle_loss(q);
}

void step_requests_finish(struct step_requests *q)
{
	struct step_slots *t = &q->slots;

	queue_take_first(q, q->n_queue);
	settle_loss(q);
	step_changes_finish(q);
	for (size_t i = 0; i < t->n; i++)
		request_end(q, &t->slots[i].r);
}

void step_requests_free(struct step_requests *q)
{
	if (!q)
		return;
	for (size_t i = 0; i < q->n_queue; i++)
		free((void *)q->queue[i].parts);
	for (size_t i = 0; i < q->slots.n; i++) {
		free(q->slots.slots[i].r.intervals);
		free(q->slots.slots[i].r.waits);
	}
	for (size_t i = 0; i < q->slots.n_contexts; i++)
		free(q->slots.contexts[i].refusals);
	HASH_CLEAR(hh, q->slots.by_key);
	free(q);
}

struct step_requests *step_requests_new(const struct probe_table *probes, const struct step_requests_ops *ops, void *arg)
{
	struct step_requests *q = xcalloc(1, sizeof(*q));

	q->probes = probes;
	q->ops = ops;
	q->arg = arg;
	return q;
}
