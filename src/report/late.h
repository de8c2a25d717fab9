/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who is late for collectives, and why: of the archives of inftrace link.
 *
 * Where the ranks of a group are on several hosts, these are compared with one another: a host has entered a
 * collective when the last of its ranks has. Else the ranks are. The one that entered last is late by the time since
 * the last of the others did, if that is more than what is unknown of the two clocks. A straggler is one that then
 * took longer than it usually does since the call before.
 */
#ifndef INFTRACE_REPORT_LATE_H
#define INFTRACE_REPORT_LATE_H

#include "report/read.h"
#include "report/summary.h"

/* Stragglers of which the cause is looked for, in each group. */
#define LATE_EVENTS_MAX 1000

/* Of an event. */
enum late_why {
	LATE_NO_PROFILE, /* there are no steps of the process at that time */
	LATE_UNKNOWN,    /* nothing in them took that much longer */
	LATE_KNOWN,
};

struct late_event {
	size_t collective;    /* its number among those of the group */
	uint32_t unit, after; /* that entered last, and the one before */
	uint32_t rank;        /* of the ranks: the one of the unit that entered last */
	const struct rank_call *call;
	int64_t late_ns;   /* behind the unit before */
	int64_t excess_ns; /* of that, what is new since the call before, and more than usual */
	int64_t since_ns;  /* by its host's CLOCK_BOOTTIME: from here to the call it took longer */
	enum late_why why;
	const struct process *p; /* LATE_KNOWN */
	struct slow_step slow;
};

/* A host or a rank. */
struct late_unit {
	uint32_t host;           /* of the archive's */
	uint32_t rank;           /* of the ranks; RANKS_NONE: a host */
	uint64_t last;           /* how often it was surely last */
	uint64_t stragglers;     /* events */
	int64_t excess_ns;       /* of these */
	struct percentiles late; /* when it was last */
	struct cause_sums causes; /* the largest excess first */
};

struct late_group {
	const struct archive_hosts *hosts;
	const struct rank_group *group;
	struct late_unit *units;
	size_t n_units;
	bool by_host;
	uint64_t judged;
	uint64_t close;            /* of these: nobody was last by more than what is unknown of the clocks */
	uint64_t incomplete;       /* a rank's call is missing */
	uint64_t unplaced;         /* a clock is not known, or not at that time */
	int64_t residual_ns;       /* the most that is unknown of two clocks */
	LIST(struct late_event, events); /* the longest excess first, at most LATE_EVENTS_MAX */
	uint64_t all_events;
};

struct late {
	LIST(struct late_group, groups);
	uint64_t alone; /* ranks that have calls and are in no group, though those of another process are there */
};

/* Finds the groups of all archives of the model; the summaries are those of its processes. */
void late_find(struct model *m, const struct summary *summaries, struct late *ret);
void late_free(struct late *l);

#endif
