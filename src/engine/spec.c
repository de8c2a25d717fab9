// SPDX-License-Identifier: BSD-2-Clause
#include "engine/spec.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/rows.h"
#include "target/elf.h"
#include "util/list.h"
#include "util/log.h"
#include "util/map.h"
#include "util/parse.h"
#include "util/text.h"

/* ---- conditions ---- */

/*
 * Parses "ARG == VALUE" (or !=, <, >): an argument that the probe already has, and a number or a
 * name of its enum. The caller frees ret_cond->name. -EINVAL with the reason in ret_why.
 */
static int cond_parse(const struct probe_spec *s, const char *text, struct probe_cond *ret_cond,
	const char **ret_why)
{
	static const struct {
		const char *text;
		enum probe_when op;
	} ops[] = { { "==", WHEN_EQ }, { "!=", WHEN_NE }, { "<", WHEN_LT }, { ">", WHEN_GT } };
	char arg[64], op[3], value[64], *num_end;
	struct probe_cond c = {};
	int end = 0, i;

	*ret_why = "write: arg == value (or !=, <, >)";
	text += strspn(text, " \t");
	if (sscanf(text, "%63[a-zA-Z0-9_] %2[=!<>] %63[a-zA-Z0-9_-]%n", arg, op, value, &end) !=
			3 ||
		text[end])
		return -EINVAL;
	for (size_t k = 0; k < sizeof(ops) / sizeof(ops[0]); k++) {
		if (!strcmp(ops[k].text, op))
			c.op = ops[k].op;
	}
	if (!c.op)
		return -EINVAL;
	i = spec_find_arg(s, arg, strlen(arg));
	if (i < 0) {
		*ret_why = "no such argument";
		return -EINVAL;
	}
	if (s->args[i].is_float) {
		*ret_why = "an f32 or f64 cannot be compared";
		return -EINVAL;
	}
	c.arg = (unsigned int)i;
	errno = 0;
	c.than = strtoll(value, &num_end, 0);
	if (*num_end || errno) {
		int other = s->args[i].names ? -1 : spec_find_arg(s, value, strlen(value));

		if (other >= 0 && !s->args[other].is_float && !s->args[other].is_string) {
			c.other = (unsigned int)other + 1;
			*ret_cond = c;
			return 0;
		}
		if (!s->args[i].names) {
			*ret_why = "the value is neither a number nor an argument that is a number";
			return -EINVAL;
		}
		c.name = xstrdup(value);
	}
	*ret_cond = c;
	return 0;
}

/* What the argument is compared with. -ENOENT: a name that the enum currently lacks. */
static int cond_value(const struct probe_spec *s, const struct probe_cond *c, int64_t *ret_value)
{
	const struct enum_table *t = s->args[c->arg].names;

	if (!c->name) {
		*ret_value = c->than;
		return 0;
	}
	for (size_t i = 0; i < t->n; i++) {
		if (t->names[i] && !strcmp(t->names[i], c->name)) {
			*ret_value = (int64_t)i;
			return 0;
		}
	}
	return -ENOENT;
}

bool cond_holds(const struct probe_spec *s, const struct probe_cond *c, const uint64_t *vals)
{
	int64_t v, than;

	if (c->op == WHEN_ALWAYS)
		return true;
	if (c->other)
		than = (int64_t)vals[c->other - 1];
	else if (cond_value(s, c, &than))
		return c->op == WHEN_NE; /* a value that this release does not have equals nothing */
	v = (int64_t)vals[c->arg];
	return c->op == WHEN_EQ ? v == than : c->op == WHEN_NE ? v != than
				      : c->op == WHEN_LT       ? v < than
							       : v > than;
}

/* Names of spans that depend on their arguments: "n == 1 ? decode : n == 0 ? empty : prefill". */
#define NAME_CHARS "a-zA-Z0-9_.-"

/* Parses "COND ? NAME :" at the start of *rule, and moves *rule past it. */
static int parse_case(struct probe_spec *s, const char **rule, const char **ret_why)
{
	struct name_case *c = &s->name_cases[s->n_name_cases];
	size_t len = strcspn(*rule, "?");
	char cond[200], name[64];
	int end = 0;

	if (s->n_name_cases == NAME_CASES_MAX) {
		*ret_why = "more than eight conditions";
		return -EINVAL;
	}
	if (len >= sizeof(cond) || sscanf(*rule + len, "? %63[" NAME_CHARS "] :%n", name, &end) != 1 || !end) {
		*ret_why = "write: arg == value ? name : name";
		return -EINVAL;
	}
	while (len && (*rule)[len - 1] == ' ')
		len--;
	snprintf(cond, sizeof(cond), "%.*s", (int)len, *rule);
	if (cond_parse(s, cond, &c->cond, ret_why))
		return -EINVAL;
	*rule += strcspn(*rule, "?") + (size_t)end;
	c->name = xstrdup(name);
	s->n_name_cases++;
	return 0;
}

/* Sets the rule of a specification that has none. -EINVAL with the reason in ret_why; what has been set by then is
 * freed with the specification. */
static int name_rule_parse(struct probe_spec *s, const char *rule, const char **ret_why)
{
	char name[64];
	int end = 0;

	while (strchr(rule, '?')) {
		if (parse_case(s, &rule, ret_why))
			return -EINVAL;
	}
	if (sscanf(rule, " %63[" NAME_CHARS "] %n", name, &end) != 1 || rule[end]) {
		*ret_why = "write: arg == value ? name : name";
		return -EINVAL;
	}
	s->span_name = xstrdup(name);
	return 0;
}

static const char *const role_names[ROLE_MAX] = {
	[ROLE_OTHER] = "other",
	[ROLE_STEP] = "step",
	[ROLE_GRAPH] = "graph",
	[ROLE_OP] = "op",
	[ROLE_SAMPLE] = "sample",
	[ROLE_BARRIER] = "barrier",
	[ROLE_GPU_WAIT] = "gpu_wait",
	[ROLE_LAUNCH] = "launch",
	[ROLE_TRANSFER] = "transfer",
	[ROLE_REQUEST] = "request",
	[ROLE_CAPTURE] = "capture",
	[ROLE_CAPTURE_END] = "capture_end",
	[ROLE_SEQUENCE] = "sequence",
	[ROLE_GC] = "gc",
};

const char *probe_role_name(enum probe_role role)
{
	return role < ROLE_MAX ? role_names[role] : "other";
}

const char *python_option(enum probe_role role)
{
	return role == ROLE_STEP ? "--py-step" : "--py-span";
}

static char *copy_string(const char *s)
{
	return s ? xstrdup(s) : NULL;
}

struct probe_spec *spec_append(struct probe_table *pt, const char *library, const char *symbol)
{
	struct probe_spec *s;

	if (pt->n >= SPECS_MAX)
		return NULL;
	s = list_push(pt->specs, pt->n, pt->cap);
	*s = (struct probe_spec){ .name_arg = -1, .name_part = -1, .handle_arg = -1 };
	s->library = copy_string(library);
	s->symbol = xstrdup(symbol);
	s->is_usdt = !strncmp(symbol, SPEC_USDT, strlen(SPEC_USDT));
	s->is_glob = strpbrk(symbol, "*?[") && !elf_is_path(symbol);
	return s;
}

struct probe_spec *spec_find(
	struct probe_table *pt, const struct engine *e, const char *library, const char *symbol)
{
	for (size_t i = 0; i < pt->n; i++) {
		struct probe_spec *s = &pt->specs[i];

		if (s->engine == e && !strcmp(s->symbol, symbol) && !s->library == !library &&
			(!library || !strcmp(s->library, library)))
			return s;
	}
	return NULL;
}

bool spec_text_ok(const char *text, size_t max)
{
	size_t len = strlen(text);

	for (const char *p = text; *p; p++) {
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			return false;
	}
	return len && len <= max;
}

bool spec_usdt_ok(const char *symbol)
{
	size_t prefix = strlen(SPEC_USDT);
	const char *name;

	if (strncmp(symbol, SPEC_USDT, prefix))
		return true;
	name = strchr(symbol + prefix, ':');
	return name && name > symbol + prefix && name[1] && !strchr(name + 1, ':');
}

int spec_set_role(struct probe_spec *s, const char *role)
{
	for (int i = 0; i < ROLE_MAX; i++) {
		if (!strcmp(role_names[i], role)) {
			s->role = (enum probe_role)i;
			return 0;
		}
	}
	return -EINVAL;
}

bool spec_needs_end(const struct probe_spec *s)
{
	return s->role == ROLE_STEP || s->role == ROLE_BARRIER || s->role == ROLE_GPU_WAIT || s->role == ROLE_GC;
}

int spec_find_arg(const struct probe_spec *s, const char *name, size_t len)
{
	for (unsigned int i = 0; i < s->nargs; i++) {
		if (strlen(s->args[i].name) == len && !strncmp(s->args[i].name, name, len))
			return (int)i;
	}
	return -1;
}

/* "text", "$arg", "$partN", or conditions */
int spec_set_name(struct probe_spec *s, const char *rule, const char **ret_why)
{
	if (!strncmp(rule, "$part", 5)) {
		uint32_t part;

		if (parse_u32(rule + 5, &part) || part > 15) {
			*ret_why = "write $part0 to $part15";
			return -EINVAL;
		}
		s->name_part = (int)part;
		return 0;
	}
	if (rule[0] == '$') {
		s->name_arg = spec_find_arg(s, rule + 1, strlen(rule + 1));
		*ret_why = "no such argument";
		return s->name_arg < 0 ? -EINVAL : 0;
	}
	if (strchr(rule, '?'))
		return name_rule_parse(s, rule, ret_why);
	s->span_name = xstrdup(rule);
	return 0;
}

int spec_set_when(struct probe_spec *s, const char *rule, const char **ret_why)
{
	if (cond_parse(s, rule, &s->when, ret_why))
		return -EINVAL;
	*ret_why = "not known before the function returns";
	if (s->fetch[s->when.arg].flags & FETCH_F_LATE)
		return -EINVAL;
	*ret_why = "only an argument that is read, and a number or a name of its enum, can be compared here";
	return s->when.other || s->args[s->when.arg].is_row ? -EINVAL : 0;
}

int spec_set_names(struct probe_spec *s, const char *handle, const char *name, const char **ret_why)
{
	int h = spec_find_arg(s, handle, strlen(handle));
	int n = name[0] == '$' ? spec_find_arg(s, name + 1, strlen(name + 1)) : -1;

	*ret_why = "write: {\"ARG\": \"$ARG\"}, the second a str";
	if (h < 0 || n < 0 || s->args[h].is_string || !s->args[n].is_string)
		return -EINVAL;
	s->handle_arg = h;
	s->handle_name = n;
	return 0;
}

int spec_add_check(struct probe_spec *s, const char *rule, const char **ret_why)
{
	int err;

	if (s->n_checks == SPEC_CHECKS_MAX) {
		*ret_why = "more than four checks";
		return -EINVAL;
	}
	err = cond_parse(s, rule, &s->checks[s->n_checks], ret_why);
	s->n_checks += !err;
	return err;
}

/* Names that the sinks write beside the arguments. */
#define RESERVED                                                                                                          \
	" began_before breakdown_us call faults_minor faults_major lost lost_records migrations phase pid step switches " \
	"switches_voluntary syscalls thread tid ts_us unfinished watched workers"

static bool is_reserved(const char *name)
{
	char word[SPEC_NAME_MAX + 3];

	snprintf(word, sizeof(word), " %s ", name);
	return !strchr(name, ' ') && strstr(RESERVED " ", word);
}

/* What a function returns, and what it stores where an argument points, is known only when it returns. */
static int set_late(struct probe_spec *s, struct fetch *f, const char **ret_why)
{
	bool returned = f->flags & FETCH_F_RETURN;

	*ret_why = "\"at return\" is for numbers that are loaded, in functions that return and are not steps";
	if (returned)
		*ret_why = "\"ret\" is for functions that return and are not steps";
	if ((!returned && (!f->derefs || f->flags & FETCH_F_STRING)) || !(s->flags & PROBE_F_SPAN) || s->role == ROLE_STEP)
		return -EINVAL;
	f->flags |= FETCH_F_LATE;
	s->flags |= PROBE_F_LATE;
	return 0;
}

/* "TYPE SOURCE", "TYPE SOURCE at return", "TYPE SOURCE if CONDITION" */
static int spec_parse_arg(struct probe_spec *s, const char *expr, const struct enum_table *enums, size_t n_enums,
	const char **ret_why)
{
	struct probe_arg *arg = &s->args[s->nargs];
	const char *cond = strstr(expr, " if "), *late = strstr(expr, " at return");
	size_t len = late && !late[strlen(" at return")] ? (size_t)(late - expr) : cond ? (size_t)(cond - expr)
											: strlen(expr);
	char *source = xstrndup(expr, len);
	struct fetch *f = &s->fetch[s->nargs];
	int err;

	err = fetch_parse(source, enums, n_enums, s->is_usdt, f, arg, ret_why);
	if (!err && (f->flags & FETCH_F_RETURN || (late && late == expr + len)))
		err = set_late(s, f, ret_why);
	else if (!err && cond)
		err = cond_parse(s, cond + 4, &arg->only_if, ret_why);
	free(source);
	return err;
}

int spec_name_arg(const struct probe_spec *s, const char *name, const char **ret_why)
{
	*ret_why = "more than ten arguments";
	if (s->nargs >= FUNC_VALS_MAX)
		return -EINVAL;
	*ret_why = "an argument's name has 1 to 63 bytes, no control characters";
	if (!spec_text_ok(name, SPEC_NAME_MAX))
		return -EINVAL;
	*ret_why = "this name has another meaning in traces and profiles, as have:" RESERVED;
	if (is_reserved(name))
		return -EINVAL;
	*ret_why = "two arguments with the same name";
	return spec_find_arg(s, name, strlen(name)) >= 0 ? -EINVAL : 0;
}

int spec_count_arg(struct probe_spec *s, const char *name, const char **ret_why)
{
	s->args[s->nargs].name = xstrdup(name);
	s->has_enums |= s->args[s->nargs].names != NULL;
	s->nstrs += s->args[s->nargs++].is_string;
	*ret_why = "more than two strings";
	return s->nstrs > FUNC_STRS_MAX ? -EINVAL : 0;
}

int spec_add_arg(struct probe_spec *s, const char *name, const char *expr,
	const struct enum_table *enums, size_t n_enums, const char **ret_why)
{
	if (spec_name_arg(s, name, ret_why) || spec_parse_arg(s, expr, enums, n_enums, ret_why))
		return -EINVAL;
	return spec_count_arg(s, name, ret_why);
}

#define MANGLED_MAX 512
#define SPEC_IDENTIFIER "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"

/* Returns what is wrong, or NULL. */
static const char *parse_option_args(struct probe_spec *s, char *args)
{
	const char *why;
	char *save = NULL;

	for (char *a = strtok_r(args, ",", &save); a; a = strtok_r(NULL, ",", &save)) {
		char *eq = strchr(a, '=');

		a += strspn(a, " ");
		if (!eq)
			return "an argument is name=EXPR";
		*eq = 0;
		if (spec_add_arg(s, a, eq + 1, NULL, 0, &why))
			return why;
	}
	return NULL;
}

/*
 * Turns "ns::Class::name" into a glob for its mangled names (Itanium C++ ABI, 5.1): with any parameters,
 * const or not, and all instances of templates. The scope std is St; a constructor is C and a destructor D
 * with a digit. False: it does not consist of identifiers.
 */
static bool mangled_glob(const char *name, char *glob, size_t size)
{
	const char *last = "";
	size_t n = 0, parts = 0, last_len = 0, len;
	char inner[MANGLED_MAX / 2] = "";
	bool std = false;

	for (const char *p = name + (strncmp(name, "::", 2) ? 0 : 2); *p; p += len + (p[len] ? 2 : 0)) {
		bool destructor = *p == '~';
		size_t skip = destructor;

		len = skip + strspn(p + skip, SPEC_IDENTIFIER);
		if (len == skip || isdigit((unsigned char)p[skip]) || (p[len] && (strncmp(p + len, "::", 2) || !p[len + 2])) ||
			len > size / 4)
			return false;
		if (destructor || (parts && len == last_len && !strncmp(p, last, len) && !p[len]))
			n += (size_t)snprintf(inner + n, sizeof(inner) - n, destructor ? "D[0-9]" : "C[0-9]");
		else if (!parts && len == 3 && !strncmp(p, "std", 3) && p[len])
			std = true;
		else
			n += (size_t)snprintf(inner + n, sizeof(inner) - n, "%zu%.*s", len, (int)len, p);
		if (n >= sizeof(inner))
			return false;
		last = p;
		last_len = len;
		parts++;
	}
	if (parts == 1)
		snprintf(glob, size, "_Z%s*", inner);
	else if (parts == 2 && std)
		snprintf(glob, size, "_ZSt%s*", inner);
	else
		snprintf(glob, size, "_ZN?(K)%s%s[EIB]*", std ? "St" : "", inner);
	return parts;
}

/* Cuts the option into its parts. Returns what is wrong with it, or NULL. */
static const char *add_option(struct probe_table *pt, char *option)
{
	char *symbol = strchr(option, ':'), *args, *role, *end, glob[MANGLED_MAX] = "";
	struct probe_spec *s;

	if (!symbol || symbol == option)
		return "no library before ':'";
	*symbol++ = 0;
	args = strchr(symbol, '(');
	role = strrchr(args ? args : symbol, '@');
	if (role)
		*role++ = 0;
	if (args) {
		*args++ = 0;
		end = strrchr(args, ')');
		if (!end || end[1])
			return "')' missing";
		*end = 0;
	}
	if (!*symbol)
		return "no symbol after ':'";
	if (!spec_text_ok(symbol, SPEC_STRING_MAX))
		return "the symbol is longer than 255 bytes or has control characters";
	if (!spec_usdt_ok(symbol))
		return "a USDT probe is LIB:usdt:PROVIDER:NAME";
	if (args && strchr(symbol, '@'))
		return "the role goes after the arguments";
	if (strchr(symbol, ')'))
		return "'(' missing";
	if (strstr(symbol, "::") && !mangled_glob(symbol, glob, sizeof(glob)))
		return "a C++ function is LIB:SCOPE::NAME, without its parameters";
	s = spec_append(pt, option, *glob ? glob : symbol);
	if (!s)
		return "there are too many probes";
	if (*glob)
		s->span_name = xstrdup(symbol);
	if (!strncmp(s->symbol, "_Z", 2))
		log_warn("%s is C++: an exception that passes through it ends the target while it is probed",
			symbol);
	s->flags = s->is_usdt ? PROBE_F_INSTANT : PROBE_F_SPAN;
	if (role && spec_set_role(s, role))
		return "no such role (step, op, graph, sample, barrier, gpu_wait, gc, other)";
	if (s->is_usdt && spec_needs_end(s))
		return "a USDT probe is an instant: no step, barrier, gpu_wait or gc";
	return args ? parse_option_args(s, args) : NULL;
}

int probe_table_add_option(struct probe_table *pt, const char *option)
{
	char *parts = xstrdup(option), shown[200];
	const char *why = add_option(pt, parts);

	free(parts);
	if (!why)
		return 0;
	return log_fail(-EINVAL, "-u %s: %s; write LIB:SYMBOL[(name=EXPR,...)][@role]",
		text_printable(shown, sizeof(shown), option), why);
}

/* An engine's library is a glob on the file name; on the command line it may also be a path, or a
 * name without its version: libfoo.so finds libfoo.so.1. */
static bool spec_matches_path(const struct probe_spec *s, const char *path)
{
	const char *base = basename(path);
	size_t len;

	if (!s->library)
		return s->engine && engine_claims(s->engine, path);
	if (strchr(s->library, '/'))
		return !strcmp(s->library, path);
	len = strlen(s->library);
	if (!s->engine && !strncmp(base, s->library, len) && (!base[len] || base[len] == '.'))
		return true;
	return !fnmatch(s->library, base, 0);
}

/* Whether it has no value, or one that is a number to which an argument points. */
static bool spec_has_simple_value(const struct probe_spec *s)
{
	const struct fetch *f = &s->fetch[0];

	return !probe_spec_values(s) || (probe_spec_values(s) == 1 && f->reg <= REG_ARG6 && f->derefs == 1 && f->size <= 4 && !f->flags && !f->index && !f->element);
}

bool probe_spec_may_hook(const struct probe_spec *s)
{
	if (!s->library || strchr(s->library, '/'))
		return false;
	if (s->role == ROLE_OP)
		return s->flags == PROBE_F_BEGIN && !s->is_glob && !s->is_usdt && !s->nstrs && !s->when.op && !s->outermost && spec_has_simple_value(s);
	return s->role == ROLE_BARRIER && s->flags & PROBE_F_GROUP && s->group.reg == REG_ARG1 && !s->group.derefs && !s->group.index && !s->is_glob;
}

bool probe_spec_makes_states(const struct probe_spec *s)
{
	return spec_needs_end(s) || s->role == ROLE_SEQUENCE || s->flags & PROBE_F_GRAPH;
}

/* A function that names handles is always needed. */
enum shed_part probe_spec_part(const struct probe_spec *s)
{
	if (s->role == ROLE_BARRIER)
		return SHED_BARRIERS;
	return probe_spec_makes_states(s) || s->handle_arg >= 0 ? SHED_PARTS : SHED_OPERATORS;
}

bool probe_spec_matches(const struct probe_spec *s, const char *path)
{
	static const char deleted[] = " (deleted)"; /* what the kernel appends to a file that was deleted or replaced */
	size_t len = strlen(path), tail = sizeof(deleted) - 1;
	char plain[PATH_MAX];

	if (spec_matches_path(s, path))
		return true;
	if (len <= tail || strcmp(path + len - tail, deleted) || len - tail >= sizeof(plain))
		return false;
	snprintf(plain, sizeof(plain), "%.*s", (int)(len - tail), path);
	return spec_matches_path(s, plain);
}

/* 1 << argument, for each that determines the name. */
static uint32_t name_args(const struct probe_spec *s)
{
	uint32_t args = s->name_arg >= 0 ? 1u << s->name_arg : 0;

	for (unsigned int i = 0; i < s->n_name_cases; i++) {
		const struct probe_cond *c = &s->name_cases[i].cond;

		args |= 1u << c->arg | (c->other ? 1u << (c->other - 1) : 0);
	}
	return args;
}

const char *probe_spec_name(const struct probe_spec *s, const uint64_t *vals)
{
	if (s->misfits & name_args(s))
		return s->name_arg >= 0 && s->span_name ? s->span_name : s->symbol;
	if (s->name_arg >= 0) {
		const struct enum_table *t = s->args[s->name_arg].names;
		uint64_t v = vals[s->name_arg];

		if (t && v < t->n && t->names[v])
			return t->names[v];
	}
	for (unsigned int i = 0; i < s->n_name_cases; i++) {
		if (cond_holds(s, &s->name_cases[i].cond, vals))
			return s->name_cases[i].name;
	}
	return s->span_name ? s->span_name : s->symbol;
}

const uint64_t *probe_record_counts(const struct probe_spec *s, const struct rec_function *r)
{
	if (r->h.kind != REC_FUNCTION || !(r->h.flags & FUNCTION_F_COUNTED))
		return NULL;
	return &r->vals[probe_spec_values(s)] + (s->nstrs ? FUNC_STRS_MAX * FUNC_STR_LEN / sizeof(r->vals[0]) : 0);
}

const char *probe_arg_string(const struct probe_spec *s, unsigned int arg, const char *strs)
{
	for (unsigned int i = 0; i < arg; i++)
		strs += s->args[i].is_string ? FUNC_STR_LEN : 0;
	return strs;
}

struct called {
	UT_hash_handle hh;
	char text[FUNC_STR_LEN];
};

/* The text with which the slices of a specification are called, as one that stays. NULL: there are too many. */
static const char *called_get(struct called **all, const char *text)
{
	size_t len = strnlen(text, FUNC_STR_LEN - 1);
	struct called *c;

	HASH_FIND(hh, *all, text, len, c);
	if (c || HASH_COUNT(*all) == SPEC_CALLED_MAX)
		return c ? c->text : NULL;
	c = xcalloc(1, sizeof(*c));
	memcpy(c->text, text, len);
	HASH_ADD_KEYPTR(hh, *all, c->text, len, c);
	return c->text;
}

static void called_free(struct called **all)
{
	struct called *c, *next;

	if (!all)
		return;
	HASH_ITER(hh, *all, c, next)
	{
		HASH_DEL(*all, c);
		free(c);
	}
	free(all);
}

const char *probe_called_name(const struct probe_spec *s, const struct rec_function *r)
{
	const char *text = probe_arg_string(s, (unsigned int)s->name_arg, probe_record_strings(s, r));

	return (*text ? called_get(s->called, text) : NULL) ?: probe_spec_name(s, r->vals);
}

/* Whether calls of such functions show that the engine is at work. */
static bool shows_work(enum probe_role role)
{
	return role == ROLE_OP || role == ROLE_GRAPH || role == ROLE_BARRIER || role == ROLE_SAMPLE;
}

int probe_spec_encode(const struct probe_spec *s, struct probe *ret_probe)
{
	struct probe p = {
		.role = s->role,
		.flags = s->flags,
		.nvals = (uint8_t)probe_spec_values(s),
		.nstrs = (uint8_t)s->nstrs,
		.when = s->when.op,
		.when_val = (uint8_t)s->when.arg,
		.outermost = s->outermost,
		.rows = s->row_count,
		.rows_at = s->rows_at,
		.row_else = s->row_else,
		.row_struct = s->row_struct,
	};
	int64_t than = 0;
	int err;

	if (s->engine && s->engine->has_step && (s->role == ROLE_STEP || (!s->engine->has_stand_in && shows_work(s->role)))) {
		p.engine = (uint16_t)s->engine->number;
		p.stand_in = s->stand_in;
	}
	memcpy(p.fetch, s->fetch, sizeof(s->fetch));
	memcpy(p.row, s->row, sizeof(s->row));
	p.group = s->group;
	p.node = s->node.layout;
	err = cond_value(s, &s->when, &than);
	if (err)
		return err;
	p.when_than = than;
	*ret_probe = p;
	return 0;
}

static void spec_clear(struct probe_spec *s)
{
	for (unsigned int a = 0; a < s->nargs; a++) {
		free(s->args[a].only_if.name);
		free(s->args[a].name);
	}
	for (unsigned int i = 0; i < s->n_checks; i++)
		free(s->checks[i].name);
	for (unsigned int i = 0; i < s->n_name_cases; i++) {
		free(s->name_cases[i].cond.name);
		free(s->name_cases[i].name);
	}
	free(s->when.name);
	for (int i = 0; i < ROW_COLUMNS; i++)
		free(s->accessor[i].function);
	free(s->library);
	free(s->symbol);
	free(s->span_name);
	free(s->declared);
	free(s->unless);
	free(s->batch_function);
	free(s->results_function);
	free(s->arrival_function);
	free(s->sent_function);
	free(s->batch);
	free(s->values);
	called_free(s->called);
}

const char *spec_mangled_part(const char *symbol, int n, size_t *ret_len)
{
	const char *p = symbol + strcspn(symbol, "0123456789");

	for (;; n--) {
		char *end;
		unsigned long len = strtoul(p, &end, 10);

		if (end == p || len == 0 || len > strlen(end))
			return NULL;
		*ret_len = len;
		if (n == 0)
			return end;
		p = end + len;
	}
}

/* Cuts and cleans a symbol, which whoever made the file has chosen, for use as the name of spans. */
static void make_shown(char *name)
{
	if (strlen(name) > SPEC_STRING_MAX)
		name[SPEC_STRING_MAX] = 0;
	for (char *p = name; *p; p++) {
		if (iscntrl((unsigned char)*p))
			*p = '?';
	}
}

/* Copies the glob's specification with strings of its own, except for its names and counts. */
static void copy_glob(struct probe_spec *s, const struct probe_spec *g)
{
	char *library = s->library, *symbol = s->symbol;

	*s = *g;
	s->library = library;
	s->symbol = symbol;
	s->span_name = s->declared = s->unless = NULL;
	s->name_part = -1;
	s->is_glob = s->refused = false;
	s->attached = s->checked = 0;
	s->records = s->left_out = 0;
	s->dear_ends = s->dear_begin = false;
	s->misfits = s->misfits_late = 0;
	s->rows_fit = false;
	memset(s->accessor, 0, sizeof(s->accessor));
	for (unsigned int i = 0; i < s->n_name_cases; i++) {
		s->name_cases[i].cond.name = copy_string(g->name_cases[i].cond.name);
		s->name_cases[i].name = xstrdup(g->name_cases[i].name);
	}
	for (unsigned int a = 0; a < s->nargs; a++) {
		s->args[a].name = xstrdup(g->args[a].name);
		s->args[a].only_if.name = copy_string(g->args[a].only_if.name);
	}
	s->when.name = copy_string(g->when.name);
	for (unsigned int i = 0; i < s->n_checks; i++)
		s->checks[i].name = copy_string(g->checks[i].name);
}

static int make_match(struct probe_table *pt, size_t glob, const char *symbol, const struct fetch *fetch,
	const struct row_fetch *row, uint8_t flags, size_t *ret_id)
{
	const struct probe_spec *g;
	const char *part = NULL;
	struct probe_spec *s;
	size_t len;

	for (size_t i = 0; i < pt->n; i++) {
		if (pt->specs[i].from == glob + 1 && !strcmp(pt->specs[i].symbol, symbol) &&
			(pt->specs[i].flags & PROBE_F_INSTANT) == (flags & PROBE_F_INSTANT) &&
			!memcmp(pt->specs[i].fetch, fetch, sizeof(pt->specs[i].fetch)) &&
			!memcmp(pt->specs[i].row, row, sizeof(pt->specs[i].row))) {
			*ret_id = i;
			return 0;
		}
	}
	s = spec_append(pt, pt->specs[glob].library, symbol);
	if (!s)
		return -E2BIG;
	g = &pt->specs[glob];
	copy_glob(s, g);
	s->from = glob + 1;
	s->flags = flags;
	if (g->name_part >= 0)
		part = spec_mangled_part(symbol, g->name_part, &len);
	else
		s->span_name = copy_string(g->span_name);
	if (!s->span_name)
		s->span_name = part ? xstrndup(part, len) : xstrdup(symbol + (s->is_usdt ? strlen(SPEC_USDT) : 0));
	make_shown(s->span_name);
	memcpy(s->fetch, fetch, sizeof(s->fetch));
	memcpy(s->row, row, sizeof(s->row));
	rows_end(s);
	*ret_id = pt->n - 1;
	return 0;
}

static void fetch_shapes(const struct tensor_args *tensors, struct fetch *fetch)
{
	for (uint8_t reg = 0; reg < 8; reg++) {
		for (uint16_t part = 1; part <= 2 && tensors->regs >> reg & 1; part++)
			*fetch++ = (struct fetch){ reg, 1, 8, FETCH_F_SHAPE, tensors->index >> 2 * reg & 3, 0, part,
				{ 0, (int32_t)tensors->sizes, (int32_t)tensors->types } };
	}
}

int probe_table_match(struct probe_table *pt, size_t glob, const char *symbol, bool instant, const struct tensor_args *tensors,
	size_t *ret_id)
{
	struct fetch fetch[FUNC_VALS_MAX]; /* the table may move */
	struct row_fetch row[ROW_COLUMNS];
	uint8_t flags = pt->specs[glob].flags;
	int err;

	memcpy(fetch, pt->specs[glob].fetch, sizeof(fetch));
	fetch_shapes(tensors, fetch);
	memcpy(row, pt->specs[glob].row, sizeof(row));
	if (instant)
		flags = (uint8_t)((flags & ~PROBE_F_SPAN) | PROBE_F_INSTANT);
	err = make_match(pt, glob, symbol, fetch, row, flags, ret_id);
	if (err)
		return err;
	pt->specs[*ret_id].tensors = *tensors;
	pt->specs[*ret_id].nshapes = 2 * (unsigned int)__builtin_popcount(tensors->regs);
	return 0;
}

int probe_table_place(struct probe_table *pt, size_t usdt, const char *symbol,
	const struct fetch fetch[FUNC_VALS_MAX], size_t *ret_id)
{
	static const struct row_fetch none[ROW_COLUMNS];
	int err = make_match(pt, usdt, symbol, fetch, none, pt->specs[usdt].flags, ret_id);

	if (!err)
		pt->specs[*ret_id].flags |= PROBE_F_REGS;
	return err;
}

int probe_table_rows(struct probe_table *pt, size_t id, const char *symbol, const struct fetch fetch[FUNC_VALS_MAX],
	const struct row_fetch row[ROW_COLUMNS], size_t *ret_id)
{
	return make_match(pt, id, symbol, fetch, row, pt->specs[id].flags, ret_id);
}

static void enum_table_clear(struct enum_table *t)
{
	if (t->from_file)
		elf_strings_free(t->own_names, t->n_own);
	else
		elf_strings_free(t->names, t->n);
	for (size_t i = 0; i < t->n_variants; i++)
		elf_strings_free(t->variants[i].names, t->variants[i].n);
	free(t->variants);
	free(t->files);
	free(t->users);
	free(t->bytes);
	free(t->object);
	free(t->name);
}

static void engine_free(struct engine *e)
{
	for (size_t i = 0; i < e->n_mapped; i++)
		free(e->mapped[i]);
	free(e->mapped);
	for (size_t i = 0; i < e->n_enums; i++)
		enum_table_clear(&e->enums[i]);
	free(e->enums);
	free(e->name);
	free(e->advice);
	free(e);
}

void probe_table_free(struct probe_table *pt)
{
	for (size_t i = 0; i < pt->n; i++)
		spec_clear(&pt->specs[i]);
	free(pt->specs);
	for (size_t i = 0; i < pt->n_engines; i++)
		engine_free(pt->engines[i]);
	free(pt->engines);
	*pt = (struct probe_table){};
}

/* ---- names of the values of arguments: a process has the names of the files that it maps ---- */

bool engine_claims(const struct engine *e, const char *path)
{
	bool claims = false;

	for (size_t k = 0; k < e->n_mapped && !claims; k++)
		claims = !fnmatch(e->mapped[k], basename(path), 0);
	return claims;
}

bool engine_shows(const struct engine *e, const char *path)
{
	return !e->runtime && engine_claims(e, path);
}

static struct enum_file *find_file(const struct enum_table *t, uint64_t dev, uint64_t ino)
{
	for (size_t i = 0; i < t->n_files; i++) {
		if (t->files[i].dev == dev && t->files[i].ino == ino)
			return &t->files[i];
	}
	return NULL;
}

static bool same_names(const struct enum_variant *v, char *const *names, size_t n)
{
	for (size_t i = 0; v->n == n && i < n; i++) {
		if (!v->names[i] != !names[i] || (names[i] && strcmp(v->names[i], names[i])))
			return false;
	}
	return v->n == n;
}

/* Takes over the names. Returns the variant that has them, or -E2BIG: then the names stay the caller's. */
static int add_variant(struct enum_table *t, char **names, size_t n)
{
	for (size_t i = 0; i < t->n_variants; i++) {
		if (same_names(&t->variants[i], names, n)) {
			elf_strings_free(names, n);
			return (int)i;
		}
	}
	if (t->n_variants == ENUM_VARIANTS_MAX)
		return -E2BIG;
	if (!t->users)
		t->users = xcalloc(ENUM_USERS_MAX, sizeof(*t->users));
	t->variants = xreallocarray(t->variants, t->n_variants + 1, sizeof(*t->variants));
	t->variants[t->n_variants] = (struct enum_variant){ .names = names, .n = n };
	return (int)t->n_variants++;
}

static int enum_table_add_file(struct enum_table *t, uint64_t dev, uint64_t ino, char **names, size_t n)
{
	struct enum_file *f = find_file(t, dev, ino); /* the same under another path, or an older one with its number */
	int variant;

	if (!f && t->n_files == ENUM_FILES_MAX)
		return -E2BIG;
	variant = add_variant(t, names, n);
	if (variant < 0)
		return variant;
	if (!f)
		f = list_push(t->files, t->n_files, t->cap_files);
	*f = (struct enum_file){ dev, ino, (uint32_t)variant };
	return 0;
}

void engine_set_names(struct probe_table *pt, struct engine *e, size_t i, char **names, size_t n)
{
	struct enum_table *t = &e->enums[i];

	for (size_t k = 0; k < n; k++) {
		for (unsigned char *c = (unsigned char *)names[k]; c && *c; c++)
			*c = iscntrl(*c) ? '?' : (unsigned char)tolower(*c);
	}
	if (!t->object || enum_table_add_file(t, pt->reading.dev, pt->reading.ino, names, n)) {
		elf_strings_free(names, n);
		return;
	}
	pt->many_names |= t->n_variants > 1;
	if (t->from_file)
		return;
	t->own_names = t->names;
	t->n_own = t->n;
	t->names = t->variants[0].names;
	t->n = t->variants[0].n;
	t->from_file = true;
}

/* ---- whose names are in use ---- */

static struct enum_user *user_of(const struct enum_table *t, uint32_t tgid)
{
	return &t->users[tgid % ENUM_USERS_MAX];
}

struct table_place {
	size_t engine, table;
};

/* Returns the next enumeration with variants after *at, which is all 0 at first; NULL: none. */
static struct enum_table *next_table(const struct probe_table *pt, struct table_place *at)
{
	for (; at->engine < pt->n_engines; at->engine++, at->table = 0) {
		const struct engine *e = pt->engines[at->engine];

		while (at->table < e->n_enums) {
			struct enum_table *t = &e->enums[at->table++];

			if (t->n_variants)
				return t;
		}
	}
	return NULL;
}

void probe_table_mapped(struct probe_table *pt, uint64_t dev, uint64_t ino, uint32_t tgid)
{
	struct enum_table *t;

	for (struct table_place at = {}; (t = next_table(pt, &at));) {
		const struct enum_file *f = find_file(t, dev, ino);

		if (f)
			*user_of(t, tgid) = (struct enum_user){ tgid, f->variant };
	}
	pt->used = 0;
}

void probe_table_unmapped(struct probe_table *pt, uint64_t dev, uint64_t ino)
{
	struct enum_table *t;

	for (struct table_place at = {}; (t = next_table(pt, &at));) {
		struct enum_file *f = find_file(t, dev, ino);

		if (f)
			*f = t->files[--t->n_files];
	}
}

void probe_table_forked(struct probe_table *pt, uint32_t parent, uint32_t tgid)
{
	struct enum_table *t;

	for (struct table_place at = {}; (t = next_table(pt, &at));) {
		if (user_of(t, parent)->tgid == parent)
			*user_of(t, tgid) = (struct enum_user){ tgid, user_of(t, parent)->variant };
		else if (user_of(t, tgid)->tgid == tgid) /* left over from an earlier process with that number */
			*user_of(t, tgid) = (struct enum_user){ 0 };
	}
	pt->used = 0;
}

void probe_table_switch(struct probe_table *pt, uint32_t tgid)
{
	struct enum_table *t;

	for (struct table_place at = {}; (t = next_table(pt, &at));) {
		const struct enum_user *user = user_of(t, tgid);
		const struct enum_variant *v = &t->variants[user->tgid == tgid ? user->variant : 0];

		t->names = v->names;
		t->n = v->n;
	}
	pt->used = tgid;
}
