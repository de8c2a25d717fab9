/* SPDX-License-Identifier: BSD-2-Clause */
/* The processes that are recorded. */
#ifndef INFTRACE_RECORD_TARGETS_H
#define INFTRACE_RECORD_TARGETS_H

#include <stdint.h>

#include "record/capture.h"
#include "record/options.h"
#include "target/command.h"
#include "util/user.h"

struct discover;

/* ---- --discover and --cgroup ---- */

/*
 * Makes targets of processes that a preset matches, or that are in a cgroup, some milliseconds after the kernel reports
 * that they map an executable file (capture/perf_events.h). Where that is not allowed, and for running processes, scans
 * /proc at a limited cost. -EINVAL, after one line: no preset is loaded, or there is no such cgroup.
 */
int discover_new(struct capture *c, const struct record_options *o, struct discover **ret_discover);
void discover_free(struct discover *d);

/* Looks for processes when due. Not for a record's callback: each process found costs some milliseconds. */
void discover_turn(struct discover *d, uint64_t now_ns);

/* CLOCK_BOOTTIME of the next turn that has something to do. */
uint64_t discover_due_ns(const struct discover *d);

/* Prints at the end how many were found, and how many are known to have been missed. */
void discover_summary(struct discover *d);

/* ---- -p, a COMMAND, or all ---- */

struct targets {
	const struct record_options *o; /* to be set by the creator */
	pid_t *pids;                    /* o->pids, then those of their children that a preset matches */
	int *pidfds;                    /* of these, opened before anything is attached; -1: not available */
	size_t n_pids;
	struct command cmd;
	struct user user;    /* of the command */
	bool gone;           /* to be set by the creator: all of them have exited */
	bool command_exited; /* by itself */
};

/* Checks that the targets exist and may be recorded. Prints one line on failure. */
int targets_check(struct targets *t);

/* Starts the command, which waits. environment: NAME=VALUE in addition, ending with NULL; or NULL. */
int targets_spawn(struct targets *t, const char *const *environment);

/* The process whose loader is probed; 0: all processes. */
pid_t targets_hold_pid(const struct targets *t);

/* Finds running processes that are recorded, too; after that, all of .pids are. Call it before targets_attach(). */
void targets_find(struct targets *t, struct capture *c);

/* Attaches to the targets. Prints one line on failure. */
int targets_attach(struct targets *t, struct capture *c);

/* Ends a command that is still running. -EBUSY: it does not end, which has been reported. */
int targets_end(struct targets *t);
void targets_free(struct targets *t);

#endif
