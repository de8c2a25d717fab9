/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A sink with another sink for each process. A process that appears later gets one with its first record,
 * and with the marks and losses that it has missed; when there are too many, the others share one.
 */
#ifndef INFTRACE_SINK_BY_PROCESS_H
#define INFTRACE_SINK_BY_PROCESS_H

#include "sink/sink.h"

/* Makes the sink of the process rec->tgid; 0: the one that others share. `rec` is valid only during the call.
 * Prints one line on failure. */
typedef int (*by_process_open)(const struct recording *rec, void *arg, struct sink **ret_sink);

struct by_process_config {
	by_process_open open;
	void *arg;
	bool all_cpus; /* what ran on the CPUs goes to all of them */
	/* These processes and no others: records of others are left out. NULL: all living targets, and any that
	 * appear later. */
	const uint32_t *tgids;
	size_t n_tgids;
};

int by_process_new(const struct by_process_config *c, const struct recording *rec, struct sink **ret_sink);

#endif
