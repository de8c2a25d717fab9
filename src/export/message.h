/* SPDX-License-Identifier: BSD-2-Clause */
/* Growing protobuf messages; small parts are written with schema/proto.h first. */
#ifndef INFTRACE_EXPORT_MESSAGE_H
#define INFTRACE_EXPORT_MESSAGE_H

#include "schema/proto.h"
#include "util/alloc.h"

/* All zero: empty. The caller frees buf. */
struct message {
	char *buf;
	size_t len, size;
};

static inline void message_add(struct message *m, const void *data, size_t len)
{
	if (m->size - m->len < len) {
		m->size = 2 * (m->len + len) + 256;
		m->buf = xreallocarray(m->buf, m->size, 1);
	}
	if (len)
		memcpy(m->buf + m->len, data, len);
	m->len += len;
}

/* Adds bytes, a text or a nested message. */
static inline void message_nest(struct message *m, uint32_t field, const void *data, size_t len)
{
	char head[PROTO_U64_MAX];

	message_add(m, head, (size_t)(proto_varint(proto_key(head, field, WIRE_LEN), len) - head));
	message_add(m, data, len);
}

/* Nests m in the outer message, and empties it. */
static inline void message_close(struct message *outer, uint32_t field, struct message *m)
{
	message_nest(outer, field, m->buf, m->len);
	m->len = 0;
}

#endif
