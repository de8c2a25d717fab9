/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * inftrace record: the files of one output. With --max-size it goes on in another file when one has
 * its size: trace.json, trace.2.json, trace.3.json, ... A number that is taken is left out, nothing
 * that another run has left is overwritten.
 */
#ifndef INFTRACE_RECORD_ROTATE_H
#define INFTRACE_RECORD_ROTATE_H

#include "io/writer.h"
#include "record/options.h"
#include "record/out_file.h"
#include "sink/sink.h"

struct rotation;

/* Of the output whose first file has this name. part: files have the name of a part until they are
 * complete; else until something is in them. -ENOMEM */
int rotation_new(const struct record_options *o, const char *name, enum writer_mode mode, bool part,
	struct rotation **ret_rotation);

/* The others do nothing with NULL: it is one file. */
void rotation_free(struct rotation *r);

/* Creates the next file. Returns its descriptor. Prints one line on failure. */
int rotation_create(struct rotation *r, struct out_file *ret_file);

/* What the first file had before is not ours to delete. */
void rotation_keep_first(struct rotation *r);

/* With each record, and with `flush` several times a second: the format goes on in the next file when it is
 * time to. What is left to write of the one before is written meanwhile. Returns the first error of
 * the complete files, or of one that cannot be created; after that it is not to be called again. */
int rotation_turn(struct rotation *r, struct out_file *f, struct sink *format, bool flush);

/* Waits for the file before. */
int rotation_close(struct rotation *r);

/* The last file is closed: it has its own name, or is removed when nothing could be written to it.
 */
int rotation_end(const struct rotation *r, struct out_file *f);

/* Of the files before the one that is written. */
uint64_t rotation_bytes(const struct rotation *r);
uint64_t rotation_pending(const struct rotation *r);
void rotation_report(
	const struct rotation *r, void (*cb)(const char *name, uint64_t bytes, void *arg), void *arg);

#endif
