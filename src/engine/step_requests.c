// SPDX-License-Identifier: BSD-2-Clause
#include "engine/step_requests.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/check.h"

#define QUEUE_MAX 8192      /* steps that wait for those that began before them */
#define CONTEXTS_MAX 256    /* full: the one that was quiet for longest is forgotten */
#define INTERVALS_MAX 65536 /* of a request; longer ones keep every second, every fourth ... */

struct step_requests {
	const struct probe_table *probes;
	const struct step_requests_ops *ops;
	void *arg;
	struct step_seen queue[QUEUE_MAX]; /* by number */
	size_t n_queue;
	uint64_t round;
	struct step_request requests[CONTEXTS_MAX]; /* of each context the last */
	size_t n_requests;
};

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
 * ones. Other runs are steps of a batch of several sequences, which are named a prefill as well.
 */
static bool is_next_part(const struct step_request *r, uint64_t tokens)
{
	return tokens < r->last_chunk || (tokens == r->last_chunk && tokens == r->first_chunk);
}

static void take_prefill(struct step_request *r, const struct step_seen *s)
{
	if (r->prefills && !is_next_part(r, s->tokens))
		r->mixed = true;
	if (!r->prefills++)
		r->first_chunk = s->tokens;
	r->last_chunk = s->tokens;
	r->prompt_tokens += s->tokens;
	r->prefill_end = s->cut ? 0 : s->end;
}

static void take_decode(struct step_request *r, const struct step_seen *s, bool keep)
{
	if (s->cut)
		return;
	if (keep && (r->decodes || r->prefill_end))
		add_interval(r, s->end > r->last_end ? s->end - r->last_end : 0);
	r->decodes++;
}

static void end_request(struct step_requests *q, struct step_request *r)
{
	if (r->start && q->ops->done)
		q->ops->done(r, q->arg);
	*r = (struct step_request){
		.tgid = r->tgid,
		.context = r->context,
		.busy_until = r->busy_until,
		.intervals = r->intervals,
		.cap = r->cap,
	};
}

static struct step_request *find_request(struct step_requests *q, uint32_t tgid, uint64_t context)
{
	struct step_request *r = q->requests;

	for (size_t i = 0; i < q->n_requests; i++) {
		if (q->requests[i].tgid == tgid && q->requests[i].context == context)
			return &q->requests[i];
		if (q->requests[i].last_end < r->last_end)
			r = &q->requests[i];
	}
	if (q->n_requests < CONTEXTS_MAX)
		r = &q->requests[q->n_requests++];
	else
		end_request(q, r);
	r->tgid = tgid;
	r->context = context;
	r->busy_until = 0;
	return r;
}

static void take_step(struct step_requests *q, const struct step_seen *s)
{
	struct step_request *r = find_request(q, s->tgid, s->context);
	/* two at once: the request whose step runs, and the one that this step may begin */
	bool overlaps = s->start < r->busy_until;

	r->mixed |= overlaps;
	if (s->phase == PHASE_PREFILL && (r->decodes || r->began_before))
		end_request(q, r);
	if (!r->start) {
		r->start = s->start;
		r->began_before = s->phase == PHASE_DECODE;
		r->mixed = overlaps;
	}
	r->cut |= s->cut;
	r->graph |= s->graph;
	if (s->phase == PHASE_PREFILL)
		take_prefill(r, s);
	else
		take_decode(r, s, q->ops->done);
	if (s->end > r->last_end)
		r->last_end = s->end;
	if (s->end > r->busy_until)
		r->busy_until = s->end;
	if (q->ops->step)
		q->ops->step(r, s, q->arg);
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
	for (size_t i = 0; i < n; i++)
		take_step(q, &q->queue[i]);
	q->n_queue -= n;
	memmove(q->queue, q->queue + n, q->n_queue * sizeof(*q->queue));
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
		.phase = strcmp(name, "decode") ? PHASE_PREFILL : PHASE_DECODE,
		.cut = r->h.flags & REC_F_OPEN_END,
		.graph = r->n.graphs > 0,
	};
	size_t i;

	if (seen.phase == PHASE_PREFILL && strcmp(name, "prefill"))
		return;
	find_value(s, r->vals, "n_tokens", &seen.tokens);
	find_value(s, r->vals, "context", &seen.context);
	if (q->n_queue == QUEUE_MAX)
		take_first(q, QUEUE_MAX / 2);
	for (i = q->n_queue++; i > 0 && q->queue[i - 1].number > seen.number; i--)
		q->queue[i] = q->queue[i - 1];
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
