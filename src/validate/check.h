/* SPDX-License-Identifier: BSD-2-Clause */
/* The checks of `inftrace validate`: docs/profile-schema.md and docs/trace-format.md. */
#ifndef INFTRACE_VALIDATE_CHECK_H
#define INFTRACE_VALIDATE_CHECK_H

#include <stdio.h>

#include "read/detect.h"

/* How many problems of a file are shown; the others are counted. */
#define CHECK_SHOWN_MAX 10

struct check_report {
	uint64_t problems;
	/* Called for each problem, without the name of the file; NULL: problems are only counted. */
	void (*problem)(void *ctx, const char *text);
	void *ctx;
};

void check_problem(struct check_report *report, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Ends a line of summary with the number of problems, if any. */
void check_summary_end(const struct check_report *report, FILE *out);

/* Counts by name, for names from outside: names after the first NAME_COUNT_MAX count as "(others)",
 * long ones are cut. */
#define NAME_COUNT_MAX 64

struct name_count {
	char name[48]; /* printable */
	uint64_t count;
};

struct name_counts {
	struct name_count names[NAME_COUNT_MAX];
	size_t len;
	uint64_t others;
};

void name_counts_add(struct name_counts *counts, const char *name);
/* "a 12, b 3", most frequent first, or "none". Sorts the table. */
void name_counts_print(struct name_counts *counts, FILE *out);

/*
 * All read the source to its end, report each problem and write one line of summary ("PATH:
 * profile, 12 lines: ...") to out if all of the input was read. Whatever stopped them early is a
 * problem as well.
 */
void check_profile(struct json_source *source, const char *path, const char *const *required,
	size_t required_len, struct check_report *report, FILE *out);
void check_trace(struct json_source *source, const char *path, struct check_report *report, FILE *out);
/* kind: FILE_EXECUTION_TRACE or one of those behind it. */
void check_execution_trace(struct json_source *source, enum file_kind kind, const char *path, struct check_report *report, FILE *out);

#endif
