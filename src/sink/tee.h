/* SPDX-License-Identifier: BSD-2-Clause */
/* Sinks that pass everything on to several others: to all of them, or to one for each process. */
#ifndef INFTRACE_SINK_TEE_H
#define INFTRACE_SINK_TEE_H

#include <stddef.h>

#include "sink/sink.h"

/* Returns a sink that passes everything on to all of `list`, in order, and owns them; or a single one as it is. */
struct sink *tee_new(struct sink *const *list, size_t n);

/* The i-th sink of a tee; NULL: after the last. Any other sink is its own only one. */
const struct sink *tee_nth(const struct sink *s, size_t i);

/* Makes the sink of the process rec->tgid; 0: the one that all further processes share. `rec` is valid only during the call.
 * Prints one line on failure. */
typedef int (*by_process_open)(const struct recording *rec, void *arg, struct sink **ret_sink);

struct by_process_config {
	by_process_open open;
	void *arg;
	bool all_cpus; /* what ran on the CPUs goes to all of them */
	/* Only these processes: records of others are left out. NULL: all living targets, and any that appear later. */
	const uint32_t *tgids;
	size_t n_tgids;
};

/*
 * Makes one sink for each process. A process that appears later gets one with its first record, and the marks and losses
 * that it has missed; when there are too many, further ones share one.
 */
int by_process_new(const struct by_process_config *c, const struct recording *rec, struct sink **ret_sink);

#endif
