// SPDX-License-Identifier: BSD-2-Clause
#include "engine/step_requests.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/check.h"
#include "engine/step_requests_inner.h"

uint64_t step_seen_tokens(const struct step_seen *s)
{
	if (s->cut)
		return 0;
	if (!s->has_rows)
		return s->phase != PHASE_DECODE ? 0 : s->tokens ? s->tokens : 1;
	if (s->n_parts) {
		uint64_t n = 0;

		for (uint32_t i = 0; i < s->n_parts; i++)
			n += s->parts[i].outputs && s->parts[i].outputs != ROW_PART_UNKNOWN;
		return n;
	}
	if (!s->rows.outputs_known)
		return s->phase == PHASE_DECODE;
	if (s->phase == PHASE_SHARED)
		return s->rows.n_outputs < s->rows.n_sequences ? s->rows.n_outputs : s->rows.n_sequences;
	return s->rows.n_outputs > 0;
}

/* ---- steps whose rows are not known by sequence ---- */

/*
 * A prompt that is longer than a batch comes in equal parts and a smaller rest. If rows are unknown,
 * other runs are steps of a batch of several sequences, which are named a prefill as well.
 */
static bool is_next_part(const struct step_request *r, uint64_t tokens)
{
	return tokens < r->last_chunk || (tokens == r->last_chunk && tokens == r->first_chunk);
}

/* The prompt's last part may be a single row, and is not a step after the prompt if its first part gave no
 * output. */
static bool ends_prompt(const struct step_request *r)
{
	return r->prefills && !r->decodes && !r->last_outputs;
}

static void take_prefill(struct step_requests *q, struct step_request *r, const struct step_seen *s)
{
	if (r->prefills && s->phase == PHASE_PREFILL && (r->position < 0 || !s->has_rows) &&
		!is_next_part(r, s->tokens))
		request_set_mixed(q, r);
	if (!r->prefills++)
		r->first_chunk = s->tokens;
	r->last_chunk = s->tokens;
	r->prompt_tokens += s->tokens;
	r->prefill_end = s->cut ? 0 : s->end;
	r->last_outputs = s->has_rows && s->rows.outputs_known ? s->rows.n_outputs : UINT64_MAX;
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

static struct step_request *share(struct step_requests *q, struct step_request *r, const struct step_seen *s)
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

/* Takes a step for the requests that had a part in it: if it is unknown which, for all of the context. */
static void take_shared(struct step_requests *q, struct step_context *c, const struct step_seen *s)
{
	struct step_request *r = NULL;
	struct step_slot *slot;

	for (uint64_t i = 0; i < 64 && s->rows.mask; i++) {
		if (s->rows.mask & UINT64_C(1) << i)
			r = share(q, &step_slots_get(&q->slots, c, i)->r, s);
	}
	if (!s->rows.mask) {
		for (slot = c->slots.first; slot; slot = slot_after(slot)) {
			if (slot->r.start)
				r = share(q, &slot->r, s);
		}
	}
	if (!r)
		r = share(q, &step_slots_get(&q->slots, c, NO_SEQUENCE)->r, s);
	if (q->ops->step)
		q->ops->step(r, s, q->arg);
}

/* Whether none of the context has had a step since. */
static bool is_latest(struct step_request *r)
{
	const struct step_slot *other;

	for (other = slot_of(r)->context->slots.first; other; other = slot_after(other)) {
		if (other->r.last_end > r->last_end)
			return false;
	}
	return true;
}

/* Whether a prefill step continues the prompt of the current request in its slot. */
static bool goes_on(struct step_request *r, const struct step_seen *s)
{
	if (r->decodes || r->began_before)
		return false;
	if (!s->has_rows || s->rows.position < 0)
		return !r->shared;
	if (r->position >= 0)
		return s->rows.position == r->position;
	/* the rest of what did not fit the shared step just before; otherwise a new request whose
	 * beginning was kept from an earlier one */
	return s->rows.position > 0 && r->shared && is_latest(r);
}

/* The same as for a step with parts. */
static void tell_alone(struct step_requests *q, struct step_request *r, const struct step_seen *s, bool prompt)
{
	const struct row_part rows = {
		.sequence = r->sequence,
		.position = s->has_rows ? s->rows.position : -1,
		.rows = (uint32_t)s->tokens,
		.outputs = s->has_rows && s->rows.outputs_known ? (uint32_t)s->rows.n_outputs : ROW_PART_UNKNOWN,
	};
	const struct request_part part = { .rows = &rows, .prompt = prompt ? rows.rows : 0 };

	if (q->ops->part)
		q->ops->part(r, s, &part, q->arg);
	if (r->first_output || r->mixed || !step_request_ttft(r))
		return;
	r->first_output = r->prefill_end;
	if (q->ops->first)
		q->ops->first(r, s, q->arg);
}

static void take_alone(struct step_requests *q, struct step_context *c, const struct step_seen *s)
{
	struct step_request *r = &step_slots_get(&q->slots, c, s->has_rows ? s->rows.sequence : 0)->r;
	/* two at once: the request whose step is running, and the one that this step may begin */
	bool overlaps = s->start < r->busy_until, prompt;

	if (overlaps)
		request_set_mixed(q, r);
	request_settle_draft(q, r, s->has_rows ? s->rows.position : -1);
	if (s->phase == PHASE_PREFILL && r->start && !goes_on(r, s)) {
		r->end_seen = true;
		request_end(q, r);
	}
	if (!r->start) {
		request_begin(q, r, s, s->phase == PHASE_DECODE || s->began_before);
		if (overlaps)
			request_set_mixed(q, r);
	}
	/* of the other steps its rows were known */
	r->unsplit |= r->by_parts;
	prompt = s->phase == PHASE_PREFILL || ends_prompt(r);
	if (prompt)
		take_prefill(q, r, s);
	else
		take_decode(q, r, s);
	request_touch(r, s);
	r->position = s->has_rows && s->rows.position >= 0 ? s->rows.position + (int64_t)s->tokens : -1;
	tell_alone(q, r, s, prompt);
	if (q->ops->step)
		q->ops->step(r, s, q->arg);
}

/* ---- the timeline of a context ---- */

/* What its thread did since its last step is known, which may be one of another context. */
static void add_gap(struct step_context *c, const struct step_seen *s)
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

/* Up to the beginning of a step. Two steps at once would be counted twice in each other's partition. */
static void pass_gap(struct step_requests *q, struct step_context *c, const struct step_seen *s)
{
	struct step_slot *slot;

	if (!c->busy_until || s->start == c->busy_until)
		return;
	if (s->start > c->busy_until) {
		add_gap(c, s);
		return;
	}
	for (slot = c->slots.first; slot; slot = slot_after(slot)) {
		if (slot->r.by_parts && slot->r.last_end > s->start)
			request_set_mixed(q, &slot->r);
	}
}

static void set_lost(struct step_requests *q)
{
	struct step_slots *t = &q->slots;

	for (size_t i = 0; i < t->n; i++) {
		t->slots[i].r.lost |= t->slots[i].r.start != 0;
		t->slots[i].beside_loss = true;
	}
}

/*
 * What the kernel side has lost, the next step tells. For what was dropped later only its number is missing, as those of
 * other processes' steps are: it counts where the counters tell of a loss.
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
	struct step_context *c = step_slots_context(&q->slots, s->tgid, s->context);
	bool lost = find_loss(q, s);

	/* A sequence may have been dropped before the steps that were lost, or after them: neither the request that ended
	 * with that nor what came into the slot then is whole. */
	if (lost)
		set_lost(q);
	step_changes_until(q, s->start);
	if (lost)
		set_lost(q);
	if (drafts_have(&q->drafts, s->tgid, s->context))
		return;
	pass_gap(q, c, s);
	if (s->n_parts)
		step_parts_take(q, c, s);
	else if (s->phase == PHASE_SHARED)
		take_shared(q, c, s);
	else
		take_alone(q, c, s);
	if (!s->n_parts)
		step_context_pass(c, s);
}

/*
 * What a full ring still holds comes before the steps that found room in it again, and these come within the next rounds.
 * Where no number is missing until then, the steps that were lost are the last ones, or in front of the first.
 */
void step_requests_lost(struct step_requests *q, uint64_t n)
{
	if (!q->probes) { /* in the order of the steps */
		set_lost(q);
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
	set_lost(q);
	q->found = q->told;
	q->loss_due = false;
}

/* ---- steps, in the order in which they began ---- */

static bool find_value(
	const struct probe_spec *s, const uint64_t *vals, const char *name, uint64_t *ret)
{
	for (unsigned int i = 0; i < s->nargs; i++) {
		if (strcmp(s->args[i].name, name) || !check_shown(s, i, vals))
			continue;
		*ret = vals[i];
		return true;
	}
	return false;
}

static void take_first(struct step_requests *q, size_t n)
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

/* Without memory the rows of the step are unknown. */
static void copy_parts(struct step_requests *q, struct step_seen *seen, const struct rec_step *r)
{
	const struct row_part *parts = ((const struct rec_step_parts *)r)->parts;
	struct row_part all;
	uint32_t n = r->n_parts <= STEP_PARTS_MAX ? r->n_parts : 0;
	struct row_part *copy;

	q->parts_seen |= n > 0;
	/* if some steps have parts, all get them, so that the requests of a sequence are all treated alike */
	if (!n && q->parts_seen && step_seen_whole(seen, &all)) {
		parts = &all;
		n = 1;
	}
	copy = n ? malloc(n * sizeof(*copy)) : NULL;
	if (!copy)
		return;
	memcpy(copy, parts, n * sizeof(*copy));
	seen->parts = copy;
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
	if (!strcmp(name, "decode"))
		seen.phase = PHASE_DECODE;
	else if (!strcmp(name, "prefill"))
		seen.phase = PHASE_PREFILL;
	else if (seen.has_rows)
		seen.phase = PHASE_SHARED;
	else
		return;
	find_value(s, r->vals, "n_tokens", &seen.tokens);
	find_value(s, r->vals, "context", &seen.context);
	if (q->n_queue == STEP_QUEUE_MAX)
		take_first(q, STEP_QUEUE_MAX / 2);
	for (i = q->n_queue++; i > 0 && q->queue[i - 1].number > seen.number; i--)
		q->queue[i] = q->queue[i - 1];
	copy_parts(q, &seen, r);
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
		take_first(q, n);
	if (q->round >= q->loss_until + 2) /* and those of that round have been taken */
		settle_loss(q);
}

void step_requests_finish(struct step_requests *q)
{
	struct step_slots *t = &q->slots;

	take_first(q, q->n_queue);
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
	step_slots_clear(&q->slots);
	sequence_memories_free(q->memories);
	free(q);
}

static void on_leave(struct step_slot *slot, void *arg)
{
	request_end(arg, &slot->r);
}

int step_requests_new(const struct probe_table *probes, const struct step_requests_ops *ops,
	void *arg, struct step_requests **ret_requests)
{
	struct step_requests *q = calloc(1, sizeof(*q));

	if (!q || sequence_memories_new(&q->memories)) {
		free(q);
		return -ENOMEM;
	}
	q->probes = probes;
	q->ops = ops;
	q->arg = arg;
	step_slots_init(&q->slots, on_leave, q);
	*ret_requests = q;
	return 0;
}
