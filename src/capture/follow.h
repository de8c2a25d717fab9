/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keeps function probes where the targets are: in files that they map during the recording, in the
 * children they fork, and out of other processes where those pay for them.
 */
#ifndef INFTRACE_FOLLOW_H
#define INFTRACE_FOLLOW_H

#include <stdint.h>

#include "record.h"

struct session;
struct tasks;
struct follow;

/* Both must outlive the result. -ENOMEM. */
int follow_new(struct session *s, struct tasks *ts, struct follow **ret_follow);
void follow_free(struct follow *f);

/* A record of the life of a task (after tasks_update()), or of a mapped file. */
void follow_record(struct follow *f, const struct rec_hdr *h);

/* Acts on what was told; not from within a record's callback, since it may take milliseconds. */
void follow_scan(struct follow *f);

/* Looks at the files of all targets again, when nothing has told of what they mapped. */
void follow_rescan(struct follow *f);

/* Now and then: whether processes that are no targets call the probed functions often, and what
 * follows from it. now_ns: CLOCK_BOOTTIME. */
void follow_strangers(struct follow *f, uint64_t now_ns);

/* At the end: what was not seen on the way. */
void follow_summary(const struct follow *f);

#endif
