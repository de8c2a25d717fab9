/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads files into the model. */
#ifndef INFTRACE_REPORT_READ_H
#define INFTRACE_REPORT_READ_H

#include "read/profile.h"
#include "report/model.h"
#include "util/json.h"
#include "util/text.h"

struct read_problems {
	uint64_t count;
	char first[384]; /* "line 7: ...", printable */
};

void read_problem(struct read_problems *problems, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* note, unless it is NULL, gets a printable line for each file of an archive that the report leaves out for a good reason. */
struct read_notes {
	void (*note)(void *ctx, const char *text);
	void *ctx;
};

/*
 * Adds the contents of a profile JSONL, a Chrome trace or an archive of inftrace link to the model; path is "-" for
 * standard input. *problems says what could not be read; everything else was added (the other lines of a profile, a
 * trace up to the damage).
 */
void read_file(struct model *m, const char *path, struct read_problems *problems, struct read_notes *notes);

/* Part of read_file, with the source open. */
void read_profile(struct model *m, struct json_source *source, const char *path, struct read_problems *problems);
void read_trace(struct model *m, struct json_source *source, const char *path, struct read_problems *problems);

/* Adds the request of a trace's slice `request NUMBER` (docs/trace-format.md); ts and dur in ns. Ignores an unusable one. */
void read_request_slice(struct model *m, struct served *s, const struct json_node *args, int64_t ts, int64_t dur, uint32_t recording);

#endif
