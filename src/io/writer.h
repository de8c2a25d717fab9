/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Output files that are valid at every moment, written by a thread of their own.
 *
 * Events are appended to blocks of memory, which the thread compresses and writes: appending never
 * waits for a disk or for the reader of a pipe. Every write ends at the end of an event. SIGKILL or
 * a full disk can still cut it short, and the kernel does that at a page boundary of the file. So
 * no event (that fits a page) crosses such a boundary: it is moved beyond it, and white space,
 * which JSON allows between events, fills the gap.
 *
 * All functions are for one thread, the caller's.
 */
#ifndef INFTRACE_WRITER_H
#define INFTRACE_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WRITER_TAIL_MAX 64
#define WRITER_EVENT_MAX 8192 /* bytes of one event, at most; real ones have 100 to 500 */

/* The most memory, in bytes, for what is not written yet; and how much of it is reserved for what
 * must not be missing from the file when the writer is full: names, marks of loss, its end. */
#define WRITER_LIMIT (16u << 20)
#define WRITER_SLACK (4u << 20)

enum writer_mode {
	WRITER_PLAIN,   /* JSON events with padding */
	WRITER_GZIP,    /* the same without padding, as gzip members */
	WRITER_LINES,   /* as is: for formats that must not be padded */
	WRITER_LINES_GZIP,
	WRITER_PACKETS, /* as is: fields of protobuf, whose readers tolerate a torn last one */
	WRITER_PACKETS_GZIP,
};

struct writer;

/* The space that a file leaves free on its file system: this many bytes or this part of it,
 * whichever is less; 0 means not given. */
struct writer_floor {
	uint64_t bytes;
	double percent;
};
#define WRITER_FLOOR ((struct writer_floor){ .bytes = UINT64_C(1) << 30, .percent = 5 })

/* Cuts off what follows the last whole member of a file of WRITER_LINES_GZIP, since a run that was killed may have left half of one.
 * Nobody else may be writing it. Takes no longer for a long file. Returns 0 or -errno; -EBADMSG: its end is no such members. */
int writer_cut_member(int fd);

/* Takes over fd; `name` is for messages and is copied. */
struct writer *writer_new(int fd, const char *name, enum writer_mode mode);

/* Sets the text that ends the file after each write, from the next one on, until the following write overwrites it: so a JSON
 * object is whole between writes. At most WRITER_TAIL_MAX bytes, not shorter than before. No regular file: only at the end. */
void writer_set_tail(struct writer *w, const char *text, size_t len);

/* Call before anything is written. When less than that is free, nothing more is written, as on a
 * full disk (-ENOSPC). The thread checks often enough for that. */
void writer_keep_free(struct writer *w, const struct writer_floor *floor);

/*
 * Waits until all is written, closes the file and frees. Returns the first error of the writer's
 * life. It waits as long as bytes go out, but not for a pipe or terminal that has taken none for 5
 * s, and after a SIGINT, SIGTERM or SIGHUP (blocked by the caller, and still pending) not for any
 * file that has taken none for 1 s: -ETIMEDOUT.
 */
int writer_close(struct writer *w);

/* Returns room for one event of at most WRITER_EVENT_MAX bytes. Never NULL; after an error, and
 * beyond WRITER_LIMIT, what is written there is dropped. */
char *writer_reserve(struct writer *w);

/* Commits the event that begins at the reserved place and ends at `end`. Returns false if it was dropped. */
bool writer_commit(struct writer *w, const char *end);

/* Appends bytes (a few MB at most) that must not be torn (modes WRITER_LINES and WRITER_LINES_GZIP). */
void writer_append(struct writer *w, const char *data, size_t len);

/* Starts writing everything that was committed. The first error is printed once, kept and returned
 * by every later call: -ENOSPC, -EPIPE, ... */
int writer_flush(struct writer *w);

/* Does the same, and waits until everything is in the file, as long as writer_close() does. */
int writer_sync(struct writer *w);

/* Whether so much waits to be written that further events should be left out and counted as lost
 * until less does. To be called for each record: it costs one load. */
bool writer_full(const struct writer *w);

/* Events and appended pieces that were left out, because even the reserved room was used up. */
uint64_t writer_dropped(const struct writer *w);

/* Bytes in the file so far; compressed ones with gzip. */
uint64_t writer_bytes(const struct writer *w);

/* The size that the file will have with all that is committed and `more`, including what it held
 * before. With gzip an estimate. */
uint64_t writer_size(const struct writer *w, size_t more);

/* Opens the file that is being written for reading, whatever has its name by now. -ENOENT: it is
 * not a regular file. */
int writer_reopen(const struct writer *w);

/* Whether bytes that were flushed are waiting and none have gone out for a while: the disk stalls. */
bool writer_stalls(const struct writer *w);

/* Committed bytes that are not in the file yet. */
size_t writer_pending(const struct writer *w);

/*
 * Returns the length of the whole events at the beginning of the text that fit the limit, or that of the first
 * event if none fits. The text consists of whole events.
 */
size_t framing_within(enum writer_mode mode, const char *text, size_t len, size_t limit);

#endif
