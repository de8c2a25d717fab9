// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "read/trace.h"
#include "util/list.h"
#include "util/map.h"
#include "util/text.h"
#include "validate/check.h"

/* Spans by track and flows by id: at most 32 bytes each, so that those of a trace of a gigabyte fit
 * in memory. */

struct trace_span {
	int64_t start, end; /* ns */
	uint32_t event;     /* its number in the file, from 1 */
	uint32_t line : 31;
	uint32_t
		instant : 1; /* an instant of a thread, which only chrome://tracing treats as a slice */
};

/* A slice on chrome://tracing's outermost level, in its own milliseconds. */
struct trace_top {
	double start, end;
};

struct trace_track {
	UT_hash_handle hh;
	size_t number;
	char *label; /* "pid PID tid TID", printable for numeric pids and tids */
	struct trace_span *spans;
	size_t len, size;
	struct trace_top *tops; /* if there are flows */
	size_t tops_len;
	bool flows;
	bool shown; /* has more than instants */
};

struct trace_flow {
	uint64_t key; /* hash of cat, name and id, by which viewers match arrows */
	int64_t ts;
	uint32_t event, line;
	uint32_t track : 29;
	uint32_t phase : 3;
};

enum trace_flow_phase {
	FLOW_START,
	FLOW_STEP,
	FLOW_END,      /* with bp "e": ends at the slice around it */
	FLOW_END_NEXT, /* without: ends at the next slice */
};

struct trace_tracks {
	struct trace_track *by_label, **all;
	size_t len, size;
	size_t last; /* events of one track come in runs */
	struct trace_flow *flows;
	size_t flows_len, flows_size;
};

/* Findings that are only worth a note where another program wrote the file or a recording was
 * cut. */
struct trace_findings {
	bool strict;         /* faults of spans are problems, not notes */
	int64_t rounding;    /* ns: overlaps up to this are notes in any case */
	bool strict_flows;   /* the same for flows */
	uint64_t overlaps;   /* reported as notes */
	int64_t overlap_max; /* ns */
	uint64_t flow_repeats, flow_no_start, flow_no_end, flow_no_slice;
	bool array;            /* the form in which chrome://tracing keeps whole microseconds only */
	uint64_t flow_rounded; /* arrows for which it finds no slice, though there is one */
};

static void tracks_free(struct trace_tracks *tracks)
{
	HASH_CLEAR(hh, tracks->by_label);
	for (size_t i = 0; i < tracks->len; i++) {
		free(tracks->all[i]->label);
		free(tracks->all[i]->spans);
		free(tracks->all[i]->tops);
		free(tracks->all[i]);
	}
	free(tracks->all);
	free(tracks->flows);
	memset(tracks, 0, sizeof(*tracks));
}

/* Returns the number of a track, which is created if new. */
static size_t tracks_get(struct trace_tracks *tracks, const char *pid, const char *tid)
{
	char small[128], *label = small, *big = NULL;
	struct trace_track *track;

	/* pids and tids may be strings, of any length */
	if (strlen(pid) + strlen(tid) + sizeof("pid  tid ") <= sizeof(small))
		sprintf(small, "pid %s tid %s", pid, tid);
	else
		label = big = xasprintf("pid %s tid %s", pid, tid);
	if (tracks->len && !strcmp(tracks->all[tracks->last]->label, label)) {
		free(big);
		return tracks->last;
	}
	HASH_FIND_STR(tracks->by_label, label, track);
	if (!track) {
		track = xcalloc(1, sizeof(*track));
		track->label = xstrdup(label);
		track->number = tracks->len;
		HASH_ADD_KEYPTR(hh, tracks->by_label, track->label, strlen(label), track);
		*list_push(tracks->all, tracks->len, tracks->size) = track;
	}
	tracks->last = track->number;
	free(big);
	return tracks->last;
}

static void tracks_add_span(struct trace_tracks *tracks, size_t track, const struct trace_span *span)
{
	struct trace_track *t = tracks->all[track];

	*list_push(t->spans, t->len, t->size) = *span;
	t->shown |= !span->instant;
}

/* The number of tracks with more than instants. */
static size_t tracks_shown(const struct trace_tracks *tracks)
{
	size_t n = 0;

	for (size_t i = 0; i < tracks->len; i++)
		n += tracks->all[i]->shown;
	return n;
}

/* By start; spans that start together are sorted by length, the longest first, since it contains the others. */
static int compare_track_spans(const void *a, const void *b)
{
	const struct trace_span *x = a, *y = b;

	return cmp_int(x->start, y->start) ?: cmp_int(y->end, x->end) ?
								      : cmp_int(x->event, y->event);
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

	list_sort(track->spans, track->len, compare_track_spans);
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

static int compare_in_file(const void *a, const void *b)
{
	const struct trace_span *x = a, *y = b;

	return cmp_int(x->start, y->start) ?: cmp_int(x->event, y->event);
}

/* Leaves the spans in a different order. */
static void track_find_tops(struct trace_track *track)
{
	struct trace_top *open, *tops;
	size_t depth = 0, len = 0;

	if (!track->flows || !track->len)
		return;
	open = xcalloc(track->len, sizeof(*open));
	tops = xcalloc(track->len, sizeof(*tops));
	qsort(track->spans, track->len, sizeof(*track->spans), compare_in_file);
	for (size_t i = 0; i < track->len; i++) {
		const struct trace_span *span = &track->spans[i];
		struct trace_top top = { .start = us_to_ms(span->start), .end = 0 };

		top.end = top.start + us_to_ms(span->end - span->start);
		while (depth && ms_to_whole_us(open[depth - 1].end) < ms_to_whole_us(top.end))
			depth--;
		if (!depth)
			tops[len++] = top;
		open[depth++] = top;
	}
	free(open);
	track->tops = tops;
	track->tops_len = len;
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

	return cmp_int(x->key, y->key) ?: cmp_int(x->ts, y->ts) ?
								: cmp_int(x->event, y->event);
}

static void flow_found(struct check_report *report, const struct trace_findings *findings,
	const struct trace_flow *flow, uint64_t *counter, const char *what)
{
	(*counter)++;
	if (findings->strict_flows)
		check_problem(report, "event %u (line %u): %s", flow->event, flow->line, what);
}

/* The rules of the chrome://tracing importer, which warns about each of these. */
static void flows_check(struct trace_tracks *tracks, struct check_report *report, struct trace_findings *findings)
{
	const struct trace_flow *start = NULL, *rounded = NULL;

	list_sort(tracks->flows, tracks->flows_len, compare_flows);
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

/*
 * Checks everything that was added; call it once: spans of a track nest, each flow start has one
 * end after it, flows bind to slices. Uses up the spans.
 */
static void tracks_check(struct trace_tracks *tracks, struct check_report *report, struct trace_findings *findings)
{
	const struct trace_span **stack;
	size_t longest = 0;

	for (size_t i = 0; i < tracks->len; i++)
		if (tracks->all[i]->len > longest)
			longest = tracks->all[i]->len;
	stack = xcalloc(longest + 1, sizeof(*stack));
	for (size_t i = 0; i < tracks->len; i++) {
		track_check_nesting(tracks->all[i], stack, report, findings);
		if (findings->array)
			track_find_tops(tracks->all[i]);
		track_merge(tracks->all[i]);
	}
	free(stack);
	flows_check(tracks, report, findings);
}

/* The rules of a Chrome trace, event by event: docs/trace-format.md. */

/* The phases of the Trace Event Format, including deprecated ones. */
#define PHASES "BEXiICbneSTpFstfPNODMVvRc()"
/* Tools that round the beginning and the length of a slice to microseconds make adjacent slices
 * overlap. */
#define FOREIGN_ROUNDING_NS 1000

/* Phases of the thread tracks: these need pid and tid. */
#define TRACK_PHASES "XBEstf"

struct trace_check {
	struct check_report *report;
	struct trace_form form;
	struct trace_tracks tracks;
	struct trace_findings findings;
	struct name_counts categories;
	bool ours; /* inftrace wrote it */
	uint64_t phases[128];
	uint64_t surrogates, big_integers, odd_ids, odd_args;
};

#define EVENT_PROBLEM(check, event, fmt, ...)                                           \
	check_problem((check)->report, "event %llu (line %llu): " fmt,                  \
		(unsigned long long)(event)->number, (unsigned long long)(event)->line, \
		##__VA_ARGS__)

static bool event_string(struct trace_check *check, const struct trace_event *event,
	const char *key, const struct json_node *value, const char **ret_text)
{
	*ret_text = node_string(value);
	if (!*ret_text)
		EVENT_PROBLEM(check, event, "%s: %s",
			value && value->kind != JSON_NULL ? "not a string" : "missing key", key);
	return *ret_text;
}

static bool event_time(struct trace_check *check, const struct trace_event *event, const char *key,
	const struct json_node *value, int64_t *ret_ns)
{
	int ret;

	ret = value && value->kind != JSON_NULL ? node_us_to_ns(value, ret_ns) : -ENOENT;
	if (ret >= 0)
		return true;
	EVENT_PROBLEM(check, event, "%s: %s",
		ret == -ENOENT   ? "missing key"
		: ret == -ERANGE ? "does not fit in 64 bits of nanoseconds"
				 : "not a number",
		key);
	return false;
}

/* A pid, tid or id: an integer or, as in Kineto's traces, a string. buf is for integers. */
static bool event_id(struct trace_check *check, const struct trace_event *event, const char *key,
	const struct json_node *value, char buf[24], const char **ret_text)
{
	if (node_is(value, JSON_STRING)) {
		*ret_text = value->text;
		return true;
	}
	if (node_is(value, JSON_INT)) {
		*ret_text = value->text;
		if (value->len > 18 || *value->text == '-') { /* it may not fit, or be -0 */
			snprintf(buf, 24, "%lld", (long long)node_s64(value));
			*ret_text = buf;
		}
		return true;
	}
	EVENT_PROBLEM(check, event, "%s: %s",
		value && value->kind != JSON_NULL ? "neither an integer nor a string"
						  : "missing key",
		key);
	return false;
}

static bool event_args(struct trace_check *check, const struct trace_event *event)
{
	if (node_is(event->args, JSON_OBJECT))
		return true;
	EVENT_PROBLEM(check, event, "missing key: args, an object");
	return false;
}

/* Counts integers above 2^63-1: Perfetto refuses the file, other readers round them. */
static uint64_t count_big_integers(const struct json_node *value)
{
	const struct json_node *end = value + value->span;
	uint64_t n = 0;

	for (; value < end; value += value->kind == JSON_DROPPED ? value->span : 1)
		n += node_is(value, JSON_INT) && value->len > 18 && node_u64(value) > INT64_MAX;
	return n;
}

/* What some readers refuse: a problem where inftrace wrote the file, only counted where others did. */
static void check_strict(struct trace_check *check, const struct trace_event *event, bool bad, uint64_t *count, const char *what)
{
	*count += bad;
	if (bad && check->ours)
		EVENT_PROBLEM(check, event, "%s", what);
}

static bool is_plain_id(const struct json_node *value)
{
	return node_is(value, JSON_INT) && *value->text != '-' && node_u64(value) <= UINT32_MAX;
}

static bool check_slice(struct trace_check *check, const struct trace_event *event, size_t track)
{
	struct trace_span span = { .event = event->number, .line = event->line };
	const char *cat = node_string(event->cat);
	int64_t dur;

	if (!event_time(check, event, "ts", event->ts, &span.start) ||
		!event_time(check, event, "dur", event->dur, &dur))
		return false;
	if (dur < 0) {
		EVENT_PROBLEM(check, event, "dur is negative");
		return false;
	}
	if (__builtin_add_overflow(span.start, dur, &span.end)) {
		EVENT_PROBLEM(check, event, "ts + dur does not fit in 64 bits of nanoseconds");
		return false;
	}
	tracks_add_span(&check->tracks, track, &span);
	if (!cat && check->ours) /* others are counted by the summary */
		EVENT_PROBLEM(check, event, "missing key: cat");
	name_counts_add(&check->categories, cat ? cat : "(no cat)");
	return true;
}

static uint64_t hash_add_text(uint64_t hash, const char *text)
{
	do { /* FNV-1a, with the terminating NUL as separator */
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3ULL;
	} while (*text++);
	return hash;
}

static bool check_flow(struct trace_check *check, const struct trace_event *event, char phase, size_t track)
{
	struct trace_flow flow = { .event = event->number, .line = event->line, .track = track };
	const char *id, *name, *cat = "", *bp = "";
	char buf[24];

	if (!event_time(check, event, "ts", event->ts, &flow.ts) ||
		!event_id(check, event, "id", event->id, buf, &id) ||
		!event_string(check, event, "name", event->name, &name))
		return false;
	if (event->cat && !event_string(check, event, "cat", event->cat, &cat))
		return false;
	if (event->bp && !event_string(check, event, "bp", event->bp, &bp))
		return false;
	if (phase == 's')
		flow.phase = FLOW_START;
	else if (phase == 't')
		flow.phase = FLOW_STEP;
	else
		flow.phase = !strcmp(bp, "e") ? FLOW_END : FLOW_END_NEXT;
	flow.key = hash_add_text(hash_add_text(hash_add_text(0xcbf29ce484222325ULL, cat), name), id);
	*list_push(check->tracks.flows, check->tracks.flows_len, check->tracks.flows_size) = flow;
	check->tracks.all[track]->flows = check->tracks.all[track]->shown = true;
	return true;
}

static bool check_track_event(struct trace_check *check, const struct trace_event *event, char phase)
{
	char pid_buf[24], tid_buf[24];
	const char *name, *pid, *tid;
	int64_t ts;
	size_t track;

	if (!event_id(check, event, "pid", event->pid, pid_buf, &pid) ||
		!event_id(check, event, "tid", event->tid, tid_buf, &tid))
		return false;
	check_strict(check, event, !is_plain_id(event->pid) || !is_plain_id(event->tid), &check->odd_ids,
		"pid and tid: must be integers from 0 to 4294967295");
	if (phase == 'B' || phase == 'E')
		return event_time(check, event, "ts", event->ts, &ts);
	if (phase == 'X' && !event_string(check, event, "name", event->name, &name))
		return false;
	track = tracks_get(&check->tracks, pid, tid);
	return phase == 'X' ? check_slice(check, event, track)
			    : check_flow(check, event, phase, track);
}

/* Checks an instant. Instants of threads are kept: chrome://tracing nests them like slices. */
static bool check_instant(struct trace_check *check, const struct trace_event *event)
{
	struct trace_span span = { .event = event->number, .line = event->line, .instant = 1 };
	const char *name, *scope = "t", *pid, *tid;
	char pid_buf[24], tid_buf[24];

	if (!event_time(check, event, "ts", event->ts, &span.start) ||
		!event_string(check, event, "name", event->name, &name))
		return false;
	if (event->s && !event_string(check, event, "s", event->s, &scope))
		return false;
	if (!strcmp(name, "inftrace_clock"))
		check->ours = true;
	if (!check->form.array || strcmp(scope, "t") || !event->pid ||
		node_is(event->pid, JSON_NULL) || !event->tid || node_is(event->tid, JSON_NULL))
		return true;
	if (!event_id(check, event, "pid", event->pid, pid_buf, &pid) ||
		!event_id(check, event, "tid", event->tid, tid_buf, &tid))
		return false;
	span.end = span.start;
	tracks_add_span(&check->tracks, tracks_get(&check->tracks, pid, tid), &span);
	return true;
}

static bool check_other_event(struct trace_check *check, const struct trace_event *event, char phase)
{
	const char *text;
	char buf[24];
	int64_t ts;

	switch (phase) {
	case 'M':
		return event_string(check, event, "name", event->name, &text) &&
		       event_args(check, event);
	case 'C':
		return event_time(check, event, "ts", event->ts, &ts) &&
		       event_string(check, event, "name", event->name, &text) &&
		       event_id(check, event, "pid", event->pid, buf, &text) &&
		       event_args(check, event);
	case 'i':
	case 'I':
		return check_instant(check, event);
	default:
		return event_time(check, event, "ts", event->ts, &ts);
	}
}

static int check_event(void *ctx, const struct trace_event *event)
{
	struct trace_check *check = ctx;
	uint64_t big_integers;
	char printable[32];
	const char *ph;

	if (!node_is(event->value, JSON_OBJECT)) {
		EVENT_PROBLEM(check, event, "not an object");
		return 0;
	}
	if (!event_string(check, event, "ph", event->ph, &ph))
		return 0;
	if (!ph[0] || ph[1] || !strchr(PHASES, ph[0])) {
		EVENT_PROBLEM(check, event, "unknown ph: %s",
			text_printable(printable, sizeof(printable), ph));
		return 0;
	}
	check->phases[(unsigned char)ph[0]]++;
	check_strict(check, event, event->args && !node_is(event->args, JSON_OBJECT) && !strchr("MC", ph[0]), &check->odd_args,
		"args: not an object");
	if (!(strchr(TRACK_PHASES, ph[0]) ? check_track_event : check_other_event)(check, event, ph[0]))
		return 0;

	big_integers = count_big_integers(event->value);
	check->big_integers += big_integers;
	if (big_integers && check->form.array)
		EVENT_PROBLEM(check, event, "integer above 2^63-1: must be a string");
	check->surrogates += event->surrogate_escapes;
	if (event->surrogate_escapes && check->form.array)
		EVENT_PROBLEM(check, event, "\\u escape of a surrogate pair: must be UTF-8");
	return 0;
}

static void check_trace_stop(void *ctx, const struct trace_stop *stop)
{
	unsigned long long line = stop->line, events = stop->events;
	struct check_report *report = ((struct trace_check *)ctx)->report;

	switch (stop->kind) {
	case TRACE_UNREADABLE:
		check_problem(report, "event %llu: %s", events, stop->why);
		break;
	case TRACE_CUT:
		check_problem(report, "event %llu (line %llu): %s: readers refuse it", events, line,
			stop->why);
		break;
	case TRACE_UNEXPECTED:
		check_problem(report, "line %llu (after %llu events): %s", line, events, stop->why);
		break;
	case TRACE_AFTER:
		check_problem(report, "line %llu: %s", line, stop->why);
		break;
	case TRACE_NO_EVENTS:
		check_problem(report, "%s", stop->why);
		break;
	}
}

static void print_note(FILE *out, uint64_t count, const char *what)
{
	if (count)
		fprintf(out, "; note: %llu %s", (unsigned long long)count, what);
}

static void print_summary(struct trace_check *check, const struct json_source *source, const char *path, FILE *out)
{
	const struct trace_findings *found = &check->findings;
	const char *separator = ": ";

	fprintf(out, "%s: Chrome trace (%s%s), %llu event%s", path,
		check->form.array ? "array" : "object", source->gzip ? ", gzip" : "",
		(unsigned long long)check->form.events, check->form.events == 1 ? "" : "s");
	for (size_t i = 0; i < sizeof(check->phases) / sizeof(check->phases[0]); i++) {
		if (!check->phases[i])
			continue;
		fprintf(out, "%s%c %llu", separator, (char)i, (unsigned long long)check->phases[i]);
		separator = ", ";
	}
	fputs("; slices: ", out);
	name_counts_print(&check->categories, out);
	fprintf(out, "; %zu track%s", tracks_shown(&check->tracks),
		tracks_shown(&check->tracks) == 1 ? "" : "s");
	if (check->form.open)
		fputs("; open (not closed by ]: recording cut)", out);
	if (!check->form.events)
		fputs("; note: no events", out);
	if (found->overlaps)
		fprintf(out,
			"; note: %llu slices overlap another without nesting, by up to %lld ns%s",
			(unsigned long long)found->overlaps, (long long)found->overlap_max,
			found->strict
				? ", as where microseconds are rounded (not written by inftrace)"
				: "");
	if (!found->strict_flows) {
		print_note(out, found->flow_repeats, "flow starts with an id in use");
		print_note(out, found->flow_no_start, "flow ends without a start");
		print_note(out, found->flow_no_end, "flow starts without an end");
		print_note(out, found->flow_no_slice, "flow events outside of every slice");
	}
	print_note(out, found->flow_rounded,
		"arrows that chrome://tracing leaves out, as it nests slices that end within one microsecond");
	if (!check->form.array) {
		print_note(out, check->big_integers, "integers above 2^63-1");
		print_note(out, check->surrogates, "events with surrogate escapes");
	}
	print_note(out, check->odd_ids, "events whose pid or tid is negative or a text");
	print_note(out, check->odd_args, "events whose args are no object");
	print_note(out, check->phases['B'] + check->phases['E'],
		"B and E events, whose nesting is not checked");
	check_summary_end(check->report, out);
}

void check_trace(struct json_source *source, const char *path, struct check_report *report, FILE *out)
{
	static const struct trace_reader_ops ops = { .event = check_event,
		.stop = check_trace_stop };
	struct trace_check check = { .report = report };

	if (trace_read(source, &ops, &check, &check.form))
		goto out;
	if (!check.form.events && check.form.open)
		check_problem(report, "no events");
	check.findings.strict = check.findings.array = check.form.array;
	check.findings.rounding = check.ours ? 0 : FOREIGN_ROUNDING_NS;
	/* where the trace is cut, one half of an arrow, or the slice around it, may be missing */
	check.findings.strict_flows = check.form.array && !check.form.open;
	tracks_check(&check.tracks, report, &check.findings);
	print_summary(&check, source, path, out);
out:
	tracks_free(&check.tracks);
}
