/* SPDX-License-Identifier: BSD-2-Clause */
/* The requests in batches as JSON: docs/report.md. */
#ifndef INFTRACE_REPORT_SEQ_OBJECT_H
#define INFTRACE_REPORT_SEQ_OBJECT_H

#include "report/json.h"
#include "report/seq_summary.h"

/* Adds "batch_requests", and "goodput" with --slo, if there is any. */
void seq_put(struct json_build *b, struct json_object *o, const struct process *p, const struct seq_summary *sum,
	uint32_t slowest);

/*
 * What the page draws: {"count": all, "parts": [NAME, ...], "rows": [[number, sequence, recording, start, total, to the
 * first token or -1, prompt tokens, output tokens, flags, part, ...], ...], "text": {row: sentence}}, in milliseconds;
 * the first is at 0. Of many requests only the slowest and a selection of the others. NULL: there are none, or there is
 * no memory (then b says so).
 */
struct json_object *seq_plot_object(struct json_build *b, const struct process *p, const struct seq_summary *sum);

#endif
