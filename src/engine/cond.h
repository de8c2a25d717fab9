/* SPDX-License-Identifier: BSD-2-Clause */
/* Conditions on a probe's arguments: which calls count, which arguments a call has, and what must
 * be true. */
#ifndef INFTRACE_COND_H
#define INFTRACE_COND_H

#include "engine/engine.h"

/*
 * Parses "ARG == VALUE" (or !=, <, >): an argument that the probe already has, and a number or a
 * name of its enum. Free with cond_clear(). -EINVAL or -ENOMEM with the reason in ret_why.
 */
int cond_parse(const struct probe_spec *s, const char *text, struct probe_cond *ret_cond,
	const char **ret_why);
void cond_clear(struct probe_cond *c);

/* 0 or -ENOMEM. */
int cond_copy(const struct probe_cond *c, struct probe_cond *ret_copy);

/* What the argument is compared with. -ENOENT: a name that the enum currently lacks. */
int cond_value(const struct probe_spec *s, const struct probe_cond *c, int64_t *ret_than);

/* Whether it holds for a call with these values. A condition without an operator always does. */
bool cond_holds(const struct probe_spec *s, const struct probe_cond *c, const uint64_t *vals);

#endif
