// SPDX-License-Identifier: BSD-2-Clause
#include "engine/node.h"

#include <errno.h>
#include <json-c/json.h>
#include <string.h>

#define NAME_BYTES 64 /* as much of a node's name as is read */

static int read_number(struct json_object *obj, const char *key, int64_t max, uint16_t *ret, const char **ret_why)
{
	struct json_object *v;

	if (!json_object_object_get_ex(obj, key, &v) || !json_object_is_type(v, json_type_int)) {
		*ret_why = "must be a number of bytes";
		return -EINVAL;
	}
	if (json_object_get_int64(v) < 0 || json_object_get_int64(v) > max) {
		*ret_why = "lies outside of the node";
		return -EINVAL;
	}
	*ret = (uint16_t)json_object_get_int64(v);
	return 0;
}

/* "ENUM *(arg1+OFFSET)" */
static int read_enum(struct json_object *obj, const char *key, const struct enum_table *enums, size_t n_enums,
	uint16_t bytes, uint16_t *ret_at, const struct enum_table **ret_names, const char **ret_why)
{
	struct json_object *v;
	struct probe_arg arg = {};
	struct fetch f;
	int err;

	*ret_why = "must be \"ENUM *(arg1+OFFSET)\", a value in the node";
	if (!json_object_object_get_ex(obj, key, &v) || !json_object_is_type(v, json_type_string))
		return -EINVAL;
	err = fetch_parse(json_object_get_string(v), enums, n_enums, false, &f, &arg, ret_why);
	if (err)
		return err;
	if (!arg.names || f.derefs != 1 || f.reg != REG_ARG1 || f.size != 4 || f.off[0] < 0 || f.off[0] + 4 > bytes) {
		*ret_why = "must be \"ENUM *(arg1+OFFSET)\", a value in the node";
		return -EINVAL;
	}
	*ret_at = (uint16_t)f.off[0];
	*ret_names = arg.names;
	return 0;
}

int node_read(struct json_object *probe, const struct enum_table *enums, size_t n_enums, struct probe_spec *s,
	const char **ret_key, const char **ret_why)
{
	static const char *const known[] = { "bytes", "sources", "n_sources", "view", "op", "type", "shape", "stride",
		"name", NULL };
	struct node_fields f = {};
	uint16_t n_sources = 0, bytes = 0, sources = 0;
	const struct {
		const char *key;
		uint16_t *to;
		uint16_t size;
	} numbers[] = {
		{ "view", &f.view, sizeof(uint64_t) },
		{ "shape", &f.shape, 4 * sizeof(int64_t) },
		{ "stride", &f.stride, 4 * sizeof(uint64_t) },
		{ "name", &f.name, NAME_BYTES },
	};
	struct json_object *obj;
	int err;

	if (!json_object_object_get_ex(probe, "node", &obj))
		return 0;
	*ret_key = "node";
	*ret_why = "is for an instant whose first argument is a ptr";
	if (!(s->flags & PROBE_F_INSTANT) || !s->nargs || !s->args[0].is_pointer)
		return -EINVAL;
	*ret_why = "must be an object";
	if (!json_object_is_type(obj, json_type_object))
		return -EINVAL;
	json_object_object_foreach(obj, key, value)
	{
		size_t i = 0;

		(void)value;
		while (known[i] && strcmp(known[i], key))
			i++;
		if (!known[i]) {
			*ret_why = "has a key that is not known";
			return -EINVAL;
		}
	}
	*ret_key = "bytes";
	err = read_number(obj, "bytes", NODE_BYTES_MAX, &bytes, ret_why);
	if (err)
		return err;
	*ret_key = "n_sources";
	err = read_number(obj, "n_sources", NODES_MAX - 1, &n_sources, ret_why);
	if (err)
		return err;
	*ret_key = "sources";
	err = read_number(obj, "sources", bytes - (int64_t)(n_sources * sizeof(uint64_t)), &sources, ret_why);
	for (size_t i = 0; !err && i < sizeof(numbers) / sizeof(*numbers); i++) {
		*ret_key = numbers[i].key;
		err = read_number(obj, *ret_key, bytes - (int64_t)numbers[i].size, numbers[i].to, ret_why);
	}
	if (err)
		return err;
	*ret_key = "op";
	err = read_enum(obj, "op", enums, n_enums, bytes, &f.op, &f.ops, ret_why);
	if (err)
		return err;
	*ret_key = "type";
	err = read_enum(obj, "type", enums, n_enums, bytes, &f.type, &f.types, ret_why);
	if (err)
		return err;
	f.layout = (struct node_layout){ .bytes = bytes, .sources = sources, .n_sources = (uint8_t)n_sources };
	s->node = f;
	return 0;
}
