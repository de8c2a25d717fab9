/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of spans that depend on their arguments: "n == 1 ? decode : n == 0 ? empty : prefill". */
#ifndef INFTRACE_NAME_RULE_H
#define INFTRACE_NAME_RULE_H

#include "engine/engine.h"

/* Sets the rule of a specification that has none. -EINVAL or -ENOMEM with the reason in ret_why; what
 * has been set by then is freed with the specification. */
int name_rule_parse(struct probe_spec *s, const char *rule, const char **ret_why);

/* The name after the first condition that holds, or the last name. */
const char *name_rule_apply(const struct probe_spec *s, const uint64_t *vals);

/* 1 << argument, for those that the name depends on. */
uint32_t name_rule_args(const struct probe_spec *s);

void name_rule_clear(struct probe_spec *s);

/* Replaces strings that were copied by assignment with copies of its own. Sets *err to -ENOMEM, or leaves it. */
void name_rule_own(struct probe_spec *s, int *err);

#endif
