/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of spans that depend on their arguments: "n == 1 ? decode : n == 0 ? empty : prefill". */
#ifndef INFTRACE_NAME_RULE_H
#define INFTRACE_NAME_RULE_H

#include "engine/engine.h"

/* The rule of a specification that has none. -EINVAL with the reason in ret_why, -ENOMEM likewise; what
 * has been set by then is freed with the specification. */
int name_rule_parse(struct probe_spec *s, const char *rule, const char **ret_why);

/* The name by the first condition that holds, or the one behind the last. */
const char *name_rule_apply(const struct probe_spec *s, const uint64_t *vals);

/* 1 << argument, for those that decide it. */
uint32_t name_rule_args(const struct probe_spec *s);

void name_rule_clear(struct probe_spec *s);

/* Replaces what was copied by assignment by strings of its own. Sets *err to -ENOMEM, or leaves it. */
void name_rule_own(struct probe_spec *s, int *err);

#endif
