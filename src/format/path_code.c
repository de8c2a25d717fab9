// SPDX-License-Identifier: BSD-2-Clause
#include "format/path_code.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/stack_text.h"
#include "util/alloc.h"

#define KEPT 65536     /* samples */
#define LOOKED_AT 4096 /* of a thread in one interval: the latest */
#define LATE 1024      /* so many samples in a row from before the interval: none within it comes before them, though CPUs are read in turn */
#define CPU_SAMPLES_MIN 2

struct code_sample {
	uint64_t end_ns, weight_ns;
	uint32_t tid, stack;
	uint8_t state; /* ST_CPU: it ran, whatever it did */
};

struct path_code {
	const struct stacks *stacks;
	struct code_sample kept[KEPT];
	uint64_t n; /* so far */
};

/* Samples whose stacks agree from the root up to a depth. */
struct alike {
	struct {
		const uint32_t *frames;
		unsigned int n;
		uint64_t weight_ns;
	} of[LOOKED_AT];
	size_t n;
	uint64_t weight_ns;
};

struct path_code *path_code_new(const struct stacks *stacks)
{
	/* pages that are never touched are never allocated */
	struct path_code *c = xcalloc(1, sizeof(*c));

	c->stacks = stacks;
	return c;
}

void path_code_free(struct path_code *c)
{
	free(c);
}

void path_code_add(struct path_code *c, const struct rec_stack *r)
{
	bool waited = r->h.id == SAMPLE_OFF_CPU;

	if (r->step || r->stack == STACK_NONE || (r->h.id != SAMPLE_CPU && !waited))
		return;
	c->kept[c->n++ % KEPT] = (struct code_sample){
		.end_ns = r->h.start_ns + r->h.dur_ns,
		.weight_ns = r->weight_ns,
		.tid = r->h.tid,
		.stack = r->stack,
		.state = waited ? r->state : ST_CPU,
	};
}

static void find_alike(const struct path_code *c, uint32_t tid, enum time_state state, uint64_t from_ns, uint64_t to_ns, struct alike *ret)
{
	uint64_t oldest = c->n > KEPT ? c->n - KEPT : 0;
	unsigned int before = 0; /* samples in a row */

	ret->n = 0;
	ret->weight_ns = 0;
	for (uint64_t i = c->n; i > oldest && before < LATE && ret->n < LOOKED_AT; i--) {
		const struct code_sample *s = &c->kept[(i - 1) % KEPT];
		unsigned int n;

		before = s->end_ns < from_ns ? before + 1 : 0;
		if (s->tid != tid || s->state != state || s->end_ns < from_ns || s->end_ns > to_ns)
			continue;
		n = stacks_get(c->stacks, s->stack, &ret->of[ret->n].frames);
		if (!n)
			continue;
		ret->of[ret->n].n = n;
		ret->of[ret->n++].weight_ns = s->weight_ns;
		ret->weight_ns += s->weight_ns;
	}
}

/* The frame of a stack at a depth, counted from the root; NULL: it has none. */
static const struct frame *frame_at(const struct path_code *c, const struct alike *a, size_t i, unsigned int depth)
{
	return depth < a->of[i].n ? stacks_frame(c->stacks, a->of[i].frames[a->of[i].n - 1 - depth]) : NULL;
}

/* An asyncio task: "[task NAME]", or "[task]" if it has none. */
static bool frame_is_task(const struct frame *f)
{
	return f->kind == FRAME_PYTHON && !f->line && !strncmp(f->name, "[task", 5);
}

/* Whether two frames are the same function, or both a task; their texts are interned. */
static bool is_same_function(const struct frame *a, const struct frame *b)
{
	return a && b && ((a->name == b->name && a->file == b->file) || (frame_is_task(a) && frame_is_task(b)));
}

/* Whether a task has a name, and no sample has another one at that depth. */
static bool is_one_named_task(const struct path_code *c, const struct alike *a, unsigned int depth, const struct frame *task)
{
	bool is = strcmp(task->name, "[task]");

	for (size_t i = 0; i < a->n; i++)
		is &= frame_at(c, a, i, depth)->name == task->name;
	return is;
}

/* Keeps only those whose frame at a depth is the same function as most others', if these have at least half of the time `whole`. Returns
 * that frame; NULL: there is none. */
static const struct frame *keep_most(const struct path_code *c, struct alike *a, unsigned int depth, uint64_t whole)
{
	const struct frame *most = NULL, *f;
	uint64_t ahead = 0, of_most = 0;
	size_t n = 0;

	/* the one with a majority, if there is any, is the one that is left (Boyer and Moore) */
	for (size_t i = 0; i < a->n; i++) {
		f = frame_at(c, a, i, depth);
		if (!ahead)
			most = f;
		if (f == most || is_same_function(f, most))
			ahead += a->of[i].weight_ns;
		else if (ahead >= a->of[i].weight_ns)
			ahead -= a->of[i].weight_ns;
		else {
			most = f;
			ahead = a->of[i].weight_ns - ahead;
		}
	}
	for (size_t i = 0; i < a->n && most; i++)
		of_most += is_same_function(frame_at(c, a, i, depth), most) ? a->of[i].weight_ns : 0;
	if (!most || 2 * of_most < whole)
		return NULL;
	for (size_t i = 0; i < a->n; i++) {
		if (is_same_function(frame_at(c, a, i, depth), most))
			a->of[n++] = a->of[i];
	}
	a->n = n;
	return most;
}

bool path_code_find(const struct path_code *c, uint32_t tid, enum time_state state, uint64_t from_ns, uint64_t to_ns, char ret[PATH_CODE_MAX])
{
	const struct frame *inner = NULL, *own = NULL, *task = NULL, *f;
	struct alike *a = xmalloc(sizeof(*a));
	char text[STACK_TEXT_MAX];
	int len;

	find_alike(c, tid, state, from_ns, to_ns, a);
	for (unsigned int depth = 0; a->n >= (state == ST_CPU ? CPU_SAMPLES_MIN : 1) && depth < STACK_FRAMES_MAX; depth++) {
		f = keep_most(c, a, depth, a->weight_ns);
		if (!f)
			break;
		if (frame_is_task(f)) {
			task = is_one_named_task(c, a, depth, f) ? f : task;
			continue;
		}
		inner = f;
		own = f->kind == FRAME_PYTHON && !stack_frame_is_library(f) ? f : own;
	}
	free(a);
	if (!inner)
		return false;
	stack_text(inner, text);
	len = snprintf(ret, PATH_CODE_MAX, "%.120s", text);
	if (own && own != inner) {
		stack_text(own, text);
		len += snprintf(ret + len, (size_t)(PATH_CODE_MAX - len), " from %.120s", text);
	}
	if (task) {
		stack_text(task, text);
		snprintf(ret + len, (size_t)(PATH_CODE_MAX - len), " in %.120s", text);
	}
	return true;
}
