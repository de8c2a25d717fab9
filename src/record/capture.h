/* SPDX-License-Identifier: BSD-2-Clause */
/* What is attached, and what is known of the targets: all that exists from the beginning of a run to its end. */
#ifndef INFTRACE_RECORD_CAPTURE_H
#define INFTRACE_RECORD_CAPTURE_H

#include "capture/follow.h"
#include "capture/session.h"
#include "engine/engine.h"
#include "engine/handles.h"
#include "record/metadata.h"
#include "record/options.h"
#include "sink/weight.h"
#include "target/tasks.h"

struct calibration;
struct inspector;

struct capture {
	struct probe_table probes;
	struct inspector *inspector; /* NULL: there is nothing to probe */
	struct session *session;
	struct follow *follow;
	struct tasks *tasks;
	struct handles *handles;
	struct metadata *metadata; /* NULL: no profile */
	bool uprobe_multi, uprobe_multi_pid, pid_ns;
	struct calibration *calibration; /* until it is over; NULL: nothing is weighed */
	bool weighs;
	uint64_t outside_ns[HIT_MAX]; /* to get to a program, see calibrate.h */
	struct prices prices;
};

/* Whether kernel and privileges allow it. Prints one line on failure; -EPERM, -EOPNOTSUPP. */
int capture_check(struct capture *c);

/* What the options ask for, without the kernel; prints one line on failure. */
int capture_prepare(struct capture *c, const struct record_options *o);

/* Starts the process that reads symbols, before there is anything of which it should not have a copy. */
int capture_start_inspector(struct capture *c);

/* Begins to measure what hits of the programs will cost, and waits until that is known. Without it nothing is said. */
void capture_calibrate(struct capture *c);
void capture_calibrated(struct capture *c);

/* What is known by now of what the programs cost. */
void capture_weigh(struct capture *c);

/* Loads the programs. hold_pid: as in struct session_config. */
int capture_open(struct capture *c, const struct record_options *o, pid_t hold_pid, record_cb cb, void *arg);

/* Detaches everything; probes, tasks and metadata stay. */
void capture_close(struct capture *c);
void capture_free(struct capture *c);

/* What -u asks for was nowhere. */
bool capture_lacks_option(const struct capture *c);

#endif
