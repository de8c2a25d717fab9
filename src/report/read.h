/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads files into the model. */
#ifndef INFTRACE_REPORT_READ_H
#define INFTRACE_REPORT_READ_H

#include "link/host_clock.h"
#include "link/ranks.h"
#include "read/json_source.h"
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

/* A slice `request NUMBER` of a trace (docs/trace-format.md), with its args; one that cannot be used is left out. */
void read_request_slice(struct served *s, const struct json_node *args, int64_t ts, int64_t dur, uint32_t recording);

/* The index of a state's key in stage_us; -1 if it is none. hint: initially 0, then kept by the
 * caller, since keys come in the same order on every line. */
int read_state(const char *key, unsigned int *hint);

/* A time >= 0 in microseconds. */
bool read_us(const struct json_node *value, int64_t *ret_ns);
/* A count >= 0; larger ones become UINT32_MAX. */
bool read_u32(const struct json_node *value, uint32_t *ret);

/*
 * The hosts of an archive of inftrace link: how their clocks relate, and what their recordings have of collectives.
 */

#define ARCHIVE_HOSTS_MAX 256
#define ARCHIVE_FILES_MAX 1024

struct model;

struct archive_host {
	uint32_t name; /* of the model's; never 0 */
	bool known;    /* how its clock relates to the timeline, to within the residual: 0 for the timeline's own host */
	int64_t residual_ns;
};

struct archive_hosts {
	struct archive_host list[ARCHIVE_HOSTS_MAX];
	uint32_t n;
	struct archive_file {
		char *path; /* of the member */
		uint32_t host;
		struct host_place place;
		bool has_boot;
		struct boot boot;
	} files[ARCHIVE_FILES_MAX];
	uint32_t n_files;
	struct ranks ranks;
};

void archive_hosts_free(struct archive_hosts *h);

/* The host that a profile is of, by its traces; n: of none of them, or it may be of several. */
uint32_t archive_host_of(const struct archive_hosts *h, const struct boot *profile);

#endif
