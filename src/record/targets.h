/* SPDX-License-Identifier: BSD-2-Clause */
/* The processes that are recorded: those of -p, a command, or all. */
#ifndef INFTRACE_RECORD_TARGETS_H
#define INFTRACE_RECORD_TARGETS_H

#include "record/capture.h"
#include "record/options.h"
#include "target/command.h"
#include "util/user.h"

struct targets {
	const struct record_options *o; /* to be set by whoever makes it */
	int *pidfds; /* of o->pids, from before anything was attached; -1: not to be had */
	struct command cmd;
	struct user user; /* of the command */
	bool command_exited; /* by itself, before targets_end() */
};

/* Whether they are there and may be recorded. Prints one line on failure. */
int targets_check(struct targets *t);

/* Starts the command, which waits. */
int targets_spawn(struct targets *t);

/* Whose loader is probed; 0: every one. */
pid_t targets_hold_pid(const struct targets *t);

/* Attaches to them. Prints one line on failure. */
int targets_attach(struct targets *t, struct capture *c);

/* Ends a command that still runs. */
void targets_end(struct targets *t);
/* -EBUSY: it runs all the same, which has been said. */
int targets_check_ended(const struct targets *t);
void targets_free(struct targets *t);

#endif
