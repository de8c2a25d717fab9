/* SPDX-License-Identifier: BSD-2-Clause */
/* Perfetto traces: their packets, and what is in them, of a file of any origin and size. */
#ifndef INFTRACE_READ_PFTRACE_H
#define INFTRACE_READ_PFTRACE_H

#include <stdbool.h>

#include "read/json_source.h"
#include "read/proto.h"

/* The packets of a Perfetto trace, one after the other, of a file of any origin and size. */

#define PACKET_BYTES_MAX (UINT64_C(16) << 20)

struct packets {
	struct json_source *source; /* open; owned by the caller */
	/* A problem at this offset of the (decompressed) file. */
	void (*bad)(void *ctx, uint64_t offset, const char *why);
	void *ctx;
	uint64_t at, len;        /* the offset of the last packet, and how long it is */
	bool failed;             /* the source did, which was reported */
	bool torn;               /* the file ends within a packet: the recording was killed */
	uint64_t kept, kept_max; /* bytes */
};

/* Memory that is zero, as far as kept_max allows, to be freed. NULL: packets_full() reports that. */
void *packets_keep(struct packets *in, size_t size);

static inline int packets_full(const struct packets *in, const char *why)
{
	in->bad(in->ctx, in->at, why);
	return -E2BIG;
}

/* The parts of a packet that are read; parts that are not in it are 0. */
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

/*
 * Perfetto traces, as a stream: samples with their stacks, and the names of threads. Everything else is skipped.
 *
 * The file may be of any origin, and damaged. What is kept of it at a time is bounded: PACKET_BYTES_MAX of one
 * packet, and PFTRACE_KEPT_MAX of names and stacks.
 */

#define PFTRACE_KEPT_MAX (UINT64_C(512) << 20)
#define PFTRACE_FRAMES_MAX 4096 /* of one stack */

struct pftrace_frame {
	const char *name;     /* "": unknown */
	const char *mapping;  /* the path of the file, or "[kernel]"; "": unknown */
	const char *build_id; /* in hexadecimal; "": unknown */
	uint64_t rel_pc;
};

/* Valid as long as the sequence of packets does not begin anew, which nobody but the reader knows. `user` is 0 at
 * first and then what the caller makes of it: each stack is passed once for each of its samples. */
struct pftrace_stack {
	uint32_t user;
	uint32_t n;
	const struct pftrace_frame **frames; /* the outermost first */
};

struct pftrace_sample {
	uint64_t ns; /* by the clock of its packet */
	uint32_t pid, tid;
	bool off_cpu;
	uint64_t weight_ns;          /* 0: unknown, as of samples that do not count time */
	struct pftrace_stack *stack; /* NULL: it has none */
};

struct pftrace_ops {
	/* Returns 0, or -errno to stop. */
	int (*sample)(void *ctx, const struct pftrace_sample *s);
	/* tid 0: the process's. The text is not terminated. */
	int (*name)(void *ctx, uint32_t pid, uint32_t tid, const char *text, size_t len);
	/* A problem at this offset of the (decompressed) file. */
	void (*bad)(void *ctx, uint64_t offset, const char *why);
};

/*
 * Reads an open source to its end, or to where it cannot be read any more. Returns 0, or -errno: the reason has
 * been passed to bad(), unless one of the ops returned the error. A last packet that is torn, as in a
 * recording that was killed, is no error: *ret_torn.
 */
int pftrace_read(struct json_source *source, const struct pftrace_ops *ops, void *ctx, bool *ret_torn);

#endif
