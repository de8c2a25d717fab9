/* SPDX-License-Identifier: BSD-2-Clause */
/* The checks behind `inftrace validate`: docs/profile-schema.md and docs/trace-format.md. */
#ifndef INFTRACE_VALIDATE_CHECK_H
#define INFTRACE_VALIDATE_CHECK_H

#include <stdio.h>

#include "read/json_source.h"

/* How many problems of a file are shown; the rest is counted. */
#define CHECK_SHOWN_MAX 10

struct check_report {
	uint64_t problems;
	/* Each problem, without the name of the file; NULL: only counted. */
	void (*problem)(void *ctx, const char *text);
	void *ctx;
};

void check_problem(struct check_report *report, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* The end of a line of summary: how many problems, if any. */
void check_summary_end(const struct check_report *report, FILE *out);

/* Occurrences by name, for names that somebody else chose: those after the first NAME_COUNT_MAX
 * different ones count as "(others)", long ones are cut. */
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
 * Both read the source to its end, tell each problem to the report and write one line of summary
 * ("PATH: profile, 12 lines: ...") to out when the input was read as a whole. What stopped them
 * half way is a problem as well.
 */
void check_profile(struct json_source *source, const char *path, const char *const *required,
	size_t required_len, struct check_report *report, FILE *out);
void check_trace(
	struct json_source *source, const char *path, struct check_report *report, FILE *out);

#endif
