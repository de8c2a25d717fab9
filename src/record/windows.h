/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The windows of a run: when one is open, and what is done when it opens and closes. Without --window,
 * --window-flag or a flight recorder there is one, from the beginning of the run to its end.
 */
#ifndef INFTRACE_RECORD_WINDOWS_H
#define INFTRACE_RECORD_WINDOWS_H

#include "record/files.h"
#include "record/intake.h"
#include "record/schedule.h"
#include "sink/profile.h"
#include "util/host_id.h"

struct flag;
struct memory;
struct overhead;

struct windows {
	/* to be set by the creator */
	const struct record_options *o;
	struct capture *c;
	struct intake *in;
	struct overhead *overhead; /* NULL: no --budget */
	struct sink *recorder; /* takes the records instead of files; NULL: there are files */

	bool over;   /* no more windows will open */
	int flag_fd; /* to be polled; -1: no --window-flag */
	/* The open window, or the last one. */
	bool open;
	uint32_t number; /* of the next one while none is open */
	const char *why; /* why it was opened, for messages */
	struct recording rec;
	struct host_id host; /* that it is made on */
	struct sink *sink;
	struct window_totals totals;
	struct left_files files; /* its files */

	/* private */
	struct window_totals whole; /* of all closed windows */
	struct profile_meta meta;
	struct flag *flag;
	struct schedule schedule;
	uint32_t scheduled;	/* number of the window in the schedule */
	uint64_t next_ns;	/* when to look at the schedule again */
	uint64_t counted_steps; /* steps reported to it */
	struct memory *memory;	/* NULL: neither -e memory nor a profile */
	struct process_totals *processes;
	uint64_t unnamed_bytes; /* of files that are not named individually */
	uint64_t last_flush_ns, last_rescan_ns;
	uint64_t idle_ns; /* when the closed window detaches its programs; 0: it has */
};

/* Checks whether the flag can be watched. Prints one line on failure. */
int windows_check(struct windows *w);
void windows_free(struct windows *w);

/* Opens the first window, if it opens now. Prints one line on failure. */
int windows_begin(struct windows *w);

/* Takes what the programs have sent, and opens or closes windows. Returns 1 if more is waiting, 0 if not, or
 * an error. */
int windows_drain(struct windows *w);

/* Only keeps up with the records, during something that takes long. */
int windows_keep_up(struct windows *w);

/* The flag has appeared or vanished; or steps were made, and time has passed: opens and closes accordingly. Both
 * print one line on failure. */
int windows_read_flag(struct windows *w);
int windows_turn(struct windows *w, uint64_t now_ns);

/* On request: 0; 1: one is open already; -ESHUTDOWN: no more will open; or another error. */
int windows_start(struct windows *w);
/* 0; 1: none is open; or an error. */
int windows_stop(struct windows *w);

/* The run ends: closes the window, if one is open. */
int windows_end(struct windows *w);

/* The window could not be opened, or the run did not get there: nothing was recorded. */
void windows_abandon(struct windows *w);

/* How long there is nothing to do unless something happens. */
uint64_t windows_wait_ns(const struct windows *w, uint64_t now_ns);

/* When the schedule next needs attention. */
uint64_t windows_due_ns(const struct windows *w);

/* Bytes waiting to be written. */
uint64_t windows_pending(const struct windows *w);

/* Totals of the whole run, including the open window. */
void windows_totals(const struct windows *w, struct window_totals *ret_totals);

#endif
