/* SPDX-License-Identifier: BSD-2-Clause */
/* Building probe specifications: shared by the presets and the -u option. */
#ifndef INFTRACE_SPEC_H
#define INFTRACE_SPEC_H

#include "engine/engine.h"

/* Bytes of a symbol or span name, and of the name of an argument or of an enum's value. A span with
 * ten arguments of the longest names still is an event of less than WRITER_EVENT_MAX bytes. */
#define SPEC_STRING_MAX 255
#define SPEC_NAME_MAX 63
#define SPECS_MAX 4096 /* as many as the BPF map of probes holds */

/* Appends a span probe named after its symbol. The table owns all strings (copies). NULL: full.
 * Pointers to earlier specifications are invalid afterwards. */
struct probe_spec *spec_append(struct probe_table *pt, const char *library, const char *symbol);

struct probe_spec *spec_find(
	struct probe_table *pt, const struct engine *e, const char *library, const char *symbol);

/* Whether a text has 1 to max bytes and no control characters. */
bool spec_text_ok(const char *text, size_t max);

/* Each returns 0 or -EINVAL, with the reason in ret_why where there is more than one. */
int spec_set_role(struct probe_spec *s, const char *role);
int spec_set_name(struct probe_spec *s, const char *rule, const char **ret_why);
int spec_set_when(struct probe_spec *s, const char *rule, const char **ret_why);
int spec_add_arg(struct probe_spec *s, const char *name, const char *expr,
	const struct enum_table *enums, size_t n_enums, const char **ret_why);

#endif
