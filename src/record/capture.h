/* SPDX-License-Identifier: BSD-2-Clause */
/* What is attached, and what is known of the targets: everything that exists for the whole run. */
#ifndef INFTRACE_RECORD_CAPTURE_H
#define INFTRACE_RECORD_CAPTURE_H

#include "capture/features.h"
#include "capture/follow.h"
#include "capture/misfit.h"
#include "capture/session.h"
#include "engine/spec.h"
#include "engine/handles.h"
#include "format/weight.h"
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
	struct features features;  /* as far as tried */
	enum fault_ends fault_ends;
	bool lacks_faults;               /* they were wanted, and the kernel shows none */
	struct calibration *calibration; /* until it is done; NULL: costs are not measured */
	bool weighs;
	uint64_t outside_ns[HIT_MAX]; /* time to reach a program and return, see calibrate.h */
	struct prices prices;
};

/* Whether the kernel and the privileges allow it. Prints one line on failure; -EPERM, -EOPNOTSUPP. */
int capture_check(struct capture *c);

/* Prepares what the options ask for, as far as that needs no kernel; prints one line on failure. */
int capture_prepare(struct capture *c, const struct record_options *o);

/* Starts the processes that read symbols and unwind tables, before there is anything that they should not copy. */
int capture_start_readers(struct capture *c, const struct record_options *o);

/* Waits for the measurement of what hits of the programs cost, which capture_open() began. */
void capture_calibrated(struct capture *c);

/* Updates what is known of the programs' cost so far. */
void capture_weigh(struct capture *c);

/* Loads the programs. hold_pid: as in struct session_config. */
int capture_open(struct capture *c, const struct record_options *o, pid_t hold_pid, record_cb cb, void *arg);

/* Detaches everything, but keeps probes, tasks and metadata. */
void capture_close(struct capture *c);
void capture_free(struct capture *c);

/* Whether something that -u asks for was not found anywhere. */
bool capture_lacks_option(const struct capture *c);

#endif
