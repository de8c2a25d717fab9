/* SPDX-License-Identifier: BSD-2-Clause */
/* The report: reads files, evaluates them, and writes the result. */
#ifndef INFTRACE_REPORT_REPORT_H
#define INFTRACE_REPORT_REPORT_H

#include <json-c/json.h>
#include <stdio.h>

#include "report/read.h"
#include "report/summary.h"

/*
 * Who is late for collectives, and why: of the archives of inftrace link.
 *
 * Where the ranks of a group are on several hosts, these are compared with one another: a host has entered a
 * collective when the last of its ranks has. Else the ranks are. The one that entered last is late by the time since
 * the last of the others did, if that is more than what is unknown of the two clocks. A straggler is one that then
 * took longer than it usually does since the call before.
 */

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
	uint32_t host;            /* of the archive's */
	uint32_t rank;            /* of the ranks; RANKS_NONE: a host */
	uint64_t last;            /* how often it was surely last */
	uint64_t stragglers;      /* events */
	int64_t excess_ns;        /* of these */
	struct percentiles late;  /* when it was last */
	struct cause_sums causes; /* the largest excess first */
};

struct late_group {
	const struct archive_hosts *hosts;
	const struct rank_group *group;
	struct late_unit *units;
	size_t n_units;
	bool by_host;
	uint64_t judged;
	uint64_t close;                  /* of judged: nobody was last by more than what is unknown of the clocks */
	uint64_t incomplete;             /* a rank's call is missing */
	uint64_t unplaced;               /* a clock is not known, or not at that time */
	int64_t residual_ns;             /* the most that is unknown of two clocks */
	LIST(struct late_event, events); /* the longest excess first, at most LATE_EVENTS_MAX */
	uint64_t all_events;
};

struct late {
	LIST(struct late_group, groups);
	uint64_t alone; /* ranks with calls in no group, though another process has ranks, too */
};

/* Finds the groups of all archives of the model; the summaries are those of its processes. */
void late_find(struct model *m, const struct summary *summaries, struct late *ret);
void late_free(struct late *l);

/* ---- the report ---- */

struct report {
	struct model model;
	struct summary *summaries; /* one for each of the model's processes */
	struct late late;          /* of archives */
	const char *const *files;
	size_t n_files;
};

/*
 * Reads the files, which must outlive the report, and makes the summaries. Calls problem with a
 * printable line for each file that could not be read completely, and note, unless it is NULL, with one for each file
 * of an archive that is not in the report.
 */
void report_make(struct report *r, const char *const *files, size_t n_files,
	void (*problem)(void *ctx, const char *text), void (*note)(void *ctx, const char *text), void *ctx);
void report_free(struct report *r);

/* Judges the requests by what the service has promised, for the output that follows. */
void report_slo(struct report *r, const struct slo *slo);

/* Whether there is nothing to report. */
bool report_empty(const struct report *r);

/* For a terminal of 80 columns; slowest: how many slow steps to show. */
void report_text(const struct report *r, uint32_t slowest, FILE *out);

/* One object; with all_steps the verdict on each step. */
void report_json(const struct report *r, uint32_t slowest, bool all_steps, FILE *out);

/* That object, without all_steps. plots: with what the page draws. */
struct json_object *report_object(const struct report *r, uint32_t slowest, bool plots);

/* In the head of each page. */
#define REPORT_PAGE_MARK "<title>inftrace report</title>"

/* A self-contained page, to be freed by the caller. */
char *report_html(const struct report *r, uint32_t slowest, size_t *ret_len);

#endif
