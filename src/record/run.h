/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the parts of a run share: its loop (record_run.c), records and windows (record_capture.c), the
 * flight recorder (record_flight.c), the control socket (record_control.c) and the last words
 * (record_end.c).
 */
#ifndef INFTRACE_RECORD_RUN_H
#define INFTRACE_RECORD_RUN_H

#include <time.h>

#include "capture/follow.h"
#include "capture/memory.h"
#include "capture/session.h"
#include "record/options.h"
#include "record/schedule.h"
#include "sink/profile.h"
#include "target/command.h"
#include "util/clock.h"
#include "util/user.h"

#define IDLE_NS NSEC_PER_SEC /* a window that is closed for so long does without its programs */
#define PREPARE_NS (NSEC_PER_SEC / 10) /* before it opens, where that is known, they are attached again */

struct control;
struct flag;
struct metadata;
struct recorder;
struct step_limit;

/* The window that is open, or the last one. */
struct window {
	bool open;
	uint32_t number; /* of the next one while none is open */
	const char *why; /* it was opened, for the messages */
	struct recording rec;
	struct sink *sink; /* NULL: with a flight recorder, which takes the records */
	struct memory *memory; /* NULL: neither -e memory nor a profile */
	struct process_totals *processes;
	struct window_totals totals;
	uint64_t dropped[REC_KIND_MAX]; /* by outputs, so far */
	unsigned int files; /* that it left */
	uint64_t file_bytes, unnamed_bytes;
};

struct run {
	struct record_options *o;
	struct probe_table probes;
	struct inspector *inspector;
	struct session *session;
	struct tasks *tasks;
	struct handles *handles;
	struct metadata *metadata; /* NULL: no profile */
	struct profile_meta meta;
	int *pidfds; /* of o->pids, from before anything was attached; -1: not to be had */
	struct command cmd;
	struct user user; /* of the command */
	int signal_fd;
	bool stop, interrupted;
	bool single_links; /* no uprobe_multi */
	struct follow *follow;
	struct window w;
	struct window_totals whole; /* of all windows that have closed */
	uint64_t lost[REC_KIND_MAX]; /* all that was counted so far */
	uint64_t dropped; /* records that an output was too slow for, over all kinds and outputs */
	uint64_t begun_ns, last_loss_ns, last_flush_ns, last_status_ns, last_check_ns;
	uint64_t last_records, last_steps;
	uint64_t idle_ns; /* when the closed window is to cost nothing; 0: it is so already */
	uint64_t last_rescan_ns;
	struct flag *flag; /* NULL: no --window-flag */
	struct schedule schedule;
	uint32_t scheduled; /* number of the window as of the schedule */
	uint64_t next_ns;   /* when to look at it again */
	uint64_t counted_steps; /* that it knows of */
	struct step_limit *step_limit; /* NULL: no --max-steps-per-process */
	struct json_object *files; /* that were left, for a client that waits for them; or NULL */
	int failed; /* within a callback */
	struct control *control;
	struct recorder *recorder;
};

/* ---- record_capture.c ---- */

/* Opens a window; `why` must be static. Prints one line on failure. */
int window_open(struct run *r, const char *why);
/* Has left a file; arg: the run. */
void window_file(const char *name, uint64_t bytes, void *arg);
/* Closes it, if one is open. */
int window_close(struct run *r, const char *why);
/* It could not be opened. */
void window_abandon(struct run *r);

/* The same, and no more, while something else takes long: what comes goes to the outputs. */
int run_keep_up(struct run *r);

/* Takes what the programs have sent. Returns 1 when more waits, 0 when not, or an error. */
int run_drain(struct run *r);
record_cb run_callback(void); /* its argument is the run */

/* Counts what was lost by now, and tells the outputs. */
void run_check_loss(struct run *r, uint64_t now_ns);

/* The record with all that the outputs expect of it; valid until the next. */
const struct rec_hdr *run_whole(struct run *r, const struct rec_hdr *h, size_t size);

/* Of the whole run, the window that is open included. */
void run_totals(const struct run *r, struct window_totals *ret_totals);
uint64_t total_of(const uint64_t counts[REC_KIND_MAX]);

/* ---- record_run.c ---- */

/* Makes the window what the schedule says it is from now on. Prints one line on failure. */
int run_schedule(struct run *r, uint64_t now_ns);

/* ---- record_end.c ---- */

void run_summary(const struct run *r);

#endif
