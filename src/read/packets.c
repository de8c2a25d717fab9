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

/* 1 and *ret, 0: there are no more, or -errno. */
static int next(struct packets *in, struct proto_bytes *ret)
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

int packets_each(struct packets *in, int (*packet)(void *arg, struct proto_bytes bytes), void *arg)
{
	struct proto_bytes bytes;
	int ret;

	do {
		ret = next(in, &bytes);
		if (ret == 1)
			ret = packet(arg, bytes) ?: 1;
	} while (ret == 1);
	return ret;
}

static int refuse(const struct packets *in, const char *why)
{
	in->bad(in->ctx, in->at, why);
	return -EBADMSG;
}

int packet_parse(const struct packets *in, struct proto_bytes bytes, struct packet *ret)
{
	struct proto_field f;
	int err;

	*ret = (struct packet){ 0 };
	while ((err = proto_next(&bytes, &f)) == 1) {
		switch (f.number) {
		case PACKET_TIMESTAMP:
			ret->ts = f.value;
			ret->timed = true;
			break;
		case PACKET_CLOCK:
			ret->clock = f.value;
			break;
		case PACKET_SEQUENCE:
			ret->sequence = f.value;
			break;
		case PACKET_SEQUENCE_FLAGS:
			ret->flags |= f.value;
			break;
		case PACKET_CLEARED:
			ret->flags |= f.value ? SEQUENCE_F_CLEARED : 0;
			break;
		case PACKET_DROPPED:
			ret->dropped = f.value;
			break;
		case PACKET_INTERNED:
			ret->interned = f.bytes;
			break;
		case PACKET_DEFAULTS:
			ret->defaults = f.bytes;
			break;
		case PACKET_CLOCKS:
			ret->clocks = f.bytes;
			break;
		case PACKET_EVENT:
			ret->event = f.bytes;
			break;
		case PACKET_PERF_SAMPLE:
			ret->sample = f.bytes;
			break;
		case PACKET_PROCESS_TREE:
			ret->tree = f.bytes;
			break;
		case PACKET_TRACK:
			ret->track = f.bytes;
			break;
		case PACKET_COMPRESSED:
			return refuse(in, "packets are compressed; `traceconv decompress_packets` makes a file without");
		}
	}
	return err ? refuse(in, "a packet is damaged") : 0;
}
