/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * JSON read as a stream: one value or one line at a time, in memory bounded by the largest of
 * them, so that a trace of gigabytes can be read. Also the conversion of times without a double.
 */
#ifndef INFTRACE_JSON_READ_H
#define INFTRACE_JSON_READ_H

#include <json-c/json.h>

#include "util/json_scan.h"
#include "util/json_source.h"

/* Limits for one value or line: a hostile one costs at most some 70 MB as json-c objects. */
#define JSON_TEXT_MAX (16u << 20)
#define JSON_VALUES_MAX 65536u

struct json_reader {
	struct json_source *source; /* the caller's */
	struct json_tokener *tokener;
	char *text; /* of the value or line being read */
	size_t len, size;
	uint64_t line, byte;    /* position of the next byte: lines from 1, bytes from 0 */
	uint64_t value_line;    /* where the last value or line began */
	bool surrogate_escapes; /* the last value had a \ud800 to \udfff escape */
	char error[256];        /* why the last call failed, fit to print */
};

/* Reads from an open source, which must outlive the reader. Returns 0 or -ENOMEM. */
int json_reader_init(struct json_reader *reader, struct json_source *source);
void json_reader_free(struct json_reader *reader);

/* All of these return -ENODATA when the input ends (inside the value, for json_reader_value), and
 * another -errno with reader->error set when it cannot be read or is not JSON. */

/* The next byte that is not white space, which stays unread. */
int json_reader_peek(struct json_reader *reader);
/* Takes the byte that json_reader_peek returned. */
void json_reader_take(struct json_reader *reader);

/*
 * The next value, to be put by the caller. -E2BIG when it is over the limits. With ret_value NULL
 * the value is checked and skipped, at no cost in memory and whatever its size.
 */
int json_reader_value(struct json_reader *reader, struct json_object **ret_value);

/* The value of the next line that is not blank, to be put by the caller. After -EBADMSG and -E2BIG
 * (also: more or less than one value on the line) the next line can be read. */
int json_reader_line(struct json_reader *reader, struct json_object **ret_value);

/*
 * A number of microseconds as nanoseconds, from its decimal text and not by way of a double.
 * Returns 0, 1 when digits below the nanosecond were cut off (towards minus infinity), -EINVAL when
 * value is not a number, -ERANGE when it does not fit.
 */
int json_us_to_ns(struct json_object *value, int64_t *ret_ns);

/* Untrusted text fit to print on one line: control bytes and invalid UTF-8 as \xNN, cut with "..."
 * so that it fits in size (at least 8). Returns buf. */
const char *json_printable(char *buf, size_t size, const char *text);

#endif
