// SPDX-License-Identifier: BSD-2-Clause
#include "report/waker_code.h"

#include <errno.h>

#include "report/read.h"

static bool same(const struct waker_sum *a, const struct waker_sum *b)
{
	return a->phase == b->phase && a->state == b->state && a->function == b->function && a->by == b->by &&
	       a->thread == b->thread;
}

static uint64_t key_of(const struct waker_sum *w)
{
	const uint32_t parts[] = { w->phase, w->state, w->function, w->by, w->thread };
	uint64_t key = 0;

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		key = (key ^ parts[i]) * 0x9e3779b97f4a7c15u;
	return key;
}

int waker_code_add(struct model *m, struct stack_times *s, const struct stack_row *row, uint32_t phase, uint32_t by,
	const char *thread)
{
	struct waker_sum w = { .phase = phase, .state = row->state, .by = by };
	uint64_t key;
	uint32_t i;
	int err;

	err = model_name(m, thread, &w.thread);
	if (err || (!w.thread && !by))
		return err;
	w.function = m->code.nodes[row->node].held_by;
	for (key = key_of(&w); idmap_get(&s->by_waker, key, &i); key++) {
		if (same(&s->wakers[i], &w))
			goto found;
	}
	if (m->code.n_wakers >= STACK_WAKERS_MAX)
		return 0;
	if (array_reserve(&s->wakers, s->n_wakers + 1, &s->wakers_size, sizeof(*s->wakers)) ||
		idmap_set(&s->by_waker, key, (uint32_t)s->n_wakers))
		return -ENOMEM;
	i = (uint32_t)s->n_wakers++;
	s->wakers[i] = w;
	m->code.n_wakers++;
found:
	s->wakers[i].ns = ns_add(s->wakers[i].ns, row->ns);
	return 0;
}

const struct waker_sum *waker_code_find(const struct stack_times *s, uint32_t phase, uint8_t state, uint32_t function)
{
	const struct waker_sum *most = NULL;

	for (size_t i = 0; i < s->n_wakers; i++) {
		const struct waker_sum *w = &s->wakers[i];

		if (w->phase == phase && w->state == state && w->function == function && (!most || w->ns > most->ns))
			most = w;
	}
	return most;
}
