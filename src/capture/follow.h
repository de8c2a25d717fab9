/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keeps function probes where the targets are: adds them to files that targets map during the recording and to
 * children that they fork, and removes them from other processes where they cost too much.
 */
#ifndef INFTRACE_FOLLOW_H
#define INFTRACE_FOLLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "target/tasks.h"

struct session;
struct follow;

/*
 * s and ts must outlive the result. sweeps: files that no target has mapped for half a minute lose their probes until one
 * maps them again. Set it only if processes whose records were lost are found by other means: else their files would lose
 * probes that they need.
 */
struct follow *follow_new(struct session *s, struct tasks *ts, bool sweeps);
void follow_free(struct follow *f);

/* Handles a record of the life of a task, with what tasks_update() has returned, or of a mapped file. */
void follow_record(struct follow *f, const struct rec_hdr *h, enum process_news news);

/* Acts on the records so far; must not be called within a record's callback, since it may take milliseconds. */
void follow_scan(struct follow *f);

/* Scans the files of all targets again, for when no record says what they have mapped. */
void follow_rescan(struct follow *f);

/* Call now and then, after new processes were added: runs the sweeps and finishes detaching. now_ns: CLOCK_BOOTTIME. */
void follow_turn(struct follow *f, uint64_t now_ns);

/* Call now and then: checks whether processes that are not targets call the probed functions often, and if so
 * removes the probes from them. now_ns: CLOCK_BOOTTIME. */
void follow_strangers(struct follow *f, uint64_t now_ns);

/* Call now and then: removes the probes at Python functions from processes where these are watched. now_ns: CLOCK_BOOTTIME. */
void follow_watches(struct follow *f, uint64_t now_ns);

/* Prints at the end what was missed. */
void follow_summary(const struct follow *f);

#endif
