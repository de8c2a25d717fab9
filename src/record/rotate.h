/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * inftrace record: the files of one output. With --max-size it continues in a new file when one has
 * reached that size: trace.json, trace.2.json, trace.3.json, ... Numbers that are taken are
 * skipped, so files of earlier runs are not overwritten.
 */
#ifndef INFTRACE_RECORD_ROTATE_H
#define INFTRACE_RECORD_ROTATE_H

#include "io/writer.h"
#include "record/options.h"
#include "record/out_file.h"
#include "sink/sink.h"

struct rotation;

/* For the output whose first file has this name. part: files have the name of a part until they are
 * complete; otherwise until they have content. -ENOMEM */
int rotation_new(const struct record_options *o, const char *name, enum writer_mode mode, bool part,
	struct rotation **ret_rotation);

/* With NULL, a single file, the following functions do nothing. */
void rotation_free(struct rotation *r);

/* Creates the next file. Returns its descriptor. Prints one line on failure. */
int rotation_create(struct rotation *r, struct out_file *ret_file);

/* What the first file held before is not ours to delete. */
void rotation_keep_first(struct rotation *r);

/* Call with each record, and with `flush` several times a second: the format continues in the next file
 * when it is time to. The rest of the previous one is written meanwhile. Returns the first error of the
 * complete files, or of one that cannot be created; do not call it again after that. */
int rotation_turn(struct rotation *r, struct out_file *f, struct sink *format, bool flush);

/* Waits for the previous file. */
int rotation_close(struct rotation *r);

/* The last file has been closed: gives it its own name, or removes it if nothing could be written
 * to it. */
int rotation_end(const struct rotation *r, struct out_file *f);

/* Of the files before the one being written. */
uint64_t rotation_bytes(const struct rotation *r);
uint64_t rotation_pending(const struct rotation *r);
void rotation_report(
	const struct rotation *r, void (*cb)(const char *name, uint64_t bytes, void *arg), void *arg);

#endif
