/* SPDX-License-Identifier: BSD-2-Clause */
/* inftrace export --prometheus, --otlp: metrics of profiles that grow, until Ctrl-C. */
#ifndef INFTRACE_CMD_EXPORT_METRICS_H
#define INFTRACE_CMD_EXPORT_METRICS_H

#include <stddef.h>
#include <stdint.h>

struct export_metrics_args {
	const char *prometheus; /* [ADDR]:PORT; NULL: not asked for */
	const char *otlp;       /* the URL of a collector; NULL: not asked for */
	uint64_t slow_ns, interval_ns;
	char *const *paths;
	size_t n_paths;
};

/* Returns an exit code. */
int export_metrics(const struct export_metrics_args *args);

#endif
