// SPDX-License-Identifier: BSD-2-Clause
#include "engine/bytes.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "engine/check.h"
#include "engine/spec.h"

int bytes_read_sizes(struct json_object *obj, struct enum_table *t, const char **ret_why)
{
	struct json_object *sizes;

	if (!json_object_object_get_ex(obj, "bytes", &sizes))
		return 0;
	*ret_why = "\"bytes\" must have as many sizes, from 1 to 255, as there are names, and no table_symbol beside it";
	if (!json_object_is_type(sizes, json_type_array) || json_object_array_length(sizes) != t->n || t->object)
		return -EINVAL;
	t->bytes = calloc(t->n ? t->n : 1, sizeof(*t->bytes));
	if (!t->bytes)
		return -ENOMEM;
	for (size_t i = 0; i < t->n; i++) {
		struct json_object *v = json_object_array_get_idx(sizes, i);
		int64_t size = json_object_is_type(v, json_type_int) ? json_object_get_int64(v) : 0;

		if (size < 1 || size > UINT8_MAX)
			return -EINVAL;
		t->bytes[i] = (uint8_t)size;
	}
	return 0;
}

int bytes_read(struct json_object *obj, struct probe_spec *s, const char **ret_why)
{
	struct json_object *v;
	const char *rule, *times;
	int count, type;

	if (!json_object_object_get_ex(obj, "bytes", &v))
		return 0;
	*ret_why = "must be \"ARG * ARG\", a number, and one of an enum with \"bytes\"";
	rule = json_object_is_type(v, json_type_string) ? json_object_get_string(v) : "";
	times = strstr(rule, " * ");
	if (!times)
		return -EINVAL;
	count = spec_find_arg(s, rule, (size_t)(times - rule));
	type = spec_find_arg(s, times + 3, strlen(times + 3));
	if (count < 0 || type < 0 || !s->args[type].names || !s->args[type].names->bytes)
		return -EINVAL;
	if (s->args[count].is_string || s->args[count].is_float || s->args[count].is_row || s->args[count].names)
		return -EINVAL;
	s->bytes_count = (uint8_t)(count + 1);
	s->bytes_type = (uint8_t)type;
	return 0;
}

bool bytes_of_call(const struct probe_spec *s, const uint64_t *vals, uint64_t *ret_bytes)
{
	unsigned int count = s->bytes_count - 1u, type = s->bytes_type;
	uint64_t n;

	if (!s->bytes_count || !check_shown(s, count, vals) || !check_shown(s, type, vals))
		return false;
	if (vals[type] >= s->args[type].names->n || __builtin_mul_overflow(vals[count], s->args[type].names->bytes[vals[type]], &n) ||
		n > INT64_MAX)
		return false;
	*ret_bytes = n;
	return true;
}
