// SPDX-License-Identifier: BSD-2-Clause
/* Presets: from JSON to probe specifications, with errors that name file, line and key. */
#include "engine/engine.h"

#include <errno.h>
#include <fcntl.h>
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
#include "util/json.h"
#include "util/log.h"
#include "util/text.h"

/* The first member whose key is none of these; NULL: there is none. */
static const struct json_node *find_unknown(const struct json_node *object, const char *const *known)
{
	json_for_each (member, object) {
		size_t i = 0;

		while (known[i] && strcmp(known[i], member->key))
			i++;
		if (!known[i])
			return member;
	}
	return NULL;
}

/* "node" of a preset's probe: where the members of a node of the engine's graph are. */
#define NAME_BYTES 64 /* as much of a node's name as is read */

static int node_number(const struct json_node *obj, const char *key, int64_t max, uint16_t *ret, const char **ret_why)
{
	const struct json_node *v = node_get(obj, key);

	if (!node_is(v, JSON_INT)) {
		*ret_why = "must be a number of bytes";
		return -EINVAL;
	}
	if (node_s64(v) < 0 || node_s64(v) > max) {
		*ret_why = "lies outside of the node";
		return -EINVAL;
	}
	*ret = (uint16_t)node_s64(v);
	return 0;
}

/* "ENUM *(arg1+OFFSET)" */
static int node_enum(const struct json_node *obj, const char *key, const struct enum_table *enums, size_t n_enums,
	uint16_t bytes, uint16_t *ret_at, const struct enum_table **ret_names, const char **ret_why)
{
	const struct json_node *v = node_get(obj, key);
	struct probe_arg arg = {};
	struct fetch f;
	int err;

	*ret_why = "must be \"ENUM *(arg1+OFFSET)\", a value in the node";
	if (!node_is(v, JSON_STRING))
		return -EINVAL;
	err = fetch_parse(v->text, enums, n_enums, false, &f, &arg, ret_why);
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
static int node_read(const struct json_node *probe, const struct enum_table *enums, size_t n_enums, struct probe_spec *s,
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
	const struct json_node *obj = node_get(probe, "node");
	int err;

	if (!obj)
		return 0;
	*ret_key = "node";
	*ret_why = "is for an instant whose first argument is a ptr";
	if (!(s->flags & PROBE_F_INSTANT) || !s->nargs || !s->args[0].is_pointer)
		return -EINVAL;
	*ret_why = "must be an object";
	if (!node_is(obj, JSON_OBJECT))
		return -EINVAL;
	if (find_unknown(obj, known)) {
		*ret_why = "has a key that is not known";
		return -EINVAL;
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
#define PIPE_WAIT_MS 5000 /* for each part of a preset that comes through a pipe */
#define SHOWN_MAX 80 /* bytes of a preset's own text in a message */

struct reader {
	const char *path;
	const char *text;		/* as it is in the file */
	char *parsed;			/* the same, to which the nodes point */
	const struct json_node *root;
	const struct json_node *part; /* what is being read */
	struct probe_table *pt;
	struct engine *e;
};

/* The line of a place in r->parsed, from 1. */
static unsigned int line_of(const struct reader *r, const char *place)
{
	unsigned int line = 1;

	for (ptrdiff_t i = 0; i < place - r->parsed; i++)
		line += r->text[i] == '\n';
	return line;
}

/* The line of a key in what is being read, or of the beginning when it has no such key. */
static unsigned int line_of_key(const struct reader *r, const char *key)
{
	const struct json_node *part = r->part, *found = NULL;

	if (part == r->root)
		found = node_get(part, key);
	for (const struct json_node *n = part; part != r->root && !found && n < part + part->span; n++)
		found = n->key && !strcmp(n->key, key) ? n : NULL;
	return line_of(r, found ? found->key : part->key ? part->key : part->text);
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
	const struct json_node *member = node_get(r->root, key);

	r->part = member ? member : r->root;
}

static size_t count_of(const struct json_node *container)
{
	size_t n = 0;

	json_for_each (child, container)
		n++;
	return n;
}

static int check_keys(const struct reader *r, const struct json_node *obj, const char *const *known)
{
	const struct json_node *unknown = find_unknown(obj, known);

	return unknown ? preset_error(r, unknown->key, "unknown key") : 0;
}

static bool is_text(const struct json_node *v, size_t max)
{
	return node_is(v, JSON_STRING) && strlen(v->text) == v->len && spec_text_ok(v->text, max);
}

/* Reads a string that is shown to people and written to traces. */
static int get_string(
	const struct reader *r, const struct json_node *obj, const char *key, bool required, const char **ret)
{
	const struct json_node *v;

	*ret = NULL;
	v = node_get(obj, key);
	if (!v)
		return required ? preset_error(r, key, "missing") : 0;
	if (!node_is(v, JSON_STRING))
		return preset_error(r, key, "must be a string");
	if (!is_text(v, SPEC_STRING_MAX))
		return preset_error(
			r, key, "must have 1 to %d bytes, no control characters", SPEC_STRING_MAX);
	*ret = v->text;
	return 0;
}

static int read_enum(const struct reader *r, const char *name, const struct json_node *obj, struct enum_table *t)
{
	static const char *const known[] = { "names", "table_symbol", "bytes", NULL };
	const struct json_node *names = node_get(obj, "names");
	const char *object, *why;
	size_t i = 0;
	int err;

	if (!node_is(obj, JSON_OBJECT))
		return preset_error(r, name, "must be an object");
	err = check_keys(r, obj, known);
	if (err)
		return err;
	if (get_string(r, obj, "table_symbol", false, &object))
		return -EINVAL;
	if (!node_is(names, JSON_ARRAY))
		return preset_error(r, name, "needs an array \"names\"");
	t->n = count_of(names);
	if (t->n > ENUM_NAMES_MAX)
		return preset_error(r, name, "more than %d names", ENUM_NAMES_MAX);
	t->name = strdup(name);
	t->names = calloc(t->n ? t->n : 1, sizeof(*t->names));
	t->object = object ? strdup(object) : NULL;
	if (!t->name || !t->names || (object && !t->object))
		return -ENOMEM;
	json_for_each (v, names) {
		if (!is_text(v, SPEC_NAME_MAX))
			return preset_error(r, name,
				"name %zu must be a string of 1 to %d bytes, no control characters", i,
				SPEC_NAME_MAX);
		t->names[i] = strdup(v->text);
		if (!t->names[i++])
			return -ENOMEM;
	}
	err = bytes_read_sizes(obj, t, &why);
	return err == -EINVAL ? preset_error(r, name, "%s", why) : err;
}

static int read_enums(struct reader *r, const struct json_node *root)
{
	const struct json_node *enums = node_get(root, "enums");
	int err;

	if (!enums)
		return 0;
	if (!node_is(enums, JSON_OBJECT))
		return preset_error(r, "enums", "must be an object");
	r->e->enums = calloc(count_of(enums) + 1, sizeof(*r->e->enums));
	if (!r->e->enums)
		return -ENOMEM;
	json_for_each (v, enums) {
		err = read_enum(r, v->key, v, &r->e->enums[r->e->n_enums++]);
		if (err)
			return err;
	}
	return 0;
}

static int read_match(struct reader *r, const struct json_node *root)
{
	static const char *const known[] = { "mapped", NULL };
	const struct json_node *match = node_get(root, "match"), *mapped = node_get(match, "mapped");
	int err;

	if (!node_is(match, JSON_OBJECT))
		return preset_error(r, "match", "missing or not an object");
	err = check_keys(r, match, known);
	if (err)
		return err;
	if (!node_is(mapped, JSON_ARRAY) || !count_of(mapped))
		return preset_error(r, "mapped", "must be an array of globs");
	r->e->mapped = calloc(count_of(mapped), sizeof(*r->e->mapped));
	if (!r->e->mapped)
		return -ENOMEM;
	json_for_each (v, mapped) {
		if (!is_text(v, SPEC_STRING_MAX))
			return preset_error(r, "mapped", "must be an array of globs");
		r->e->mapped[r->e->n_mapped] = strdup(v->text);
		if (!r->e->mapped[r->e->n_mapped++])
			return -ENOMEM;
	}
	return 0;
}

static int read_args(struct reader *r, const struct json_node *obj, const char *key, struct probe_spec *s)
{
	const struct json_node *args = node_get(obj, key);

	if (!args)
		return 0;
	if (!node_is(args, JSON_OBJECT))
		return preset_error(r, key, "must be an object");
	json_for_each (expr, args) {
		const char *why = "must be a string";

		if (!node_is(expr, JSON_STRING) ||
			spec_add_arg(s, expr->key, expr->text, r->e->enums, r->e->n_enums, &why))
			return preset_error(r, expr->key, "%s", why);
	}
	return 0;
}

/* Reads the arguments of this architecture, or those that only --op-detail shows. */
static int read_arch_args(struct reader *r, const struct json_node *obj, struct probe_spec *s, bool detail)
{
	const char *keys[] = { "args", "detail" };

#ifdef __aarch64__
	if (node_get(obj, "args_arm64"))
		keys[0] = "args_arm64";
	if (node_get(obj, "detail_arm64"))
		keys[1] = "detail_arm64";
#endif
	return read_args(r, obj, keys[detail], s);
}

static int read_check(struct reader *r, const struct json_node *v, struct probe_spec *s)
{
	const char *why = "must be a condition, or an array of them";
	int err = is_text(v, SPEC_STRING_MAX) ? spec_add_check(s, v->text, &why) : -EINVAL;

	if (err == -ENOMEM)
		return err;
	/* without --op-detail it may refer to an argument that is not read; check_detail() has checked it */
	return err && r->pt->op_detail ? preset_error(r, "check", "%s", why) : 0;
}

/* "check": one condition or an array of them. */
static int read_checks(struct reader *r, const struct json_node *obj, struct probe_spec *s)
{
	const struct json_node *checks = node_get(obj, "check");
	int err = 0;

	if (!checks)
		return 0;
	if (!node_is(checks, JSON_ARRAY))
		return read_check(r, checks, s);
	for (const struct json_node *v = NULL; !err && (v = json_next(checks, v));)
		err = read_check(r, v, s);
	return err;
}

/* Reads what the threads that meet at a barrier have in common; it is not shown as an argument. */
static int read_group(struct reader *r, const struct json_node *obj, struct probe_spec *s)
{
	const char *key = "group", *expr, *why;
	struct probe_arg arg = {};

#ifdef __aarch64__
	if (node_get(obj, "group_arm64"))
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
static int read_accessors(struct reader *r, const struct json_node *rows, struct probe_spec *s)
{
	static const char *known[ROW_COLUMNS + 1];
	const char *text, *why = NULL;
	const struct json_node *obj = node_get(rows, "accessors");
	int err;

	if (!obj)
		return 0;
	if (!node_is(obj, JSON_OBJECT))
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
static int read_rows(struct reader *r, const struct json_node *obj, struct probe_spec *s)
{
	const char *key = "rows", *count, *expr, *why = NULL;
	static const char *known[ROW_COLUMNS + 3] = { "count", "accessors" };
	const struct json_node *rows;
	int err;

#ifdef __aarch64__
	if (node_get(obj, "rows_arm64"))
		key = "rows_arm64";
#endif
	rows = node_get(obj, key);
	if (!rows)
		return 0;
	if (!node_is(rows, JSON_OBJECT))
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

static int read_entry(struct reader *r, const struct json_node *obj, struct entry *ret)
{
	static const char *const known[] = { "library", "symbol", "begin", "end", "instant", "usdt", "role", "declared", "args",
		"args_arm64", "detail", "detail_arm64", "detail_only", "name", "names", "when", "check", "nothrow", "exits",
		"past_early_return", "graph_launch", "group", "group_arm64", "rows", "rows_arm64", "outermost", "node",
		"bytes", "stand_in", NULL };
	bool symbol = node_get(obj, "symbol");
	struct entry e = {
		.instant = node_get(obj, "instant"),
		.usdt = node_get(obj, "usdt"),
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
static int read_names(struct reader *r, const struct json_node *obj, struct probe_spec *s)
{
	const struct json_node *names = node_get(obj, "names"), *name;
	const char *why;

	if (!names)
		return 0;
	if (!node_is(names, JSON_OBJECT) || count_of(names) != 1)
		return preset_error(r, "names", "must be {\"ARG\": \"$ARG\"}");
	name = json_next(names, NULL);
	if (!is_text(name, SPEC_STRING_MAX))
		return preset_error(r, "names", "must be {\"ARG\": \"$ARG\"}");
	return spec_set_names(s, name->key, name->text, &why) ? preset_error(r, "names", "%s", why) : 0;
}

/* "bytes": of what it passes; "node": what the first argument points to. */
static int read_data(struct reader *r, const struct json_node *obj, struct probe_spec *s)
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

static int add_probe(struct reader *r, const struct json_node *obj, const struct entry *e, const char *symbol)
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
	if (e->declared && r->pt->declared && !(s->declared = strdup(e->declared)))
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

static int get_bool(const struct reader *r, const struct json_node *obj, const char *key, bool *ret)
{
	const struct json_node *v = node_get(obj, key);

	*ret = node_is(v, JSON_TRUE);
	return !v || node_is_bool(v) ? 0 : preset_error(r, key, "must be true or false");
}

static int add_named(struct reader *r, const struct json_node *obj, const struct entry *e, const char *name)
{
	char symbol[SPEC_STRING_MAX + sizeof(SPEC_USDT)];

	if (e->usdt && strlen(name) > USDT_NAME_MAX)
		return preset_error(r, "usdt", "must have 1 to %d bytes", USDT_NAME_MAX);
	snprintf(symbol, sizeof(symbol), "%s%s", e->usdt ? SPEC_USDT : "", name);
	return add_probe(r, obj, e, symbol);
}

/* "symbol", "instant" and "usdt" may be arrays: functions that take the same arguments. */
static int read_probe(struct reader *r, const struct json_node *obj)
{
	const struct json_node *v;
	struct entry e = {};
	const char *symbol, *key;
	bool detail_only;
	int err;

	if (!node_is(obj, JSON_OBJECT))
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
	if (node_get(obj, "node") && !r->pt->nodes)
		return 0;
	if (e.hidden && !node_get(obj, "names"))
		return 0;
	if (e.begin)
		return add_probe(r, obj, &e, e.begin);
	key = e.usdt ? "usdt" : e.instant ? "instant" : "symbol";
	v = node_get(obj, key);
	if (!node_is(v, JSON_ARRAY))
		return get_string(r, obj, key, true, &symbol) ?: add_named(r, obj, &e, symbol);
	if (!count_of(v))
		return preset_error(r, key, "must be a name or an array of names");
	for (const struct json_node *name = NULL; !err && (name = json_next(v, name));) {
		if (!is_text(name, SPEC_STRING_MAX))
			return preset_error(r, key, "must be a name or an array of names");
		err = add_named(r, obj, &e, name->text);
	}
	return err;
}

static int read_probes(struct reader *r, const struct json_node *root)
{
	const struct json_node *probes = node_get(root, "probes");
	int err = 0;

	r->part = root;
	if (!node_is(probes, JSON_ARRAY))
		return preset_error(r, "probes", "must be an array");
	while (!err && (r->part = json_next(probes, r->part == root ? NULL : r->part)))
		err = read_probe(r, r->part);
	return err;
}

/* The versions of the preset, and of the engine releases that it was tried with. */
static int read_versions(struct reader *r, const struct json_node *root)
{
	const struct json_node *version = node_get(root, "version"), *checked = node_get(root, "checked");

	if (version) {
		if (!node_is(version, JSON_INT) || node_s64(version) < 0 || node_s64(version) > INT_MAX)
			return preset_error(r, "version", "must be a number from 0");
		r->e->version = (unsigned int)node_s64(version);
	}
	if (checked && !node_is(checked, JSON_ARRAY))
		return preset_error(r, "checked", "must be an array of strings");
	for (const struct json_node *v = NULL; checked && (v = json_next(checked, v));) {
		if (!node_is(v, JSON_STRING))
			return preset_error(r, "checked", "must be an array of strings");
	}
	return 0;
}

static int read_root(struct reader *r, const struct json_node *root)
{
	static const char *const known[] = { "name", "version", "checked", "advice", "match", "enums",
		"probes", NULL };
	const char *name, *advice = NULL;
	int err;

	if (!node_is(root, JSON_OBJECT)) {
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

/* Readers would take the last one of equal keys, which nobody has meant. */
static int check_duplicates(const struct reader *r, const struct json_nodes *nodes)
{
	const struct json_node *end = nodes->list + nodes->len, *again;
	char shown[SHOWN_MAX];

	for (const struct json_node *n = nodes->list; n < end; n++) {
		if (n->kind != JSON_DROPPED)
			continue;
		for (again = n + n->span; strcmp(again->key, n->key); again += again->span)
			;
		log_error("%s:%u: %s: is given twice", r->path, line_of(r, again->key), text_printable(shown, sizeof(shown), n->key));
		return -EINVAL;
	}
	return 0;
}

static int parse_text(struct reader *r, size_t len, struct json_nodes *nodes)
{
	struct json_scan scan;
	size_t used;
	int ret;

	r->parsed = strdup(r->text);
	if (!r->parsed)
		return -ENOMEM;
	json_scan_init_nodes(&scan, nodes);
	ret = json_scan_feed(&scan, (const unsigned char *)r->text, len, &used);
	if (!ret)
		ret = json_scan_end(&scan);
	if (ret > 0 && used + strspn(r->text + used, " \t\r\n") < len) {
		snprintf(scan.error, sizeof(scan.error), "more than one value");
		ret = -EBADMSG;
	}
	if (ret > 0)
		ret = json_nodes_finish(nodes, r->parsed);
	if (!ret || ret == -ENOMEM)
		return ret;
	log_error("%s:%u: %s", r->path, line_of(r, r->parsed + used),
		ret == -ENODATA ? "it ends before its value does" : ret == -ERANGE ? "a number is too large" : scan.error);
	return -EINVAL;
}

static int read_preset(struct reader *r)
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
	return read_root(r, r->root);
}

/* Checks what only some options would read even without them, so that whether a preset is valid does
 * not depend on options. */
static int check_detail(const struct reader *r)
{
	struct probe_table pt = { .op_detail = true, .nodes = true };
	struct reader all = *r;
	int err;

	all.pt = &pt;
	err = read_preset(&all);
	probe_table_free(&pt);
	return err;
}

int engine_load_file(struct probe_table *pt, const char *path)
{
	struct reader r = { .path = path, .pt = pt };
	struct json_nodes nodes = {};
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
	err = parse_text(&r, len, &nodes);
	r.root = r.part = nodes.list;
	if (!err)
		err = check_duplicates(&r, &nodes);
	if (!err && !(pt->op_detail && pt->nodes))
		err = check_detail(&r);
	if (!err)
		err = read_preset(&r);
	if (err == -ENOMEM)
		log_error("cannot read the preset %s: out of memory", path);
	json_nodes_free(&nodes);
	free(r.parsed);
	free(text);
	return err;
}
