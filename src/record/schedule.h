/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Decides when a window is open, from requests (the whole run, a flag file, a part of each period,
 * start and stop) and limits. The caller passes the time, CLOCK_BOOTTIME in nanoseconds, so that
 * nothing here waits.
 *
 *   schedule_init     the run begins
 *   schedule_flag ... when something has happened
 *   schedule_next     after each of these, and when the time has come that it names
 */
#ifndef INFTRACE_RECORD_SCHEDULE_H
#define INFTRACE_RECORD_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

enum schedule_source {
	SCHEDULE_WHOLE,  /* one window from the beginning; its limits end the run */
	SCHEDULE_MANUAL, /* only start and stop, which the other sources accept, too */
	SCHEDULE_FLAG,
	SCHEDULE_EVERY,
};

struct schedule_config {
	enum schedule_source source;
	uint64_t every_ns, for_ns; /* SCHEDULE_EVERY */
	bool aligned; /* SCHEDULE_EVERY: to CLOCK_REALTIME, so that several hosts open theirs at the same instant */
	uint64_t real_offset_ns; /* aligned: CLOCK_REALTIME - CLOCK_BOOTTIME as the run begins */
	uint64_t duration_ns; /* longest window; with SCHEDULE_WHOLE the length of the run. 0: no limit */
	uint64_t max_steps;   /* of a window; 0: no limit */
};

/* Parses the SPEC of --window into the source and its times. On failure one line has been printed;
 * -EINVAL. */
int schedule_parse(const char *text, struct schedule_config *c);

/* Reasons: "flag", "schedule", "start"; "stop", "duration", "max_steps", "end". */
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

/* Aligned: CLOCK_REALTIME - CLOCK_BOOTTIME by now. Differences below a millisecond are those of reading two clocks. */
void schedule_clock(struct schedule *s, uint64_t real_offset_ns);

/* A window that is open then stays open until the stop. 0; 1: one was open; -ESHUTDOWN: no more windows open. */
int schedule_start(struct schedule *s, uint64_t now_ns);

/* 0; 1: none was open. */
int schedule_stop(struct schedule *s, uint64_t now_ns);

/* n more steps of the open window have ended. */
void schedule_steps(struct schedule *s, uint64_t now_ns, uint64_t n);

void schedule_end(struct schedule *s, uint64_t now_ns);

/*
 * Whether a window is open from now on. If the number differs and both states are open, the old
 * window closes and a new one opens. A window that would have opened and closed since the last look
 * only counts in the number.
 */
struct schedule_state schedule_next(struct schedule *s, uint64_t now_ns);

#endif
