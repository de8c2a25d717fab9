/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory of the target processes: what the programs count is looked at every few milliseconds, and
 * turned into REC_MEMORY records where it changed.
 */
#ifndef INFTRACE_MEMORY_H
#define INFTRACE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "capture/ring.h"
#include "process_sums.h"
#include "target/tasks.h"

struct memory;

/* sums_fd: the map process_sums. -ENOMEM. */
int memory_new(int sums_fd, struct memory **ret_memory);
void memory_free(struct memory *m);

/* As the window opens: what is known of the targets by now lies before it. */
void memory_start(struct memory *m, struct tasks *tasks);

/* A record for each target that changed since, and the last one of each that is gone. What comes
 * sooner than 10 ms after the time before is ignored, but for the `last` of the recording. */
void memory_sample(
	struct memory *m, struct tasks *tasks, uint64_t now_ns, bool last, record_cb cb, void *arg);

/* Fills in the resident sets, now and at their highest, as the window closes. */
void memory_totals(const struct memory *m, struct process_totals *list, size_t n);

#endif
