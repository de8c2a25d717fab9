/* SPDX-License-Identifier: BSD-2-Clause */
/* When a window is open, and what is done when it opens and closes. Without --window, --window-flag or a flight
 * recorder there is one, from the beginning of the run to its end. */
#ifndef INFTRACE_RECORD_WINDOWS_H
#define INFTRACE_RECORD_WINDOWS_H

#include <stdbool.h>
#include <stdint.h>

#include "format/profile.h"
#include "record/intake.h"
#include "record/output.h"
#include "util/host_id.h"

struct flag;
struct memory;

/* ---- the schedule ---- */

/* Decides when a window is open, from requests (the whole run, a flag file, a part of each period, start and stop) and
 * limits. Tell it of each event, then call schedule_next(), and again at the time that it returns (CLOCK_BOOTTIME). */
enum schedule_source {
	SCHEDULE_WHOLE,  /* one window from the beginning; its limits end the run */
	SCHEDULE_MANUAL, /* only start and stop, which the other sources accept, too */
	SCHEDULE_FLAG,
	SCHEDULE_EVERY,
};

struct schedule_config {
	enum schedule_source source;
	uint64_t every_ns, for_ns; /* SCHEDULE_EVERY */
	bool aligned;              /* SCHEDULE_EVERY: to CLOCK_REALTIME, so that several hosts open theirs at the same instant */
	uint64_t real_offset_ns;   /* aligned: CLOCK_REALTIME - CLOCK_BOOTTIME as the run begins */
	uint64_t duration_ns;      /* longest window; with SCHEDULE_WHOLE the length of the run. 0: no limit */
	uint64_t max_steps;        /* of a window; 0: no limit */
};

/* Parses the SPEC of --window into the source and its times. Prints one line on failure; -EINVAL. */
int schedule_parse(const char *text, struct schedule_config *c);

/* Reasons: "flag", "schedule", "start"; "stop", "duration", "max_steps". */
struct schedule_state {
	bool open;
	bool over;                   /* no more windows will open */
	uint32_t number;             /* of the window, or of the last one, from 1; 0: none yet */
	const char *opened, *closed; /* the reasons, the last time; NULL: not yet */
	uint64_t next_ns;            /* when to look again; UINT64_MAX: not before something happens */
};

/* All members are private. */
struct schedule {
	struct schedule_config c;
	uint64_t begin_ns; /* of the run */
	uint64_t open_ns;
	uint64_t steps;    /* in this window */
	uint64_t period;   /* the last one that had its window, from 1; aligned: since 1970 */
	uint64_t close_ns; /* end of its window */
	/* requests for a window; a limit or a stop clears the pending ones */
	bool flag, scheduled, held;
	bool flag_there;
	struct schedule_state state;
};

void schedule_init(struct schedule *s, const struct schedule_config *c, uint64_t now_ns);
void schedule_flag(struct schedule *s, uint64_t now_ns, bool there);

/* Aligned: updates CLOCK_REALTIME - CLOCK_BOOTTIME. Ignores changes below 1 ms, since the clocks are read one after the other. */
void schedule_clock(struct schedule *s, uint64_t real_offset_ns);

/* Opens a window, or keeps the open one, until the stop. 0; 1: one was open; -ESHUTDOWN: no more windows open. */
int schedule_start(struct schedule *s, uint64_t now_ns);

/* 0; 1: none was open. */
int schedule_stop(struct schedule *s, uint64_t now_ns);

/* n more steps of the open window have ended. */
void schedule_steps(struct schedule *s, uint64_t now_ns, uint64_t n);

/* Whether a window is open from now on. If the number differs and both states are open, the old window closes and a
 * new one opens. A window that would have opened and closed since the last look only counts in the number. */
struct schedule_state schedule_next(struct schedule *s, uint64_t now_ns);

/* ---- the flag file, by inotify(7): it does not see what other machines do on a network file system ---- */

/* Watches the directory of `path`, which must exist. Refuses a file that is not regular, or belongs neither to root nor to
 * the user who called inftrace or sudo: here with one line and -EINVAL or -EPERM, later with a warning. */
int flag_open(const char *path, struct flag **ret_flag);
void flag_free(struct flag *f);

/* Readable when flag_read() may have news. NULL: -1. */
int flag_fd(const struct flag *f);

/* Tells whether the file exists after the next change. Returns 1 if there is another change to tell (it was removed
 * and has come back), 0 if this is the current state. */
int flag_read(struct flag *f, bool *ret_there);

/* ---- windows ---- */

struct windows {
	/* to be set by the creator */
	const struct record_options *o;
	struct capture *c;
	struct intake *in;
	struct sink *recorder; /* takes the records instead of files; NULL: there are files */

	/* The open window, or the last one. */
	bool open;
	uint32_t number; /* of the next one while none is open */
	const char *why; /* why it was opened, for messages */
	struct recording rec;
	struct host_id host; /* on which it is recorded */
	struct sink *sink;
	struct window_totals totals;
	struct left_files files; /* its files */

	struct flag *flag;        /* to be freed by the creator; NULL: no --window-flag */
	struct schedule schedule; /* its state says when to look again, and whether no more windows will open */
	/* private */
	struct window_totals whole; /* of all closed windows */
	struct profile_meta meta;
	uint32_t scheduled;     /* number of the window in the schedule */
	uint64_t counted_steps; /* steps reported to it */
	struct memory *memory;  /* NULL: neither -e memory nor a profile */
	struct process_totals *processes;
	uint64_t unnamed_bytes; /* of files that are not named individually */
	uint64_t last_flush_ns, last_rescan_ns;
	uint64_t idle_ns; /* when the closed window detaches its programs; 0: it has */
};

/* Checks whether the flag can be watched. Prints one line on failure. */
int windows_check(struct windows *w);

/* Opens the first window, if it opens now. Prints one line on failure. */
int windows_begin(struct windows *w);

/* Takes what the programs have sent. Returns 1 if more is waiting, 0 if not, or an error. */
int windows_drain(struct windows *w);

/* Only takes and flushes records, during something that takes long. */
int windows_keep_up(struct windows *w);

/* Follow the flag; and the steps and the time, in every turn of the loop. Both print one line on failure. */
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

/* Totals of the whole run, including the open window. */
void windows_totals(const struct windows *w, struct window_totals *ret_totals);

#endif
