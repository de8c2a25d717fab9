// SPDX-License-Identifier: BSD-2-Clause
/* The rules of a Chrome trace, event by event: docs/trace-format.md. */
#include "util/json_trace.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

/* The phases of the Trace Event Format, those that were deprecated included. */
#define PHASES "BEXiICbneSTpFstfPNODMVvRc()"
/* Tools that round the begin and the length of a slice to microseconds make slices that touch overlap. */
#define FOREIGN_ROUNDING_NS 1000

/* Phases of the thread tracks: these need pid and tid. */
#define TRACK_PHASES "XBEstf"

struct trace_check {
	struct json_reader reader;
	struct check_report *report;
	struct trace_tracks tracks;
	struct trace_findings findings;
	struct name_counts categories;
	bool array; /* the array form: what inftrace writes, and strictly checked */
	bool open;  /* ... without the closing bracket: a recording that was cut */
	bool ours;  /* inftrace wrote it */
	uint64_t events, slices;
	uint64_t phases[128];
	uint64_t surrogates, big_integers;
	bool out_of_memory;
};

#define EVENT_PROBLEM(check, fmt, ...)                                 \
	check_problem((check)->report, "event %llu (line %llu): " fmt, \
		(unsigned long long)(check)->events,                   \
		(unsigned long long)(check)->reader.value_line, ##__VA_ARGS__)

static bool event_string(struct trace_check *check, struct json_object *event, const char *key,
	const char **ret_text)
{
	struct json_object *value = json_object_object_get(event, key);

	if (!json_object_is_type(value, json_type_string)) {
		EVENT_PROBLEM(check, "%s: %s", value ? "not a string" : "missing key", key);
		return false;
	}
	*ret_text = json_object_get_string(value);
	return true;
}

static bool event_time(
	struct trace_check *check, struct json_object *event, const char *key, int64_t *ret_ns)
{
	struct json_object *value = json_object_object_get(event, key);
	int ret;

	ret = value ? json_us_to_ns(value, ret_ns) : -ENOENT;
	if (ret >= 0)
		return true;
	EVENT_PROBLEM(check, "%s: %s",
		ret == -ENOENT   ? "missing key"
		: ret == -ERANGE ? "does not fit in 64 bits of nanoseconds"
				 : "not a number",
		key);
	return false;
}

/* A pid, tid or id: an integer or, as Kineto has it, a string. buf is for the integers. */
static bool event_id(struct trace_check *check, struct json_object *event, const char *key,
	char buf[24], const char **ret_text)
{
	struct json_object *value = json_object_object_get(event, key);

	switch (json_object_get_type(value)) {
	case json_type_int:
		snprintf(buf, 24, "%lld", (long long)json_object_get_int64(value));
		*ret_text = buf;
		return true;
	case json_type_string:
		*ret_text = json_object_get_string(value);
		return true;
	default:
		EVENT_PROBLEM(check, "%s: %s",
			value ? "neither an integer nor a string" : "missing key", key);
		return false;
	}
}

static bool event_args(struct trace_check *check, struct json_object *event)
{
	if (json_object_is_type(json_object_object_get(event, "args"), json_type_object))
		return true;
	EVENT_PROBLEM(check, "missing key: args, an object");
	return false;
}

/* Integers above 2^63-1: Perfetto refuses the file, other readers round them. */
static uint64_t count_big_integers(struct json_object *value)
{
	uint64_t n = 0;

	switch (json_object_get_type(value)) {
	case json_type_object: {
		json_object_object_foreach(value, key, member)
		{
			(void)key;
			n += count_big_integers(member);
		}
		return n;
	}
	case json_type_array:
		for (size_t i = 0; i < json_object_array_length(value); i++)
			n += count_big_integers(json_object_array_get_idx(value, i));
		return n;
	case json_type_int:
		return json_object_get_int64(value) == INT64_MAX &&
		       json_object_get_uint64(value) > INT64_MAX;
	default:
		return 0;
	}
}

static bool check_slice(struct trace_check *check, struct json_object *event, size_t track)
{
	struct json_object *cat = json_object_object_get(event, "cat");
	struct trace_span span = { .event = check->events };
	int64_t dur;

	if (!event_time(check, event, "ts", &span.start) || !event_time(check, event, "dur", &dur))
		return false;
	if (dur < 0) {
		EVENT_PROBLEM(check, "dur is negative");
		return false;
	}
	if (__builtin_add_overflow(span.start, dur, &span.end)) {
		EVENT_PROBLEM(check, "ts + dur does not fit in 64 bits of nanoseconds");
		return false;
	}
	span.line = check->reader.value_line;
	if (tracks_add_span(&check->tracks, track, &span)) {
		check->out_of_memory = true;
		return false;
	}
	check->slices++;
	name_counts_add(&check->categories, json_object_is_type(cat, json_type_string)
						    ? json_object_get_string(cat)
						    : "(no cat)");
	return true;
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
	do { /* FNV-1a, with the terminating NUL as separator */
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3ULL;
	} while (*text++);
	return hash;
}

static bool check_flow(
	struct trace_check *check, struct json_object *event, char phase, size_t track)
{
	struct trace_flow flow = {
		.event = check->events,
		.line = check->reader.value_line,
		.track = track,
	};
	const char *id, *name, *cat = "", *bp = "";
	struct json_object *value;
	char buf[24];

	if (!event_time(check, event, "ts", &flow.ts) || !event_id(check, event, "id", buf, &id) ||
		!event_string(check, event, "name", &name))
		return false;
	if (json_object_object_get_ex(event, "cat", &value) &&
		!event_string(check, event, "cat", &cat))
		return false;
	if (json_object_object_get_ex(event, "bp", &value) &&
		!event_string(check, event, "bp", &bp))
		return false;
	if (phase == 's')
		flow.phase = FLOW_START;
	else if (phase == 't')
		flow.phase = FLOW_STEP;
	else
		flow.phase = !strcmp(bp, "e") ? FLOW_END : FLOW_END_NEXT;
	flow.key = hash_text(hash_text(hash_text(0xcbf29ce484222325ULL, cat), name), id);
	if (tracks_add_flow(&check->tracks, &flow)) {
		check->out_of_memory = true;
		return false;
	}
	return true;
}

static bool check_track_event(struct trace_check *check, struct json_object *event, char phase)
{
	char pid_buf[24], tid_buf[24];
	const char *name, *pid, *tid;
	int64_t track, ts;

	if (!event_id(check, event, "pid", pid_buf, &pid) ||
		!event_id(check, event, "tid", tid_buf, &tid))
		return false;
	if (phase == 'B' || phase == 'E')
		return event_time(check, event, "ts", &ts);
	if (phase == 'X' && !event_string(check, event, "name", &name))
		return false;
	track = tracks_get(&check->tracks, pid, tid);
	if (track < 0) {
		check->out_of_memory = true;
		return false;
	}
	return phase == 'X' ? check_slice(check, event, track)
			    : check_flow(check, event, phase, track);
}

/* An instant; one of a thread is kept, for what chrome://tracing makes of it. */
static bool check_instant(struct trace_check *check, struct json_object *event)
{
	struct trace_span span = { .event = check->events, .instant = 1 };
	const char *name, *scope = "t", *pid, *tid;
	char pid_buf[24], tid_buf[24];
	struct json_object *value;
	int64_t track;

	if (!event_time(check, event, "ts", &span.start) || !event_string(check, event, "name", &name))
		return false;
	if (json_object_object_get_ex(event, "s", &value) && !event_string(check, event, "s", &scope))
		return false;
	if (!strcmp(name, "inftrace_clock"))
		check->ours = true;
	if (!check->array || strcmp(scope, "t") || !json_object_object_get(event, "pid") ||
		!json_object_object_get(event, "tid"))
		return true;
	if (!event_id(check, event, "pid", pid_buf, &pid) || !event_id(check, event, "tid", tid_buf, &tid))
		return false;
	span.end = span.start;
	span.line = check->reader.value_line;
	track = tracks_get(&check->tracks, pid, tid);
	if (track < 0 || tracks_add_span(&check->tracks, track, &span)) {
		check->out_of_memory = true;
		return false;
	}
	return true;
}

static bool check_other_event(struct trace_check *check, struct json_object *event, char phase)
{
	char buf[24];
	const char *text;
	int64_t ts;

	switch (phase) {
	case 'M':
		return event_string(check, event, "name", &text) && event_args(check, event);
	case 'C':
		return event_time(check, event, "ts", &ts) &&
		       event_string(check, event, "name", &text) &&
		       event_id(check, event, "pid", buf, &text) && event_args(check, event);
	case 'i':
	case 'I':
		return check_instant(check, event);
	default:
		return event_time(check, event, "ts", &ts);
	}
}

static void check_event(struct trace_check *check, struct json_object *event)
{
	uint64_t big_integers;
	const char *ph;
	bool good;

	if (!json_object_is_type(event, json_type_object)) {
		EVENT_PROBLEM(check, "not an object");
		return;
	}
	if (!event_string(check, event, "ph", &ph))
		return;
	if (!ph[0] || ph[1] || !strchr(PHASES, ph[0])) {
		char printable[32];

		EVENT_PROBLEM(
			check, "unknown ph: %s", json_printable(printable, sizeof(printable), ph));
		return;
	}
	check->phases[(unsigned char)ph[0]]++;
	if (strchr(TRACK_PHASES, ph[0]))
		good = check_track_event(check, event, ph[0]);
	else
		good = check_other_event(check, event, ph[0]);
	if (!good)
		return;

	big_integers = count_big_integers(event);
	check->big_integers += big_integers;
	if (big_integers && check->array)
		EVENT_PROBLEM(check, "integer above 2^63-1: must be a string");
	check->surrogates += check->reader.surrogate_escapes;
	if (check->reader.surrogate_escapes && check->array)
		EVENT_PROBLEM(check, "\\u escape of a surrogate pair: must be UTF-8");
}

/* What stopped the reading; where says in or behind which event. */
static int reading_failed(struct trace_check *check, int err, const char *where)
{
	if (err == -ENODATA)
		check_problem(check->report,
			"event %llu (line %llu): the file ends %s: readers refuse it",
			(unsigned long long)check->events, (unsigned long long)check->reader.line,
			where);
	else if (err == -ENOMEM)
		check_problem(check->report, "out of memory");
	else
		check_problem(check->report, "event %llu: %s", (unsigned long long)check->events,
			check->reader.error);
	return err == -ENODATA ? -EBADMSG : err; /* told, so no longer the end between events */
}

static int unexpected_byte(struct trace_check *check, int c, const char *wanted)
{
	char shown[12];

	if (c > 0x20 && c < 0x7f)
		snprintf(shown, sizeof(shown), "'%c'", c);
	else
		snprintf(shown, sizeof(shown), "byte 0x%02x", c & 0xff);
	check_problem(check->report, "line %llu (after %llu events): %s expected, not %s",
		(unsigned long long)check->reader.line, (unsigned long long)check->events, wanted,
		shown);
	return -EBADMSG;
}

/*
 * The events of an array whose bracket was taken, up to and with the closing one. Returns 0 or
 * -errno after telling the problem; -ENODATA, untold, where the text ends between two events.
 */
static int check_events(struct trace_check *check)
{
	struct json_object *event;
	bool comma = true; /* an event may follow */
	int c, err;

	for (;;) {
		c = json_reader_peek(&check->reader);
		if (c == -ENODATA)
			return c;
		if (c < 0)
			return reading_failed(check, c, NULL);
		if (c == ']') {
			if (comma && check->events)
				return unexpected_byte(check, c, "an event");
			json_reader_take(&check->reader);
			return 0;
		}
		if (!comma) {
			if (c != ',')
				return unexpected_byte(check, c, "',' or ']'");
			json_reader_take(&check->reader);
			comma = true;
			continue;
		}
		check->events++;
		err = json_reader_value(&check->reader, &event);
		if (err)
			return reading_failed(check, err, "inside an event");
		check_event(check, event);
		json_object_put(event);
		if (check->out_of_memory)
			return reading_failed(check, -ENOMEM, NULL);
		comma = false;
	}
}

static int check_end(struct trace_check *check)
{
	int c;

	c = json_reader_peek(&check->reader);
	if (c == -ENODATA)
		return 0;
	if (c < 0)
		return reading_failed(check, c, NULL);
	check_problem(check->report, "line %llu: text after the end of the trace",
		(unsigned long long)check->reader.line);
	return -EBADMSG;
}

static int check_array_form(struct trace_check *check)
{
	int err;

	check->array = true;
	json_reader_take(&check->reader);
	err = check_events(check);
	if (err == -ENODATA) {
		check->open = true;
		return 0;
	}
	return err ? err : check_end(check);
}

/* A byte of the object's own syntax; 0 or -errno after telling the problem. */
static int expect_byte(struct trace_check *check, char wanted, const char *name)
{
	int c;

	c = json_reader_peek(&check->reader);
	if (c < 0)
		return reading_failed(check, c, "inside the outer object");
	if (c != wanted)
		return unexpected_byte(check, c, name);
	json_reader_take(&check->reader);
	return 0;
}

/* One member of the outer object; everything but the events is skipped. */
static int check_member(struct trace_check *check, bool *ret_events)
{
	struct json_object *key;
	bool is_events;
	int c, err;

	c = json_reader_peek(&check->reader);
	if (c >= 0 && c != '"')
		return unexpected_byte(check, c, "a key in quotes");
	err = json_reader_value(&check->reader, &key);
	if (err)
		return reading_failed(check, err, "inside the outer object");
	is_events = !strcmp(json_object_get_string(key), "traceEvents");
	json_object_put(key);
	err = expect_byte(check, ':', "':'");
	if (err)
		return err;
	if (!is_events) {
		err = json_reader_value(&check->reader, NULL);
		return err ? reading_failed(check, err, "inside the outer object") : 0;
	}
	*ret_events = true;
	err = expect_byte(check, '[', "the array of traceEvents");
	if (err)
		return err;
	err = check_events(check);
	return err == -ENODATA ? reading_failed(check, err, "inside traceEvents") : err;
}

static int check_object_form(struct trace_check *check)
{
	bool events = false;
	int c, err;

	json_reader_take(&check->reader);
	do {
		err = check_member(check, &events);
		if (err)
			return err;
		c = json_reader_peek(&check->reader);
		if (c == ',')
			json_reader_take(&check->reader);
	} while (c == ',');
	err = expect_byte(check, '}', "',' or '}'");
	if (err)
		return err;
	if (!events) {
		check_problem(check->report, "an object without traceEvents: not a Chrome trace");
		return -EBADMSG;
	}
	return check_end(check);
}

static void print_note(FILE *out, uint64_t count, const char *what)
{
	if (count)
		fprintf(out, "; note: %llu %s", (unsigned long long)count, what);
}

static void print_summary(struct trace_check *check, const char *path, FILE *out)
{
	const struct trace_findings *found = &check->findings;
	const char *separator = ": ";

	fprintf(out, "%s: Chrome trace (%s%s), %llu event%s", path,
		check->array ? "array" : "object", check->reader.source->gzip ? ", gzip" : "",
		(unsigned long long)check->events, check->events == 1 ? "" : "s");
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
	if (check->open)
		fputs("; open (not closed by ]: recording cut)", out);
	if (found->overlaps)
		fprintf(out,
			"; note: %llu slices overlap another without nesting, by up to %lld ns%s",
			(unsigned long long)found->overlaps, (long long)found->overlap_max,
			found->strict ? ", as where microseconds are rounded (not written by inftrace)" : "");
	if (!found->strict_flows) {
		print_note(out, found->flow_repeats, "flow starts with an id in use");
		print_note(out, found->flow_no_start, "flow ends without a start");
		print_note(out, found->flow_no_end, "flow starts without an end");
		print_note(out, found->flow_no_slice, "flow events outside of every slice");
	}
	print_note(out, found->flow_rounded,
		"arrows that chrome://tracing leaves out, as it nests slices that end within one microsecond");
	if (!check->array) {
		print_note(out, check->big_integers, "integers above 2^63-1");
		print_note(out, check->surrogates, "events with surrogate escapes");
	}
	print_note(out, check->phases['B'] + check->phases['E'],
		"B and E events, whose nesting is not checked");
	check_summary_end(check->report, out);
}

void check_trace(
	struct json_source *source, const char *path, struct check_report *report, FILE *out)
{
	struct trace_check check = { .report = report };
	int c, err;

	err = json_reader_init(&check.reader, source);
	if (!err)
		err = tracks_init(&check.tracks);
	if (err) {
		check_problem(report, "out of memory");
		goto out;
	}
	c = json_reader_peek(&check.reader);
	err = c == '[' ? check_array_form(&check) : check_object_form(&check);
	if (err)
		goto out;
	if (!check.events)
		check_problem(report, "no events");
	check.findings.strict = check.findings.array = check.array;
	check.findings.rounding = check.ours ? 0 : FOREIGN_ROUNDING_NS;
	/* of the arrows at the cut one half, or the slice around it, may not have been written */
	check.findings.strict_flows = check.array && !check.open;
	err = tracks_check(&check.tracks, report, &check.findings);
	if (err) {
		check_problem(report, "out of memory");
		goto out;
	}
	print_summary(&check, path, out);
out:
	tracks_free(&check.tracks);
	json_reader_free(&check.reader);
}
