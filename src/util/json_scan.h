/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A recogniser of one JSON value (RFC 8259) that is fed pieces of text.
 *
 * It finds where a value ends before anything is allocated for it, so that a stream of values is
 * parsed one at a time, and it is strict where json-c is not: control bytes in strings, NaN,
 * numbers such as 01 or 1., and lone surrogates are refused, as JSON.parse or Perfetto refuse them.
 */
#ifndef INFTRACE_JSON_SCAN_H
#define INFTRACE_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Deeper nesting is refused. Traces nest 4 deep, 7 with tensor shapes. */
#define JSON_DEPTH_MAX 63

struct json_scan {
	uint8_t state, depth;
	uint64_t arrays;        /* bit N: the container at depth N is an array */
	bool key;               /* the string being read is a key */
	bool surrogate_escapes; /* a \ud800 to \udfff escape was seen, valid or not */
	uint8_t utf8_need, utf8_lo, utf8_hi;
	uint8_t hex_left;
	uint16_t hex, high_surrogate;
	const char *literal; /* what is left of true, false or null */
	uint32_t values;     /* values seen, nested ones too */
	char error[64];
};

void json_scan_init(struct json_scan *scan);

/* Feeds text; *ret_used is how much of it belongs to the value. Returns 1 when the value is
 * complete, 0 when it goes on, -EBADMSG with scan->error set (the byte at *ret_used is wrong). */
int json_scan_feed(struct json_scan *scan, const unsigned char *text, size_t len, size_t *ret_used);

/* The text has ended: returns 1 when the value is complete (a number at top level has no end of
 * its own), -ENODATA when it was cut. */
int json_scan_end(struct json_scan *scan);

#endif
