/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * record --discover and --cgroup: finds the processes that a preset matches, or that are in a cgroup, as they come and go,
 * and makes targets of them.
 *
 * The kernel tells which processes map which executable files (capture/perf_events.h), and some milliseconds later one
 * that maps a file of a preset is a target. Where that is not allowed, and for those that run already, /proc is looked
 * through, whose cost is limited. What a process does before it is found is not recorded.
 */
#ifndef INFTRACE_RECORD_DISCOVER_H
#define INFTRACE_RECORD_DISCOVER_H

#include <stdint.h>

#include "record/capture.h"

/* Found processes that are alive at a time: as many as can have files of their own. */
#define DISCOVER_MAX 256

struct discover;

/* c and o must outlive the result. -EINVAL, after one line, if no preset is loaded or there is no such cgroup; -ENOMEM. */
int discover_new(struct capture *c, const struct record_options *o, struct discover **ret_discover);
void discover_free(struct discover *d);

/* Looks for processes if it is time to, not within a record's callback: each that is found costs some milliseconds. */
void discover_turn(struct discover *d, uint64_t now_ns);

/* CLOCK_BOOTTIME of the next turn that has something to do. */
uint64_t discover_due_ns(const struct discover *d);

/* Prints at the end how many were found, and how many are known not to have been. */
void discover_summary(struct discover *d);

#endif
