/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * inftrace record: the files of one output. With --max-size it goes on in another file when one has
 * its size: trace.json, trace.2.json, trace.3.json, ... A number that is taken is left out, nothing
 * that another run has left is overwritten.
 */
#ifndef INFTRACE_RECORD_ROTATE_H
#define INFTRACE_RECORD_ROTATE_H

#include <limits.h>

#include "io/writer.h"
#include "record/exports.h"
#include "record/options.h"

struct rotation;

struct output {
	struct sink *sink;
	struct writer *w;          /* the sink's; NULL: a view */
	char *name;                /* of the file that is written */
	bool is_part;              /* until it is complete it has a suffix behind its name */
	bool created;              /* by us: removed again when nothing was recorded */
	struct rotation *rotation; /* NULL: it is one file */
	uint64_t dropped[REC_KIND_MAX];
};

/* ---- record_out.c: one file ---- */

/* Creates a file that is not yet complete. Returns its descriptor, or -EEXIST: the name is taken,
 * also by one of another recording that is not complete. Prints one line on any other failure. */
int output_create_part(const char *name, int flags);

/* The name that it has for now. */
const char *output_part_name(const struct output *o, char buf[PATH_MAX]);

/* It is complete, or the sink has said why not; keep false: it is not wanted. */
int output_finish(struct output *o, bool keep);

/* What there is of an output that cannot be. Returns err. */
int output_drop(struct output *o, int fd, int err);

/* ---- record_rotate.c ---- */

/* Of the output whose first file has this name. part: files have the name of a part until they are
 * complete; else until something is in them. -ENOMEM */
int rotation_new(const struct record_options *o, const char *name, enum writer_mode mode, bool part,
	struct rotation **ret_rotation);
void rotation_free(struct rotation *r);

/* Creates the next file. Returns its descriptor, with name, is_part and created of *ret_out set.
 * Prints one line on failure. */
int rotation_create(struct rotation *r, struct output *ret_out);

/* What the first file had before is not ours to delete. */
void rotation_keep_first(struct rotation *r);

/* With each record, and with `flush` several times a second: goes on in the next file when it is
 * time to. What is left to write of the one before is written meanwhile. Returns the first error of
 * the complete files, or of one that cannot be created; after that it is not to be called again. */
int output_rotate(struct output *o, bool flush);

/* Waits for the file before. */
int rotation_close(struct output *o);

/* The last file is closed: it has its own name, or is removed when nothing could be written to it.
 */
int rotation_end(struct output *o);

/* Of the files before the one that is written. */
uint64_t rotation_bytes(const struct output *o);
uint64_t rotation_pending(const struct output *o);
void rotation_report(const struct output *o, exports_file_cb cb, void *arg);

#endif
