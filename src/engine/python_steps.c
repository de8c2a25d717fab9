// SPDX-License-Identifier: BSD-2-Clause
#include "engine/python_steps.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/check.h"
#include "engine/rows.h"
#include "target/python.h"
#include "util/alloc.h"
#include "util/log.h"
#include "util/text.h"

/* Copies an ASCII text that is shorter than PYTHON_TEXT_MAX. */
static int set_text(struct python_text *to, uint8_t *to_len, const char *text, size_t len, const char **ret_why)
{
	*ret_why = "a name, and the end of a path, have 1 to 63 bytes";
	if (!len || len >= PYTHON_TEXT_MAX)
		return -EINVAL;
	*ret_why = "only ASCII names can be compared";
	for (size_t i = 0; i < len; i++) {
		if (text[i] <= ' ' || text[i] > '~')
			return -EINVAL;
	}
	memset(to, 0, sizeof(*to));
	memcpy(to, text, len);
	*to_len = (uint8_t)len;
	return 0;
}

static int python_calls_add_name(
	struct python_calls *c, const char *name, const char *file, size_t file_len, const char **ret_why)
{
	struct python_function *n = &c->names[c->n];
	int err;

	*ret_why = "it has too many parts; write FILE:NAME";
	if (c->n == PYTHON_NAMES_MAX)
		return -EINVAL;
	err = set_text(&n->name, &n->name_len, name, strlen(name), ret_why);
	if (!err && file)
		err = set_text(&n->file, &n->file_len, file, file_len, ret_why);
	if (err)
		return err;
	c->lengths |= UINT64_C(1) << n->name_len;
	c->n++;
	return 0;
}

/* Adds the function `name` of a module, which is a file or a package of that name. */
static int add_in_module(struct python_calls *c, const char *option, const char *name, const char **ret_why)
{
	static const char *const files[] = { ".py", "/__init__.py" };
	char path[2 * PYTHON_TEXT_MAX];
	int err = 0;

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]) && !err; i++) {
		int n = snprintf(path, sizeof(path), "%.*s%s", (int)(name - 1 - option), option, files[i]);

		for (char *p = path; p < path + (name - 1 - option) && *p; p++) {
			if (*p == '.')
				*p = '/';
		}
		*ret_why = "a name, and the end of a path, have 1 to 63 bytes";
		err = n < (int)sizeof(path) ? python_calls_add_name(c, name, path, (size_t)n, ret_why) : -EINVAL;
	}
	return err;
}

/* Adds the functions of one name, as of an option. */
static int python_calls_add(struct python_calls *c, const char *name, const char **ret_why)
{
	const char *colon = strrchr(name, ':');
	int err;

	if (colon)
		return python_calls_add_name(c, colon + 1, name, (size_t)(colon - name), ret_why);
	err = python_calls_add_name(c, name, NULL, 0, ret_why);
	/* not within main.<locals>.step */
	for (const char *dot = strchr(name, '.'); dot && !err; dot = strchr(dot + 1, '.')) {
		if (memchr(name, '<', (size_t)(dot - name)))
			break;
		*ret_why = "a name between two dots is missing";
		err = dot == name || dot[1] == '.' || !dot[1] ? -EINVAL : add_in_module(c, name, dot + 1, ret_why);
	}
	return err;
}

int python_names_parse(const char *option, struct python_calls *ret_calls, const char **ret_why)
{
	struct python_calls c = { .n = 0 };
	char *names = xstrdup(option), *rest = names, *name;
	int err = 0;

	while (!err && (name = strsep(&rest, "|")))
		err = python_calls_add(&c, name, ret_why);
	free(names);
	if (!err)
		*ret_calls = c;
	return err;
}

static struct probe_spec *add_python(struct probe_table *pt, const char *names, enum probe_role role, const char **ret_why)
{
	struct python_calls calls;
	struct probe_spec *s;
	unsigned int n = 0;

	for (size_t i = 0; i < pt->n; i++)
		n += pt->specs[i].is_python;
	if (python_names_parse(names, &calls, ret_why))
		return NULL;
	*ret_why = "there are too many of them, or of other probes";
	s = n < PYTHON_CALLS_MAX ? spec_append(pt, PYTHON_FILES, names) : NULL;
	if (!s)
		return NULL;
	s->is_python = true;
	s->is_glob = s->is_usdt = false;
	s->role = role;
	s->flags = PROBE_F_SPAN;
	return s;
}

struct probe_spec *probe_table_engine_python(struct probe_table *pt, struct engine *e, const char *names, const char **ret_why)
{
	struct probe_spec *s = add_python(pt, names, ROLE_STEP, ret_why);

	if (!s)
		return NULL;
	s->engine = e;
	e->has_step = e->has_python = true;
	return s;
}

/* The id of a sequence's request, and how long it was queued. */
static void add_id(struct probe_spec *s)
{
	s->args[1] = (struct probe_arg){ .name = xstrdup("queued_ns"), .is_signed = true, .size = 8 };
	s->args[1].only_if = (struct probe_cond){ .op = WHEN_GT, .arg = 1, .than = -1 };
	s->args[2] = (struct probe_arg){ .name = xstrdup("id"), .is_string = true, .size = 8 };
	s->fetch[1] = (struct fetch){ .reg = REG_NONE, .size = 8 };
	s->fetch[2] = (struct fetch){ .reg = REG_NONE, .size = 8, .flags = FETCH_F_STRING };
	s->nargs = 3;
	s->nstrs = 1;
	s->handle_name = 2;
}

/* Appends what tells of the sequences of the step before it: calls that the programs make up. */
static struct probe_spec *append_sequence(struct probe_table *pt, size_t step, const char *name)
{
	struct probe_spec *s = spec_append(pt, PYTHON_FILES, name);

	if (!s)
		return NULL;
	s->from = step + 1; /* it has no place in a file */
	s->checked = CHECK_CALLS; /* ids may be any text: it is the client that chooses them */
	s->engine = pt->specs[step].engine;
	s->role = ROLE_SEQUENCE;
	s->flags = PROBE_F_INSTANT;
	s->span_name = xstrdup(name);
	s->args[0] = (struct probe_arg){ .name = xstrdup("sequence"), .size = 8 };
	s->fetch[0] = (struct fetch){ .reg = REG_NONE, .size = 8 };
	s->nargs = 1;
	return s;
}

/* ---- arguments of --py-step: "n_tokens=len(ids), prefill=cache is None, request=self.current['id']" ---- */

#define PYTHON_IDENTIFIER "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"

/* Adds a hop to what a name is, or to what is in brackets. Returns the rest of the text; NULL: it is none. */
static const char *hop_parse(struct python_value *v, const char *text, const char **ret_why)
{
	char first = v->n ? *text++ : '.', quote, *end;
	struct python_hop *h = &v->hops[v->n];
	size_t len = strspn(text, PYTHON_IDENTIFIER);

	*ret_why = "it leads over more than five attributes and items";
	if (v->n++ == PYTHON_HOPS_MAX)
		return NULL;
	if (first == '.') {
		h->how = v->n == 1 ? PYTHON_HOP_VARIABLE : PYTHON_HOP_ATTRIBUTE;
		if (isdigit((unsigned char)*text) || set_text(&h->name, &h->len, text, len, ret_why))
			return NULL;
		if (v->n == 1 || text[len] != '?')
			return text + len;
		h->how = PYTHON_HOP_IF_ANY;
		return text + len + 1;
	}
	*ret_why = "in brackets is a number, or a string without backslashes";
	quote = *text;
	if (quote == '\'' || quote == '"') {
		const char *close = strchr(text + 1, quote);

		h->how = PYTHON_HOP_KEY;
		if (!close || close[1] != ']' || memchr(text, '\\', (size_t)(close - text)))
			return NULL;
		return set_text(&h->name, &h->len, text + 1, (size_t)(close - text - 1), ret_why) ? NULL : close + 2;
	}
	h->how = PYTHON_HOP_ITEM;
	errno = 0;
	h->index = (int32_t)strtol(text, &end, 10);
	return end == text || *end != ']' || errno || labs(strtol(text, NULL, 10)) > INT32_MAX ? NULL : end + 1;
}

/* Takes "== 2", "is not None" and the like. Returns 0, or -EINVAL. */
static int condition_parse(struct python_value *v, const char *text)
{
	static const struct {
		const char *text;
		enum probe_when when;
		int64_t more;
	} ops[] = { { "==", WHEN_EQ, 0 }, { "!=", WHEN_NE, 0 }, { "<=", WHEN_LT, 1 }, { ">=", WHEN_GT, -1 }, { "<", WHEN_LT, 0 },
		{ ">", WHEN_GT, 0 } };
	char *end;

	if (v->as == PYTHON_AS_NUMBER && (!strcmp(text, "is None") || !strcmp(text, "is not None"))) {
		v->as = PYTHON_AS_NONE;
		v->when = WHEN_EQ;
		v->than = !strcmp(text, "is None");
		return 0;
	}
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]) && v->as != PYTHON_AS_STRING && v->as != PYTHON_AS_TYPE; i++) {
		if (strncmp(text, ops[i].text, strlen(ops[i].text)))
			continue;
		text += strlen(ops[i].text);
		errno = 0;
		v->when = ops[i].when;
		if (__builtin_add_overflow(strtoll(text, &end, 10), ops[i].more, &v->than))
			return -EINVAL;
		return end == text || *end || errno ? -EINVAL : 0;
	}
	return -EINVAL;
}

/* expr: without spaces around it. */
static int python_value_parse(struct python_value *ret, const char *expr, const char **ret_why)
{
	struct python_value v = { .as = PYTHON_AS_NUMBER };
	const char *p = expr;

	if (!strncmp(p, "len(", 4))
		v.as = PYTHON_AS_LENGTH;
	else if (!strncmp(p, "str(", 4))
		v.as = PYTHON_AS_STRING;
	else if (!strncmp(p, "type(", 5))
		v.as = PYTHON_AS_TYPE;
	p += v.as == PYTHON_AS_NUMBER ? 0 : strcspn(p, "(") + 1;
	do {
		p = hop_parse(&v, p, ret_why);
		if (!p)
			return -EINVAL;
	} while (*p == '.' || *p == '[');
	if (v.as != PYTHON_AS_NUMBER && *p++ != ')') {
		*ret_why = "a ) is missing";
		return -EINVAL;
	}
	if (v.as == PYTHON_AS_NUMBER && v.n > 2 && v.hops[v.n - 1].how == PYTHON_HOP_ITEM &&
		!strcmp(v.hops[v.n - 2].name.text, "shape") && v.hops[v.n - 2].how == PYTHON_HOP_ATTRIBUTE) {
		v.as = PYTHON_AS_SIZE;
		v.index = v.hops[v.n - 1].index;
		v.n -= 2;
	}
	*ret_why = "write VARIABLE, with .ATTRIBUTE, [NUMBER] or ['KEY'] behind it, or len(), str() or type() of that; then == NUMBER "
		   "(or !=, <, <=, >, >=) or \"is None\"";
	if (*p && condition_parse(&v, p + strspn(p, " ")))
		return -EINVAL;
	*ret = v;
	return 0;
}

/* Adds one argument. */
static int python_value_add(struct probe_spec *s, struct python_value *request, char *text, const char **ret_why)
{
	char *eq = strchr(text, '='), *name = text + strspn(text, " "), *expr;
	struct probe_arg *arg = &s->args[s->nargs];
	struct python_value *v = &s->values->value[s->values->n];

	*ret_why = "an argument is name=EXPR";
	if (!eq)
		return -EINVAL;
	*eq = 0;
	name[strcspn(name, " ")] = 0;
	expr = eq + 1 + strspn(eq + 1, " ");
	for (size_t len = strlen(expr); len && expr[len - 1] == ' ';)
		expr[--len] = 0;
	if (!strcmp(name, "request")) {
		if (request->n || python_value_parse(request, expr, ret_why))
			return -EINVAL;
		*ret_why = "the request is an id, as it is: VARIABLE, with .ATTRIBUTE, [NUMBER] or ['KEY'] behind it";
		if (request->as != PYTHON_AS_NUMBER || request->when)
			return -EINVAL;
		request->as = PYTHON_AS_REQUEST;
		return 0;
	}
	*ret_why = "more than seven arguments";
	if (s->values->n == PYTHON_VALUES_MAX - 1 || spec_name_arg(s, name, ret_why) || python_value_parse(v, expr, ret_why))
		return -EINVAL;
	*arg = (struct probe_arg){ .is_signed = true, .size = 8 };
	arg->is_string = v->as == PYTHON_AS_STRING || v->as == PYTHON_AS_TYPE;
	if (!arg->is_string)
		arg->only_if = (struct probe_cond){ .op = WHEN_NE, .arg = s->nargs, .than = (int64_t)PYTHON_UNKNOWN };
	s->fetch[s->nargs] = (struct fetch){ .reg = REG_NONE, .size = 8, .flags = arg->is_string ? FETCH_F_STRING : 0 };
	s->values->n++;
	return spec_count_arg(s, name, ret_why);
}

/* The comma behind an argument, or the end. */
static char *python_value_end(char *text)
{
	char quote = 0;

	for (; *text && (quote || *text != ','); text++) {
		if (quote ? *text == quote : *text == '\'' || *text == '"')
			quote = quote ? 0 : *text;
	}
	return text;
}

/* Says by its arguments what a step is: a prompt is one with `prefill`, or else with several tokens. */
static int python_phases_set(struct probe_spec *s, const char **ret_why)
{
	int prefill = spec_find_arg(s, "prefill", 7), err = 0;

	s->values->prefill = (uint16_t)(prefill + 1);
	if (prefill >= 0)
		err = spec_set_name(s, "prefill > 0 ? prefill : prefill == 0 ? decode : step", ret_why);
	else if (spec_find_arg(s, "n_tokens", 8) >= 0)
		err = spec_set_name(s, "n_tokens > 1 ? prefill : n_tokens == 1 ? decode : step", ret_why);
	free(s->span_name); /* where neither is known it is the function's */
	s->span_name = NULL;
	return err;
}

/* A slice has no request; it is called as its argument `name` says. */
static int python_span_named(struct probe_spec *s, const struct python_value *request, const char **ret_why)
{
	*ret_why = "only a step has a request";
	if (request->n)
		return -EINVAL;
	s->name_arg = spec_find_arg(s, "name", 4);
	*ret_why = "a name is a text: str() or type()";
	if (s->name_arg < 0)
		return 0;
	if (!s->args[s->name_arg].is_string)
		return -EINVAL;
	s->called = xcalloc(1, sizeof(*s->called));
	return 0;
}

/* The arguments of the step, or slice, that was appended last. */
static int python_values_parse(struct probe_table *pt, const char *text, const char **ret_why)
{
	struct probe_spec *s = &pt->specs[pt->n - 1];
	struct python_value request = { .n = 0 };
	char *copy = xstrdup(text), *end, *next;
	int err = 0;

	s->values = xcalloc(1, sizeof(*s->values));
	for (char *at = copy; !err && at; at = next) {
		end = python_value_end(at);
		next = *end ? end + 1 : NULL;
		*end = 0;
		err = python_value_add(s, &request, at, ret_why);
	}
	free(copy);
	if (s->role != ROLE_STEP)
		return err ?: python_span_named(s, &request, ret_why);
	err = err ?: python_phases_set(s, ret_why);
	if (err || !request.n)
		return err;
	*ret_why = "a request needs n_tokens, too, such as n_tokens=len(ids)";
	if (spec_find_arg(s, "n_tokens", 8) < 0)
		return -EINVAL;
	s->values->value[s->values->n++] = request;
	err = rows_begin(s, "n_tokens", ret_why);
	if (err)
		return err;
	s = append_sequence(pt, pt->n - 1, "request");
	*ret_why = "there are too many probes";
	if (!s)
		return -EINVAL;
	add_id(s);
	s->handle_arg = 0;
	return 0;
}

int probe_table_add_python(struct probe_table *pt, const char *option, enum probe_role role)
{
	bool is_op = role != ROLE_STEP && strlen(option) > 3 && !strcmp(option + strlen(option) - 3, "@op");
	size_t all = strlen(option) - (is_op ? 3 : 0), open = strcspn(option, "("), len = open < all ? open : all;
	char *names = xstrndup(option, len), *args = NULL;
	const char *why = "a ) is missing at its end";
	char shown[200];
	int err = 0;

	if (len < all && option[all - 1] != ')')
		err = -EINVAL;
	else if (len < all)
		args = xstrndup(option + len + 1, all - len - 2);
	if (!err && !add_python(pt, names, is_op ? ROLE_OP : role, &why))
		err = -EINVAL;
	if (!err && args)
		err = python_values_parse(pt, args, &why);
	free(names);
	free(args);
	if (!err)
		return 0;
	return log_fail(-EINVAL, "%s %s: %s; write MODULE.CLASS.FUNCTION or FILE:CLASS.FUNCTION, and arguments as in docs/engines.md",
		python_option(role), text_printable(shown, sizeof(shown), option), why);
}

static int add_rows(struct probe_spec *s, const char **ret_why)
{
	s->args[0] = (struct probe_arg){ .name = xstrdup("n_tokens"), .is_signed = true, .size = 8 };
	s->args[0].only_if = (struct probe_cond){ .op = WHEN_GT, .than = (int64_t)PYTHON_NO_BATCH };
	s->fetch[0] = (struct fetch){ .reg = REG_NONE, .size = 8 };
	s->nargs = 1;
	return rows_begin(s, "n_tokens", ret_why);
}

int probe_table_python_batch(struct probe_table *pt, const struct python_batch_functions *f, const struct python_batch *b,
	const char *const text[PYTHON_MEMBERS], const char **ret_why)
{
	struct python_batch batch = *b;
	size_t step = pt->n - 1;
	struct python_calls calls;
	struct probe_spec *s;
	int err = python_names_parse(f->results ?: f->batch, &calls, ret_why);

	if (!err && f->arrival)
		err = python_names_parse(f->arrival, &calls, ret_why);
	if (!err && f->sent)
		err = python_names_parse(f->sent, &calls, ret_why);
	for (int i = 0; i < PYTHON_MEMBERS && !err; i++)
		err = text[i] ? set_text(&batch.name[i], &batch.len[i], text[i], strlen(text[i]), ret_why) : 0;
	if (!err)
		err = add_rows(&pt->specs[step], ret_why);
	if (err)
		return err;
	pt->specs[step].batch_function = f->results ? NULL : xstrdup(f->batch);
	pt->specs[step].results_function = f->results ? xstrdup(f->results) : NULL;
	pt->specs[step].arrival_function = f->arrival ? xstrdup(f->arrival) : NULL;
	pt->specs[step].sent_function = f->sent ? xstrdup(f->sent) : NULL;
	pt->specs[step].batch = xmalloc(sizeof(batch));
	*pt->specs[step].batch = batch;
	*ret_why = "there are too many probes";
	s = append_sequence(pt, step, "request");
	if (!s)
		return -EINVAL;
	add_id(s);
	s->handle_arg = 0;
	if (!append_sequence(pt, step, "end"))
		return -EINVAL;
	if (!f->sent)
		return 0;
	s = append_sequence(pt, step, "sent");
	if (!s)
		return -EINVAL;
	add_id(s);
	return 0;
}

/* The step with the batch that was added last, behind which are the calls that tell of its requests. */
static struct probe_spec *last_batch(struct probe_table *pt)
{
	size_t i = pt->n;

	while (i && !pt->specs[i - 1].batch)
		i--;
	return i ? &pt->specs[i - 1] : NULL;
}

/* self, and arg1 as in the keys beside it, are arguments by their places, which is cheaper. */
static void value_set_local(struct python_value *v)
{
	struct python_hop *h = &v->hops[0];
	const char *name = h->name.text;
	bool arg = h->len == 4 && !strncmp(name, "arg", 3) && name[3] >= '1' && name[3] <= '9';

	if (!arg && (h->len != 4 || strncmp(name, "self", 4)))
		return;
	h->how = PYTHON_HOP_LOCAL;
	h->index = arg ? name[3] - '0' : 0;
}

int probe_table_python_scheduler(struct probe_table *pt, const char *const expr[SCHEDULER_VALUES], const char **ret_why)
{
	struct probe_spec *s = last_batch(pt);
	int err = 0;

	s->values = xcalloc(1, sizeof(*s->values));
	s->values->n = SCHEDULER_VALUES;
	s->batch->scheduler = 1;
	for (int i = 0; i < SCHEDULER_VALUES && !err; i++) {
		struct python_value *v = &s->values->value[i];

		err = expr[i] ? python_value_parse(v, expr[i], ret_why) : 0;
		if (!err && expr[i])
			value_set_local(v);
		*ret_why = err ? *ret_why : "must be a number";
		if (!err && expr[i] && v->as != PYTHON_AS_NUMBER && v->as != PYTHON_AS_LENGTH)
			err = -EINVAL;
	}
	return err;
}

/* Before 3.11 functions have only their own name: cuts names down to it, and drops those that no file then identifies. */
static void names_shorten(struct python_calls *c)
{
	unsigned int n = 0;

	c->lengths = 0;
	for (unsigned int i = 0; i < c->n; i++) {
		struct python_function f = c->names[i];
		const char *name = (const char *)&c->names[i].name, *dot = memrchr(name, '.', f.name_len);
		const char *why;

		if (dot && !f.file_len)
			continue;
		if (dot && set_text(&f.name, &f.name_len, dot + 1, (size_t)(name + f.name_len - dot - 1), &why))
			continue;
		c->lengths |= UINT64_C(1) << f.name_len;
		c->names[n++] = f;
	}
	c->n = (uint8_t)n;
}

bool python_names_tell(const char *option, enum python_layout layout, const char **ret_why)
{
	const char *dot = strchr(option, '.');

	*ret_why = "before Python 3.11 functions do not say which class they are in; write FILE:NAME";
	return layout != PYTHON_LAYOUT_3_8 || strchr(option, ':') || !dot || (strchr(dot + 1, '.') && !strchr(option, '<'));
}

/* Adds the functions of `name`; NULL: none. */
static void python_calls_add_as(struct python_calls *c, const char *name, enum python_what what)
{
	unsigned int n = c->n;
	const char *why;

	if (name && python_calls_add(c, name, &why)) /* they are too many: none of these is seen */
		c->n = (uint8_t)n;
	for (; n < c->n; n++)
		c->names[n].what = what;
}

unsigned int probe_spec_python(const struct probe_table *pt, size_t spec, enum python_layout layout, struct python_calls *ret_calls)
{
	const char *why;
	unsigned int n = 0;

	for (size_t i = 0; i < spec; i++)
		n += pt->specs[i].is_python;
	python_names_parse(pt->specs[spec].symbol, ret_calls, &why);
	for (unsigned int i = 0; pt->specs[spec].role != ROLE_STEP && i < ret_calls->n; i++)
		ret_calls->names[i].what = PYTHON_IS_SPAN;
	if (pt->specs[spec].batch) {
		python_calls_add_as(ret_calls, pt->specs[spec].batch_function, PYTHON_HAS_BATCH);
		python_calls_add_as(ret_calls, pt->specs[spec].results_function, PYTHON_HAS_RESULTS);
		python_calls_add_as(ret_calls, pt->specs[spec].arrival_function, PYTHON_HAS_ARRIVAL);
		python_calls_add_as(ret_calls, pt->specs[spec].sent_function, PYTHON_HAS_SENT);
		ret_calls->batch = *pt->specs[spec].batch;
	}
	python_calls_layout(layout, ret_calls);
	if (layout == PYTHON_LAYOUT_3_8)
		names_shorten(ret_calls);
	return n;
}
