/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * JSON read as a stream: one value or one line at a time, each in one pass over its text, with
 * memory bounded by the largest of them, so that it can read traces of gigabytes.
 */
#ifndef INFTRACE_JSON_READER_H
#define INFTRACE_JSON_READER_H

#include "read/json_source.h"
#include "util/json_node.h"

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

#endif
