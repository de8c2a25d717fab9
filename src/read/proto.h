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

/* Returns 1 and *ret; 0: the input ends inside the number; -EBADMSG: the number is longer than 10 bytes. */
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

static inline int proto_read_fixed(struct proto_bytes *in, size_t len, uint64_t *ret)
{
	uint64_t v = 0;

	if (proto_len(*in) < len)
		return -EBADMSG;
	for (size_t i = 0; i < len; i++)
		v |= (uint64_t)in->p[i] << 8 * i;
	in->p += len;
	*ret = v;
	return 1;
}

/* Reads the next field of a message. Returns 1 and *ret; 0: there is none; -EBADMSG: the message is damaged. */
static inline int proto_next(struct proto_bytes *in, struct proto_field *ret)
{
	uint64_t key, len;

	if (in->p == in->end)
		return 0;
	if (proto_read_varint(in, &key) != 1 || !(key >> 3))
		return -EBADMSG;
	*ret = (struct proto_field){ .number = key >> 3, .bytes = { in->p, in->p } };
	switch (key & 7) {
	case 0: /* a varint */
		return proto_read_varint(in, &ret->value) == 1 ? 1 : -EBADMSG;
	case 1: /* 64 bits */
		return proto_read_fixed(in, 8, &ret->value);
	case 5: /* 32 bits */
		return proto_read_fixed(in, 4, &ret->value);
	case 2: /* bytes with their length */
		if (proto_read_varint(in, &len) != 1 || len > proto_len(*in))
			return -EBADMSG;
		ret->bytes = (struct proto_bytes){ in->p, in->p + len };
		in->p += len;
		return 1;
	default:
		return -EBADMSG;
	}
}

#endif
