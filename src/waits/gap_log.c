// SPDX-License-Identifier: BSD-2-Clause
#include "waits/gap_log.h"

#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "util/alloc.h"

struct logged_gap {
	struct logged_gap *prev, *next; /* in the order in which they came: of a context, by time */
	size_t size;
	struct rec_gap gap; /* as much of it as there is */
};

struct gap_log {
	struct logged_gap *gaps;
	size_t bytes;
};

struct gap_log *gap_log_new(void)
{
	return xcalloc(1, sizeof(struct gap_log));
}

static void log_drop(struct gap_log *l, struct logged_gap *g)
{
	DL_DELETE(l->gaps, g);
	l->bytes -= g->size;
	free(g);
}

void gap_log_free(struct gap_log *l)
{
	while (l && l->gaps)
		log_drop(l, l->gaps);
	free(l);
}

void gap_log_add(struct gap_log *l, const struct rec_gap *gap)
{
	size_t size = REC_GAP_SIZE((size_t)gap->n_causes + gap->n), whole = offsetof(struct logged_gap, gap) + size;
	struct logged_gap *g = xmalloc(whole);

	g->size = whole;
	memcpy(&g->gap, gap, size);
	DL_APPEND(l->gaps, g);
	l->bytes += whole;
	while (l->bytes > GAP_LOG_BYTES)
		log_drop(l, l->gaps);
}

/* Adds the causes of a part of a gap. What is unknown of a gap is its beginning. */
static void add_part(struct causes *c, const struct rec_gap *gap, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t left = to_ns - from_ns, known_ns = gap->h.start_ns + gap->unknown_ns, listed_ns = gap->h.start_ns + gap->h.dur_ns;

	for (size_t i = 0; i < gap->n; i++) {
		struct gap_segment s = gap->seg[gap->n_causes + i];
		uint64_t end = s.start_ns + s.dur_ns < to_ns ? s.start_ns + s.dur_ns : to_ns;

		if (s.start_ns < from_ns)
			s.start_ns = from_ns;
		if (s.start_ns >= end)
			continue;
		s.dur_ns = end - s.start_ns;
		s.by_ns = s.by_ns < s.dur_ns ? s.by_ns : s.dur_ns;
		left -= s.dur_ns;
		causes_add(c, &s);
	}
	if (gap->n)
		listed_ns = gap->seg[gap->n_causes + gap->n - 1].start_ns;
	if (known_ns < from_ns)
		known_ns = from_ns;
	if (listed_ns > to_ns)
		listed_ns = to_ns;
	if (known_ns < listed_ns) {
		causes_add_rest(c, gap, listed_ns - known_ns);
		left -= listed_ns - known_ns;
	}
	c->unknown_ns += left;
}

uint64_t gap_log_sum(const struct gap_log *l, uint32_t tgid, uint64_t context, uint64_t from_ns, uint64_t to_ns, bool queued, struct causes *c)
{
	const struct logged_gap *g;
	uint64_t sum = 0;
	bool first = true;

	DL_FOREACH(l->gaps, g)
	{
		uint64_t start = g->gap.h.start_ns, end = start + g->gap.h.dur_ns;

		if (g->gap.h.tgid != tgid || g->gap.context != context)
			continue;
		if (first && queued && start > from_ns) {
			uint64_t unknown = (start < to_ns ? start : to_ns) - from_ns;

			c->unknown_ns += unknown;
			sum += unknown;
		}
		first = false;
		if (start < from_ns)
			start = from_ns;
		if (end > to_ns)
			end = to_ns;
		if (start >= end)
			continue;
		if (end - start == g->gap.h.dur_ns)
			causes_add_gap(c, &g->gap);
		else
			add_part(c, &g->gap, start, end);
		sum += end - start;
	}
	return sum;
}

uint64_t gap_log_sent(const struct gap_log *l, uint64_t id, uint64_t from_ns, uint64_t to_ns, struct causes *c)
{
	const struct logged_gap *g;

	DL_FOREACH(l->gaps, g)
	{
		uint64_t start = g->gap.h.start_ns, end = start + g->gap.h.dur_ns;

		if (g->gap.context != id || end <= from_ns || end > to_ns)
			continue;
		if (start > from_ns)
			c->unknown_ns += start - from_ns;
		add_part(c, &g->gap, start > from_ns ? start : from_ns, end);
		return end;
	}
	return 0;
}
