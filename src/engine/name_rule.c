// SPDX-License-Identifier: BSD-2-Clause
#include "engine/name_rule.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cond.h"

#define NAME_CHARS "a-zA-Z0-9_.-"

/* Parses "COND ? NAME :" at the start of *rule, and moves *rule past it. */
static int parse_case(struct probe_spec *s, const char **rule, const char **ret_why)
{
	struct name_case *c = &s->name_cases[s->n_name_cases];
	size_t len = strcspn(*rule, "?");
	char cond[200], name[64];
	int end = 0, err;

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
	err = cond_parse(s, cond, &c->cond, ret_why);
	if (err)
		return err;
	*rule += strcspn(*rule, "?") + (size_t)end;
	c->name = strdup(name);
	s->n_name_cases++;
	*ret_why = "out of memory";
	return c->name ? 0 : -ENOMEM;
}

int name_rule_parse(struct probe_spec *s, const char *rule, const char **ret_why)
{
	char name[64];
	int end = 0, err;

	while (strchr(rule, '?')) {
		err = parse_case(s, &rule, ret_why);
		if (err)
			return err;
	}
	if (sscanf(rule, " %63[" NAME_CHARS "] %n", name, &end) != 1 || rule[end]) {
		*ret_why = "write: arg == value ? name : name";
		return -EINVAL;
	}
	s->span_name = strdup(name);
	*ret_why = "out of memory";
	return s->span_name ? 0 : -ENOMEM;
}

const char *name_rule_apply(const struct probe_spec *s, const uint64_t *vals)
{
	for (unsigned int i = 0; i < s->n_name_cases; i++) {
		if (cond_holds(s, &s->name_cases[i].cond, vals))
			return s->name_cases[i].name;
	}
	return s->span_name;
}

uint32_t name_rule_args(const struct probe_spec *s)
{
	uint32_t args = 0;

	for (unsigned int i = 0; i < s->n_name_cases; i++) {
		const struct probe_cond *c = &s->name_cases[i].cond;

		args |= 1u << c->arg | (c->other ? 1u << (c->other - 1) : 0);
	}
	return args;
}

void name_rule_clear(struct probe_spec *s)
{
	for (unsigned int i = 0; i < s->n_name_cases; i++) {
		cond_clear(&s->name_cases[i].cond);
		free(s->name_cases[i].name);
	}
	s->n_name_cases = 0;
}

void name_rule_own(struct probe_spec *s, int *err)
{
	for (unsigned int i = 0; i < s->n_name_cases; i++) {
		struct name_case *c = &s->name_cases[i];
		char *cond = c->cond.name ? strdup(c->cond.name) : NULL;

		if (c->cond.name && !cond)
			*err = -ENOMEM;
		c->cond.name = cond;
		c->name = strdup(c->name);
		if (!c->name)
			*err = -ENOMEM;
	}
}
