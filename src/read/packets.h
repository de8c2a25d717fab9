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

/*
 * Returns the next packet, which is valid until the next call. 1 and *ret; 0: there are no more; -errno: they cannot be
 * read, which was reported. Those above PACKET_BYTES_MAX are reported and skipped.
 */
int packets_next(struct packets *in, struct proto_bytes *ret);

#endif
