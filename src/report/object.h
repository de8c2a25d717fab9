/* SPDX-License-Identifier: BSD-2-Clause */
/* Parts of the report's JSON. */
#ifndef INFTRACE_REPORT_OBJECT_H
#define INFTRACE_REPORT_OBJECT_H

#include "report/json.h"
#include "report/summary.h"

/* {"total": ..., "cpu": ...} in microseconds. */
struct json_object *object_states(struct json_build *b, const int64_t *ns, int64_t total);

/* {"count": ..., "p50": ...} in microseconds; nothing without values. */
void object_percentiles(
	struct json_build *b, struct json_object *o, const char *key, const struct percentiles *p);

/* A step with its verdict. */
struct json_object *object_step(struct json_build *b, const struct model *m,
	const struct process *p, const struct step *s, const struct cause *c);

#endif
