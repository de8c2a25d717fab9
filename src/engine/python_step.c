// SPDX-License-Identifier: BSD-2-Clause
#include "engine/python_step.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine/spec.h"
#include "target/python.h"
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

static int add_name(
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

/* The function `name` in the module whose name ends there: in its file, or in that of a package. */
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
		err = n < (int)sizeof(path) ? add_name(c, name, path, (size_t)n, ret_why) : -EINVAL;
	}
	return err;
}

int python_names_parse(const char *option, struct python_calls *ret_calls, const char **ret_why)
{
	struct python_calls c = { .n = 0 };
	const char *colon = strrchr(option, ':');
	int err;

	if (colon) {
		err = add_name(&c, colon + 1, option, (size_t)(colon - option), ret_why);
	} else {
		err = add_name(&c, option, NULL, 0, ret_why);
		/* not within main.<locals>.step */
		for (const char *dot = strchr(option, '.'); dot && !err; dot = strchr(dot + 1, '.')) {
			if (memchr(option, '<', (size_t)(dot - option)))
				break;
			*ret_why = "a name between two dots is missing";
			err = dot == option || dot[1] == '.' || !dot[1] ? -EINVAL : add_in_module(&c, option, dot + 1, ret_why);
		}
	}
	if (!err)
		*ret_calls = c;
	return err;
}

int probe_table_add_python(struct probe_table *pt, const char *option)
{
	struct python_calls calls;
	struct probe_spec *s = NULL;
	const char *why = "there are too many probes";
	unsigned int n = 0;
	char shown[200];
	int err;

	for (size_t i = 0; i < pt->n; i++)
		n += pt->specs[i].is_python;
	err = python_names_parse(option, &calls, &why);
	if (!err && n == PYTHON_CALLS_MAX) {
		why = "more than 4 of them";
		err = -EINVAL;
	}
	if (!err)
		s = spec_append(pt, PYTHON_FILES, option);
	if (!s) {
		log_error("--py-step %s: %s; write MODULE.CLASS.FUNCTION or FILE:CLASS.FUNCTION",
			text_printable(shown, sizeof(shown), option), why);
		return -EINVAL;
	}
	s->is_python = true;
	s->is_glob = s->is_usdt = false;
	s->role = ROLE_STEP;
	s->flags = PROBE_F_SPAN;
	return 0;
}

/* Before 3.11 functions have only their own name: without what it is in, a file must say which it is. */
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

unsigned int probe_spec_python(const struct probe_table *pt, size_t spec, enum python_layout layout, struct python_calls *ret_calls)
{
	const char *why;
	unsigned int n = 0;

	for (size_t i = 0; i < spec; i++)
		n += pt->specs[i].is_python;
	python_names_parse(pt->specs[spec].symbol, ret_calls, &why);
	python_calls_layout(layout, ret_calls);
	if (layout == PYTHON_LAYOUT_3_8)
		names_shorten(ret_calls);
	return n;
}
