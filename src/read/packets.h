/* SPDX-License-Identifier: BSD-2-Clause */
/* The packets of a Perfetto trace, one after the other, of a file of any origin and size. */
#ifndef INFTRACE_READ_PACKETS_H
#define INFTRACE_READ_PACKETS_H

#include "read/json_source.h"
#include "read/proto.h"

#define PACKET_BYTES_MAX (UINT64_C(16) << 20)

struct packets {
	struct json_source *source; /* open; owned by the caller */
	/* A problem at this offset of the (decompressed) file. */
	void (*bad)(void *ctx, uint64_t offset, const char *why);
	void *ctx;
	uint64_t at, len; /* the offset of the last packet, and how long it is */
	bool failed;      /* the source did, which was reported */
	bool torn;        /* the file ends within a packet, as that of a recording that was killed */
};

/* The parts of a packet that are read; those that it does not have are 0. */
struct packet {
	uint64_t ts, clock, sequence, flags; /* flags: SEQUENCE_F_* */
	bool timed;                          /* it has a time */
	bool dropped;                        /* packets of its sequence are missing before it */
	struct proto_bytes interned, defaults, clocks, event, sample, tree, track;
};

/* Takes a packet apart. -EBADMSG: it is damaged, or compressed, which was reported. */
int packet_parse(const struct packets *in, struct proto_bytes bytes, struct packet *ret);

/*
 * Calls `packet` for each of them, whose bytes are valid during the call: 0, or -errno to stop, which is returned. Also -errno: the file cannot be
 * read any further, which was reported. Those above PACKET_BYTES_MAX are reported and skipped.
 */
int packets_each(struct packets *in, int (*packet)(void *arg, struct proto_bytes bytes), void *arg);

#endif
