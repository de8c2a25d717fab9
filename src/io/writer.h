/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Output files that are valid at every moment.
 *
 * Events are appended to a buffer and go out in large writes that end at an event. A write can
 * still be cut short by SIGKILL or a full disk, and the kernel does that at a page boundary of
 * the file. So no event (that fits a page) lies across such a boundary: it is moved behind it, and white space,
 * which JSON allows between events, fills the gap.
 */
#ifndef INFTRACE_WRITER_H
#define INFTRACE_WRITER_H

#include <stddef.h>
#include <stdint.h>

#define WRITER_EVENT_MAX 8192 /* bytes of one event, at most; real ones have 100 to 500 */

enum writer_mode {
	WRITER_PLAIN, /* events with padding */
	WRITER_GZIP,  /* one gzip member per flush */
	WRITER_LINES, /* as is: for formats that must not be padded */
	WRITER_PACKETS, /* as is: fields of protobuf, whose readers tolerate a torn last one */
};

struct writer;

/* Takes over fd; `name` is for messages and is copied. */
int writer_new(int fd, const char *name, enum writer_mode mode, struct writer **ret_writer);

/* Flushes, closes the file and frees. Returns the first error of the writer's life. */
int writer_close(struct writer *w);

/* Room for one event of at most WRITER_EVENT_MAX bytes. Never NULL; after an error what is
 * written there is dropped. */
char *writer_reserve(struct writer *w);

/* The event that began at the reserved place ends at `end`. */
void writer_commit(struct writer *w, const char *end);

/* Appends bytes of any length that must not be torn (mode WRITER_LINES). */
void writer_append(struct writer *w, const char *data, size_t len);

/* Everything committed is in the file afterwards. The first error is printed once, kept and
 * returned again: -ENOSPC, -EPIPE, ... */
int writer_flush(struct writer *w);

/* Bytes in the file so far, compressed ones with gzip. */
uint64_t writer_bytes(const struct writer *w);

/* Bytes that wait for the next flush. */
size_t writer_pending(const struct writer *w);

#endif
