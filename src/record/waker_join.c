// SPDX-License-Identifier: BSD-2-Clause
#include "record/waker_join.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "stack/stack.h"

#define WAKERS_MAX 1024 /* by the low bits of a hash; one that is replaced is not found */
#define HELD_MAX 256	/* waits; if there are more, the oldest is passed on */

struct waker {
	uint64_t at_ns; /* 0: none */
	uint32_t tid, stack;
	bool interrupt; /* that hit the thread */
};

struct held {
	struct rec_stack r;
	bool seen;	/* a round has ended since */
	uint64_t until; /* after so many stacks there is none: known from the second round on */
};

struct waker_join {
	waker_join_cb cb;
	void *arg;
	struct waker wakers[WAKERS_MAX];
	struct held held[HELD_MAX];
	size_t n_held;
};

struct waker_join *waker_join_new(waker_join_cb cb, void *arg)
{
	struct waker_join *j = calloc(1, sizeof(*j));

	if (j) {
		j->cb = cb;
		j->arg = arg;
	}
	return j;
}

void waker_join_free(struct waker_join *j)
{
	free(j);
}

static struct waker *waker_at(struct waker_join *j, uint32_t tid, uint64_t at_ns)
{
	return &j->wakers[(at_ns ^ at_ns >> 12 ^ (uint64_t)tid * 2654435761u) % WAKERS_MAX];
}

static void set_stack(struct rec_stack *r, uint32_t stack)
{
	r->ref = 0;
	r->waker_stack = stack;
}

/* Passes on the first n that are held, without a stack. */
static void pass_first(struct waker_join *j, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		set_stack(&j->held[i].r, STACK_NONE);
		j->cb(j->arg, &j->held[i].r);
	}
	j->n_held -= n;
	memmove(j->held, j->held + n, j->n_held * sizeof(j->held[0]));
}

static bool find(struct waker_join *j, struct rec_stack *r)
{
	const struct waker *w = waker_at(j, r->waker_tid, r->ref);

	if (w->at_ns != r->ref || w->tid != r->waker_tid)
		return false;
	if (w->interrupt) {
		r->flags |= SAMPLE_F_WOKEN_IRQ;
		r->waker_tid = 0;
		set_stack(r, STACK_NONE);
	} else {
		set_stack(r, w->stack);
	}
	return true;
}

static void take_waker(struct waker_join *j, const struct rec_stack *r)
{
	size_t n = 0;

	*waker_at(j, r->h.tid, r->h.start_ns) = (struct waker){
		.at_ns = r->h.start_ns,
		.tid = r->h.tid,
		.stack = r->stack,
		.interrupt = r->flags & SAMPLE_F_WOKEN_IRQ,
	};
	for (size_t i = 0; i < j->n_held; i++) {
		if (find(j, &j->held[i].r))
			j->cb(j->arg, &j->held[i].r);
		else
			j->held[n++] = j->held[i];
	}
	j->n_held = n;
}

static void hold(struct waker_join *j, const struct rec_stack *r)
{
	if (j->n_held == HELD_MAX)
		pass_first(j, 1);
	j->held[j->n_held++] = (struct held){ .r = *r };
}

void waker_join_take(struct waker_join *j, struct rec_stack *r)
{
	if (r->h.id == SAMPLE_WAKER)
		take_waker(j, r);
	if (r->h.id == SAMPLE_OFF_CPU && !r->ref) {
		set_stack(r, STACK_NONE);
	} else if (r->h.id == SAMPLE_OFF_CPU && !find(j, r)) {
		hold(j, r);
		return;
	}
	j->cb(j->arg, r);
}

void waker_join_round(struct waker_join *j, uint64_t taken, uint64_t collected)
{
	size_t n = 0;

	for (size_t i = 0; i < j->n_held; i++) {
		struct held *h = &j->held[i];

		if (h->seen && !h->until)
			h->until = taken;
		h->seen = true;
	}
	/* those that came first are over first */
	while (n < j->n_held && j->held[n].until && collected >= j->held[n].until)
		n++;
	pass_first(j, n);
}

void waker_join_finish(struct waker_join *j)
{
	pass_first(j, j->n_held);
}
