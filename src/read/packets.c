// SPDX-License-Identifier: BSD-2-Clause
#include "read/packets.h"

#include "sink/perfetto_fields.h"

/* Reads on until so many bytes are there. 1: they are, 0: the file ends before. */
static int need(struct packets *in, uint64_t len)
{
	struct json_source *source = in->source;
	int ret;

	while ((uint64_t)(source->end - source->pos) < len) {
		ret = json_source_fill(source);
		if (ret == 1)
			continue;
		if (ret < 0 && !in->failed)
			in->bad(in->ctx, in->at + (uint64_t)(source->end - source->pos), source->error);
		in->failed |= ret < 0;
		return ret;
	}
	return 1;
}

/* Skips a packet without having all of it at once. */
static int skip(struct packets *in, uint64_t len)
{
	uint64_t have;
	int ret;

	while (len) {
		ret = need(in, 1);
		if (ret != 1)
			return ret;
		have = (uint64_t)(in->source->end - in->source->pos);
		have = have < len ? have : len;
		in->source->pos += have;
		len -= have;
	}
	return 1;
}

static int damaged(struct packets *in, const char *why)
{
	in->bad(in->ctx, in->at, why);
	return -EBADMSG;
}

/* The key and the length of the next packet: 1; 0: the file ends there or within; -EBADMSG: it is none. */
static int read_head(struct packets *in, uint64_t *ret_len, size_t *ret_size)
{
	struct proto_bytes head;
	int ret;

	need(in, 11); /* a key, and the longest length */
	head = (struct proto_bytes){ in->source->pos, in->source->end };
	if (head.p == head.end)
		return 0;
	if (*head.p++ != (TRACE_PACKET << 3 | 2))
		return damaged(in, "no packet begins here");
	ret = proto_read_varint(&head, ret_len);
	*ret_size = (size_t)(head.p - in->source->pos);
	return ret < 0 ? damaged(in, "the length of a packet is damaged") : ret;
}

/* 1: a packet, or with an empty *ret one that was skipped. */
static int read_packet(struct packets *in, struct proto_bytes *ret)
{
	uint64_t len;
	size_t head;
	int err;

	err = need(in, 1);
	if (err != 1)
		return err;
	err = read_head(in, &len, &head);
	in->torn = !err;
	if (err != 1)
		return err;
	*ret = (struct proto_bytes){ NULL, NULL };
	if (len > PACKET_BYTES_MAX) {
		in->bad(in->ctx, in->at, "a packet is longer than 16 MB, and left out");
		in->source->pos += head;
		err = skip(in, len);
		in->torn = !err;
	} else {
		err = need(in, head + len);
		in->torn = !err;
		if (err == 1) {
			in->source->pos += head + len;
			*ret = (struct proto_bytes){ in->source->pos - len, in->source->pos };
		}
	}
	in->len = head + len;
	return err;
}

int packets_next(struct packets *in, struct proto_bytes *ret)
{
	int err;

	do {
		in->at += in->len;
		in->len = 0;
		err = read_packet(in, ret);
	} while (err == 1 && !ret->p);
	in->torn &= !in->failed;
	return err;
}
