/* SPDX-License-Identifier: BSD-2-Clause */
/* The report: reads files, evaluates them, and writes the result. */
#ifndef INFTRACE_REPORT_REPORT_H
#define INFTRACE_REPORT_REPORT_H

#include <json-c/json.h>
#include <stdio.h>

#include "report/late.h"
#include "report/model.h"
#include "report/summary.h"

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
