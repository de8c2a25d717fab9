/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * record --discover: finds processes that a preset matches, as they come and go, and makes targets of them.
 *
 * New processes are found by looking into /proc, whose cost is limited: what a process does before it is found is
 * not recorded.
 */
#ifndef INFTRACE_RECORD_DISCOVER_H
#define INFTRACE_RECORD_DISCOVER_H

#include <stdint.h>

#include "record/capture.h"

/* Found processes that are alive at a time: as many as can have files of their own. */
#define DISCOVER_MAX 256

struct discover;

/* c must outlive the result. -EINVAL, after one line, if no preset is loaded; -ENOMEM. */
int discover_new(struct capture *c, struct discover **ret_discover);
void discover_free(struct discover *d);

/* Looks for processes if it is time to, not within a record's callback: each that is found costs some milliseconds. */
void discover_turn(struct discover *d, uint64_t now_ns);

/* CLOCK_BOOTTIME of the next look. */
uint64_t discover_due_ns(const struct discover *d);

/* Prints at the end how many were found. */
void discover_summary(struct discover *d);

#endif
