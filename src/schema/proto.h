/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Encodes protobuf messages; the hot path of the Perfetto sink.
 *
 * The format: https://protobuf.dev/programming-guides/encoding/. As in util/fmt.h each function
 * writes at p and returns the new end, without bounds checks: the caller reserves the sum of
 * the PROTO_*_MAX of what it writes. Field numbers are below 2^18, nested messages shorter than
 * PROTO_NESTED_MAX.
 */
#ifndef INFTRACE_SCHEMA_PROTO_H
#define INFTRACE_SCHEMA_PROTO_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "util/fmt.h"

enum proto_wire {
	WIRE_VARINT,
	WIRE_FIXED64,
	WIRE_LEN,
};

#define PROTO_KEY_MAX 3
#define PROTO_U64_MAX (PROTO_KEY_MAX + 10)
#define PROTO_NESTED_MAX (1 << 14)
#define PROTO_OPEN_MAX (PROTO_KEY_MAX + 2)
/* each ill-formed byte becomes U+FFFD, which has three */
#define PROTO_TEXT_MAX(len) (PROTO_OPEN_MAX + 3 * (size_t)(len))
#define PROTO_TEXT_HEAD 3 /* bytes before the text, for a field number below 16 */

static inline char *proto_varint(char *p, uint64_t v)
{
	uint16_t two = (uint16_t)((v & 0x7f) | 0x80 | v >> 7 << 8);

	/* nearly all values are this short */
	if (v < 0x80) {
		*p = (char)v;
		return p + 1;
	}
	if (v < 0x4000) {
		memcpy(p, &two, sizeof(two));
		return p + 2;
	}
	while (v >= 0x80) {
		*p++ = (char)(v | 0x80);
		v >>= 7;
	}
	*p++ = (char)v;
	return p;
}

static inline char *proto_key(char *p, uint32_t field, enum proto_wire wire)
{
	return proto_varint(p, field << 3 | wire);
}

static inline char *proto_u64(char *p, uint32_t field, uint64_t v)
{
	return proto_varint(proto_key(p, field, WIRE_VARINT), v);
}

/* int32 and int64: a negative number takes ten bytes. */
static inline char *proto_s64(char *p, uint32_t field, int64_t v)
{
	return proto_u64(p, field, (uint64_t)v);
}

/* fixed64, and double by its bits */
static inline char *proto_fixed64(char *p, uint32_t field, uint64_t v)
{
	p = proto_key(p, field, WIRE_FIXED64);
	for (int i = 0; i < 8; i++, v >>= 8)
		*p++ = (char)v;
	return p;
}

/*
 * A nested message is written between the two calls. Its length always takes two bytes (a varint may
 * be longer than necessary), so nothing has to be moved.
 */
static inline char *proto_open(char *p, uint32_t field, char **ret_mark)
{
	*ret_mark = proto_key(p, field, WIRE_LEN);
	return *ret_mark + 2;
}

static inline char *proto_close(char *mark, char *p)
{
	size_t len = (size_t)(p - mark) - 2;

	mark[0] = (char)(len | 0x80);
	mark[1] = (char)(len >> 7);
	return p;
}

/* The same for a message of less than 128 bytes, whose length takes one byte. */
static inline char *proto_open_short(char *p, uint32_t field, char **ret_mark)
{
	*ret_mark = proto_key(p, field, WIRE_LEN);
	return *ret_mark + 1;
}

static inline char *proto_close_short(char *mark, char *p)
{
	*mark = (char)(p - mark - 1);
	return p;
}

/* A string; each ill-formed part becomes one U+FFFD. Not inlined: a system call would take 6 % more instructions. */
static __attribute__((noinline, unused)) char *proto_text(char *p, uint32_t field, const char *s, size_t len)
{
	char *mark;

	p = proto_open(p, field, &mark);
	while (len) {
		int n = fmt_utf8_scan((const unsigned char *)s, len);
		size_t part = n > 0 ? (size_t)n : (size_t)-n;

		p = n > 0 ? fmt_str(p, s, part) : fmt_lit(p, "\xef\xbf\xbd");
		s += part;
		len -= part;
	}
	return proto_close(mark, p);
}

#endif
