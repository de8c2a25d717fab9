// SPDX-License-Identifier: BSD-2-Clause
#include "report/json.h"

#include <stdio.h>

#include "util/fmt.h"

static struct json_object *checked(struct json_build *b, struct json_object *o)
{
	b->failed |= !o;
	return o;
}

struct json_object *json_new_object(struct json_build *b)
{
	return checked(b, json_object_new_object());
}

struct json_object *json_new_array(struct json_build *b)
{
	return checked(b, json_object_new_array());
}

void json_put(
	struct json_build *b, struct json_object *o, const char *key, struct json_object *value)
{
	if (!o || !value || json_object_object_add(o, key, value)) {
		b->failed = true;
		json_object_put(value);
	}
}

void json_append(struct json_build *b, struct json_object *array, struct json_object *value)
{
	if (!array || !value || json_object_array_add(array, value)) {
		b->failed = true;
		json_object_put(value);
	}
}

void json_put_text(struct json_build *b, struct json_object *o, const char *key, const char *text)
{
	json_put(b, o, key, json_object_new_string(text));
}

void json_put_u64(struct json_build *b, struct json_object *o, const char *key, uint64_t v)
{
	json_put(b, o, key, json_object_new_uint64(v));
}

void json_put_double(struct json_build *b, struct json_object *o, const char *key, double v)
{
	char text[32];

	snprintf(text, sizeof(text), "%.6g", v);
	json_put(b, o, key, json_object_new_double_s(v, text));
}

void json_put_us(struct json_build *b, struct json_object *o, const char *key, int64_t ns)
{
	char text[FMT_US_MAX + 2], *p = text;

	if (ns < 0)
		*p++ = '-';
	p = fmt_us(p, ns < 0 ? -(uint64_t)ns : (uint64_t)ns);
	*p = '\0';
	json_put(b, o, key, json_object_new_double_s((double)ns / 1000, text));
}

const char *json_text(struct json_build *b, struct json_object *o, size_t *ret_len)
{
	const char *text = json_object_to_json_string_length(
		o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE, ret_len);

	b->failed |= !text;
	return text;
}
