/* SPDX-License-Identifier: BSD-2-Clause */
/* What a run does for the clients of its control socket: start, stop, dump, status. */
#ifndef INFTRACE_RECORD_CONTROL_H
#define INFTRACE_RECORD_CONTROL_H

#include "io/control.h"
#include "record/flight.h"
#include "record/windows.h"

struct run_control {
	/* to be set by the creator */
	const struct record_options *o;
	struct windows *windows;
	struct recorder *recorder; /* NULL: no --flight-recorder */
	uint64_t begun_ns;         /* of the run */

	bool stop;               /* a client ends the run */
	int failed;              /* error of a client's request; it ends the run */
	struct control *control; /* NULL: there is no socket, and the run does without it */
};

void run_control_open(struct run_control *r);

/* For struct recorder_config; arg: the run_control. */
void run_control_done(uint64_t id, int err, struct json_object *reply, const char *msg, void *arg);

#endif
