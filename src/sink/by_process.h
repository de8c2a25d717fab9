/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A sink that has another for each process. Those that come later get theirs with their first record, with
 * the marks and the loss that they have missed; when there are too many, the rest shares one.
 */
#ifndef INFTRACE_SINK_BY_PROCESS_H
#define INFTRACE_SINK_BY_PROCESS_H

#include "sink/sink.h"

/* Makes the sink of the process rec->tgid; 0: of all that share one. `rec` is valid during the call only. Prints
 * one line on failure. */
typedef int (*by_process_open)(const struct recording *rec, void *arg, struct sink **ret_sink);

struct by_process_config {
	by_process_open open;
	void *arg;
	bool all_cpus; /* what ran on the CPUs is shown to all */
	/* These processes and no others: records of others are left out. NULL: all targets that live, and any that
	 * come. */
	const uint32_t *tgids;
	size_t n_tgids;
};

int by_process_new(const struct by_process_config *c, const struct recording *rec, struct sink **ret_sink);

#endif
