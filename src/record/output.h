/* SPDX-License-Identifier: BSD-2-Clause */
/* The outputs of a recording: each has a format and its files. Until a file is complete, its name may have
 * ".part" appended, and is the name of a part. */
#ifndef INFTRACE_RECORD_OUTPUT_H
#define INFTRACE_RECORD_OUTPUT_H

#include <stdint.h>

#include "record/options.h"
#include "sink/sink.h"

struct json_object;

/* Checks that everything can be written, and sets the default name. Prints one line on failure; -EINVAL: usage. */
int outputs_check(struct record_options *o);

/* Creates missing directories. Prints one line on failure. */
int outputs_prepare(const struct record_options *o);

/* Opens the files that `o` names; for a window or a dump, a set per process, named by time, or with -a one for all.
 * tgids: only these processes; NULL: all. `o` and `rec` must outlive the sink. Prints one line on failure. */
int outputs_open(const struct record_options *o, const struct recording *rec, const uint32_t *tgids, size_t n,
	struct sink **ret_sink);

/* Returns the name of the file that output i of a set is writing: traces in option order, then the profile; NULL: none. */
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

#endif
