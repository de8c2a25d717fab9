// SPDX-License-Identifier: BSD-2-Clause
#include "requests/request_counts.h"

#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "util/list.h"

#define DELTAS_MAX 8192 /* if full, the earliest is applied, but not reported */

struct request_delta {
	uint64_t ns;
	int active, waiting;
};

static void drop_first(struct request_counts *c, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		c->active += c->list[i].active;
		c->waiting += c->list[i].waiting;
	}
	c->n -= n;
	memmove(c->list, c->list + n, c->n * sizeof(*c->list));
}

static void push_delta(struct request_counts *c, uint64_t ns, int active, int waiting)
{
	size_t i;

	if (c->n == DELTAS_MAX)
		drop_first(c, 1);
	if (ns < c->told_ns) /* steps overlap */
		ns = c->told_ns;
	list_push(c->list, c->n, c->cap);
	for (i = c->n - 1; i && c->list[i - 1].ns > ns; i--)
		c->list[i] = c->list[i - 1];
	c->list[i] = (struct request_delta){ ns, active, waiting };
}

static void push_wait(struct request_counts *c, const struct request_live *l)
{
	uint64_t start = c->kept[(l->last_step + 1) % REQUEST_STEPS_KEPT].start;
	uint64_t end = c->kept[(c->steps - 1) % REQUEST_STEPS_KEPT].end;

	_Static_assert(REQUEST_QUIET_STEPS < REQUEST_STEPS_KEPT, "the steps of a request that counts are kept");
	if (start < l->last_end)
		start = l->last_end;
	if (start >= end)
		return;
	push_delta(c, start, 0, 1);
	push_delta(c, end, 0, -1);
}

void request_counts_part(struct request_counts *c, struct request_live *l, uint64_t start, uint64_t end)
{
	if (!l->counted) {
		push_delta(c, start, 1, 0);
		l->counted = true;
		l->last_end = end;
	} else {
		if (l->last_step + 1 < c->steps)
			push_wait(c, l);
		DL_DELETE(c->first, l);
	}
	DL_APPEND(c->first, l);
	if (end > l->last_end)
		l->last_end = end;
	l->last_step = c->steps;
}

void request_counts_end(struct request_counts *c, struct request_live *l)
{
	if (!l->counted)
		return;
	l->counted = false;
	DL_DELETE(c->first, l);
	push_delta(c, l->last_end, -1, 0);
}

bool request_counts_step(struct request_counts *c, uint64_t start, uint64_t end)
{
	bool apart = start >= c->last_end;

	if (end > c->last_end)
		c->last_end = end;
	c->kept[c->steps % REQUEST_STEPS_KEPT].start = start;
	c->kept[c->steps % REQUEST_STEPS_KEPT].end = end;
	c->steps++;
	while (c->first && c->first->last_step + REQUEST_QUIET_STEPS < c->steps)
		request_counts_end(c, c->first);
	return apart;
}

/* The instant before which no change can come any more. */
static uint64_t known_until(const struct request_counts *c)
{
	return c->first ? c->first->last_end : UINT64_MAX;
}

bool request_counts_next(struct request_counts *c, struct request_change *ret_change)
{
	while (c->n && c->list[0].ns < known_until(c)) {
		uint64_t ns = c->list[0].ns;
		int64_t active = c->active, waiting = c->waiting;
		size_t n = 0;

		while (n < c->n && c->list[n].ns == ns)
			n++;
		drop_first(c, n);
		c->told_ns = ns;
		if (c->active == active && c->waiting == waiting)
			continue;
		*ret_change = (struct request_change){
			.ns = ns,
			/* below zero only where steps overlap, or changes were dropped */
			.active = c->active > 0 ? (uint64_t)c->active : 0,
			.waiting = c->waiting > 0 ? (uint64_t)c->waiting : 0,
			.active_changed = c->active != active,
			.waiting_changed = c->waiting != waiting,
		};
		return true;
	}
	return false;
}

void request_counts_clear(struct request_counts *c)
{
	free(c->list);
	*c = (struct request_counts){ 0 };
}
