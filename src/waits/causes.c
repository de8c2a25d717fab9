// SPDX-License-Identifier: BSD-2-Clause
#include "waits/causes.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static bool cause_is(const struct gap_segment *a, const struct gap_segment *b)
{
	return a->tid == b->tid && a->state == b->state && a->call == b->call && !((a->flags ^ b->flags) & GAP_SEGMENT_F_LIMITED);
}

static int compare_causes(const void *a, const void *b)
{
	uint64_t x = ((const struct gap_segment *)a)->dur_ns, y = ((const struct gap_segment *)b)->dur_ns;

	return (x < y) - (x > y);
}

/* Makes one entry of all waits of a thread for a CPU. The longest comes first, and names the thread that ran. */
static void causes_merge(struct causes *c)
{
	size_t n = 0, k;

	if (c->n)
		qsort(c->list, c->n, sizeof(c->list[0]), compare_causes);
	for (size_t i = 0; i < c->n; i++) {
		for (k = 0; k < n && !cause_is(&c->list[k], &c->list[i]); k++)
			;
		if (k < n)
			c->list[k].dur_ns += c->list[i].dur_ns;
		else
			c->list[n++] = c->list[i];
	}
	c->n = n;
}

/* Returns the shortest entry. */
static size_t causes_least(const struct causes *c)
{
	size_t least = 0;

	for (size_t i = 1; i < c->n; i++)
		least = c->list[i].dur_ns < c->list[least].dur_ns ? i : least;
	return least;
}

void causes_add(struct causes *c, const struct gap_segment *s)
{
	size_t i = 0;

	if (s->state >= ST_MAX) {
		c->unknown_ns += s->dur_ns;
		return;
	}
	while (i < c->n && (!cause_is(&c->list[i], s) || (!c->coarse && c->list[i].by_tid != s->by_tid)))
		i++;
	if (i == CAUSES_FINE && !c->coarse) {
		causes_merge(c);
		c->coarse = c->n == CAUSES_FINE;
		i = c->n;
	}
	if (i == CAUSES_FINE) { /* the longer one stays: many short ones may come before the one that matters */
		i = causes_least(c);
		if (c->list[i].dur_ns >= s->dur_ns) {
			c->others_ns += s->dur_ns;
			return;
		}
		c->others_ns += c->list[i].dur_ns;
		c->list[i] = c->list[--c->n];
		i = c->n;
	}
	if (i < c->n && c->list[i].file != s->file)
		c->list[i].file = 0;
	if (i == c->n) {
		c->list[c->n++] = *s;
		c->list[i].dur_ns = c->list[i].by_ns = 0;
	}
	c->list[i].dur_ns += s->dur_ns;
	if (c->list[i].by_tid == s->by_tid)
		c->list[i].by_ns += s->by_ns ? s->by_ns : s->dur_ns;
}

void causes_add_gap(struct causes *c, const struct rec_gap *gap)
{
	for (size_t i = 0; i < gap->n_causes; i++)
		causes_add(c, &gap->seg[i]);
	c->others_ns += gap->others_ns;
	c->unknown_ns += gap->unknown_ns;
}

void causes_add_rest(struct causes *c, const struct rec_gap *gap, uint64_t ns)
{
	struct gap_segment rest[GAP_CAUSES_MAX + 1];
	size_t n = gap->n_causes, k;
	uint64_t whole = 0, left = ns;
	bool all;

	memcpy(rest, gap->seg, n * sizeof(*rest));
	rest[n] = (struct gap_segment){ .dur_ns = gap->others_ns };
	for (size_t i = 0; i < gap->n; i++) {
		const struct gap_segment *s = &gap->seg[n + i];

		for (k = 0; k < n && !cause_is(&rest[k], s); k++)
			;
		if (s->state < ST_MAX)
			rest[k].dur_ns -= s->dur_ns < rest[k].dur_ns ? s->dur_ns : rest[k].dur_ns;
	}
	for (k = 0; k <= n; k++)
		whole += rest[k].dur_ns;
	all = ns == whole;
	for (k = 0; k <= n && whole; k++) {
		struct gap_segment *s = &rest[k];
		/* the last one that has any takes what the rounding leaves */
		uint64_t part = s->dur_ns == whole ? left : (uint64_t)((unsigned __int128)s->dur_ns * left / whole);

		whole -= s->dur_ns;
		left -= part;
		s->by_ns = s->by_ns < part ? s->by_ns : part;
		s->dur_ns = part;
		if (k == n)
			c->others_ns += part;
		else if (part)
			causes_add(c, s);
	}
	c->unknown_ns += left;
	c->estimated_ns += all ? 0 : ns - left;
}

void causes_finish(struct causes *c, size_t most)
{
	causes_merge(c);
	if (c->n)
		qsort(c->list, c->n, sizeof(c->list[0]), compare_causes);
	while (c->n > most)
		c->others_ns += c->list[--c->n].dur_ns;
}
