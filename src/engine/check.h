/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A preset knows the layouts of some releases of its engine. In other releases the same offsets
 * hold something else, which must not be shown as if it were an operator's name or shape.
 *
 * The values of a probe's first calls are checked: a number must belong to its enum, a text must be
 * printable, the preset's own checks must hold. If one does not fit, everything read through the
 * same pointer is left out. Enums are checked for ever, since that costs next to nothing.
 */
#ifndef INFTRACE_CHECK_H
#define INFTRACE_CHECK_H

#include <string.h>

#include "engine/rows.h"
#include "engine/spec.h"

#define CHECK_CALLS 64

/* Use check_call(). */
bool check_values(
	struct probe_table *pt, struct probe_spec *s, const uint64_t *vals, const char *strs);

/* Call before a call is shown. Prints a line when the preset turns out not to fit. Returns false for a
 * call that must not be shown at all, because whether it counts depends on a value that does not fit. */
static inline bool check_call(
	struct probe_table *pt, struct probe_spec *s, const uint64_t *vals, const char *strs)
{
	if (!s->engine || (s->checked == CHECK_CALLS && !s->has_enums && !s->misfits))
		return true;
	return check_values(pt, s, vals, strs);
}

static inline bool check_enum(const struct enum_table *t, uint64_t v)
{
	return !t->n || (v < t->n && t->names[v]);
}

/* Whether a call with these values has the argument, and it may be shown. */
static inline bool check_shown(const struct probe_spec *s, unsigned int i, const uint64_t *vals)
{
	const struct probe_arg *a = &s->args[i];

	if (a->is_row && !rows_shown(s, i, vals))
		return false;
	return !(s->misfits & 1u << i) && (!a->names || check_enum(a->names, vals[i])) &&
	       (a->only_if.op == WHEN_ALWAYS ||
		       (!(s->misfits & 1u << a->only_if.arg) && cond_holds(s, &a->only_if, vals)));
}

/* Returns the index of the argument with this name, if it may be shown; else -1. */
static inline int check_find(const struct probe_spec *s, const uint64_t *vals, const char *name)
{
	for (unsigned int i = 0; i < s->nargs; i++) {
		if (!strcmp(s->args[i].name, name) && check_shown(s, i, vals))
			return (int)i;
	}
	return -1;
}

/* Sets *ret to its value; else returns false and leaves *ret alone. */
static inline bool check_value(const struct probe_spec *s, const uint64_t *vals, const char *name, uint64_t *ret)
{
	int i = check_find(s, vals, name);

	if (i >= 0)
		*ret = vals[i];
	return i >= 0;
}

/* Sets *ret_bytes to the bytes that a call passes. False: the preset does not tell, or the arguments are unknown. */
bool bytes_of_call(const struct probe_spec *s, const uint64_t *vals, uint64_t *ret_bytes);

/* Prints at the end what was left out. */
void check_summary(const struct probe_table *pt);

#endif
