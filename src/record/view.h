/* SPDX-License-Identifier: BSD-2-Clause */
/* Shows a recording while it runs, instead of messages. */
#ifndef INFTRACE_RECORD_VIEW_H
#define INFTRACE_RECORD_VIEW_H

#include <signal.h>

#include "sink/sink.h"

struct session;
struct view;

struct view_ops {
	/* The recording begins: its records also go to the sink, which `rec` outlives. Prints one line on failure. */
	int (*open)(struct view *v, const struct recording *rec, struct sink **ret_sink);
	/* After each drain, several times a second. Returns 0, 1 to end the run, or an error. */
	int (*round)(struct view *v, uint64_t now_ns);
	void (*signal)(struct view *v, int signo);
};

struct view {
	const struct view_ops *ops;
	int fd;		    /* to be polled for input, or -1 */
	sigset_t signals;   /* signals to pass to it */
	int command_fds[3]; /* for command_spawn_with() */
	struct session *session; /* set before open() */
};

#endif
