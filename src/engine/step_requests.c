// SPDX-License-Identifier: BSD-2-Clause
#include "engine/step_requests.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/check.h"

#define QUEUE_MAX 8192      /* steps that wait for those that began before them */
#define REQUESTS_MAX 1024   /* full: the one that was quiet for longest is over */
#define INTERVALS_MAX 65536 /* of a request; longer ones keep every second, every fourth ... */

struct step_requests {
	const struct probe_table *probes;
	const struct step_requests_ops *ops;
	void *arg;
	struct step_seen queue[QUEUE_MAX]; /* by number */
	size_t n_queue;
	uint64_t round;
	struct step_request requests[REQUESTS_MAX]; /* of each sequence of a context the last */
	size_t n_requests;
	uint32_t serial;
};

uint64_t step_seen_tokens(const struct step_seen *s)
{
	if (s->cut)
		return 0;
	if (!s->has_rows)
		return s->phase != PHASE_DECODE ? 0 : s->tokens ? s->tokens : 1;
	if (!s->rows.outputs_known)
		return s->phase == PHASE_DECODE;
	if (s->phase == PHASE_SHARED)
		return s->rows.n_outputs < s->rows.n_sequences ? s->rows.n_outputs : s->rows.n_sequences;
	return s->rows.n_outputs > 0;
}

/* ---- a request ---- */

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
	if (r->n_intervals == r->cap) {
		size_t cap = r->cap ? 2 * r->cap : 256;
		uint64_t *list = realloc(r->intervals, cap * sizeof(*list));

		if (!list)
			return;
		r->intervals = list;
		r->cap = cap;
	}
	r->intervals[r->n_intervals++] = ns;
	r->skip = r->stride;
}

/*
 * A prompt that is longer than a batch comes in equal parts, and what is left of it in smaller
 * ones. Where rows are not known, other runs are steps of a batch of several sequences, which are named
 * a prefill as well.
 */
static bool is_next_part(const struct step_request *r, uint64_t tokens)
{
	return tokens < r->last_chunk || (tokens == r->last_chunk && tokens == r->first_chunk);
}

static void set_mixed(struct step_requests *q, struct step_request *r)
{
	if (r->mixed)
		return;
	r->mixed = true;
	if (q->ops->mixed)
		q->ops->mixed(r, q->arg);
}

/* The prompt's last part may be a single row, and is no step behind the prompt where its first part gave no
 * output. */
static bool ends_prompt(const struct step_request *r)
{
	return r->prefills && !r->decodes && !r->last_outputs;
}

static void take_prefill(struct step_requests *q, struct step_request *r, const struct step_seen *s)
{
	if (r->prefills && s->phase == PHASE_PREFILL && (r->position < 0 || !s->has_rows) &&
		!is_next_part(r, s->tokens))
		set_mixed(q, r);
	if (!r->prefills++)
		r->first_chunk = s->tokens;
	r->last_chunk = s->tokens;
	r->prompt_tokens += s->tokens;
	r->prefill_end = s->cut ? 0 : s->end;
	r->last_outputs = s->has_rows && s->rows.outputs_known ? s->rows.n_outputs : UINT64_MAX;
}

static void add_token(
	struct step_requests *q, struct step_request *r, const struct step_seen *s, uint64_t from, uint64_t n)
{
	uint64_t gap = s->start > from ? s->start - from : 0, ns = s->end > from ? s->end - from : 0;

	for (uint64_t i = 0; i < n; i++) {
		if (q->ops->done)
			add_interval(r, ns / n);
		if (q->ops->token)
			q->ops->token(r, s, ns / n, gap / n, q->arg);
	}
}

/* Several outputs of one sequence: drafts, of which the first that fit are taken. The next step goes on
 * behind those. */
static void settle_draft(struct step_requests *q, struct step_request *r, const struct step_seen *next)
{
	int64_t taken = next->has_rows && next->rows.position >= 0 && r->draft.rows.position >= 0 ?
				next->rows.position - r->draft.rows.position :
				0;

	if (!r->draft.end)
		return;
	if (taken > 0 && (uint64_t)taken <= r->draft.rows.n_outputs) {
		r->outputs += (uint64_t)taken - 1;
		if (r->draft_from)
			add_token(q, r, &r->draft, r->draft_from, (uint64_t)taken);
	}
	r->draft.end = 0;
}

static void take_decode(struct step_requests *q, struct step_request *r, const struct step_seen *s)
{
	uint64_t from = r->decodes || r->prefill_end ? r->last_end : 0;

	if (s->cut || (s->has_rows && s->rows.outputs_known && !s->rows.n_outputs))
		return;
	r->decodes++;
	r->outputs += step_seen_tokens(s);
	if (s->has_rows && s->rows.n_outputs > 1) {
		r->drafts++;
		r->draft = *s;
		r->draft_from = from;
	} else if (from && !s->began_before) {
		add_token(q, r, s, from, 1);
	}
}

static void end_request(struct step_requests *q, struct step_request *r)
{
	if (r->start && q->ops->done)
		q->ops->done(r, q->arg);
	*r = (struct step_request){
		.tgid = r->tgid,
		.context = r->context,
		.sequence = r->sequence,
		.busy_until = r->busy_until,
		.intervals = r->intervals,
		.cap = r->cap,
		.position = -1,
	};
}

static struct step_request *find_request(
	struct step_requests *q, uint32_t tgid, uint64_t context, uint64_t sequence)
{
	struct step_request *r = q->requests;

	for (size_t i = 0; i < q->n_requests; i++) {
		struct step_request *other = &q->requests[i];

		if (other->tgid == tgid && other->context == context && other->sequence == sequence)
			return other;
		if (other->last_end < r->last_end)
			r = other;
	}
	if (q->n_requests < REQUESTS_MAX)
		r = &q->requests[q->n_requests++];
	else
		end_request(q, r);
	r->tgid = tgid;
	r->context = context;
	r->sequence = sequence;
	r->busy_until = 0;
	r->position = -1;
	return r;
}

static void touch(struct step_request *r, const struct step_seen *s)
{
	r->cut |= s->cut;
	r->graph |= s->graph;
	r->has_rows |= s->has_rows;
	if (s->end > r->last_end)
		r->last_end = s->end;
	if (s->end > r->busy_until)
		r->busy_until = s->end;
}

/* `began_before`: what came before this step was not seen. */
static void begin_request(
	struct step_requests *q, struct step_request *r, const struct step_seen *s, bool began_before)
{
	if (r->start)
		return;
	r->start = s->start;
	r->serial = ++q->serial;
	r->began_before = began_before;
	if (q->ops->begin)
		q->ops->begin(r, s, q->arg);
}

static struct step_request *share(struct step_requests *q, struct step_request *r, const struct step_seen *s)
{
	begin_request(q, r, s, false);
	set_mixed(q, r);
	r->shared++;
	r->position = -1;
	r->draft.end = 0;
	touch(r, s);
	return r;
}

#define NO_SEQUENCE UINT64_MAX

/* Those that had a part in it: where it is not known which, all of the context. */
static void take_shared(struct step_requests *q, const struct step_seen *s)
{
	struct step_request *r = NULL;

	for (uint64_t i = 0; i < 64 && s->rows.mask; i++) {
		if (s->rows.mask & UINT64_C(1) << i)
			r = share(q, find_request(q, s->tgid, s->context, i), s);
	}
	for (size_t i = 0; i < q->n_requests && !s->rows.mask; i++) {
		struct step_request *other = &q->requests[i];

		if (other->start && other->tgid == s->tgid && other->context == s->context)
			r = share(q, other, s);
	}
	if (!r)
		r = share(q, find_request(q, s->tgid, s->context, NO_SEQUENCE), s);
	if (q->ops->step)
		q->ops->step(r, s, q->arg);
}

/* Whether none of the context has had a step since. */
static bool is_latest(const struct step_requests *q, const struct step_request *r)
{
	for (size_t i = 0; i < q->n_requests; i++) {
		const struct step_request *other = &q->requests[i];

		if (other->tgid == r->tgid && other->context == r->context && other->last_end > r->last_end)
			return false;
	}
	return true;
}

/* Whether a prefill step goes on with the prompt that the request before it in its place has begun. */
static bool goes_on(
	const struct step_requests *q, const struct step_request *r, const struct step_seen *s)
{
	if (r->decodes || r->began_before)
		return false;
	if (!s->has_rows || s->rows.position < 0)
		return !r->shared;
	if (r->position >= 0)
		return s->rows.position == r->position;
	/* the rest of what the shared step just before had no room for; else a new one whose beginning was
	 * kept from an earlier one */
	return s->rows.position > 0 && r->shared && is_latest(q, r);
}

/* The same as of a step with parts. */
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

static void take_alone(struct step_requests *q, const struct step_seen *s)
{
	uint64_t sequence = s->has_rows ? s->rows.sequence : 0;
	struct step_request *r = find_request(q, s->tgid, s->context, sequence);
	/* two at once: the request whose step runs, and the one that this step may begin */
	bool overlaps = s->start < r->busy_until, prompt;

	if (overlaps)
		set_mixed(q, r);
	settle_draft(q, r, s);
	if (s->phase == PHASE_PREFILL && r->start && !goes_on(q, r, s)) {
		r->end_seen = true;
		end_request(q, r);
	}
	if (!r->start) {
		begin_request(q, r, s, s->phase == PHASE_DECODE || s->began_before);
		if (overlaps)
			set_mixed(q, r);
	}
	prompt = s->phase == PHASE_PREFILL || ends_prompt(r);
	if (prompt)
		take_prefill(q, r, s);
	else
		take_decode(q, r, s);
	touch(r, s);
	r->position = s->has_rows && s->rows.position >= 0 ? s->rows.position + (int64_t)s->tokens : -1;
	tell_alone(q, r, s, prompt);
	if (q->ops->step)
		q->ops->step(r, s, q->arg);
}

void step_requests_add(struct step_requests *q, const struct step_seen *s)
{
	if (s->phase == PHASE_SHARED)
		take_shared(q, s);
	else
		take_alone(q, s);
}

void step_requests_lost(struct step_requests *q)
{
	for (size_t i = 0; i < q->n_requests; i++)
		q->requests[i].lost |= q->requests[i].start != 0;
}

/*
 * Where no token has followed the prompt, it is not sure that the prompt was over: llama_batch_get_one() asks
 * for an output of each part of it.
 */
static bool has_first_token(const struct step_request *r)
{
	if (r->began_before || !r->prefill_end || !r->last_outputs)
		return false;
	return r->decodes || (r->has_rows ? r->last_outputs == 1 && r->position >= 0 : r->end_seen);
}

uint64_t step_request_ttft(const struct step_request *r)
{
	return has_first_token(r) && !r->lost && r->prefill_end > r->start ? r->prefill_end - r->start : 0;
}

uint64_t step_request_tokens(const struct step_request *r)
{
	return r->outputs + has_first_token(r);
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

/* Without memory its rows are not known. */
static void copy_parts(struct step_seen *seen, const struct rec_step *r)
{
	size_t size = r->n_parts * sizeof(struct row_part);
	struct row_part *parts;

	if (!r->n_parts || r->n_parts > STEP_PARTS_MAX)
		return;
	parts = malloc(size);
	if (!parts)
		return;
	memcpy(parts, ((const struct rec_step_parts *)r)->parts, size);
	seen->parts = parts;
	seen->n_parts = r->n_parts;
	seen->parts_left = r->parts_left;
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
	if (q->n_queue == QUEUE_MAX)
		take_first(q, QUEUE_MAX / 2);
	for (i = q->n_queue++; i > 0 && q->queue[i - 1].number > seen.number; i--)
		q->queue[i] = q->queue[i - 1];
	copy_parts(&seen, r);
	memcpy(seen.ns, r->ns, sizeof(seen.ns));
	seen.has_states = true;
	q->queue[i] = seen;
}

void step_requests_settled(struct step_requests *q)
{
	size_t n = 0;

	q->round++;
	/* the first round may have begun before the step's record came */
	while (n < q->n_queue && q->queue[n].round + 2 <= q->round)
		n++;
	if (n)
		take_first(q, n);
}

void step_requests_finish(struct step_requests *q)
{
	take_first(q, q->n_queue);
	for (size_t i = 0; i < q->n_requests; i++)
		end_request(q, &q->requests[i]);
}

void step_requests_free(struct step_requests *q)
{
	for (size_t i = 0; q && i < q->n_queue; i++)
		free((void *)q->queue[i].parts);
	for (size_t i = 0; q && i < q->n_requests; i++)
		free(q->requests[i].intervals);
	free(q);
}

int step_requests_new(const struct probe_table *probes, const struct step_requests_ops *ops,
	void *arg, struct step_requests **ret_requests)
{
	struct step_requests *q = calloc(1, sizeof(*q));

	if (!q)
		return -ENOMEM;
	q->probes = probes;
	q->ops = ops;
	q->arg = arg;
	*ret_requests = q;
	return 0;
}
