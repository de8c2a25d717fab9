// SPDX-License-Identifier: BSD-2-Clause
/* Presets: from JSON to probe specifications, with errors that name file, line and key. */
#include "engine/engine.h"

#include <dirent.h>
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

#include "engine/python_steps.h"
#include "engine/rows.h"
#include "engine/spec.h"
#include "target/usdt.h"
#include "util/alloc.h"
#include "util/json.h"
#include "util/log.h"
#include "util/text.h"

/* Returns the first member whose key is not in `known`; NULL: none. */
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

#define PRESET_MAX (1 << 20) /* bytes; the largest of ours has a few thousand */
#define ENUM_NAMES_MAX 4096
#define NAME_BYTES 64     /* read of a node's name */
#define PIPE_WAIT_MS 5000 /* for each part of a preset that comes through a pipe */
#define SHOWN_MAX 80      /* bytes of a preset's own text in a message */

struct preset_reader {
	const char *path;
	const char *text; /* as it is in the file */
	char *parsed;     /* a copy that the nodes point into */
	const struct json_node *root;
	const struct json_node *part; /* what is being read */
	struct probe_table *pt;
	struct engine *e;
};

/* The line of a place in r->parsed, from 1. */
static unsigned int line_of(const struct preset_reader *r, const char *place)
{
	unsigned int line = 1;

	for (ptrdiff_t i = 0; i < place - r->parsed; i++)
		line += r->text[i] == '\n';
	return line;
}

/* The line of a key in r->part, or of its beginning if it has no such key. */
static unsigned int line_of_key(const struct preset_reader *r, const char *key)
{
	const struct json_node *part = r->part, *found = NULL;

	if (part == r->root)
		found = node_get(part, key);
	for (const struct json_node *n = part; part != r->root && !found && n < part + part->span; n++)
		found = n->key && !strcmp(n->key, key) ? n : NULL;
	return line_of(r, found ? found->key : part->key ? part->key
							 : part->text);
}

static int __attribute__((format(printf, 3, 4)))
preset_error(const struct preset_reader *r, const char *key, const char *fmt, ...)
{
	char shown[SHOWN_MAX], why[4 * SHOWN_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	return log_fail(-EINVAL, "%s:%u: %s: %s", r->path, line_of_key(r, key),
		text_printable(shown, sizeof(shown), key), why);
}

static size_t node_count_children(const struct json_node *container)
{
	size_t n = 0;

	json_for_each (child, container)
		n++;
	return n;
}

static int check_keys(const struct preset_reader *r, const struct json_node *obj, const char *const *known)
{
	const struct json_node *unknown = find_unknown(obj, known);

	return unknown ? preset_error(r, unknown->key, "unknown key") : 0;
}

static bool node_is_valid_text(const struct json_node *v, size_t max)
{
	return node_is(v, JSON_STRING) && strlen(v->text) == v->len && spec_text_ok(v->text, max);
}

/* Reads a string that is shown to people and written to traces. */
static int preset_get_string(
	const struct preset_reader *r, const struct json_node *obj, const char *key, bool required, const char **ret)
{
	const struct json_node *v;

	*ret = NULL;
	v = node_get(obj, key);
	if (!v)
		return required ? preset_error(r, key, "missing") : 0;
	if (!node_is(v, JSON_STRING))
		return preset_error(r, key, "must be a string");
	if (!node_is_valid_text(v, SPEC_STRING_MAX))
		return preset_error(
			r, key, "must have 1 to %d bytes, no control characters", SPEC_STRING_MAX);
	*ret = v->text;
	return 0;
}

/* "bytes" of an enumeration: the size of what each value stands for. */
static int read_sizes(const struct preset_reader *r, const char *name, const struct json_node *obj, struct enum_table *t)
{
	const struct json_node *sizes = node_get(obj, "bytes");
	bool fits = node_is(sizes, JSON_ARRAY) && !t->object && node_count_children(sizes) == t->n;
	size_t n = 0;

	if (!sizes)
		return 0;
	t->bytes = xcalloc(t->n, sizeof(*t->bytes));
	for (const struct json_node *v = NULL; fits && (v = json_next(sizes, v));) {
		fits = node_s64(v) >= 1 && node_s64(v) <= UINT8_MAX;
		t->bytes[n++] = (uint8_t)node_s64(v);
	}
	if (!fits)
		return preset_error(r, name,
			"\"bytes\" must have as many sizes, from 1 to 255, as there are names, and no table_symbol beside it");
	return 0;
}

static int read_enum(const struct preset_reader *r, const char *name, const struct json_node *obj, struct enum_table *t)
{
	static const char *const known[] = { "names", "table_symbol", "bytes", NULL };
	const struct json_node *names = node_get(obj, "names");
	const char *object;
	size_t i = 0;

	if (!node_is(obj, JSON_OBJECT))
		return preset_error(r, name, "must be an object");
	if (check_keys(r, obj, known) || preset_get_string(r, obj, "table_symbol", false, &object))
		return -EINVAL;
	if (!node_is(names, JSON_ARRAY))
		return preset_error(r, name, "needs an array \"names\"");
	t->n = node_count_children(names);
	if (t->n > ENUM_NAMES_MAX)
		return preset_error(r, name, "more than %d names", ENUM_NAMES_MAX);
	t->name = xstrdup(name);
	t->names = xcalloc(t->n, sizeof(*t->names));
	t->object = object ? xstrdup(object) : NULL;
	json_for_each (v, names) {
		if (!node_is_valid_text(v, SPEC_NAME_MAX))
			return preset_error(r, name,
				"name %zu must be a string of 1 to %d bytes, no control characters", i,
				SPEC_NAME_MAX);
		t->names[i++] = xstrdup(v->text);
	}
	return read_sizes(r, name, obj, t);
}

static int read_enums(struct preset_reader *r, const struct json_node *root)
{
	const struct json_node *enums = node_get(root, "enums");

	if (!enums)
		return 0;
	if (!node_is(enums, JSON_OBJECT))
		return preset_error(r, "enums", "must be an object");
	r->e->enums = xcalloc(node_count_children(enums), sizeof(*r->e->enums));
	json_for_each (v, enums) {
		if (read_enum(r, v->key, v, &r->e->enums[r->e->n_enums++]))
			return -EINVAL;
	}
	return 0;
}

static int read_match(struct preset_reader *r, const struct json_node *root)
{
	static const char *const known[] = { "mapped", NULL };
	const struct json_node *match = node_get(root, "match"), *mapped = node_get(match, "mapped");

	if (!node_is(match, JSON_OBJECT))
		return preset_error(r, "match", "missing or not an object");
	if (check_keys(r, match, known))
		return -EINVAL;
	if (!node_is(mapped, JSON_ARRAY) || !node_count_children(mapped))
		return preset_error(r, "mapped", "must be an array of globs");
	r->e->mapped = xcalloc(node_count_children(mapped), sizeof(*r->e->mapped));
	json_for_each (v, mapped) {
		if (!node_is_valid_text(v, SPEC_STRING_MAX))
			return preset_error(r, "mapped", "must be an array of globs");
		r->e->mapped[r->e->n_mapped++] = xstrdup(v->text);
	}
	return 0;
}

/* Returns key_arm64 on arm64 if the object has it, else key. */
static const char *arch_key(const struct json_node *obj, const char *key, const char *key_arm64)
{
#ifdef __aarch64__
	if (node_get(obj, key_arm64))
		return key_arm64;
#endif
	return key;
}

static int preset_read_args(struct preset_reader *r, const struct json_node *obj, const char *key, struct probe_spec *s)
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

static int read_check(struct preset_reader *r, const struct json_node *v, struct probe_spec *s)
{
	const char *why = "must be a condition, or an array of them";

	if (node_is_valid_text(v, SPEC_STRING_MAX) && !spec_add_check(s, v->text, &why))
		return 0;
	/* without --op-detail it may refer to an argument that is not read; check_detail() has checked it */
	return r->pt->op_detail ? preset_error(r, "check", "%s", why) : 0;
}

/* "check": one condition or an array of them. */
static int read_checks(struct preset_reader *r, const struct json_node *obj, struct probe_spec *s)
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

/* "group": a value that the threads that meet at a barrier have in common; it is not shown as an argument. */
static int read_group(struct preset_reader *r, const struct json_node *obj, struct probe_spec *s)
{
	const char *key = arch_key(obj, "group", "group_arm64"), *expr, *why;
	struct probe_arg arg = {};

	if (preset_get_string(r, obj, key, false, &expr))
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

/* Reads the members with the names of columns. */
static int read_columns(struct preset_reader *r, const struct json_node *obj, struct probe_spec *s,
	int (*add)(struct probe_spec *s, enum row_column column, const char *text, const char **ret_why))
{
	for (int i = 0; i < ROW_COLUMNS; i++) {
		const char *text, *why;

		if (preset_get_string(r, obj, row_column_keys[i], false, &text))
			return -EINVAL;
		if (text && add(s, (enum row_column)i, text, &why))
			return preset_error(r, row_column_keys[i], "%s", why);
	}
	return 0;
}

/* "rows": how many, the arrays with an element for each, and functions whose code shows where the columns are. */
static int read_rows(struct preset_reader *r, const struct json_node *obj, struct probe_spec *s)
{
	static const char *known[ROW_COLUMNS + 3] = { "count", "accessors" };
	const char *key = arch_key(obj, "rows", "rows_arm64"), *count, *why;
	const struct json_node *rows = node_get(obj, key), *accessors = node_get(rows, "accessors");

	if (!rows)
		return 0;
	if (!node_is(rows, JSON_OBJECT))
		return preset_error(r, key, "must be an object");
	if (s->role != ROLE_STEP || !(s->flags & PROBE_F_SPAN))
		return preset_error(r, key, "is for symbols with the role step");
	memcpy(known + 2, row_column_keys, sizeof(row_column_keys));
	if (check_keys(r, rows, known) || preset_get_string(r, rows, "count", true, &count))
		return -EINVAL;
	if (rows_begin(s, count, &why))
		return preset_error(r, key, "%s", why);
	if (read_columns(r, rows, s, rows_add_column))
		return -EINVAL;
	if (s->row[ROW_SEQUENCES].loads && !s->row[ROW_SEQUENCE].loads)
		return preset_error(r, "sequences", "counts what begins at \"sequence\", which is missing");
	rows_end(s);
	if (!accessors)
		return 0;
	if (!node_is(accessors, JSON_OBJECT))
		return preset_error(r, "accessors", "must be an object");
	return check_keys(r, accessors, known + 2) ?: read_columns(r, accessors, s, rows_add_accessor);
}

/* One entry of "probes", without its arguments. */
struct preset_entry {
	const char *library, *begin, *end, *role, *name, *declared, *unless, *when;
	bool usdt, instant, detail_only, nothrow, exits, past_early_return, graph_launch, outermost, stand_in, hidden;
};

static int read_entry(struct preset_reader *r, const struct json_node *obj, struct preset_entry *e)
{
	static const char *const known[] = { "library", "symbol", "begin", "end", "instant", "usdt", "role", "declared", "args",
		"args_arm64", "detail", "detail_arm64", "detail_only", "name", "names", "when", "check", "nothrow", "exits",
		"past_early_return", "graph_launch", "group", "group_arm64", "rows", "rows_arm64", "outermost", "node",
		"bytes", "stand_in", "unless", "python", "batch", NULL };
	const struct {
		const char *key;
		const char **to;
	} texts[] = { { "library", &e->library }, { "begin", &e->begin }, { "end", &e->end }, { "role", &e->role }, { "name", &e->name },
		{ "declared", &e->declared }, { "unless", &e->unless }, { "when", &e->when } };
	const struct {
		const char *key;
		bool *to;
	} flags[] = { { "detail_only", &e->detail_only }, { "nothrow", &e->nothrow }, { "exits", &e->exits },
		{ "past_early_return", &e->past_early_return }, { "graph_launch", &e->graph_launch }, { "stand_in", &e->stand_in },
		{ "outermost", &e->outermost } };
	bool symbol = node_get(obj, "symbol"), python = node_get(obj, "python");

	if (check_keys(r, obj, known))
		return -EINVAL;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (preset_get_string(r, obj, texts[i].key, texts[i].to == &e->role, texts[i].to))
			return -EINVAL;
	}
	e->instant = node_get(obj, "instant");
	e->usdt = node_get(obj, "usdt");
	if (symbol + python + !!e->begin + e->instant + e->usdt != 1 || !e->begin != !e->end)
		return preset_error(r, symbol ? "symbol" : "role",
			"give one of symbol, begin and end, instant, usdt, or python");
	e->instant |= e->usdt;
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		const struct json_node *v = node_get(obj, flags[i].key);

		if (v && !node_is_bool(v))
			return preset_error(r, flags[i].key, "must be true or false");
		*flags[i].to = node_is(v, JSON_TRUE);
	}
	return 0;
}

/* "names": which argument gives a handle its name. */
static int read_names(struct preset_reader *r, const struct json_node *obj, struct probe_spec *s)
{
	const struct json_node *names = node_get(obj, "names"), *name;
	const char *why = "must be {\"ARG\": \"$ARG\"}";

	if (!names)
		return 0;
	name = node_is(names, JSON_OBJECT) && node_count_children(names) == 1 ? json_next(names, NULL) : NULL;
	if (!node_is_valid_text(name, SPEC_STRING_MAX) || spec_set_names(s, name->key, name->text, &why))
		return preset_error(r, "names", "%s", why);
	return 0;
}

/* "bytes": how many bytes a call passes, "ARG * ARG", the second of an enum with sizes. */
static int read_bytes(struct preset_reader *r, const struct json_node *obj, struct probe_spec *s)
{
	const struct json_node *v = node_get(obj, "bytes");
	const char *rule = node_string(v) ?: "", *times = strstr(rule, " * ");
	int count = times ? spec_find_arg(s, rule, (size_t)(times - rule)) : -1;
	int type = times ? spec_find_arg(s, times + 3, strlen(times + 3)) : -1;

	if (!v)
		return 0;
	if (count < 0 || type < 0 || !s->args[type].names || !s->args[type].names->bytes || s->args[count].is_string ||
		s->args[count].is_float || s->args[count].is_row || s->args[count].names)
		return preset_error(r, "bytes", "must be \"ARG * ARG\", a number, and one of an enum with \"bytes\"");
	s->bytes_count = (uint8_t)(count + 1);
	s->bytes_type = (uint8_t)type;
	return 0;
}

/* A number of bytes in "node", at most `max`. */
static int node_number(const struct preset_reader *r, const struct json_node *obj, const char *key, int64_t max, uint16_t *ret)
{
	const struct json_node *v = node_get(obj, key);

	if (!node_is(v, JSON_INT))
		return preset_error(r, key, "must be a number of bytes");
	if (node_s64(v) < 0 || node_s64(v) > max)
		return preset_error(r, key, "lies outside of the node");
	*ret = (uint16_t)node_s64(v);
	return 0;
}

/* "ENUM *(arg1+OFFSET)" */
static int node_enum(const struct preset_reader *r, const struct json_node *obj, const char *key, uint16_t bytes, uint16_t *ret_at,
	const struct enum_table **ret_names)
{
	const char *text = node_string(node_get(obj, key)), *why = "must be \"ENUM *(arg1+OFFSET)\", a value in the node";
	const char *why_not = why;
	struct probe_arg arg = {};
	struct fetch f;

	if (!text || fetch_parse(text, r->e->enums, r->e->n_enums, false, &f, &arg, &why_not))
		return preset_error(r, key, "%s", why_not);
	if (!arg.names || f.derefs != 1 || f.reg != REG_ARG1 || f.size != 4 || f.off[0] < 0 || f.off[0] + 4 > bytes)
		return preset_error(r, key, "%s", why);
	*ret_at = (uint16_t)f.off[0];
	*ret_names = arg.names;
	return 0;
}

/*
 * "node": where the members of a node of the engine's graph are. The probe's first argument must be the address of a node; in
 * expressions arg1 is that address.
 */
static int read_node(struct preset_reader *r, const struct json_node *probe, struct probe_spec *s)
{
	static const char *const known[] = { "bytes", "sources", "n_sources", "view", "op", "type", "shape", "stride",
		"name", NULL };
	const struct json_node *obj = node_get(probe, "node");
	struct node_fields f = {};
	uint16_t n_sources = 0, bytes = 0;

	if (!obj)
		return 0;
	if (!(s->flags & PROBE_F_INSTANT) || !s->nargs || !s->args[0].is_pointer)
		return preset_error(r, "node", "is for an instant whose first argument is a ptr");
	if (!node_is(obj, JSON_OBJECT))
		return preset_error(r, "node", "must be an object");
	if (find_unknown(obj, known))
		return preset_error(r, "node", "has a key that is not known");
	if (node_number(r, obj, "bytes", NODE_BYTES_MAX, &bytes) || node_number(r, obj, "n_sources", NODES_MAX - 1, &n_sources) ||
		node_number(r, obj, "sources", bytes - (int)(n_sources * sizeof(uint64_t)), &f.layout.sources) ||
		node_number(r, obj, "view", bytes - (int)sizeof(uint64_t), &f.view) ||
		node_number(r, obj, "shape", bytes - (int)(4 * sizeof(int64_t)), &f.shape) ||
		node_number(r, obj, "stride", bytes - (int)(4 * sizeof(uint64_t)), &f.stride) ||
		node_number(r, obj, "name", bytes - NAME_BYTES, &f.name) || node_enum(r, obj, "op", bytes, &f.op, &f.ops) ||
		node_enum(r, obj, "type", bytes, &f.type, &f.types))
		return -EINVAL;
	f.layout.bytes = bytes;
	f.layout.n_sources = (uint8_t)n_sources;
	s->node = f;
	return 0;
}

static int add_end(struct preset_reader *r, const char *library, const char *symbol, enum probe_role role)
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
	if (role == ROLE_GC)
		s->role = role; /* the thread's state ends, too */
	s->flags |= PROBE_F_END;
	return 0;
}

static int add_probe(struct preset_reader *r, const struct json_node *obj, const struct preset_entry *e, const char *symbol)
{
	struct probe_spec *s = spec_find(r->pt, r->e, e->library, symbol);
	const char *why = NULL;
	char shown[SHOWN_MAX];

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
			e->usdt ? "usdt" : e->begin ? "begin"
				   : e->instant     ? "instant"
						    : "symbol",
			e->usdt ? "write PROVIDER:NAME" : "a USDT probe is usdt:PROVIDER:NAME");
	if (s->is_usdt && !e->begin && !e->instant)
		return preset_error(r, "symbol", "a USDT probe has no return: use usdt, or begin and end");
	s->engine = r->e;
	s->flags |= e->begin ? PROBE_F_BEGIN : e->instant ? PROBE_F_INSTANT
							  : PROBE_F_SPAN;
	if (e->graph_launch)
		s->flags |= PROBE_F_GRAPH;
	s->past_early_return = e->past_early_return && !r->pt->op_detail;
	if (spec_set_role(s, e->role))
		return preset_error(r, "role", "%s is not a role",
			text_printable(shown, sizeof(shown), e->role));
	if (e->usdt && spec_needs_end(s))
		return preset_error(r, "role", "a USDT probe is an instant: no step, barrier, gpu_wait or gc");
	if (e->exits && (!(s->flags & PROBE_F_SPAN) || spec_needs_end(s)))
		return preset_error(r, "exits", "is for symbols that are no step, barrier, gpu_wait or gc");
	s->exits = e->exits;
	if (e->outermost && !(s->flags & PROBE_F_SPAN))
		return preset_error(r, "outermost", "is for symbols");
	s->outermost = e->outermost;
	if (e->stand_in && s->role != ROLE_STEP)
		return preset_error(r, "stand_in", "is for the role step");
	s->stand_in = e->stand_in;
	*(e->stand_in ? &r->e->has_stand_in : &r->e->has_step) |= s->role == ROLE_STEP;
	if (preset_read_args(r, obj, arch_key(obj, "args", "args_arm64"), s) || read_rows(r, obj, s))
		return -EINVAL;
	if (e->name && spec_set_name(s, e->name, &why))
		return preset_error(
			r, "name", "%s: %s", text_printable(shown, sizeof(shown), e->name), why);
	if (e->declared && (s->role != ROLE_OP || s->name_part < 0))
		return preset_error(r, "declared", "is for operators with a part of a C++ name as their \"name\"");
	if (e->declared && r->pt->declared)
		s->declared = xstrdup(e->declared);
	if (e->unless && (s->is_glob || s->is_usdt || !(s->flags & PROBE_F_SPAN)))
		return preset_error(r, "unless", "is for a symbol that is no glob");
	if (e->unless && (strncmp(e->unless, SPEC_USDT, strlen(SPEC_USDT)) || !spec_usdt_ok(e->unless)))
		return preset_error(r, "unless", "must be usdt:PROVIDER:NAME");
	if (e->unless)
		s->unless = xstrdup(e->unless);
	if (e->when && spec_set_when(s, e->when, &why))
		return preset_error(
			r, "when", "%s: %s", text_printable(shown, sizeof(shown), e->when), why);
	if (r->pt->op_detail && preset_read_args(r, obj, arch_key(obj, "detail", "detail_arm64"), s))
		return -EINVAL;
	if (s->exits && s->flags & PROBE_F_LATE)
		return preset_error(r, "exits", "what is known at the return only cannot be read on the way out");
	if (read_checks(r, obj, s) || read_group(r, obj, s) || read_names(r, obj, s) || read_bytes(r, obj, s) || read_node(r, obj, s))
		return -EINVAL;
	s->hidden = e->hidden;
	return e->end ? add_end(r, e->library, e->end, s->role) : 0;
}

static int probe_add_named(struct preset_reader *r, const struct json_node *obj, const struct preset_entry *e, const char *name)
{
	char symbol[SPEC_STRING_MAX + sizeof(SPEC_USDT)];

	if (e->usdt && strlen(name) > USDT_NAME_MAX)
		return preset_error(r, "usdt", "must have 1 to %d bytes", USDT_NAME_MAX);
	snprintf(symbol, sizeof(symbol), "%s%s", e->usdt ? SPEC_USDT : "", name);
	return add_probe(r, obj, e, symbol);
}

/* "arg1": the first argument behind self; 0: none of these. */
static uint8_t parse_local(const char *text)
{
	return !strncmp(text, "arg", 3) && text[3] >= '1' && text[3] <= '9' && !text[4] ? (uint8_t)(text[3] - '0') : 0;
}

/* Reads an argument of the function with this key, which must be there if the function is. */
static int read_local(struct preset_reader *r, const struct json_node *batch, const char *key, bool needed, uint8_t *ret_local)
{
	const char *text;

	if (preset_get_string(r, batch, key, needed, &text))
		return -EINVAL;
	*ret_local = text ? parse_local(text) : 0;
	return text && !*ret_local ? preset_error(r, key, "must be one of arg1 to arg9") : 0;
}

/* "scheduler": what it says of itself, in the function with the batch. */
static int read_scheduler(struct preset_reader *r, const struct json_node *batch)
{
	const struct json_node *obj = node_get(batch, "scheduler");
	const char *expr[SCHEDULER_VALUES], *why, *known[SCHEDULER_VALUES + 1] = {};

	if (!obj)
		return 0;
	if (!node_is(obj, JSON_OBJECT))
		return preset_error(r, "scheduler", "must be an object");
	memcpy(known, scheduler_keys, sizeof(scheduler_keys));
	if (check_keys(r, obj, known))
		return -EINVAL;
	for (int i = 0; i < SCHEDULER_VALUES; i++) {
		if (preset_get_string(r, obj, scheduler_keys[i], false, &expr[i]))
			return -EINVAL;
	}
	if (probe_table_python_scheduler(r->pt, expr, &why))
		return preset_error(r, "scheduler", "%s", why);
	return 0;
}

/* "batch": where a step that is a Python function has its requests. */
static int read_batch(struct preset_reader *r, const struct json_node *obj)
{
	static const char *const members[PYTHON_MEMBERS] = {
		[PYTHON_TOKENS] = "tokens",
		[PYTHON_TOTAL] = "total",
		[PYTHON_NEW] = "new",
		[PYTHON_NEW_ID] = "id",
		[PYTHON_NEW_CACHED] = "cached",
		[PYTHON_FINISHED] = "finished",
		[PYTHON_OUTPUTS] = "outputs",
		[PYTHON_OUTPUT_INDEX] = "index",
		[PYTHON_ARRIVED] = "arrival_id",
		[PYTHON_SENT] = "sent_id",
		[PYTHON_ALIVE] = "alive",
		[PYTHON_KNOWN] = "known",
		[PYTHON_KNOWN_IDS] = "known_ids",
		[PYTHON_RESUMED] = "resumed",
		[PYTHON_RESUMED_TOO] = "resumed_too",
		[PYTHON_REQUESTS] = "requests",
		[PYTHON_SAME] = "same",
		[PYTHON_LENGTHS] = "lengths",
		[PYTHON_POSITIONS] = "positions",
		[PYTHON_MODE] = "mode",
		[PYTHON_OVER] = "over",
		[PYTHON_GIVEN] = "given",
	};
	static const char *known[PYTHON_MEMBERS + 12] = { "function", "object", "outputs_object", "arrival", "arrival_object", "sent",
		"sent_object", "results", "results_object", "decodes", "scheduler" };
	const struct json_node *batch = node_get(obj, "batch"), *decodes;
	struct python_batch_functions f;
	const char *text[PYTHON_MEMBERS], *why;
	struct python_batch b = {};

	if (!batch)
		return 0;
	if (!node_is(batch, JSON_OBJECT))
		return preset_error(r, "batch", "must be an object");
	memcpy(known + 11, members, sizeof(members));
	decodes = node_get(batch, "decodes");
	if (check_keys(r, batch, known) || preset_get_string(r, batch, "results", false, &f.results) ||
		preset_get_string(r, batch, "function", !f.results, &f.batch) ||
		preset_get_string(r, batch, "arrival", false, &f.arrival) || preset_get_string(r, batch, "sent", false, &f.sent) ||
		read_local(r, batch, "object", true, &b.batch) ||
		read_local(r, batch, "outputs_object", false, &b.outputs) ||
		read_local(r, batch, "results_object", f.results, &b.results) ||
		read_local(r, batch, "arrival_object", f.arrival, &b.arrival) || read_local(r, batch, "sent_object", f.sent, &b.sent))
		return -EINVAL;
	if (decodes && (!node_is(decodes, JSON_INT) || node_s64(decodes) < 0 || node_s64(decodes) > UINT8_MAX))
		return preset_error(r, "decodes", "must be a number from 0 to %d", UINT8_MAX);
	b.decodes = decodes ? (uint8_t)node_s64(decodes) : 0;
	for (int i = 0; i < PYTHON_MEMBERS; i++) {
		bool needed = i == PYTHON_TOTAL || (f.results ? i == PYTHON_REQUESTS || i == PYTHON_NEW_ID || i == PYTHON_LENGTHS || i == PYTHON_SAME ||
				i == PYTHON_MODE || i == PYTHON_OVER || i == PYTHON_GIVEN : i == PYTHON_TOKENS);

		if (preset_get_string(r, batch, members[i], needed, &text[i]))
			return -EINVAL;
		if (text[i] && i != PYTHON_TOTAL && i != PYTHON_NEW_ID && i != PYTHON_ARRIVED && i != PYTHON_SENT && (i >= PYTHON_REQUESTS) != !!f.results)
			return preset_error(r, members[i], "%s", f.results ? "does not go with results" : "goes with results only");
	}
	if (probe_table_python_batch(r->pt, &f, &b, text, &why))
		return preset_error(r, "batch", "%s", why);
	return read_scheduler(r, batch);
}

/* "python": functions each of whose calls is a step. */
static int read_python(struct preset_reader *r, const struct json_node *obj, const struct preset_entry *e)
{
	static const char *const known[] = { "python", "role", "name", "batch", NULL };
	const struct json_node *v = node_get(obj, "python");
	const char *why = "must be a name or an array of names";
	char names[PYTHON_NAMES_MAX * 2 * PYTHON_TEXT_MAX] = "";
	struct probe_spec *s;
	size_t len = 0;

	if (find_unknown(obj, known))
		return preset_error(r, "python", "goes with role, name and batch only");
	if (strcmp(e->role, "step"))
		return preset_error(r, "role", "a Python function is a step");
	if (node_is(v, JSON_ARRAY)) {
		json_for_each (name, v) {
			const char *text = node_is_valid_text(name, SPEC_STRING_MAX) ? name->text : "";

			if (len < sizeof(names))
				len += (size_t)snprintf(names + len, sizeof(names) - len, "%s%s", len ? "|" : "", text);
		}
	} else {
		snprintf(names, sizeof(names), "%s", node_string(v) ?: "");
	}
	if (len >= sizeof(names))
		return preset_error(r, "python", "there are too many names");
	s = probe_table_engine_python(r->pt, r->e, names, &why);
	if (!s)
		return preset_error(r, "python", "%s", why);
	if (e->name && spec_set_name(s, e->name, &why))
		return preset_error(r, "name", "%s", why);
	return read_batch(r, obj);
}

/* "symbol", "instant" and "usdt" may be arrays: functions that take the same arguments. */
static int read_probe(struct preset_reader *r, const struct json_node *obj)
{
	const struct json_node *v;
	struct preset_entry e = {};
	const char *symbol, *key;
	int err = 0;

	if (!node_is(obj, JSON_OBJECT))
		return preset_error(r, "probes", "each must be an object");
	if (read_entry(r, obj, &e))
		return -EINVAL;
	/* names of handles are needed even without --op-detail */
	e.hidden = e.detail_only && !r->pt->op_detail;
	if (node_get(obj, "node") && !r->pt->nodes)
		return 0;
	if (e.hidden && !node_get(obj, "names"))
		return 0;
	if (node_get(obj, "python"))
		return read_python(r, obj, &e);
	if (node_get(obj, "batch"))
		return preset_error(r, "batch", "goes with python only");
	if (e.begin)
		return add_probe(r, obj, &e, e.begin);
	key = e.usdt ? "usdt" : e.instant ? "instant"
					  : "symbol";
	v = node_get(obj, key);
	if (!node_is(v, JSON_ARRAY))
		return preset_get_string(r, obj, key, true, &symbol) ?: probe_add_named(r, obj, &e, symbol);
	if (!node_count_children(v))
		return preset_error(r, key, "must be a name or an array of names");
	for (const struct json_node *name = NULL; !err && (name = json_next(v, name));) {
		if (!node_is_valid_text(name, SPEC_STRING_MAX))
			return preset_error(r, key, "must be a name or an array of names");
		err = probe_add_named(r, obj, &e, name->text);
	}
	return err;
}

static int read_probes(struct preset_reader *r, const struct json_node *root)
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
static int preset_read_versions(struct preset_reader *r, const struct json_node *root)
{
	const struct json_node *version = node_get(root, "version"), *checked = node_get(root, "checked");
	bool bad = checked && !node_is(checked, JSON_ARRAY);

	if (version) {
		if (!node_is(version, JSON_INT) || node_s64(version) < 0 || node_s64(version) > INT_MAX)
			return preset_error(r, "version", "must be a number from 0");
		r->e->version = (unsigned int)node_s64(version);
	}
	for (const struct json_node *v = NULL; node_is(checked, JSON_ARRAY) && (v = json_next(checked, v));)
		bad |= !node_is(v, JSON_STRING);
	return bad ? preset_error(r, "checked", "must be an array of strings") : 0;
}

static int read_root(struct preset_reader *r, const struct json_node *root)
{
	static const char *const known[] = { "name", "version", "checked", "advice", "runtime", "match", "enums",
		"probes", NULL };
	const struct json_node *runtime = node_get(root, "runtime");
	const char *name, *advice;

	if (!node_is(root, JSON_OBJECT))
		return log_fail(-EINVAL, "%s:1: a preset is a JSON object", r->path);
	if (check_keys(r, root, known) || preset_get_string(r, root, "name", true, &name) || preset_get_string(r, root, "advice", false, &advice))
		return -EINVAL;
	r->e->name = xstrdup(name);
	r->e->advice = advice ? xstrdup(advice) : NULL;
	if (runtime && !node_is_bool(runtime))
		return preset_error(r, "runtime", "must be true or false");
	r->e->runtime = node_is(runtime, JSON_TRUE);
	if (preset_read_versions(r, root))
		return -EINVAL;
	/* errors are about the member that is being read */
	r->part = node_get(root, "match") ?: root;
	if (read_match(r, root))
		return -EINVAL;
	r->part = node_get(root, "enums") ?: root;
	return read_enums(r, root) ?: read_probes(r, root);
}

/* Waits for text or the end. -ETIMEDOUT: a pipe that nobody writes to. */
static int wait_for_text(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int n = poll(&p, 1, PIPE_WAIT_MS);

	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	return n ? 0 : -ETIMEDOUT;
}

/* Reads a regular file, or a pipe: --engine <(COMMAND) is handy. The caller frees the text. */
static int preset_read_file(const char *path, char **ret_text, size_t *ret_len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), err = 0;
	size_t len = 0;
	struct stat st;
	char *text;
	ssize_t n;

	if (fd < 0)
		return -errno;
	text = xmalloc(PRESET_MAX + 1);
	if (fstat(fd, &st))
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

/* Refuses equal keys in one object: only the last would count, which nobody means. */
static int check_duplicates(const struct preset_reader *r, const struct json_nodes *nodes)
{
	const struct json_node *end = nodes->list + nodes->len, *again;
	char shown[SHOWN_MAX];

	for (const struct json_node *n = nodes->list; n < end; n++) {
		if (n->kind != JSON_DROPPED)
			continue;
		for (again = n + n->span; strcmp(again->key, n->key); again += again->span)
			;
		return log_fail(-EINVAL, "%s:%u: %s: is given twice", r->path, line_of(r, again->key), text_printable(shown, sizeof(shown), n->key));
	}
	return 0;
}

static int parse_text(struct preset_reader *r, size_t len, struct json_nodes *nodes)
{
	struct json_scan scan;
	size_t used;
	int ret;

	r->parsed = xstrdup(r->text);
	json_scan_init(&scan, nodes);
	ret = json_scan_feed(&scan, (const unsigned char *)r->text, len, &used);
	if (!ret)
		ret = json_scan_end(&scan);
	if (ret > 0 && used + strspn(r->text + used, " \t\r\n") < len) {
		snprintf(scan.error, sizeof(scan.error), "more than one value");
		ret = -EBADMSG;
	}
	if (ret > 0)
		ret = json_nodes_finish(nodes, r->parsed);
	if (!ret)
		return 0;
	return log_fail(-EINVAL, "%s:%u: %s", r->path, line_of(r, r->parsed + used),
		ret == -ENODATA ? "it ends before its value does" : ret == -ERANGE ? "a number is too large"
										   : scan.error);
}

static int read_preset(struct preset_reader *r)
{
	struct probe_table *pt = r->pt;

	pt->engines = xreallocarray(pt->engines, pt->n_engines + 1, sizeof(*pt->engines));
	r->e = pt->engines[pt->n_engines++] = xcalloc(1, sizeof(*r->e));
	r->e->number = (unsigned int)pt->n_engines;
	return read_root(r, r->root);
}

/* Checks the parts that only some options read, so that options do not decide whether a preset is valid. */
static int check_detail(const struct preset_reader *r)
{
	struct probe_table pt = { .op_detail = true, .nodes = true };
	struct preset_reader all = *r;
	int err;

	all.pt = &pt;
	err = read_preset(&all);
	probe_table_free(&pt);
	return err;
}

int engine_load_file(struct probe_table *pt, const char *path)
{
	struct preset_reader r = { .path = path, .pt = pt };
	struct json_nodes nodes = {};
	char *text = NULL;
	size_t len = 0;
	int err;

	err = preset_read_file(path, &text, &len);
	if (err == -EISDIR || err == -ESPIPE || err == -ETIMEDOUT)
		return log_fail(-EINVAL, "--engine: %s is %s: give a preset's file, or its name", path,
			err == -EISDIR   ? "a directory"
			: err == -ESPIPE ? "not a regular file"
					 : "a pipe that nobody writes to");
	if (err)
		return log_fail(err, "cannot read the preset %s: %s", path, strerror(-err));
	r.text = text;
	err = parse_text(&r, len, &nodes);
	r.root = r.part = nodes.list;
	if (!err)
		err = check_duplicates(&r, &nodes);
	if (!err && !(pt->op_detail && pt->nodes))
		err = check_detail(&r);
	if (!err)
		err = read_preset(&r);
	json_nodes_free(&nodes);
	free(r.parsed);
	free(text);
	return err;
}

/* The directory of installed presets: beside the binary in a build tree, else where make install puts them. */
static int engines_dir(char *buf, size_t size)
{
	const char *env = getenv("INFTRACE_ENGINES");
	char exe[PATH_MAX];
	struct stat st;
	ssize_t n;

	if (env) {
		snprintf(buf, size, "%s", env);
		return 0;
	}
	n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	if (n > 0) {
		exe[n] = 0;
		*strrchr(exe, '/') = 0;
		if (snprintf(buf, size, "%s/../engines", exe) < (int)size && !stat(buf, &st))
			return 0;
		if (snprintf(buf, size, "%s/../share/inftrace/engines", exe) < (int)size && !stat(buf, &st))
			return 0;
	}
	snprintf(buf, size, "%s", ENGINES_DIR);
	return stat(buf, &st) ? -ENOENT : 0;
}

int engine_load(struct probe_table *pt, const char *name)
{
	char dir[PATH_MAX + 32], path[PATH_MAX + 300];
	size_t len = strlen(name);

	if (strchr(name, '/') || (len > 5 && !strcmp(name + len - 5, ".json")))
		return engine_load_file(pt, name);
	if (engines_dir(dir, sizeof(dir)) ||
		snprintf(path, sizeof(path), "%s/%s.json", dir, name) >= (int)sizeof(path) ||
		access(path, R_OK))
		return log_fail(-EINVAL, "--engine: no preset named %.80s in %s; inftrace engines lists them; or give its file, or none", name,
			dir);
	return engine_load_file(pt, path);
}

bool engine_is_named(const struct probe_table *pt, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++) {
		if (!strcmp(pt->engines[i]->name, name))
			return true;
	}
	return false;
}

static int is_preset(const struct dirent *d)
{
	size_t len = strlen(d->d_name);

	return d->d_name[0] != '.' && len > 5 && !strcmp(d->d_name + len - 5, ".json");
}

int engine_load_all(struct probe_table *pt)
{
	char dir[PATH_MAX + 32], path[PATH_MAX + 300];
	size_t given = pt->n_engines;
	struct dirent **list;
	int n, err = 0;

	if (engines_dir(dir, sizeof(dir))) {
		log_warn("no presets in %s: no engine is detected (set INFTRACE_ENGINES)", dir);
		return 0;
	}
	n = scandir(dir, &list, is_preset, alphasort);
	if (n < 0)
		log_warn("cannot read the presets in %s: %s; no engine is detected", dir, strerror(errno));
	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, list[i]->d_name);
		*strrchr(list[i]->d_name, '.') = '\0';
		if (!err && !engine_is_named(pt, given, list[i]->d_name))
			err = engine_load_file(pt, path);
		free(list[i]);
	}
	if (n >= 0)
		free(list);
	return err;
}
