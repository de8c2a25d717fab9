/* SPDX-License-Identifier: BSD-2-Clause */
/* The processes that are recorded: those of -p, a command, or all. */
#ifndef INFTRACE_RECORD_TARGETS_H
#define INFTRACE_RECORD_TARGETS_H

#include "record/capture.h"
#include "record/options.h"
#include "target/command.h"
#include "util/user.h"

struct targets {
	const struct record_options *o; /* to be set by the creator */
	int *pidfds; /* of o->pids, opened before anything is attached; -1: not available */
	struct command cmd;
	struct user user; /* of the command */
	const char *const *environment; /* of the command: NAME=VALUE in addition, ending with NULL; or NULL */
	bool gone; /* to be set by the creator: all of them have exited */
	bool command_exited; /* by itself */
};

/* Checks that they exist and may be recorded. Prints one line on failure. */
int targets_check(struct targets *t);

/* Starts the command, which waits. */
int targets_spawn(struct targets *t);

/* The process whose loader is probed; 0: all processes. */
pid_t targets_hold_pid(const struct targets *t);

/* Attaches to them. Prints one line on failure. */
int targets_attach(struct targets *t, struct capture *c);

/* Ends a command that is still running. */
void targets_end(struct targets *t);
/* -EBUSY: it is still running, which has been reported. */
int targets_check_ended(const struct targets *t);
void targets_free(struct targets *t);

#endif
