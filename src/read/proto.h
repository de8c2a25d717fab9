/* SPDX-License-Identifier: BSD-2-Clause */
/* Decodes protobuf messages from outside, field by field: https://protobuf.dev/programming-guides/encoding/. */
#ifndef INFTRACE_READ_PROTO_H
#define INFTRACE_READ_PROTO_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct proto_bytes {
	const unsigned char *p, *end;
};

/* A field: `value` of a number, `bytes` of anything with a length; the other one is 0 or empty. */
struct proto_field {
	uint64_t number;
	uint64_t value;
	struct proto_bytes bytes;
};

static inline size_t proto_len(struct proto_bytes b)
{
	return (size_t)(b.end - b.p);
}

static inline bool proto_is(struct proto_bytes b, const char *text)
{
	return proto_len(b) == strlen(text) && !memcmp(b.p, text, proto_len(b));
}

/* 1 and *ret, 0: it ends in the middle of the number; -EBADMSG: it has more than 64 bits. */
static inline int proto_read_varint(struct proto_bytes *in, uint64_t *ret)
{
	uint64_t v = 0;

	for (unsigned int i = 0; i < 10; i++) {
		if (in->p + i == in->end)
			return 0;
		v |= (uint64_t)(in->p[i] & 0x7f) << 7 * i;
		if (in->p[i] & 0x80)
			continue;
		in->p += i + 1;
		*ret = v;
		return 1;
	}
	return -EBADMSG;
}

/* The next field of a message. 1 and *ret, 0: there is none, -EBADMSG: the message is damaged. */
int proto_next(struct proto_bytes *in, struct proto_field *ret);

#endif
