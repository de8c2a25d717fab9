/* SPDX-License-Identifier: BSD-2-Clause */
/* The lines of a profile as JSON, except those of windows and tokens. */
#ifndef INFTRACE_TEST_PROFILE_LINES_H
#define INFTRACE_TEST_PROFILE_LINES_H

#include "sinks.h"

static const struct window_totals totals = { .open_ns = START, .close_ns = START + 1000 };

/* Reads the lines into o->events as JSON, all but window_prof and token_prof. */
static inline void profile_read(struct out *o)
{
	char *save = NULL;

	json_object_put(o->events);
	o->events = json_object_new_array();
	read_text(o);
	for (char *l = strtok_r(o->text, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
		struct json_object *line;

		if (strstr(l, "\"event\":\"window_prof\"") || strstr(l, "\"event\":\"token_prof\""))
			continue;
		line = json_tokener_parse(l);
		assert_true(json_object_is_type(line, json_type_object));
		json_object_array_add(o->events, line);
	}
}

static inline void profile_close(struct out *o)
{
	assert_int_equal(o->s->ops->close(o->s, &totals), 0);
	profile_read(o);
}

static inline size_t count(const struct out *o)
{
	return json_object_array_length(o->events);
}

static inline const char *shape(const struct out *o, size_t line, const char *key)
{
	return field(
		json_object_object_get(json_object_array_get_idx(o->events, line), "shape"), key);
}

static inline int64_t stage(const struct out *o, size_t line, const char *key)
{
	return ns_field(
		json_object_object_get(json_object_array_get_idx(o->events, line), "stage_us"),
		key);
}

/* Compares everything between the envelope and graph_enabled. */
static inline void assert_body(const struct out *o, size_t line, const char *event, const char *body)
{
	struct json_object *l = json_object_array_get_idx(o->events, line);
	char text[2048];

	assert_string_equal(field(l, "event"), event);
	snprintf(text, sizeof(text), "%s %s",
		json_object_to_json_string_ext(
			json_object_object_get(l, "shape"), JSON_C_TO_STRING_PLAIN),
		json_object_to_json_string_ext(
			json_object_object_get(l, "stage_us"), JSON_C_TO_STRING_PLAIN));
	assert_string_equal(text, body);
}

static inline void settle(struct out *o, unsigned int rounds)
{
	while (rounds--)
		sink_settled(o->s);
	flush(o);
}

#endif
