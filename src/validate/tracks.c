// SPDX-License-Identifier: BSD-2-Clause
/* Spans by track and flows by id: at most 32 bytes each, so that those of a trace of a gigabyte fit
 * in memory. */
#include "validate/trace.h"

#include <errno.h>
#include <json-c/linkhash.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/bisect.h"
#include "util/text.h"

int tracks_init(struct trace_tracks *tracks)
{
	memset(tracks, 0, sizeof(*tracks));
	tracks->by_label = lh_kchar_table_new(64, NULL);
	return tracks->by_label ? 0 : -ENOMEM;
}

void tracks_free(struct trace_tracks *tracks)
{
	for (size_t i = 0; i < tracks->len; i++) {
		free(tracks->all[i]->label);
		free(tracks->all[i]->spans);
		free(tracks->all[i]->tops);
		free(tracks->all[i]);
	}
	free(tracks->all);
	free(tracks->flows);
	if (tracks->by_label)
		lh_table_free(tracks->by_label);
	memset(tracks, 0, sizeof(*tracks));
}

/* Makes room for one more element in a growing array. */
static int array_reserve(void *array, size_t len, size_t *size, size_t element)
{
	size_t want = *size ? *size * 2 : 8;
	void *p;

	if (len < *size)
		return 0;
	p = reallocarray(*(void **)array, want, element);
	if (!p)
		return -ENOMEM;
	*(void **)array = p;
	*size = want;
	return 0;
}

static int track_create(struct trace_tracks *tracks, const char *label)
{
	struct trace_track *track;

	if (array_reserve(&tracks->all, tracks->len, &tracks->size, sizeof(*tracks->all)))
		return -ENOMEM;
	track = calloc(1, sizeof(*track));
	if (!track)
		return -ENOMEM;
	track->label = strdup(label);
	if (!track->label ||
		lh_table_insert(tracks->by_label, track->label, (void *)(uintptr_t)tracks->len)) {
		free(track->label);
		free(track);
		return -ENOMEM;
	}
	tracks->all[tracks->len++] = track;
	return 0;
}

int64_t tracks_get(struct trace_tracks *tracks, const char *pid, const char *tid)
{
	char small[128], *label = small, *big = NULL;
	struct lh_entry *entry;
	int64_t ret;

	/* pids and tids may be strings, of any length */
	if (strlen(pid) + strlen(tid) + sizeof("pid  tid ") <= sizeof(small))
		sprintf(small, "pid %s tid %s", pid, tid);
	else if (asprintf(&big, "pid %s tid %s", pid, tid) < 0)
		return -ENOMEM;
	if (big)
		label = big;
	if (tracks->len && !strcmp(tracks->all[tracks->last]->label, label)) {
		ret = tracks->last;
		goto out;
	}
	entry = lh_table_lookup_entry(tracks->by_label, label);
	if (entry) {
		ret = (uintptr_t)lh_entry_v(entry);
	} else {
		ret = track_create(tracks, label);
		if (ret)
			goto out;
		ret = tracks->len - 1;
	}
	tracks->last = ret;
out:
	free(big);
	return ret;
}

int tracks_add_span(struct trace_tracks *tracks, size_t track, const struct trace_span *span)
{
	struct trace_track *t = tracks->all[track];

	if (array_reserve(&t->spans, t->len, &t->size, sizeof(*t->spans)))
		return -ENOMEM;
	t->spans[t->len++] = *span;
	t->shown |= !span->instant;
	return 0;
}

int tracks_add_flow(struct trace_tracks *tracks, const struct trace_flow *flow)
{
	if (array_reserve(
		    &tracks->flows, tracks->flows_len, &tracks->flows_size, sizeof(*tracks->flows)))
		return -ENOMEM;
	tracks->flows[tracks->flows_len++] = *flow;
	tracks->all[flow->track]->flows = tracks->all[flow->track]->shown = true;
	return 0;
}

size_t tracks_shown(const struct trace_tracks *tracks)
{
	size_t n = 0;

	for (size_t i = 0; i < tracks->len; i++)
		n += tracks->all[i]->shown;
	return n;
}

/* By start; of those that start together the longest first, since it contains the others. */
static int compare_spans(const void *a, const void *b)
{
	const struct trace_span *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	if (x->end != y->end)
		return x->end > y->end ? -1 : 1;
	return x->event < y->event ? -1 : x->event > y->event;
}

static void overlap_found(struct check_report *report, struct trace_findings *findings,
	const char *label, const struct trace_span *a, const struct trace_span *b)
{
	int64_t by = a->end - b->start;
	char printable[96];

	if (!findings->strict || by <= findings->rounding) {
		findings->overlaps++;
		if (by > findings->overlap_max)
			findings->overlap_max = by;
		return;
	}
	check_problem(report,
		"events %u (line %u) and %u (line %u) overlap by %lld ns without nesting: %s",
		a->event, a->line, b->event, b->line, (long long)by,
		text_printable(printable, sizeof(printable), label));
}

/* Sorts the spans of a track and looks for overlaps; stack has room for all of them. */
static void track_check_nesting(struct trace_track *track, const struct trace_span **stack,
	struct check_report *report, struct trace_findings *findings)
{
	size_t depth = 0;

	if (track->len)
		qsort(track->spans, track->len, sizeof(*track->spans), compare_spans);
	for (size_t i = 0; i < track->len; i++) {
		const struct trace_span *span = &track->spans[i];

		while (depth && stack[depth - 1]->end <= span->start)
			depth--;
		if (depth && span->end > stack[depth - 1]->end)
			overlap_found(report, findings, track->label, stack[depth - 1], span);
		stack[depth++] = span;
	}
}

/* ---- how chrome://tracing imports a track ---- */

/*
 * It nests a slice in the previous one, or in one around that, unless it ends later in whole
 * microseconds. So two slices in a row nest if both ends round to the same microsecond. It looks
 * for the slice in which an arrow begins or ends from the outermost level on, by unrounded times,
 * and does not find the second of the two. It calculates with doubles, as here.
 */
static double us_to_ms(int64_t ns)
{
	return (double)ns / 1000 * (1e-6 / 1e-3);
}

/* Like Math.round(): halves go up. */
static int64_t ms_to_whole_us(double ms)
{
	double us = ms * 1000 + 0.5;
	int64_t whole = (int64_t)us;

	return whole - ((double)whole > us);
}

static bool ends_after(const struct trace_top *a, const struct trace_top *b)
{
	return ms_to_whole_us(b->end) < ms_to_whole_us(a->end);
}

static int compare_in_file(const void *a, const void *b)
{
	const struct trace_span *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->event < y->event ? -1 : x->event > y->event;
}

/* Leaves the spans in a different order. */
static int track_find_tops(struct trace_track *track)
{
	struct trace_top *open, *tops;
	size_t depth = 0, len = 0;

	if (!track->flows || !track->len)
		return 0;
	open = calloc(track->len, sizeof(*open));
	tops = calloc(track->len, sizeof(*tops));
	if (!open || !tops) {
		free(open);
		free(tops);
		return -ENOMEM;
	}
	qsort(track->spans, track->len, sizeof(*track->spans), compare_in_file);
	for (size_t i = 0; i < track->len; i++) {
		const struct trace_span *span = &track->spans[i];
		struct trace_top top = { .start = us_to_ms(span->start), .end = 0 };

		top.end = top.start + us_to_ms(span->end - span->start);
		while (depth && ends_after(&top, &open[depth - 1]))
			depth--;
		if (!depth)
			tops[len++] = top;
		open[depth++] = top;
	}
	free(open);
	track->tops = tops;
	track->tops_len = len;
	return 0;
}

static bool tops_hold(const struct trace_track *track, int64_t ns)
{
	double ts = us_to_ms(ns);
	size_t i = bisect(track->tops_len, k, track->tops[k].start < ts);

	return (i && track->tops[i - 1].end >= ts) ||
	       (i < track->tops_len && track->tops[i].start <= ts);
}

/* ---- flows ---- */

/* Reduces the spans to the times at which the track has a slice: sorted, without overlaps. */
static void track_merge(struct trace_track *track)
{
	size_t len = 0;

	for (size_t i = 0; i < track->len; i++) {
		struct trace_span *span = &track->spans[i];

		if (span->instant)
			continue;
		if (len && span->start <= track->spans[len - 1].end) {
			if (span->end > track->spans[len - 1].end)
				track->spans[len - 1].end = span->end;
			continue;
		}
		track->spans[len++] = *span;
	}
	track->len = len;
}

static int compare_time_to_span(const void *time, const void *member)
{
	const struct trace_span *span = member;
	int64_t ts = *(const int64_t *)time;

	/* for viewers a slice ends before its end */
	return ts < span->start ? -1 : ts >= span->end && ts > span->start;
}

static int compare_flows(const void *a, const void *b)
{
	const struct trace_flow *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	if (x->ts != y->ts)
		return x->ts < y->ts ? -1 : 1;
	return x->event < y->event ? -1 : x->event > y->event;
}

static void flow_found(struct check_report *report, const struct trace_findings *findings,
	const struct trace_flow *flow, uint64_t *counter, const char *what)
{
	(*counter)++;
	if (findings->strict_flows)
		check_problem(report, "event %u (line %u): %s", flow->event, flow->line, what);
}

/* The rules of the chrome://tracing importer, which warns about each of these. */
static void flows_check(
	struct trace_tracks *tracks, struct check_report *report, struct trace_findings *findings)
{
	const struct trace_flow *start = NULL, *rounded = NULL;

	if (tracks->flows_len)
		qsort(tracks->flows, tracks->flows_len, sizeof(*tracks->flows), compare_flows);
	for (size_t i = 0; i < tracks->flows_len; i++) {
		const struct trace_flow *flow = &tracks->flows[i];
		const struct trace_track *track = tracks->all[flow->track];

		if (start && start->key != flow->key) {
			flow_found(report, findings, start, &findings->flow_no_end,
				"flow start without an end");
			start = NULL;
		}
		if (flow->phase == FLOW_START) {
			if (start)
				flow_found(report, findings, flow, &findings->flow_repeats,
					"flow start with an id that is in use");
			start = flow;
		} else if (!start) {
			flow_found(report, findings, flow, &findings->flow_no_start,
				"flow step or end without a start before it");
		} else if (flow->phase != FLOW_STEP) {
			start = NULL;
		}
		if (flow->phase == FLOW_END_NEXT)
			continue;
		if (!track->len || !bsearch(&flow->ts, track->spans, track->len,
					   sizeof(*track->spans), compare_time_to_span)) {
			flow_found(report, findings, flow, &findings->flow_no_slice,
				"flow event outside of every slice of its track");
		} else if (findings->array && !tops_hold(track, flow->ts)) {
			/* counted once for both ends */
			findings->flow_rounded += !rounded || rounded->key != flow->key;
			rounded = flow;
		}
	}
	if (start)
		flow_found(report, findings, start, &findings->flow_no_end,
			"flow start without an end");
}

int tracks_check(
	struct trace_tracks *tracks, struct check_report *report, struct trace_findings *findings)
{
	const struct trace_span **stack;
	size_t longest = 0;
	int err = 0;

	for (size_t i = 0; i < tracks->len; i++)
		if (tracks->all[i]->len > longest)
			longest = tracks->all[i]->len;
	stack = calloc(longest + 1, sizeof(*stack));
	if (!stack)
		return -ENOMEM;
	for (size_t i = 0; i < tracks->len && !err; i++) {
		track_check_nesting(tracks->all[i], stack, report, findings);
		if (findings->array)
			err = track_find_tops(tracks->all[i]);
		track_merge(tracks->all[i]);
	}
	free(stack);
	if (err)
		return err;
	flows_check(tracks, report, findings);
	return 0;
}
