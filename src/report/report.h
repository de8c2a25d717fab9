/* SPDX-License-Identifier: BSD-2-Clause */
/* The report: reads files, evaluates them, and writes the result. */
#ifndef INFTRACE_REPORT_REPORT_H
#define INFTRACE_REPORT_REPORT_H

#include <json-c/json.h>
#include <stdio.h>

#include "report/read.h"
#include "report/summary.h"

/*
 * Who is late for collectives, and why, from the archives of inftrace link.
 *
 * If the ranks of a group are on several hosts, hosts are compared: a host enters a collective when the last of its ranks
 * does. Otherwise ranks are compared. The last unit is late by the time since the one before it entered, if that exceeds
 * the clock uncertainty of the two. It is a straggler if it also took longer than it usually does since its previous call.
 */

/* Stragglers per group whose cause is looked for: those with the largest excess. */
#define STRAGGLER_EVENTS_MAX 1000

enum straggler_why {
	STRAGGLER_NO_PROFILE, /* no profile has steps of the process */
	STRAGGLER_UNKNOWN,    /* none of its slow steps explains the event */
	STRAGGLER_KNOWN,
};

struct straggler_event {
	size_t collective;    /* index among the group's collectives */
	uint32_t unit, after; /* the unit that entered last, and the one before it */
	uint32_t rank;        /* index into the ranks: the last one of `unit` */
	const struct rank_call *call;
	int64_t late_ns;   /* behind `after` */
	int64_t excess_ns; /* the part of late_ns that is new since its previous call and beyond the usual */
	int64_t since_ns;  /* its host's CLOCK_BOOTTIME: it took longer from here to the call */
	enum straggler_why why;
	const struct process *p; /* STRAGGLER_KNOWN */
	struct slow_step slow;
};

/* A host or a rank. */
struct straggler_unit {
	uint32_t host;            /* index into the archive's hosts */
	uint32_t rank;            /* index into the ranks; RANKS_NONE: the unit is a host */
	uint64_t last;            /* how often it was last by more than the clock uncertainty */
	uint64_t stragglers;      /* its events */
	int64_t excess_ns;        /* of these */
	struct percentiles late;  /* how late it was when last */
	struct cause_sums causes; /* the largest excess first */
};

struct straggler_group {
	const struct archive_hosts *hosts;
	const struct rank_group *group;
	struct straggler_unit *units;
	size_t n_units;
	bool by_host;
	uint64_t judged;
	uint64_t close;                       /* of judged: no unit was last by more than the clock uncertainty */
	uint64_t incomplete;                  /* a rank's call is missing */
	uint64_t unplaced;                    /* a clock is not known, or not at that time */
	int64_t residual_ns;                  /* the largest clock uncertainty of two units */
	LIST(struct straggler_event, events); /* the longest excess first, at most STRAGGLER_EVENTS_MAX */
	uint64_t all_events;
};

struct stragglers {
	LIST(struct straggler_group, groups);
	uint64_t alone; /* ranks with calls that are in no group, although several processes have ranks */
};

/* Finds the groups of all archives of the model. summaries: one per process. The caller calls stragglers_free(). */
void stragglers_find(struct model *m, const struct summary *summaries, struct stragglers *ret);
void stragglers_free(struct stragglers *l);

/* ---- the report ---- */

struct report {
	struct model model;
	struct summary *summaries;    /* one for each of the model's processes */
	struct stragglers stragglers; /* of archives */
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

/* Judges the requests by an SLO; the output that follows has the goodput. */
void report_slo(struct report *r, const struct slo *slo);

bool report_empty(const struct report *r);

/* For a terminal of 80 columns; slowest: how many slow steps to show. */
void report_text(const struct report *r, uint32_t slowest, FILE *out);

/* What fits a screen of that. */
void report_brief(const struct report *r, FILE *out);

/* Writes one object; all_steps adds the verdict on each step. */
void report_json(const struct report *r, uint32_t slowest, bool all_steps, FILE *out);

/* Returns the same object, without all_steps, to be put by the caller. plots: adds what the page draws. */
struct json_object *report_object(const struct report *r, uint32_t slowest, bool plots);

/* Each page has this in its head. */
#define REPORT_PAGE_MARK "<title>inftrace report</title>"

/* A self-contained page, to be freed by the caller. */
char *report_html(const struct report *r, uint32_t slowest, size_t *ret_len);

#endif
