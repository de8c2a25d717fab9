// SPDX-License-Identifier: BSD-2-Clause
#include "format/request_gpu.h"

#include <stdlib.h>
#include <string.h>

#include "format/derive.h"
#include "format/profile_line.h"
#include "sink/process_list.h"
#include "util/list.h"

static const char *const prefixes[SPAN_MAX] = {
	[SPAN_OWN_PREFILL] = "own_prefill_",
	[SPAN_OWN_DECODE] = "own_decode_",
	[SPAN_OTHERS] = "others_",
	[SPAN_BETWEEN] = "between_",
};

/* GPU time in the steps of a context so far, and between them. Only differences mean anything. */
struct request_gpu_tally {
	uint64_t steps[GPU_PART_MAX], gaps[GPU_PART_MAX];
	uint64_t blind_steps, blind_gaps; /* whose GPU time is unknown */
};

struct request_gpu_part {
	uint32_t serial;
	enum request_span own;
	uint64_t others_ns;
};

/* A step whose GPU time or parts are not all known yet, or that follows such a step. */
struct request_gpu_step {
	struct thread_entry entry;           /* by its number */
	struct request_gpu_context *context; /* once its parts are known */
	struct request_gpu_step *next;       /* the next step of the context */
	bool has_gpu, is_lost;               /* is_lost: its GPU time is unknown */
	bool overlaps;                       /* with the step before it */
	uint64_t ns, gap_ns;
	uint64_t gpu_ns, gpu[GPU_PART_MAX], gpu_before[GPU_PART_MAX];
	struct request_gpu_part *parts;
	size_t n, cap;
};

struct context_key {
	uint64_t context, tgid;
};

struct request_gpu_context {
	UT_hash_handle hh;
	struct context_key key;
	uint64_t busy_until;
	struct request_gpu_tally tally;
	struct request_gpu_step *first, *last; /* steps that wait */
};

struct request_gpu_request {
	struct thread_entry entry;     /* by its serial number */
	uint32_t waits;                /* number of steps that it waits for */
	bool has_begun;                /* seen is known */
	struct request_gpu_tally seen; /* of its context, at its last step */
	uint64_t ns[SPAN_MAX][GPU_PART_MAX];
	bool unknown[SPAN_MAX];
	bool is_over;
	uint64_t spans[SPAN_MAX]; /* once it is over */
};

struct request_gpu {
	struct thread_map steps; /* the oldest first */
	struct request_gpu_context *contexts;
	uint64_t n_contexts; /* ever created */
	struct thread_map requests;
};

struct request_gpu *request_gpu_new(void)
{
	struct request_gpu *g = xcalloc(1, sizeof(*g));

	g->steps.size = sizeof(struct request_gpu_step);
	g->requests.size = sizeof(struct request_gpu_request);
	return g;
}

static void gpu_context_free(struct request_gpu *g, struct request_gpu_context *c)
{
	HASH_DEL(g->contexts, c);
	free(c);
}

static void gpu_step_free_parts(void *step)
{
	free(((struct request_gpu_step *)step)->parts);
}

static void gpu_step_free(struct request_gpu *g, struct request_gpu_step *s)
{
	free(s->parts);
	thread_map_remove(&g->steps, s);
}

void request_gpu_free(struct request_gpu *g)
{
	if (!g)
		return;
	thread_map_clear(&g->steps, gpu_step_free_parts);
	while (g->contexts)
		gpu_context_free(g, g->contexts);
	thread_map_clear(&g->requests, NULL);
	free(g);
}

/* ---- requests ---- */

/* Adds the time since its last step. */
static void request_add_between(struct request_gpu_request *r, const struct request_gpu_tally *now)
{
	if (!r->has_begun) {
		r->has_begun = true;
		return;
	}
	r->unknown[SPAN_OTHERS] |= now->blind_steps != r->seen.blind_steps;
	r->unknown[SPAN_BETWEEN] |= now->blind_gaps != r->seen.blind_gaps;
	for (int i = 0; i < GPU_PART_MAX; i++) {
		r->ns[SPAN_OTHERS][i] += now->steps[i] - r->seen.steps[i];
		r->ns[SPAN_BETWEEN][i] += now->gaps[i] - r->seen.gaps[i];
	}
}

/* Divides each part of the GPU between the request and others as the step's time is divided. */
static void request_add_within(struct request_gpu_request *r, const struct request_gpu_part *p, const struct request_gpu_step *s)
{
	uint64_t until = 0, given = 0;

	if (s->is_lost || p->others_ns > s->ns) {
		r->unknown[p->own] = true;
		r->unknown[SPAN_OTHERS] |= p->others_ns > 0;
		return;
	}
	for (int i = 0; i < GPU_PART_MAX && s->ns; i++) {
		uint64_t of_others;

		until += s->gpu[i];
		of_others = (uint64_t)((unsigned __int128)p->others_ns * until / s->ns) - given;
		given += of_others;
		r->ns[p->own][i] += s->gpu[i] - of_others;
		r->ns[SPAN_OTHERS][i] += of_others;
	}
}

/* ---- contexts ---- */

static struct request_gpu_context *step_find_context(const struct request_gpu *g, const struct step_seen *s)
{
	const struct context_key key = { s->context, s->tgid };
	struct request_gpu_context *c;

	HASH_FIND(hh, g->contexts, &key, sizeof(key), c);
	return c;
}

/* NULL: there are too many */
static struct request_gpu_context *step_get_context(struct request_gpu *g, const struct step_seen *s)
{
	struct request_gpu_context *c = step_find_context(g, s), *old;

	if (c)
		return c;
	for (old = g->contexts; HASH_COUNT(g->contexts) == REQUEST_GPU_CONTEXTS_MAX && old && old->first; old = old->hh.next)
		;
	if (HASH_COUNT(g->contexts) == REQUEST_GPU_CONTEXTS_MAX) {
		if (!old)
			return NULL;
		gpu_context_free(g, old);
	}
	c = xcalloc(1, sizeof(*c));
	c->key = (struct context_key){ s->context, s->tgid };
	/* differs from all forgotten contexts, so that a request that saw one takes the time between as unknown */
	c->tally.blind_steps = c->tally.blind_gaps = ++g->n_contexts << 32;
	HASH_ADD(hh, g->contexts, key, sizeof(c->key), c);
	return c;
}

static void tally_add_gap(struct request_gpu_tally *t, const struct request_gpu_step *s)
{
	uint64_t sum = 0;

	for (int i = 0; i < GPU_PART_MAX; i++)
		sum += s->gpu_before[i];
	if (!s->gap_ns)
		return;
	/* its thread may have had a step of another context in between */
	if (s->is_lost || sum != s->gap_ns) {
		t->blind_gaps++;
		return;
	}
	for (int i = 0; i < GPU_PART_MAX; i++)
		t->gaps[i] += s->gpu_before[i];
}

static void tally_add_step(struct request_gpu *g, struct request_gpu_tally *t, const struct request_gpu_step *s)
{
	struct request_gpu_request *r;

	tally_add_gap(t, s);
	for (size_t i = 0; i < s->n; i++) {
		r = thread_map_find(&g->requests, s->parts[i].serial);
		if (!r)
			continue;
		request_add_between(r, t);
		request_add_within(r, &s->parts[i], s);
		r->waits--;
	}
	if (s->is_lost || s->overlaps)
		t->blind_steps++;
	for (int i = 0; i < GPU_PART_MAX && !s->is_lost; i++)
		t->steps[i] += s->gpu[i];
	for (size_t i = 0; i < s->n; i++) {
		r = thread_map_find(&g->requests, s->parts[i].serial);
		if (r)
			r->seen = *t;
	}
}

/* Takes the steps of a context as far as they are known. */
static void context_take_steps(struct request_gpu *g, struct request_gpu_context *c)
{
	while (c->first && c->first->has_gpu) {
		struct request_gpu_step *s = c->first;

		c->first = s->next;
		tally_add_step(g, &c->tally, s);
		gpu_step_free(g, s);
	}
}

/* ---- steps ---- */

static void gpu_step_set_lost(struct request_gpu_step *s)
{
	s->has_gpu = s->is_lost = true;
}

/* Gives up the oldest step, and those before it in its context. A step without a context has no requests, or not yet. */
static void steps_give_up_oldest(struct request_gpu *g)
{
	struct request_gpu_step *oldest = thread_map_next(&g->steps, NULL), *s;
	struct request_gpu_context *c = oldest->context;

	if (!c) {
		gpu_step_free(g, oldest);
		return;
	}
	for (s = c->first; s != oldest; s = s->next)
		gpu_step_set_lost(s);
	gpu_step_set_lost(oldest);
	context_take_steps(g, c);
}

void request_gpu_expect(struct request_gpu *g, uint32_t number)
{
	if (!thread_map_find(&g->steps, number) && HASH_COUNT(g->steps.first) == REQUEST_GPU_STEPS_MAX)
		steps_give_up_oldest(g);
	thread_map_get(&g->steps, number);
}

void request_gpu_part(struct request_gpu *g, const struct step_request *r, const struct step_seen *s, const struct request_part *p)
{
	struct request_gpu_request *of = thread_map_get(&g->requests, r->serial);
	struct request_gpu_step *step = thread_map_find(&g->steps, s->number);

	for (int i = 0; !step && i < SPAN_MAX; i++)
		of->unknown[i] = true;
	if (!step)
		return;
	*list_push(step->parts, step->n, step->cap) =
		(struct request_gpu_part){ r->serial, p->prompt ? SPAN_OWN_PREFILL : SPAN_OWN_DECODE, p->others_ns };
	of->waits++;
}

/* By now all its parts are known. */
void request_gpu_told(struct request_gpu *g, const struct step_seen *s)
{
	struct request_gpu_step *step = thread_map_find(&g->steps, s->number);
	struct request_gpu_context *c = step ? step_get_context(g, s) : step_find_context(g, s);
	uint64_t busy_until = c ? c->busy_until : 0;

	if (c && s->end > busy_until)
		c->busy_until = s->end;
	if (!step && c) {
		c->tally.blind_steps++;
		c->tally.blind_gaps++;
	}
	if (!step)
		return;
	step->ns = s->end - s->start;
	step->overlaps = s->start < busy_until;
	step->gap_ns = busy_until && s->start > busy_until ? s->start - busy_until : 0;
	if (!c) {
		struct request_gpu_tally none = { 0 };

		gpu_step_set_lost(step);
		tally_add_step(g, &none, step);
		gpu_step_free(g, step);
		return;
	}
	step->context = c;
	if (c->first)
		c->last->next = step;
	else
		c->first = step;
	c->last = step;
	if (step->has_gpu && step->gpu_ns != step->ns)
		step->is_lost = true;
	context_take_steps(g, c);
}

void request_gpu_step(struct request_gpu *g, const struct rec_gpu_step *r)
{
	struct request_gpu_step *step = thread_map_find(&g->steps, r->step);

	if (!step)
		return;
	step->has_gpu = true;
	step->gpu_ns = r->h.dur_ns;
	step->is_lost = r->h.flags & GPU_STEP_F_LOST || (step->context && step->gpu_ns != step->ns);
	memcpy(step->gpu, r->ns, sizeof(step->gpu));
	memcpy(step->gpu_before, r->before_ns, sizeof(step->gpu_before));
	if (step->context)
		context_take_steps(g, step->context);
}

/* ---- lines ---- */

void request_gpu_over(struct request_gpu *g, const struct step_request *r)
{
	struct request_gpu_request *of = thread_map_find(&g->requests, r->serial);

	if (!of)
		return;
	of->is_over = true;
	memcpy(of->spans, r->spans, sizeof(of->spans));
}

bool request_gpu_waits(const struct request_gpu *g, uint32_t serial)
{
	const struct request_gpu_request *r = thread_map_find(&g->requests, serial);

	return r && r->waits;
}

static char *add_span_parts(char *p, const struct request_gpu_request *r, enum request_span span)
{
	uint64_t sum = 0;

	for (int i = 0; i < GPU_PART_MAX; i++)
		sum += r->ns[span][i];
	for (int i = 0; i < GPU_PART_MAX && !r->unknown[span] && sum == r->spans[span]; i++) {
		if (r->ns[span][i])
			p = fmt_us(profile_add_key(p, prefixes[span], gpu_part_key(i)), r->ns[span][i]);
	}
	return p;
}

char *request_gpu_end(struct request_gpu *g, char *p, uint32_t serial, bool shown)
{
	struct request_gpu_request *r = thread_map_find(&g->requests, serial);

	if (!r)
		return p;
	for (enum request_span span = 0; span < SPAN_MAX && shown && r->is_over && !r->waits; span++)
		p = add_span_parts(p, r, span);
	thread_map_remove(&g->requests, r);
	return p;
}
