// SPDX-License-Identifier: BSD-2-Clause
/* Presets: from JSON to probe specifications, with errors that name file, line and key. */
#include "engine/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/rows.h"
#include "engine/spec.h"
#include "target/elf.h"
#include "target/usdt.h"
#include "util/log.h"
#include "util/text.h"

/*
 * Positions in the text of a preset: json-c keeps none, and silently takes the last of several
 * equal keys. All texts are valid JSON, terminated by a NUL.
 */
#define DEPTH_MAX 32 /* more than a preset may have */

struct key {
	const char *text; /* after the opening quote */
	size_t len;
};

static const char *skip_space(const char *p)
{
	return p + strspn(p, " \t\r\n");
}

/* From an opening quote to after the closing one. */
static const char *skip_string(const char *p)
{
	for (p++; *p && *p != '"'; p++)
		p += *p == '\\' && p[1];
	return *p ? p + 1 : p;
}

static bool is_key(const char *quote)
{
	return *skip_space(skip_string(quote)) == ':';
}

static struct key get_key(const char *quote)
{
	return (struct key){ quote + 1, (size_t)(skip_string(quote) - quote - 2) };
}

/* The opening quote of the first occurrence of the key between `text` and `end`, at most `depth`
 * brackets deeper than `text`. NULL if there is none. */
static const char *text_find_key(const char *text, const char *end, const char *key, unsigned int depth)
{
	unsigned int at = 0;

	for (const char *p = text; *p && p < end;) {
		if (*p == '"') {
			struct key k = get_key(p);

			if (at <= depth && is_key(p) && k.len == strlen(key) &&
				!memcmp(k.text, key, k.len))
				return p;
			p = skip_string(p);
			continue;
		}
		at += *p == '{' || *p == '[';
		at -= at && (*p == '}' || *p == ']');
		p++;
	}
	return NULL;
}

/* The text after a key's colon. */
static const char *text_value(const char *key)
{
	return skip_space(skip_string(key)) + 1;
}

/* The end of the value that begins at `p`, or after white space there. */
static const char *text_value_end(const char *p)
{
	unsigned int depth = 0;

	p = skip_space(p);
	while (*p) {
		if (!depth && strchr(",]}", *p))
			break;
		if (*p == '"') {
			p = skip_string(p);
			continue;
		}
		depth += *p == '{' || *p == '[';
		depth -= *p == '}' || *p == ']';
		p++;
	}
	return p;
}

/* The line of a place in the text, from 1. */
static unsigned int text_line(const char *text, const char *p)
{
	unsigned int line = 1;

	while (text < p)
		line += *text++ == '\n';
	return line;
}

static int compare_keys(const void *a, const void *b)
{
	const struct key *x = a, *y = b;
	int diff;

	if (x->len != y->len)
		return x->len < y->len ? -1 : 1;
	diff = memcmp(x->text, y->text, x->len);
	return diff ? diff : (x->text > y->text) - (x->text < y->text);
}

/* Returns the first key in the text that repeats another. Sorts the keys. */
static const char *find_repeated(struct key *keys, size_t n)
{
	const char *found = NULL;

	qsort(keys, n, sizeof(*keys), compare_keys);
	for (size_t i = 1; i < n; i++) {
		if (keys[i].len == keys[i - 1].len &&
			!memcmp(keys[i].text, keys[i - 1].text, keys[i].len) &&
			(!found || keys[i].text < found))
			found = keys[i].text;
	}
	return found ? found - 1 : NULL;
}

static int add_key(struct key **keys, size_t n, size_t *cap, struct key key)
{
	struct key *list;

	if (n == *cap) {
		list = realloc(*keys, (*cap * 2 + 64) * sizeof(*list));
		if (!list)
			return -ENOMEM;
		*keys = list;
		*cap = *cap * 2 + 64;
	}
	(*keys)[n] = key;
	return 0;
}

/*
 * Looks for a key that an object has twice, comparing keys as written; a key with an escape counts
 * too, since the escape may hide that. Returns 0 with *ret_key NULL or its opening quote, -ENOMEM.
 */
static int text_find_duplicate(const char *text, const char **ret_key)
{
	size_t first[DEPTH_MAX]; /* the first key of the object that is open at this depth */
	const char *found = NULL;
	struct key *keys = NULL; /* of all open objects */
	size_t n = 0, cap = 0, depth = 0;
	int err = 0;

	for (const char *p = text; *p && !found && !err;) {
		if (*p == '"') {
			if (is_key(p)) {
				struct key k = get_key(p);

				err = add_key(&keys, n, &cap, k);
				n += !err;
				if (memchr(k.text, '\\', k.len))
					found = p;
			}
			p = skip_string(p);
			continue;
		}
		if ((*p == '{' || *p == '[') && depth < DEPTH_MAX) {
			first[depth++] = n;
		} else if ((*p == '}' || *p == ']') && depth) {
			depth--;
			if (n > first[depth])
				found = find_repeated(keys + first[depth], n - first[depth]);
			n = first[depth];
		}
		p++;
	}
	free(keys);
	if (!err)
		*ret_key = found;
	return err;
}

/* "node" of a preset's probe: where the members of a node of the engine's graph are. */
#define NAME_BYTES 64 /* as much of a node's name as is read */

static int node_number(struct json_object *obj, const char *key, int64_t max, uint16_t *ret, const char **ret_why)
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
static int node_enum(struct json_object *obj, const char *key, const struct enum_table *enums, size_t n_enums,
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

/*
 * Reads "node" of a probe, if there is one: its first argument must be the address of a node. Expressions in it are those of
 * arguments, in which arg1 is that address. -EINVAL with the key and the reason; *ret_key is "node" if no other fits.
 */
static int node_read(struct json_object *probe, const struct enum_table *enums, size_t n_enums, struct probe_spec *s,
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
	err = node_number(obj, "bytes", NODE_BYTES_MAX, &bytes, ret_why);
	if (err)
		return err;
	*ret_key = "n_sources";
	err = node_number(obj, "n_sources", NODES_MAX - 1, &n_sources, ret_why);
	if (err)
		return err;
	*ret_key = "sources";
	err = node_number(obj, "sources", bytes - (int64_t)(n_sources * sizeof(uint64_t)), &sources, ret_why);
	for (size_t i = 0; !err && i < sizeof(numbers) / sizeof(*numbers); i++) {
		*ret_key = numbers[i].key;
		err = node_number(obj, *ret_key, bytes - (int64_t)numbers[i].size, numbers[i].to, ret_why);
	}
	if (err)
		return err;
	*ret_key = "op";
	err = node_enum(obj, "op", enums, n_enums, bytes, &f.op, &f.ops, ret_why);
	if (err)
		return err;
	*ret_key = "type";
	err = node_enum(obj, "type", enums, n_enums, bytes, &f.type, &f.types, ret_why);
	if (err)
		return err;
	f.layout = (struct node_layout){ .bytes = bytes, .sources = sources, .n_sources = (uint8_t)n_sources };
	s->node = f;
	return 0;
}

#define PRESET_MAX (1 << 20) /* bytes; the largest of ours has a few thousand */
#define ENUM_NAMES_MAX 4096
#define PRESET_DEPTH_MAX 8
#define PIPE_WAIT_MS 5000 /* for each part of a preset that comes through a pipe */
#define SHOWN_MAX 80 /* bytes of a preset's own text in a message */

struct reader {
	const char *path;
	const char *text;
	/* the text of what is being read; NULL: members of the outermost object */
	const char *part, *part_end;
	struct probe_table *pt;
	struct engine *e;
};

/* The line of a key in what is being read, or of the beginning when it has no such key. */
static unsigned int line_of_key(const struct reader *r, const char *key)
{
	const char *p;

	if (r->part)
		p = text_find_key(r->part, r->part_end, key, UINT_MAX);
	else
		p = text_find_key(r->text, r->text + strlen(r->text), key, 1);
	if (!p)
		p = r->part ? r->part + strspn(r->part, " \t\r\n") : r->text;
	return text_line(r->text, p);
}

static int __attribute__((format(printf, 3, 4)))
preset_error(const struct reader *r, const char *key, const char *fmt, ...)
{
	char shown[SHOWN_MAX], why[4 * SHOWN_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	log_error("%s:%u: %s: %s", r->path, line_of_key(r, key),
		text_printable(shown, sizeof(shown), key), why);
	return -EINVAL;
}

/* From now on errors are about this member of the outermost object. */
static void enter_member(struct reader *r, const char *key)
{
	r->part = text_find_key(r->text, r->text + strlen(r->text), key, 1);
	r->part_end = r->part ? text_value_end(text_value(r->part)) : NULL;
}

static void leave_member(struct reader *r)
{
	r->part = NULL;
}

static int check_keys(const struct reader *r, struct json_object *obj, const char *const *known)
{
	json_object_object_foreach(obj, key, val) {
		size_t i = 0;

		(void)val;
		while (known[i] && strcmp(known[i], key))
			i++;
		if (!known[i])
			return preset_error(r, key, "unknown key");
	}
	return 0;
}

static bool is_text(struct json_object *v, size_t max)
{
	const char *text;

	if (!json_object_is_type(v, json_type_string))
		return false;
	text = json_object_get_string(v);
	return strlen(text) == (size_t)json_object_get_string_len(v) && spec_text_ok(text, max);
}

/* Reads a string that is shown to people and written to traces. */
static int get_string(
	const struct reader *r, struct json_object *obj, const char *key, bool required, const char **ret)
{
	struct json_object *v;

	*ret = NULL;
	if (!json_object_object_get_ex(obj, key, &v))
		return required ? preset_error(r, key, "missing") : 0;
	if (!json_object_is_type(v, json_type_string))
		return preset_error(r, key, "must be a string");
	if (!is_text(v, SPEC_STRING_MAX))
		return preset_error(
			r, key, "must have 1 to %d bytes, no control characters", SPEC_STRING_MAX);
	*ret = json_object_get_string(v);
	return 0;
}

static int read_enum(const struct reader *r, const char *name, struct json_object *obj, struct enum_table *t)
{
	static const char *const known[] = { "names", "table_symbol", "bytes", NULL };
	struct json_object *names;
	const char *object, *why;
	int err;

	if (!json_object_is_type(obj, json_type_object))
		return preset_error(r, name, "must be an object");
	err = check_keys(r, obj, known);
	if (err)
		return err;
	if (get_string(r, obj, "table_symbol", false, &object))
		return -EINVAL;
	if (!json_object_object_get_ex(obj, "names", &names) ||
		!json_object_is_type(names, json_type_array))
		return preset_error(r, name, "needs an array \"names\"");
	t->n = json_object_array_length(names);
	if (t->n > ENUM_NAMES_MAX)
		return preset_error(r, name, "more than %d names", ENUM_NAMES_MAX);
	t->name = strdup(name);
	t->names = calloc(t->n ? t->n : 1, sizeof(*t->names));
	t->object = object ? strdup(object) : NULL;
	if (!t->name || !t->names || (object && !t->object))
		return -ENOMEM;
	for (size_t i = 0; i < t->n; i++) {
		struct json_object *v = json_object_array_get_idx(names, i);

		if (!is_text(v, SPEC_NAME_MAX))
			return preset_error(r, name,
				"name %zu must be a string of 1 to %d bytes, no control characters", i,
				SPEC_NAME_MAX);
		t->names[i] = strdup(json_object_get_string(v));
		if (!t->names[i])
			return -ENOMEM;
	}
	err = bytes_read_sizes(obj, t, &why);
	return err == -EINVAL ? preset_error(r, name, "%s", why) : err;
}

static int read_enums(struct reader *r, struct json_object *root)
{
	struct json_object *enums;
	int err;

	if (!json_object_object_get_ex(root, "enums", &enums))
		return 0;
	if (!json_object_is_type(enums, json_type_object))
		return preset_error(r, "enums", "must be an object");
	r->e->enums = calloc((size_t)json_object_object_length(enums) + 1, sizeof(*r->e->enums));
	if (!r->e->enums)
		return -ENOMEM;
	json_object_object_foreach(enums, key, val) {
		err = read_enum(r, key, val, &r->e->enums[r->e->n_enums++]);
		if (err)
			return err;
	}
	return 0;
}

static int read_match(struct reader *r, struct json_object *root)
{
	static const char *const known[] = { "mapped", NULL };
	struct json_object *match, *mapped;
	int err;

	if (!json_object_object_get_ex(root, "match", &match) ||
		!json_object_is_type(match, json_type_object))
		return preset_error(r, "match", "missing or not an object");
	err = check_keys(r, match, known);
	if (err)
		return err;
	if (!json_object_object_get_ex(match, "mapped", &mapped) ||
		!json_object_is_type(mapped, json_type_array) || !json_object_array_length(mapped))
		return preset_error(r, "mapped", "must be an array of globs");
	r->e->mapped = calloc(json_object_array_length(mapped), sizeof(*r->e->mapped));
	if (!r->e->mapped)
		return -ENOMEM;
	for (size_t i = 0; i < json_object_array_length(mapped); i++) {
		struct json_object *v = json_object_array_get_idx(mapped, i);

		if (!is_text(v, SPEC_STRING_MAX))
			return preset_error(r, "mapped", "must be an array of globs");
		r->e->mapped[i] = strdup(json_object_get_string(v));
		if (!r->e->mapped[i])
			return -ENOMEM;
		r->e->n_mapped++;
	}
	return 0;
}

static int read_args(struct reader *r, struct json_object *obj, const char *key, struct probe_spec *s)
{
	struct json_object *args;

	if (!json_object_object_get_ex(obj, key, &args))
		return 0;
	if (!json_object_is_type(args, json_type_object))
		return preset_error(r, key, "must be an object");
	json_object_object_foreach(args, name, expr) {
		const char *why = "must be a string";

		if (!json_object_is_type(expr, json_type_string) ||
			spec_add_arg(s, name, json_object_get_string(expr), r->e->enums, r->e->n_enums,
				&why))
			return preset_error(r, name, "%s", why);
	}
	return 0;
}

/* Reads the arguments of this architecture, or those that only --op-detail shows. */
static int read_arch_args(struct reader *r, struct json_object *obj, struct probe_spec *s, bool detail)
{
	const char *keys[] = { "args", "detail" };

#ifdef __aarch64__
	if (json_object_object_get_ex(obj, "args_arm64", NULL))
		keys[0] = "args_arm64";
	if (json_object_object_get_ex(obj, "detail_arm64", NULL))
		keys[1] = "detail_arm64";
#endif
	return read_args(r, obj, keys[detail], s);
}

/* "check": one condition or an array of them. */
static int read_checks(struct reader *r, struct json_object *obj, struct probe_spec *s)
{
	struct json_object *checks;
	size_t n = 1;

	if (!json_object_object_get_ex(obj, "check", &checks))
		return 0;
	if (json_object_is_type(checks, json_type_array))
		n = json_object_array_length(checks);
	for (size_t i = 0; i < n; i++) {
		struct json_object *v = checks;
		const char *why = "must be a condition, or an array of them";
		int err = -EINVAL;

		if (json_object_is_type(checks, json_type_array))
			v = json_object_array_get_idx(checks, i);
		if (is_text(v, SPEC_STRING_MAX))
			err = spec_add_check(s, json_object_get_string(v), &why);
		/* without --op-detail it may refer to an argument that is not read; check_detail() has checked it */
		if (err == -ENOMEM || (err && r->pt->op_detail))
			return err == -ENOMEM ? err : preset_error(r, "check", "%s", why);
	}
	return 0;
}

/* Reads what the threads that meet at a barrier have in common; it is not shown as an argument. */
static int read_group(struct reader *r, struct json_object *obj, struct probe_spec *s)
{
	const char *key = "group", *expr, *why;
	struct probe_arg arg = {};

#ifdef __aarch64__
	if (json_object_object_get_ex(obj, "group_arm64", NULL))
		key = "group_arm64";
#endif
	if (get_string(r, obj, key, false, &expr))
		return -EINVAL;
	if (!expr)
		return 0;
	if (s->role != ROLE_BARRIER || !(s->flags & PROBE_F_SPAN))
		return preset_error(r, key, "is for symbols with the role barrier");
	if (fetch_parse(expr, r->e->enums, r->e->n_enums, false, &s->group, &arg, &why))
		return preset_error(r, key, "%s", why);
	if (arg.is_string || s->group.flags & FETCH_F_RETURN)
		return preset_error(r, key, "must be a number or an address, known at the entry");
	s->flags |= PROBE_F_GROUP;
	return 0;
}

/* "accessors": functions whose code shows where the columns are. */
static int read_accessors(struct reader *r, struct json_object *rows, struct probe_spec *s)
{
	static const char *known[ROW_COLUMNS + 1];
	const char *text, *why = NULL;
	struct json_object *obj;
	int err;

	if (!json_object_object_get_ex(rows, "accessors", &obj))
		return 0;
	if (!json_object_is_type(obj, json_type_object))
		return preset_error(r, "accessors", "must be an object");
	memcpy(known, row_column_keys, sizeof(row_column_keys));
	err = check_keys(r, obj, known);
	for (int i = 0; i < ROW_COLUMNS && !err; i++) {
		err = get_string(r, obj, row_column_keys[i], false, &text);
		if (!err && text)
			err = rows_add_accessor(s, (enum row_column)i, text, &why);
		if (err && why)
			err = err == -ENOMEM ? err : preset_error(r, row_column_keys[i], "%s", why);
	}
	return err;
}

/* "rows": how many, and the arrays with an element for each. */
static int read_rows(struct reader *r, struct json_object *obj, struct probe_spec *s)
{
	const char *key = "rows", *count, *expr, *why = NULL;
	static const char *known[ROW_COLUMNS + 3] = { "count", "accessors" };
	struct json_object *rows;
	int err;

#ifdef __aarch64__
	if (json_object_object_get_ex(obj, "rows_arm64", NULL))
		key = "rows_arm64";
#endif
	if (!json_object_object_get_ex(obj, key, &rows))
		return 0;
	if (!json_object_is_type(rows, json_type_object))
		return preset_error(r, key, "must be an object");
	if (s->role != ROLE_STEP || !(s->flags & PROBE_F_SPAN))
		return preset_error(r, key, "is for symbols with the role step");
	memcpy(known + 2, row_column_keys, sizeof(row_column_keys));
	err = check_keys(r, rows, known);
	if (!err)
		err = get_string(r, rows, "count", true, &count);
	if (err)
		return err;
	err = rows_begin(s, count, &why);
	if (err)
		return err == -ENOMEM ? err : preset_error(r, key, "%s", why);
	for (int i = 0; i < ROW_COLUMNS; i++) {
		if (get_string(r, rows, row_column_keys[i], false, &expr))
			return -EINVAL;
		err = expr ? rows_add_column(s, (enum row_column)i, expr, &why) : 0;
		if (err)
			return err == -ENOMEM ? err : preset_error(r, row_column_keys[i], "%s", why);
	}
	if (s->row[ROW_SEQUENCES].loads && !s->row[ROW_SEQUENCE].loads)
		return preset_error(r, "sequences", "counts what begins at \"sequence\", which is missing");
	rows_end(s);
	return read_accessors(r, rows, s);
}

/* One entry of "probes", without its arguments. */
struct entry {
	const char *library, *begin, *end, *role, *name, *declared, *when;
	bool usdt, instant, nothrow, exits, past_early_return, graph_launch, outermost, stand_in, hidden;
};

static int read_entry(struct reader *r, struct json_object *obj, struct entry *ret)
{
	static const char *const known[] = { "library", "symbol", "begin", "end", "instant", "usdt", "role", "declared", "args",
		"args_arm64", "detail", "detail_arm64", "detail_only", "name", "names", "when", "check", "nothrow", "exits",
		"past_early_return", "graph_launch", "group", "group_arm64", "rows", "rows_arm64", "outermost", "node",
		"bytes", "stand_in", NULL };
	bool symbol = json_object_object_get_ex(obj, "symbol", NULL);
	struct entry e = {
		.instant = json_object_object_get_ex(obj, "instant", NULL),
		.usdt = json_object_object_get_ex(obj, "usdt", NULL),
	};
	int err;

	err = check_keys(r, obj, known);
	if (err)
		return err;
	if (get_string(r, obj, "library", false, &e.library) ||
		get_string(r, obj, "begin", false, &e.begin) || get_string(r, obj, "end", false, &e.end) ||
		get_string(r, obj, "role", true, &e.role) || get_string(r, obj, "name", false, &e.name) ||
		get_string(r, obj, "declared", false, &e.declared) || get_string(r, obj, "when", false, &e.when))
		return -EINVAL;
	if (symbol + !!e.begin + e.instant + e.usdt != 1 || !e.begin != !e.end)
		return preset_error(r, symbol ? "symbol" : "role",
			"give one of symbol, begin and end, instant, or usdt");
	e.instant |= e.usdt;
	*ret = e;
	return 0;
}

/* "names": which argument gives a handle its name. */
static int read_names(struct reader *r, struct json_object *obj, struct probe_spec *s)
{
	struct json_object *names;
	const char *why;

	if (!json_object_object_get_ex(obj, "names", &names))
		return 0;
	if (!json_object_is_type(names, json_type_object) || json_object_object_length(names) != 1)
		return preset_error(r, "names", "must be {\"ARG\": \"$ARG\"}");
	json_object_object_foreach(names, handle, name) {
		if (!is_text(name, SPEC_STRING_MAX))
			return preset_error(r, "names", "must be {\"ARG\": \"$ARG\"}");
		if (spec_set_names(s, handle, json_object_get_string(name), &why))
			return preset_error(r, "names", "%s", why);
	}
	return 0;
}

/* "bytes": of what it passes; "node": what the first argument points to. */
static int read_data(struct reader *r, struct json_object *obj, struct probe_spec *s)
{
	const char *key = "bytes", *why;

	if (bytes_read(obj, s, &why) || node_read(obj, r->e->enums, r->e->n_enums, s, &key, &why))
		return preset_error(r, key, "%s", why);
	return 0;
}

static int add_end(struct reader *r, const char *library, const char *symbol)
{
	struct probe_spec *s = spec_find(r->pt, r->e, library, symbol);

	if (!spec_usdt_ok(symbol))
		return preset_error(r, "end", "a USDT probe is usdt:PROVIDER:NAME");
	if (!s || s->when.op) { /* an end has no condition */
		s = spec_append(r->pt, library, symbol);
		if (!s)
			return preset_error(r, "probes", "too many probes");
		s->engine = r->e;
	}
	s->flags |= PROBE_F_END;
	return 0;
}

static int add_probe(struct reader *r, struct json_object *obj, const struct entry *e, const char *symbol)
{
	struct probe_spec *s = spec_find(r->pt, r->e, e->library, symbol);
	const char *why = NULL;
	char shown[SHOWN_MAX];
	int err;

	if (s && (s->flags != PROBE_F_END || e->when)) {
		if (!e->instant && !e->when && s->flags & (PROBE_F_SPAN | PROBE_F_BEGIN))
			return preset_error(
				r, e->begin ? "begin" : "symbol", "this function has a probe already");
		s = NULL;
	}
	/* a function that ends a pair may have a span of its own: one probe does both */
	if (!s)
		s = spec_append(r->pt, e->library, symbol);
	if (!s)
		return preset_error(r, "probes", "too many probes");
	if (!e->begin && !e->instant && !e->nothrow && !e->exits && !strncmp(symbol, "_Z", 2))
		return preset_error(r, "symbol",
			"an exception through this C++ function would end the process: use exits, instant, or "
			"begin and end, or say nothrow");
	if (!spec_usdt_ok(symbol))
		return preset_error(r,
			e->usdt ? "usdt" : e->begin ? "begin" : e->instant ? "instant" : "symbol",
			e->usdt ? "write PROVIDER:NAME" : "a USDT probe is usdt:PROVIDER:NAME");
	if (s->is_usdt && !e->begin && !e->instant)
		return preset_error(r, "symbol", "a USDT probe has no return: use usdt, or begin and end");
	s->engine = r->e;
	s->flags |= e->begin ? PROBE_F_BEGIN : e->instant ? PROBE_F_INSTANT : PROBE_F_SPAN;
	if (e->graph_launch)
		s->flags |= PROBE_F_GRAPH;
	s->past_early_return = e->past_early_return && !r->pt->op_detail;
	if (spec_set_role(s, e->role))
		return preset_error(r, "role", "%s is not a role",
			text_printable(shown, sizeof(shown), e->role));
	if (e->usdt && spec_needs_end(s))
		return preset_error(r, "role", "a USDT probe is an instant: no step, barrier or gpu_wait");
	if (e->exits && (!(s->flags & PROBE_F_SPAN) || spec_needs_end(s)))
		return preset_error(r, "exits", "is for symbols that are no step, barrier or gpu_wait");
	s->exits = e->exits;
	if (e->outermost && !(s->flags & PROBE_F_SPAN))
		return preset_error(r, "outermost", "is for symbols");
	s->outermost = e->outermost;
	if (e->stand_in && s->role != ROLE_STEP)
		return preset_error(r, "stand_in", "is for the role step");
	s->stand_in = e->stand_in;
	*(e->stand_in ? &r->e->has_stand_in : &r->e->has_step) |= s->role == ROLE_STEP;
	err = read_arch_args(r, obj, s, false);
	if (!err)
		err = read_rows(r, obj, s);
	if (err)
		return err;
	if (e->name && spec_set_name(s, e->name, &why))
		return preset_error(
			r, "name", "%s: %s", text_printable(shown, sizeof(shown), e->name), why);
	if (e->declared && (s->role != ROLE_OP || s->name_part < 0))
		return preset_error(r, "declared", "is for operators with a part of a C++ name as their \"name\"");
	if (e->declared && r->pt->nodes && !(s->declared = strdup(e->declared)))
		return -ENOMEM;
	if (e->when && spec_set_when(s, e->when, &why))
		return preset_error(
			r, "when", "%s: %s", text_printable(shown, sizeof(shown), e->when), why);
	if (r->pt->op_detail)
		err = read_arch_args(r, obj, s, true);
	if (!err && s->exits && s->flags & PROBE_F_LATE)
		return preset_error(r, "exits", "what is known at the return only cannot be read on the way out");
	if (!err)
		err = read_checks(r, obj, s);
	if (!err)
		err = read_group(r, obj, s);
	if (!err)
		err = read_names(r, obj, s);
	if (!err)
		err = read_data(r, obj, s);
	if (err)
		return err;
	s->hidden = e->hidden;
	return e->end ? add_end(r, e->library, e->end) : 0;
}

static int get_bool(const struct reader *r, struct json_object *obj, const char *key, bool *ret)
{
	struct json_object *v;

	*ret = false;
	if (!json_object_object_get_ex(obj, key, &v))
		return 0;
	if (!json_object_is_type(v, json_type_boolean))
		return preset_error(r, key, "must be true or false");
	*ret = json_object_get_boolean(v);
	return 0;
}

static int add_named(struct reader *r, struct json_object *obj, const struct entry *e, const char *name)
{
	char symbol[SPEC_STRING_MAX + sizeof(SPEC_USDT)];

	if (e->usdt && strlen(name) > USDT_NAME_MAX)
		return preset_error(r, "usdt", "must have 1 to %d bytes", USDT_NAME_MAX);
	snprintf(symbol, sizeof(symbol), "%s%s", e->usdt ? SPEC_USDT : "", name);
	return add_probe(r, obj, e, symbol);
}

/* "symbol", "instant" and "usdt" may be arrays: functions that take the same arguments. */
static int read_probe(struct reader *r, struct json_object *obj)
{
	struct json_object *v;
	struct entry e = {};
	const char *symbol, *key;
	bool detail_only;
	int err;

	if (!json_object_is_type(obj, json_type_object))
		return preset_error(r, "probes", "each must be an object");
	err = read_entry(r, obj, &e);
	if (err)
		return err;
	if (get_bool(r, obj, "detail_only", &detail_only) || get_bool(r, obj, "nothrow", &e.nothrow) ||
		get_bool(r, obj, "exits", &e.exits) ||
		get_bool(r, obj, "past_early_return", &e.past_early_return) ||
		get_bool(r, obj, "graph_launch", &e.graph_launch) ||
		get_bool(r, obj, "stand_in", &e.stand_in) || get_bool(r, obj, "outermost", &e.outermost))
		return -EINVAL;
	/* names of handles are needed even then */
	e.hidden = detail_only && !r->pt->op_detail;
	if (json_object_object_get_ex(obj, "node", NULL) && !r->pt->nodes)
		return 0;
	if (e.hidden && !json_object_object_get_ex(obj, "names", NULL))
		return 0;
	if (e.begin)
		return add_probe(r, obj, &e, e.begin);
	key = e.usdt ? "usdt" : e.instant ? "instant" : "symbol";
	json_object_object_get_ex(obj, key, &v);
	if (!json_object_is_type(v, json_type_array))
		return get_string(r, obj, key, true, &symbol) ?: add_named(r, obj, &e, symbol);
	if (!json_object_array_length(v))
		return preset_error(r, key, "must be a name or an array of names");
	for (size_t i = 0; i < json_object_array_length(v) && !err; i++) {
		struct json_object *name = json_object_array_get_idx(v, i);

		if (!is_text(name, SPEC_STRING_MAX))
			return preset_error(r, key, "must be a name or an array of names");
		err = add_named(r, obj, &e, json_object_get_string(name));
	}
	return err;
}

static int read_probes(struct reader *r, struct json_object *root)
{
	struct json_object *probes;
	const char *p;
	int err = 0;

	leave_member(r);
	if (!json_object_object_get_ex(root, "probes", &probes) ||
		!json_object_is_type(probes, json_type_array))
		return preset_error(r, "probes", "must be an array");
	enter_member(r, "probes");
	p = text_value(r->part);
	p += strspn(p, " \t\r\n") + 1; /* after '[' */
	for (size_t i = 0; i < json_object_array_length(probes) && !err; i++) {
		r->part = p;
		r->part_end = text_value_end(p);
		err = read_probe(r, json_object_array_get_idx(probes, i));
		p = r->part_end + (*r->part_end == ',');
	}
	return err;
}

/* The versions of the preset, and of the engine releases that it was tried with. */
static int read_versions(struct reader *r, struct json_object *root)
{
	struct json_object *v;

	if (json_object_object_get_ex(root, "version", &v)) {
		if (!json_object_is_type(v, json_type_int) || json_object_get_int64(v) < 0 ||
			json_object_get_int64(v) > INT_MAX)
			return preset_error(r, "version", "must be a number from 0");
		r->e->version = (unsigned int)json_object_get_int64(v);
	}
	if (!json_object_object_get_ex(root, "checked", &v))
		return 0;
	if (!json_object_is_type(v, json_type_array))
		return preset_error(r, "checked", "must be an array of strings");
	for (size_t i = 0; i < json_object_array_length(v); i++) {
		if (!json_object_is_type(json_object_array_get_idx(v, i), json_type_string))
			return preset_error(r, "checked", "must be an array of strings");
	}
	return 0;
}

static int read_root(struct reader *r, struct json_object *root)
{
	static const char *const known[] = { "name", "version", "checked", "advice", "match", "enums",
		"probes", NULL };
	const char *name, *advice = NULL;
	int err;

	if (!json_object_is_type(root, json_type_object)) {
		log_error("%s:1: a preset is a JSON object", r->path);
		return -EINVAL;
	}
	err = check_keys(r, root, known);
	if (err)
		return err;
	if (get_string(r, root, "name", true, &name) || get_string(r, root, "advice", false, &advice))
		return -EINVAL;
	r->e->name = strdup(name);
	r->e->advice = advice ? strdup(advice) : NULL;
	if (!r->e->name || (advice && !r->e->advice))
		return -ENOMEM;
	err = read_versions(r, root);
	if (err)
		return err;
	enter_member(r, "match");
	err = read_match(r, root);
	if (err)
		return err;
	enter_member(r, "enums");
	err = read_enums(r, root);
	if (err)
		return err;
	return read_probes(r, root);
}

/* Waits until something can be read, or the end. Does not wait for ever for a pipe that nobody writes to. */
static int wait_for_text(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int n = poll(&p, 1, PIPE_WAIT_MS);

	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	return n ? 0 : -ETIMEDOUT;
}

/* Regular files, and pipes: presets are small, and --engine <(COMMAND) is handy. */
static int read_text(const char *path, char **ret_text, size_t *ret_len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), err = 0;
	size_t len = 0;
	struct stat st;
	char *text;
	ssize_t n;

	if (fd < 0)
		return -errno;
	text = malloc(PRESET_MAX + 1);
	if (!text)
		err = -ENOMEM;
	else if (fstat(fd, &st))
		err = -errno;
	else if (!S_ISREG(st.st_mode) && !S_ISFIFO(st.st_mode))
		err = S_ISDIR(st.st_mode) ? -EISDIR : -ESPIPE;
	while (!err) {
		err = wait_for_text(fd);
		if (err)
			break;
		n = read(fd, text + len, PRESET_MAX + 1 - len);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			err = -errno;
		else if (n > 0)
			len += (size_t)n;
		else if (n == 0 && !len && S_ISFIFO(st.st_mode))
			err = -ETIMEDOUT;
		else if (n == 0)
			break;
		if (!err && len > PRESET_MAX)
			err = -EFBIG;
	}
	close(fd);
	if (err) {
		free(text);
		return err;
	}
	text[len] = 0;
	*ret_text = text;
	*ret_len = len;
	return 0;
}

static int check_duplicates(const struct reader *r)
{
	char key[SHOWN_MAX], shown[SHOWN_MAX];
	const char *at;
	int err = text_find_duplicate(r->text, &at);

	if (err || !at)
		return err;
	snprintf(key, sizeof(key), "%.*s", (int)strcspn(at + 1, "\""), at + 1);
	log_error("%s:%u: %s: %s", r->path, text_line(r->text, at),
		text_printable(shown, sizeof(shown), key),
		strchr(key, '\\') ? "a key without escapes is expected" : "is given twice");
	return -EINVAL;
}

static int parse_text(const struct reader *r, struct json_object **ret_root)
{
	struct json_tokener *tok = json_tokener_new_ex(PRESET_DEPTH_MAX);
	struct json_object *root;
	enum json_tokener_error jerr;

	if (!tok)
		return -ENOMEM;
	json_tokener_set_flags(tok, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	root = json_tokener_parse_ex(tok, r->text, (int)strlen(r->text) + 1);
	jerr = json_tokener_get_error(tok);
	if (jerr != json_tokener_success)
		log_error("%s:%u: %s", r->path,
			text_line(r->text, r->text + json_tokener_get_parse_end(tok)),
			json_tokener_error_desc(jerr));
	json_tokener_free(tok);
	if (jerr != json_tokener_success)
		return -EINVAL;
	*ret_root = root;
	return 0;
}

static int read_preset(struct reader *r, struct json_object *root)
{
	struct probe_table *pt = r->pt;
	struct engine **engines = realloc(pt->engines, (pt->n_engines + 1) * sizeof(*engines));

	if (!engines)
		return -ENOMEM;
	pt->engines = engines;
	r->e = calloc(1, sizeof(*r->e));
	if (!r->e)
		return -ENOMEM;
	engines[pt->n_engines++] = r->e;
	r->e->number = (unsigned int)pt->n_engines;
	return read_root(r, root);
}

/* Checks what only some options would read even without them, so that whether a preset is valid does
 * not depend on options. */
static int check_detail(const struct reader *r, struct json_object *root)
{
	struct probe_table pt = { .op_detail = true, .nodes = true };
	struct reader all = *r;
	int err;

	all.pt = &pt;
	err = read_preset(&all, root);
	probe_table_free(&pt);
	return err;
}

int engine_load_file(struct probe_table *pt, const char *path)
{
	struct reader r = { .path = path, .pt = pt };
	struct json_object *root = NULL;
	char *text = NULL;
	size_t len = 0;
	int err;

	err = read_text(path, &text, &len);
	if (err == -EISDIR || err == -ESPIPE || err == -ETIMEDOUT) {
		log_error("--engine: %s is %s: give a preset's file, or its name", path,
			err == -EISDIR	 ? "a directory"
			: err == -ESPIPE ? "not a regular file"
					 : "a pipe that nobody writes to");
		return -EINVAL;
	}
	if (err) {
		log_error("cannot read the preset %s: %s", path, strerror(-err));
		return err;
	}
	r.text = text;
	if (strlen(text) != len) {
		log_error("%s:%u: a NUL byte", path, text_line(text, text + strlen(text)));
		err = -EINVAL;
		goto out;
	}
	err = parse_text(&r, &root);
	if (!err)
		err = check_duplicates(&r);
	if (!err && !(pt->op_detail && pt->nodes))
		err = check_detail(&r, root);
	if (!err)
		err = read_preset(&r, root);
out:
	if (err == -ENOMEM)
		log_error("cannot read the preset %s: out of memory", path);
	json_object_put(root);
	free(text);
	return err;
}
