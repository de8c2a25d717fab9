// SPDX-License-Identifier: BSD-2-Clause
#include "read/proto.h"

enum {
	WIRE_VARINT,
	WIRE_FIXED64,
	WIRE_LEN,
	WIRE_FIXED32 = 5,
};

static int read_fixed(struct proto_bytes *in, size_t len, uint64_t *ret)
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

int proto_next(struct proto_bytes *in, struct proto_field *ret)
{
	uint64_t key, len;

	if (in->p == in->end)
		return 0;
	if (proto_read_varint(in, &key) != 1 || !(key >> 3))
		return -EBADMSG;
	*ret = (struct proto_field){ .number = key >> 3, .bytes = { in->p, in->p } };
	switch (key & 7) {
	case WIRE_VARINT:
		return proto_read_varint(in, &ret->value) == 1 ? 1 : -EBADMSG;
	case WIRE_FIXED64:
		return read_fixed(in, 8, &ret->value);
	case WIRE_FIXED32:
		return read_fixed(in, 4, &ret->value);
	case WIRE_LEN:
		if (proto_read_varint(in, &len) != 1 || len > proto_len(*in))
			return -EBADMSG;
		ret->bytes = (struct proto_bytes){ in->p, in->p + len };
		in->p += len;
		return 1;
	default:
		return -EBADMSG;
	}
}
