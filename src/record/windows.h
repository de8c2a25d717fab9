/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The windows of a run: when one is open, and what opening and closing it means. Without --window, --window-flag or
 * a flight recorder there is one, from the beginning of the run to its end.
 */
#ifndef INFTRACE_RECORD_WINDOWS_H
#define INFTRACE_RECORD_WINDOWS_H

#include "record/files.h"
#include "record/intake.h"
#include "record/schedule.h"
#include "sink/profile.h"

struct flag;
struct memory;

struct windows {
	/* to be set by whoever makes it */
	const struct record_options *o;
	struct capture *c;
	struct intake *in;
	struct sink *recorder; /* takes the records in place of files; NULL: there are files */

	bool over;   /* no window opens any more */
	int flag_fd; /* to be polled; -1: no --window-flag */
	/* The window that is open, or the last one. */
	bool open;
	uint32_t number; /* of the next one while none is open */
	const char *why; /* it was opened, for the messages */
	struct recording rec;
	struct sink *sink;
	struct window_totals totals;
	struct left_files files; /* that it left */

	/* private */
	struct window_totals whole; /* of all windows that have closed */
	struct profile_meta meta;
	struct flag *flag;
	struct schedule schedule;
	uint32_t scheduled;	/* number of the window as of the schedule */
	uint64_t next_ns;	/* when to look at it again */
	uint64_t counted_steps; /* that it knows of */
	struct memory *memory;	/* NULL: neither -e memory nor a profile */
	struct process_totals *processes;
	uint64_t unnamed_bytes; /* of files that no message names one by one */
	uint64_t last_flush_ns, last_rescan_ns;
	uint64_t idle_ns; /* when the closed window is to cost nothing; 0: it is so already */
};

/* Looks whether the flag can be watched. Prints one line on failure. */
int windows_check(struct windows *w);
void windows_free(struct windows *w);

/* Opens the first window, if it opens now. Prints one line on failure. */
int windows_begin(struct windows *w);

/* Takes what the programs have sent, opens or closed. Returns 1 when more waits, 0 when not, or an error. */
int windows_drain(struct windows *w);

/* The same, and no more, while something else takes long. */
int windows_keep_up(struct windows *w);

/* The flag has come or gone; or steps were made, and time has passed: opens and closes what is to be. Print one line
 * on failure. */
int windows_read_flag(struct windows *w);
int windows_turn(struct windows *w, uint64_t now_ns);

/* As asked for by somebody: 0; 1: one is open already; -ESHUTDOWN: it is over; or another error. */
int windows_start(struct windows *w);
/* 0; 1: none is open; or an error. */
int windows_stop(struct windows *w);

/* The end: closes the window, if one is open. */
int windows_end(struct windows *w);

/* It could not be opened, or the run does not come to it: nothing was recorded. */
void windows_abandon(struct windows *w);

/* How long nothing has to be done, as long as nothing happens. */
uint64_t windows_wait_ns(const struct windows *w, uint64_t now_ns);

/* When the schedule has something to be done. */
uint64_t windows_due_ns(const struct windows *w);

/* Bytes that wait to be written. */
uint64_t windows_pending(const struct windows *w);

/* Of the whole run, the window that is open included. */
void windows_totals(const struct windows *w, struct window_totals *ret_totals);

#endif
