// SPDX-License-Identifier: BSD-2-Clause
#include "engine/cond.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/spec.h"

int cond_parse(const struct probe_spec *s, const char *text, struct probe_cond *ret_cond,
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
		c.name = strdup(value);
		if (!c.name) {
			*ret_why = "out of memory";
			return -ENOMEM;
		}
	}
	*ret_cond = c;
	return 0;
}

void cond_clear(struct probe_cond *c)
{
	free(c->name);
	c->name = NULL;
}

int cond_copy(const struct probe_cond *c, struct probe_cond *ret_copy)
{
	char *name = c->name ? strdup(c->name) : NULL;

	if (c->name && !name)
		return -ENOMEM;
	*ret_copy = *c;
	ret_copy->name = name;
	return 0;
}

int cond_value(const struct probe_spec *s, const struct probe_cond *c, int64_t *ret_than)
{
	const struct enum_table *t = s->args[c->arg].names;

	if (!c->name) {
		*ret_than = c->than;
		return 0;
	}
	for (size_t i = 0; i < t->n; i++) {
		if (t->names[i] && !strcmp(t->names[i], c->name)) {
			*ret_than = (int64_t)i;
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
	switch (c->op) {
	case WHEN_EQ:
		return v == than;
	case WHEN_NE:
		return v != than;
	case WHEN_LT:
		return v < than;
	default:
		return v > than;
	}
}
