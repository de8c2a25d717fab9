/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads files into the model. */
#ifndef INFTRACE_REPORT_READ_H
#define INFTRACE_REPORT_READ_H

#include "read/json_source.h"
#include "report/model.h"
#include "util/json_node.h"
#include "util/text.h"

struct read_problems {
	uint64_t count;
	char first[384]; /* "line 7: ...", printable */
};

void read_problem(struct read_problems *problems, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Told of what an archive has and the report has not, which is no problem: printable texts, but path. */
struct read_notes {
	void (*tell)(void *ctx, const char *path, const char *member, const char *why);
	void *ctx;
};

/*
 * Adds the contents of a profile JSONL, a Chrome trace or an archive of inftrace link to the model; path is "-" for standard
 * input. *problems says what could not be read; everything else was added (the other lines of a
 * profile, a trace up to the damage). Returns 0, or -ENOMEM.
 */
int read_file(struct model *m, const char *path, struct read_problems *problems, struct read_notes *notes);
int read_archive(struct model *m, const char *path, struct read_problems *problems, struct read_notes *notes);

/* Part of read_file, with the source open. */
int read_profile(struct model *m, struct json_source *source, const char *path,
	struct read_problems *problems);
int read_trace(struct model *m, struct json_source *source, const char *path,
	struct read_problems *problems);

/* The index of a state's key in stage_us; -1 if it is none. hint: initially 0, then kept by the
 * caller, since keys come in the same order on every line. */
int read_state(const char *key, unsigned int *hint);

/* A time >= 0 in microseconds. */
bool read_us(const struct json_node *value, int64_t *ret_ns);
/* A count >= 0; larger ones become UINT32_MAX. */
bool read_u32(const struct json_node *value, uint32_t *ret);

#endif
