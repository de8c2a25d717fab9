// SPDX-License-Identifier: BSD-2-Clause
/* The rules of a Chrome trace, event by event: docs/trace-format.md. */
#include "read/trace.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "util/text.h"
#include "validate/trace.h"

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

/* Returned by the check of one event after reporting a problem; otherwise it returns 0 or -ENOMEM. */
#define EVENT_BAD 1

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

static int check_slice(struct trace_check *check, const struct trace_event *event, size_t track)
{
	struct trace_span span = { .event = event->number, .line = event->line };
	const char *cat = node_string(event->cat);
	int64_t dur;

	if (!event_time(check, event, "ts", event->ts, &span.start) ||
		!event_time(check, event, "dur", event->dur, &dur))
		return EVENT_BAD;
	if (dur < 0) {
		EVENT_PROBLEM(check, event, "dur is negative");
		return EVENT_BAD;
	}
	if (__builtin_add_overflow(span.start, dur, &span.end)) {
		EVENT_PROBLEM(check, event, "ts + dur does not fit in 64 bits of nanoseconds");
		return EVENT_BAD;
	}
	if (tracks_add_span(&check->tracks, track, &span))
		return -ENOMEM;
	if (!cat && check->ours) /* others are counted by the summary */
		EVENT_PROBLEM(check, event, "missing key: cat");
	name_counts_add(&check->categories, cat ? cat : "(no cat)");
	return 0;
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
	do { /* FNV-1a, with the terminating NUL as separator */
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3ULL;
	} while (*text++);
	return hash;
}

static int check_flow(
	struct trace_check *check, const struct trace_event *event, char phase, size_t track)
{
	struct trace_flow flow = { .event = event->number, .line = event->line, .track = track };
	const char *id, *name, *cat = "", *bp = "";
	char buf[24];

	if (!event_time(check, event, "ts", event->ts, &flow.ts) ||
		!event_id(check, event, "id", event->id, buf, &id) ||
		!event_string(check, event, "name", event->name, &name))
		return EVENT_BAD;
	if (event->cat && !event_string(check, event, "cat", event->cat, &cat))
		return EVENT_BAD;
	if (event->bp && !event_string(check, event, "bp", event->bp, &bp))
		return EVENT_BAD;
	if (phase == 's')
		flow.phase = FLOW_START;
	else if (phase == 't')
		flow.phase = FLOW_STEP;
	else
		flow.phase = !strcmp(bp, "e") ? FLOW_END : FLOW_END_NEXT;
	flow.key = hash_text(hash_text(hash_text(0xcbf29ce484222325ULL, cat), name), id);
	return tracks_add_flow(&check->tracks, &flow);
}

static int check_track_event(struct trace_check *check, const struct trace_event *event, char phase)
{
	char pid_buf[24], tid_buf[24];
	const char *name, *pid, *tid;
	int64_t track, ts;

	if (!event_id(check, event, "pid", event->pid, pid_buf, &pid) ||
		!event_id(check, event, "tid", event->tid, tid_buf, &tid))
		return EVENT_BAD;
	check_strict(check, event, !is_plain_id(event->pid) || !is_plain_id(event->tid), &check->odd_ids,
		"pid and tid: must be integers from 0 to 4294967295");
	if (phase == 'B' || phase == 'E')
		return event_time(check, event, "ts", event->ts, &ts) ? 0 : EVENT_BAD;
	if (phase == 'X' && !event_string(check, event, "name", event->name, &name))
		return EVENT_BAD;
	track = tracks_get(&check->tracks, pid, tid);
	if (track < 0)
		return track;
	return phase == 'X' ? check_slice(check, event, track)
			    : check_flow(check, event, phase, track);
}

/* Checks an instant; those of threads are kept, for what chrome://tracing makes of them. */
static int check_instant(struct trace_check *check, const struct trace_event *event)
{
	struct trace_span span = { .event = event->number, .line = event->line, .instant = 1 };
	const char *name, *scope = "t", *pid, *tid;
	char pid_buf[24], tid_buf[24];
	int64_t track;

	if (!event_time(check, event, "ts", event->ts, &span.start) ||
		!event_string(check, event, "name", event->name, &name))
		return EVENT_BAD;
	if (event->s && !event_string(check, event, "s", event->s, &scope))
		return EVENT_BAD;
	if (!strcmp(name, "inftrace_clock"))
		check->ours = true;
	if (!check->form.array || strcmp(scope, "t") || !event->pid ||
		node_is(event->pid, JSON_NULL) || !event->tid || node_is(event->tid, JSON_NULL))
		return 0;
	if (!event_id(check, event, "pid", event->pid, pid_buf, &pid) ||
		!event_id(check, event, "tid", event->tid, tid_buf, &tid))
		return EVENT_BAD;
	span.end = span.start;
	track = tracks_get(&check->tracks, pid, tid);
	return track < 0 ? track : tracks_add_span(&check->tracks, track, &span);
}

static int check_other_event(struct trace_check *check, const struct trace_event *event, char phase)
{
	const char *text;
	char buf[24];
	bool good;
	int64_t ts;

	switch (phase) {
	case 'M':
		good = event_string(check, event, "name", event->name, &text) &&
		       event_args(check, event);
		break;
	case 'C':
		good = event_time(check, event, "ts", event->ts, &ts) &&
		       event_string(check, event, "name", event->name, &text) &&
		       event_id(check, event, "pid", event->pid, buf, &text) &&
		       event_args(check, event);
		break;
	case 'i':
	case 'I':
		return check_instant(check, event);
	default:
		good = event_time(check, event, "ts", event->ts, &ts);
	}
	return good ? 0 : EVENT_BAD;
}

static int check_event(void *ctx, const struct trace_event *event)
{
	struct trace_check *check = ctx;
	uint64_t big_integers;
	char printable[32];
	const char *ph;
	int ret;

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
	if (strchr(TRACK_PHASES, ph[0]))
		ret = check_track_event(check, event, ph[0]);
	else
		ret = check_other_event(check, event, ph[0]);
	if (ret)
		return ret == EVENT_BAD ? 0 : ret;

	big_integers = count_big_integers(event->value);
	check->big_integers += big_integers;
	if (big_integers && check->form.array)
		EVENT_PROBLEM(check, event, "integer above 2^63-1: must be a string");
	check->surrogates += event->surrogate_escapes;
	if (event->surrogate_escapes && check->form.array)
		EVENT_PROBLEM(check, event, "\\u escape of a surrogate pair: must be UTF-8");
	return 0;
}

static void reading_stopped(void *ctx, const struct trace_stop *stop)
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

static void print_summary(
	struct trace_check *check, const struct json_source *source, const char *path, FILE *out)
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
		"arrows that chrome://tracing leaves out, as it nests slices that end within one "
		"microsecond");
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

void check_trace(
	struct json_source *source, const char *path, struct check_report *report, FILE *out)
{
	static const struct trace_reader_ops ops = { .event = check_event,
		.stop = reading_stopped };
	struct trace_check check = { .report = report };
	int err;

	err = tracks_init(&check.tracks);
	if (!err)
		err = trace_read(source, &ops, &check, &check.form);
	if (err)
		goto out;
	if (!check.form.events && check.form.open)
		check_problem(report, "no events");
	check.findings.strict = check.findings.array = check.form.array;
	check.findings.rounding = check.ours ? 0 : FOREIGN_ROUNDING_NS;
	/* where the trace is cut, one half of an arrow, or the slice around it, may be missing */
	check.findings.strict_flows = check.form.array && !check.form.open;
	err = tracks_check(&check.tracks, report, &check.findings);
	if (!err)
		print_summary(&check, source, path, out);
out:
	if (err == -ENOMEM)
		check_problem(report, "out of memory");
	tracks_free(&check.tracks);
}
