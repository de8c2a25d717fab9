/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads JSON as a stream, one value or one line at a time, each in one pass over its text. Memory is
 * bounded by the largest of them, so traces of gigabytes can be read.
 */
#ifndef INFTRACE_JSON_SOURCE_H
#define INFTRACE_JSON_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "util/json.h"

/* Limit for one value or line. */
#define JSON_TEXT_MAX (16u << 20)

struct json_reader {
	struct json_source *source; /* owned by the caller */
	struct json_nodes nodes;    /* of the last value or line */
	uint64_t line, byte;        /* position of the next byte: lines from 1, bytes from 0 */
	uint64_t value_line;        /* where the last value or line began */
	bool surrogate_escapes;     /* the last value had a \ud800 to \udfff escape */
	char error[256];            /* why the last call failed, fit to print */
};

/* Reads from an open source, which must outlive the reader. */
void json_reader_init(struct json_reader *reader, struct json_source *source);
void json_reader_free(struct json_reader *reader);

/* All of these return -ENODATA when the input ends (inside the value, for json_reader_value), and
 * another -errno with reader->error set when it cannot be read or is not JSON. */

/* Returns the next byte that is not white space, without consuming it. */
int json_reader_peek(struct json_reader *reader);
/* Consumes the byte that json_reader_peek returned. */
void json_reader_take(struct json_reader *reader);

/*
 * Reads the next value, valid until the next call. -E2BIG when it is over the limits. With
 * ret_value NULL a value of any size is checked and skipped, without needing memory.
 */
int json_reader_value(struct json_reader *reader, const struct json_node **ret_value);

/* Reads the value of the next line that is not blank, valid until the next call. After -EBADMSG and
 * -E2BIG (also: more or less than one value on the line) the next line can be read. */
int json_reader_line(struct json_reader *reader, const struct json_node **ret_value);

/* Bytes of a file for the JSON readers: plain or gzip (by magic, not by name), from a file or from
 * memory, in one buffer that grows to the largest piece needed at once. */

#define JSON_SOURCE_BUF (256 * 1024)

struct json_source {
	unsigned char *pos, *end; /* decoded, not consumed yet: the caller moves pos */
	bool gzip;
	uint64_t members; /* whole gzip members read */
	char error[160];  /* why the last call failed, fit to print */
	struct json_source_state *state;
};

/* A source of bytes other than a file or memory, such as a member of an archive. */
struct json_stream {
	/* Returns how many bytes it read, at most len; 0 at the end; -errno with *ret_why, a text that stays valid. */
	ssize_t (*read)(struct json_stream *stream, void *buf, size_t len, const char **ret_why);
	void (*close)(struct json_stream *stream);
};

/*
 * Opens path ("-": standard input) or len bytes at data, which must outlive the source. On return
 * the first JSON_SOURCE_BUF bytes (or all, if fewer) are at pos. Returns 0 or -errno with
 * source->error set; call json_source_close in both cases.
 */
int json_source_open(struct json_source *source, const char *path);
int json_source_open_mem(struct json_source *source, const void *data, size_t len);
/* The same for a stream, which json_source_close closes in any case. */
int json_source_open_stream(struct json_source *source, struct json_stream *stream);
void json_source_close(struct json_source *source);

/* Reads more bytes after the unconsumed ones, which may move; the caller may change them all.
 * Returns 1 when there are more bytes, 0 at the end, -errno with source->error set: read
 * errors and gzip data that is damaged or cut inside a member (bytes from before the damage are
 * handed out first). */
int json_source_fill(struct json_source *source);

#endif
