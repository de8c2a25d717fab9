/* SPDX-License-Identifier: BSD-2-Clause */
/* Builds probe specifications, for the presets and for the -u option. */
#ifndef INFTRACE_SPEC_H
#define INFTRACE_SPEC_H

#include "engine/engine.h"

/* Bytes of a symbol or span name, and of the name of an argument or of an enum's value. Even a span
 * with ten arguments of the longest names is an event of less than WRITER_EVENT_MAX bytes. */
#define SPEC_STRING_MAX 255
#define SPEC_NAME_MAX 63
#define SPECS_MAX 4096 /* as many as the BPF map of probes holds */

/* The beginning of the symbol of a USDT probe; "provider:name" follows. */
#define SPEC_USDT "usdt:"

/* Appends a span probe named after its symbol. The table copies all strings. NULL: full. Pointers
 * to earlier specifications are invalid afterwards. */
struct probe_spec *spec_append(struct probe_table *pt, const char *library, const char *symbol);

struct probe_spec *spec_find(
	struct probe_table *pt, const struct engine *e, const char *library, const char *symbol);

/* Whether its role means a time, so that an instant will not do. */
bool spec_needs_end(const struct probe_spec *s);

/* The number of an argument, or -1. The name need not be terminated by a NUL. */
int spec_find_arg(const struct probe_spec *s, const char *name, size_t len);

/* Whether a text has 1 to max bytes and no control characters. */
bool spec_text_ok(const char *text, size_t max);

/* Part n of an Itanium-mangled nested name: _ZN2at4_ops3add4callE... has at, _ops, add, call. NULL: it has none. */
const char *spec_mangled_part(const char *symbol, int n, size_t *ret_len);

/* False: it begins like a USDT probe, but does not say which. */
bool spec_usdt_ok(const char *symbol);

/* Each returns 0 or -EINVAL, with the reason in ret_why where there is more than one. */
int spec_set_role(struct probe_spec *s, const char *role);
int spec_set_name(struct probe_spec *s, const char *rule, const char **ret_why);
int spec_set_when(struct probe_spec *s, const char *rule, const char **ret_why);
/* The name of the argument `handle` is in the argument `name`, "$ARG". */
int spec_set_names(struct probe_spec *s, const char *handle, const char *name, const char **ret_why);
int spec_add_check(struct probe_spec *s, const char *rule, const char **ret_why);
/* expr: "TYPE SOURCE", "TYPE SOURCE at return", or "TYPE SOURCE if CONDITION" on arguments that came before. */
int spec_add_arg(struct probe_spec *s, const char *name, const char *expr,
	const struct enum_table *enums, size_t n_enums, const char **ret_why);

/* Whether a condition holds for a call with these values. One without an operator always does. */
bool cond_holds(const struct probe_spec *s, const struct probe_cond *c, const uint64_t *vals);

/* How many bytes a call passes. false: the preset does not say it, or the arguments are not known. */
bool bytes_of_call(const struct probe_spec *s, const uint64_t *vals, uint64_t *ret_bytes);

#endif
