/* SPDX-License-Identifier: BSD-2-Clause */
/* The files that a recording writes. Until one is complete it may have the name of a part: with ".part" appended. */
#ifndef INFTRACE_RECORD_FILES_H
#define INFTRACE_RECORD_FILES_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "io/writer.h"
#include "record/options.h"
#include "sink/sink.h"

struct json_object;
struct rotation;

struct out_file {
	struct writer *w; /* its writer; NULL: not yet */
	char *name;
	bool is_part;
	bool created; /* by us: removed again if nothing was recorded */
};

bool out_file_is_stdout(const char *name);

/* part: opens it under the name of a part, which must not exist. Returns a descriptor, -EEXIST, or another error,
 * for which one line has been printed. Drop *ret_file in any case. */
int out_file_open(const char *name, int flags, bool part, struct out_file *ret_file);

/* Claims a trace, which is written from the beginning, by one recording at a time. Prints one line on failure. */
int out_file_claim(int fd, const char *name);

/* Makes appended lines begin on a new line, since a run that was killed may have left half a line. -errno. */
int out_file_end_last_line(int fd);

/* Its current name. */
const char *out_file_part_name(const struct out_file *f, char buf[PATH_MAX]);

/* The file is complete, or whoever wrote it has reported why not; keep false: it is not wanted. */
int out_file_finish(struct out_file *f, bool keep);

/* Closes the descriptor (if not -1), removes a file that was created, and frees the name. */
void out_file_drop(struct out_file *f, int fd);

/* ---- --max-size: an output continues in a new file when one has reached that size ---- */

/* trace.json, trace.2.json, trace.3.json, ... Numbers that are taken are skipped, and nothing is overwritten. */

/* name: of the first file. part: until files are complete they have the name of a part, not only until they have content. */
int rotation_new(const struct record_options *o, const char *name, enum writer_mode mode, bool part,
	struct rotation **ret_rotation);

/* With NULL, a single file, the following functions do nothing. */
void rotation_free(struct rotation *r);

/* Creates the next file. Returns its descriptor. Prints one line on failure. */
int rotation_create(struct rotation *r, struct out_file *ret_file);

/* What the first file held before is not ours to delete. */
void rotation_keep_first(struct rotation *r);

/* Call with each record, and with `flush` several times a second: continues in the next file when it is time to, while
 * the rest of the previous one is written. Call it no more after an error, which may be that of a previous file. */
int rotation_turn(struct rotation *r, struct out_file *f, struct sink *format, bool flush);

/* Waits for the previous file. */
int rotation_close(struct rotation *r);

/* The last file has been closed: gives it its own name, or removes it if nothing could be written to it. */
int rotation_end(const struct rotation *r, struct out_file *f);

/* Of the files before the one being written. */
uint64_t rotation_bytes(const struct rotation *r);
uint64_t rotation_pending(const struct rotation *r);
void rotation_report(const struct rotation *r, void (*cb)(const char *name, uint64_t bytes, void *arg), void *arg);

/* ---- the files of a window or a dump, for messages and for a client that waits for them ---- */

struct left_files {
	unsigned int n;
	uint64_t bytes;
	struct json_object *list; /* an array to add them to; NULL: nobody is waiting */
};

void left_files_add(struct left_files *f, const char *name, uint64_t bytes);

/* The path of a file for clients, which have other working directories. */
struct json_object *file_path_json(const char *name);

#endif
