/* SPDX-License-Identifier: BSD-2-Clause */
/* Metrics as Prometheus reads them: its text format 0.0.4, or OpenMetrics 1.0, which has exemplars as well. */
#ifndef INFTRACE_EXPORT_METRICS_TEXT_H
#define INFTRACE_EXPORT_METRICS_TEXT_H

#include "export/tail.h"
#include "export/metrics.h"
#include "export/otlp_send.h"

/* What the exporter says of itself. */
struct metrics_own {
	const struct tail_counts *files;
	bool otlp;
	struct otlp_sent sent;
};

/* Whether a client that sends this header (NULL: none) wants OpenMetrics. */
bool metrics_accepts_openmetrics(const char *accept);

const char *metrics_text_type(bool openmetrics);

/* *ret_text is to be freed. Returns 0 or -ENOMEM. */
int metrics_text(struct metrics *m, const struct metrics_own *own, bool openmetrics, char **ret_text, size_t *ret_len);

#endif
