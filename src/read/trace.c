// SPDX-License-Identifier: BSD-2-Clause
#include "read/trace.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "read/json_source.h"

struct read_trace_reader {
	struct json_reader json;
	const struct trace_reader_ops *ops;
	void *ctx;
	struct trace_form *form;
	bool in_events;
};

#define KEY_NAME(name) #name,
static const char *const names[] = { TRACE_KEYS(KEY_NAME) };

static int trace_stop_reading(struct read_trace_reader *r, enum trace_stop_kind kind, const char *why)
{
	const struct trace_stop stop = { kind, r->json.line, r->form->events, r->in_events, why };

	r->ops->stop(r->ctx, &stop);
	return -EBADMSG;
}

/* err: from the JSON reader. where: what the end of the file cuts. */
static int trace_fail_reading(struct read_trace_reader *r, int err, const char *where)
{
	char why[96];

	if (err != -ENODATA)
		return trace_stop_reading(r, TRACE_UNREADABLE, r->json.error);
	snprintf(why, sizeof(why), "the file ends %s", where);
	return trace_stop_reading(r, TRACE_CUT, why);
}

static int unexpected_byte(struct read_trace_reader *r, int c, const char *wanted)
{
	char why[64];

	if (c > 0x20 && c < 0x7f)
		snprintf(why, sizeof(why), "%s expected, not '%c'", wanted, c);
	else
		snprintf(why, sizeof(why), "%s expected, not byte 0x%02x", wanted, c & 0xff);
	return trace_stop_reading(r, TRACE_UNEXPECTED, why);
}

static int trace_next_event(struct read_trace_reader *r)
{
	struct trace_event event = { .number = ++r->form->events };
	int err;

	err = json_reader_value(&r->json, &event.value);
	if (err)
		return trace_fail_reading(r, err, "inside an event");
	event.line = r->json.value_line;
	event.surrogate_escapes = r->json.surrogate_escapes;
	node_members(event.value, names, sizeof(names) / sizeof(names[0]), event.members);
	return r->ops->event(r->ctx, &event);
}

/*
 * Reads the events of an array after its opening bracket, up to and including the closing one. Returns 0
 * or -errno after reporting why; -ENODATA, unreported, if the text ends between two events.
 */
static int read_events(struct read_trace_reader *r)
{
	bool comma = true; /* an event may follow */
	int c, err;

	for (;;) {
		c = json_reader_peek(&r->json);
		if (c < 0)
			return c == -ENODATA ? c : trace_fail_reading(r, c, NULL);
		if (c == ']') {
			if (comma && r->form->events)
				return unexpected_byte(r, c, "an event");
			json_reader_take(&r->json);
			return 0;
		}
		if (!comma) {
			if (c != ',')
				return unexpected_byte(r, c, "',' or ']'");
			json_reader_take(&r->json);
			comma = true;
			continue;
		}
		err = trace_next_event(r);
		if (err)
			return err;
		comma = false;
	}
}

static int read_end(struct read_trace_reader *r)
{
	int c;

	c = json_reader_peek(&r->json);
	if (c == -ENODATA)
		return 0;
	return c < 0 ? trace_fail_reading(r, c, NULL)
		     : trace_stop_reading(r, TRACE_AFTER, "text after the end of the trace");
}

static int read_array_form(struct read_trace_reader *r)
{
	int err;

	json_reader_take(&r->json);
	r->in_events = true;
	err = read_events(r);
	r->in_events = false;
	if (err == -ENODATA) {
		r->form->open = true;
		return 0;
	}
	return err ? err : read_end(r);
}

/* Reads a byte of the object's own syntax; 0 or -errno after reporting why. */
static int expect_byte(struct read_trace_reader *r, char wanted, const char *name)
{
	int c;

	c = json_reader_peek(&r->json);
	if (c < 0)
		return trace_fail_reading(r, c, "inside the outer object");
	if (c != wanted)
		return unexpected_byte(r, c, name);
	json_reader_take(&r->json);
	return 0;
}

/* Reads one member of the outer object; skips it unless it holds the events or is wanted. */
static int trace_read_member(struct read_trace_reader *r, bool *ret_events)
{
	const char *array = r->ops->array ?: "traceEvents";
	const struct json_node *key, *value;
	bool is_events, wanted;
	char what[64];
	int c, err;

	c = json_reader_peek(&r->json);
	if (c >= 0 && c != '"')
		return unexpected_byte(r, c, "a key in quotes");
	err = json_reader_value(&r->json, &key);
	if (err)
		return trace_fail_reading(r, err, "inside the outer object");
	is_events = !strcmp(key->text, array);
	wanted = r->ops->member_name && !strcmp(key->text, r->ops->member_name);
	err = expect_byte(r, ':', "':'");
	if (err)
		return err;
	if (wanted || !is_events) {
		err = json_reader_value(&r->json, wanted ? &value : NULL);
		return err ? trace_fail_reading(r, err, "inside the outer object") : wanted ? r->ops->member(r->ctx, value)
											    : 0;
	}
	*ret_events = true;
	snprintf(what, sizeof(what), "the array of %s", array);
	err = expect_byte(r, '[', what);
	if (err)
		return err;
	r->in_events = true;
	err = read_events(r);
	r->in_events = false;
	snprintf(what, sizeof(what), "inside %s", array);
	return err == -ENODATA ? trace_fail_reading(r, err, what) : err;
}

static int read_object_form(struct read_trace_reader *r)
{
	bool events = false;
	int c, err;

	json_reader_take(&r->json);
	do {
		err = trace_read_member(r, &events);
		if (err)
			return err;
		c = json_reader_peek(&r->json);
		if (c == ',')
			json_reader_take(&r->json);
	} while (c == ',');
	err = expect_byte(r, '}', "',' or '}'");
	if (err)
		return err;
	if (!events)
		return trace_stop_reading(r, TRACE_NO_EVENTS,
			r->ops->array ? "an object without what it should have" : "an object without traceEvents: not a Chrome trace");
	return read_end(r);
}

int trace_read(struct json_source *source, const struct trace_reader_ops *ops, void *ctx,
	struct trace_form *form)
{
	struct read_trace_reader r = { .ops = ops, .ctx = ctx, .form = form };
	int err;

	memset(form, 0, sizeof(*form));
	json_reader_init(&r.json, source);
	form->array = json_reader_peek(&r.json) == '[';
	err = form->array ? read_array_form(&r) : read_object_form(&r);
	json_reader_free(&r.json);
	return err;
}
