/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the records of a recording go: a format and its files for each output. Until one is
 * complete it may have the name of a part: with ".part" appended. */
#ifndef INFTRACE_RECORD_OUTPUT_H
#define INFTRACE_RECORD_OUTPUT_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "io/writer.h"
#include "record/options.h"
#include "sink/sink.h"

struct json_object;
struct rotation;

/* Checks that everything can be written, and sets the default name. Prints one line on failure; -EINVAL: usage. */
int outputs_check(struct record_options *o);

/* Creates missing directories. Prints one line on failure. */
int outputs_prepare(const struct record_options *o);

/* Opens the files that `o` names, or for a window or a dump a set for each process, named by time; with -a one for all.
 * tgids: only of these processes; NULL: of all. `o` and `rec` must outlive the sink. Prints one line on failure. */
int outputs_open(const struct record_options *o, const struct recording *rec, const uint32_t *tgids, size_t n,
	struct sink **ret_sink);

/* Of one set, the name of the file that is being written: traces in the order of the options, the profile; or NULL. */
const char *outputs_name(const struct sink *s, size_t i);

/* Opens the file named by outputs_name() for reading. -ENOENT: it is not a file. */
int outputs_reopen(const struct sink *s, size_t i);

/* ---- the files of a window or a dump, for messages and for a client that waits for them ---- */

struct left_files {
	unsigned int n;
	uint64_t bytes;
	struct json_object *list; /* an array to add them to; NULL: nobody is waiting */
};

void left_files_add(struct left_files *f, const char *name, uint64_t bytes);

/* The path of a file for clients, which have other working directories. */
struct json_object *file_path_json(const char *name);

/* ---- --max-size: an output continues in a new file when one has reached that size ---- */

/* trace.json, trace.2.json, trace.3.json, ... Numbers that are taken are skipped, and nothing is overwritten. */

struct out_file {
	struct writer *w; /* its writer; NULL: not yet */
	char *name;
	bool is_part;
	bool created; /* by us: removed again if nothing was recorded */
};

/* Its current name. */
const char *out_file_part_name(const struct out_file *f, char buf[PATH_MAX]);

/* name: of the first file. part: files have the name of a part until they are complete, not only while empty. */
struct rotation *rotation_new(const struct record_options *o, const char *name, enum writer_mode mode, bool part);

/* With NULL, a single file, the following functions do nothing. */
void rotation_free(struct rotation *r);

/* Creates the next file. Returns its descriptor. Prints one line on failure. */
int rotation_create(struct rotation *r, struct out_file *ret_file);

/* Call with each record, and with `flush` several times a second: continues in the next file when it is time to, while
 * the rest of the previous one is written. Call it no more after an error, which may be that of a previous file. */
int rotation_turn(struct rotation *r, struct out_file *f, struct sink *format, bool flush);

/* Waits for the previous file. */
int rotation_close(struct rotation *r);

/* The last file has been closed: gives it its own name, or removes it if nothing could be written to it. */
int rotation_end(const struct rotation *r, struct out_file *f);

uint64_t rotation_pending(const struct rotation *r);

#endif
