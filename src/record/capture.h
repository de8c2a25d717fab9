/* SPDX-License-Identifier: BSD-2-Clause */
/* The state of a whole run: what is attached, and what is known of the targets. */
#ifndef INFTRACE_RECORD_CAPTURE_H
#define INFTRACE_RECORD_CAPTURE_H

#include "capture/features.h"
#include "capture/follow.h"
#include "capture/misfit.h"
#include "capture/session.h"
#include "engine/handles.h"
#include "engine/spec.h"
#include "format/step_overhead.h"
#include "record/metadata.h"
#include "record/options.h"
#include "target/tasks.h"

struct calibration;
struct inspector;
struct pythons;
struct stacks;

struct capture {
	struct probe_table probes;
	struct inspector *inspector; /* NULL: nothing to probe */
	struct session *session;
	struct follow *follow;
	struct misfits *misfits;
	struct tasks *tasks;
	struct handles *handles;
	struct metadata *metadata; /* NULL: no profile */
	struct pythons *pythons;   /* NULL: no stacks are taken */
	struct stacks *stacks;     /* NULL: none are recorded */
	struct features features;  /* those probed so far */
	enum fault_ends fault_ends;
	bool lacks_faults;               /* faults were wanted, but the kernel reports none */
	struct calibration *calibration; /* while it runs; NULL: done, or costs are not measured */
	bool weighs;
	uint64_t hook_ns;             /* what a hook takes; 0: there are none */
	uint64_t outside_ns[HIT_MAX]; /* time to reach a program and return, see calibrate.h */
	struct probe_costs prices;
};

/* Checks that the kernel and the privileges allow recording. Prints one line on failure; -EPERM, -EOPNOTSUPP. */
int capture_check(struct capture *c);

/* Prepares what the options ask for, as far as that needs no kernel; prints one line on failure. */
int capture_prepare(struct capture *c, const struct record_options *o);

/* Starts the processes that read symbols and unwind tables. Call it before anything exists that they must not inherit. */
int capture_start_readers(struct capture *c, const struct record_options *o);

/* Waits for the measurement of a hit's cost, which capture_open() began. */
void capture_calibrated(struct capture *c);

/* Updates the prices from the hits so far. */
void capture_weigh(struct capture *c);

/* Loads the programs. hold_pid: as in struct session_config. */
int capture_open(struct capture *c, const struct record_options *o, pid_t hold_pid, record_cb cb, void *arg);

/* Detaches everything, but keeps probes, tasks and metadata. */
void capture_close(struct capture *c);
void capture_free(struct capture *c);

/* Whether a probe of -u was found nowhere. */
bool capture_lacks_option(const struct capture *c);

#endif
