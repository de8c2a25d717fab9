/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Output files that are valid at every moment, written by a thread of their own.
 *
 * Events are appended to blocks of memory, which the thread compresses and writes: who appends
 * never waits for a disk, nor for the reader of a pipe. Every write ends at an event. It can still
 * be cut short by SIGKILL or a full disk, and the kernel does that at a page boundary of the file.
 * So no event (that fits a page) lies across such a boundary: it is moved behind it, and white
 * space, which JSON allows between events, fills the gap.
 *
 * All functions are for one thread, the caller's.
 */
#ifndef INFTRACE_WRITER_H
#define INFTRACE_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WRITER_EVENT_MAX 8192 /* bytes of one event, at most; real ones have 100 to 500 */

/* Bytes of memory for what is not written yet, at most; and how many of them are left when the
 * writer is full, for what must not be missing in the file: names, marks of loss, its end. */
#define WRITER_LIMIT (16u << 20)
#define WRITER_SLACK (4u << 20)

enum writer_mode {
	WRITER_PLAIN,   /* events of JSON with padding */
	WRITER_GZIP,    /* the same without, as gzip members */
	WRITER_LINES,   /* as is: for formats that must not be padded */
	WRITER_PACKETS, /* as is: fields of protobuf, whose readers tolerate a torn last one */
	WRITER_PACKETS_GZIP,
};

struct writer;

/* What a file leaves free of its file system: so many bytes, or this part of it; of both the less;
 * 0 counts as not given. */
struct writer_floor {
	uint64_t bytes;
	double percent;
};
#define WRITER_FLOOR ((struct writer_floor){ .bytes = UINT64_C(1) << 30, .percent = 5 })

/* Takes over fd; `name` is for messages and is copied. -ENOMEM: fd is still open. */
int writer_new(int fd, const char *name, enum writer_mode mode, struct writer **ret_writer);

/* Before anything is written: when less than that is free, nothing more is, as on a full disk
 * (-ENOSPC). It is looked at as often as needed for that, by the thread. */
void writer_keep_free(struct writer *w, const struct writer_floor *floor);

/*
 * Waits until all is written, closes the file and frees. Returns the first error of the writer's
 * life. It waits as long as bytes go out; but not for a pipe or terminal that takes none for 5 s,
 * and after a SIGINT, SIGTERM or SIGHUP (blocked by the caller, and still pending) for no file that
 * takes none for 1 s: -ETIMEDOUT.
 */
int writer_close(struct writer *w);

/* Room for one event of at most WRITER_EVENT_MAX bytes. Never NULL; after an error, and beyond
 * WRITER_LIMIT, what is written there is dropped. */
char *writer_reserve(struct writer *w);

/* The event that began at the reserved place ends at `end`. Returns false when it was dropped. */
bool writer_commit(struct writer *w, const char *end);

/* Appends bytes (a few MB at most) that must not be torn (mode WRITER_LINES). */
void writer_append(struct writer *w, const char *data, size_t len);

/* Everything committed goes out, soon. The first error so far is printed once, kept and returned
 * again: -ENOSPC, -EPIPE, ... */
int writer_flush(struct writer *w);

/* The same, and waits until everything is in the file, as long as writer_close() does. */
int writer_sync(struct writer *w);

/* Whether so much waits to be written that further events should be left out, and counted as lost,
 * until less does. For each record: it costs one load. */
bool writer_full(const struct writer *w);

/* Events and appended pieces that were left out here, since not even the slack had room, or the
 * kernel no memory. */
uint64_t writer_dropped(const struct writer *w);

/* Bytes in the file so far, compressed ones with gzip. */
uint64_t writer_bytes(const struct writer *w);

/* Bytes that the file will have with all that is committed and `more`, those included that it had
 * before. With gzip about. */
uint64_t writer_size(const struct writer *w, size_t more);

/* Opens the file that is written for reading, whatever has its name by now. -ENOENT: it is no
 * regular file. */
int writer_reopen(const struct writer *w);

/* Whether some bytes that were flushed wait, and none went out for a while: the disk stalls. */
bool writer_stalls(const struct writer *w);

/* Bytes committed that are not in the file yet. */
size_t writer_pending(const struct writer *w);

#endif
