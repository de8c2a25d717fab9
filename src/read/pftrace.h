/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads Perfetto traces of any origin and size. */
#ifndef INFTRACE_READ_PFTRACE_H
#define INFTRACE_READ_PFTRACE_H

#include <stdbool.h>

#include "read/json_source.h"
#include "read/proto.h"

/* The packets of a trace, one after the other. */

#define PACKET_BYTES_MAX (UINT64_C(16) << 20)

struct packets {
	struct json_source *source; /* open; owned by the caller */
	/* Reports a problem at an offset of the (decompressed) file. */
	void (*bad)(void *ctx, uint64_t offset, const char *why);
	void *ctx;
	uint64_t at, len;        /* offset and length of the last packet */
	bool failed;             /* the source failed, which was reported */
	bool torn;               /* the file ends within a packet: the recording was killed */
	uint64_t kept, kept_max; /* bytes */
};

/* Allocates zeroed memory, which the caller frees. NULL: over kept_max; report it with packets_full(). */
void *packets_keep(struct packets *in, size_t size);

static inline int packets_full(const struct packets *in, const char *why)
{
	in->bad(in->ctx, in->at, why);
	return -E2BIG;
}

/* The fields of a packet that are read; 0 if absent. */
struct packet {
	uint64_t ts, clock, sequence, flags; /* flags: SEQUENCE_F_* */
	bool timed;                          /* it has a timestamp */
	bool dropped;                        /* packets of its sequence were lost before it */
	struct proto_bytes interned, defaults, clocks, event, sample, tree, track;
};

/* Parses a packet. -EBADMSG: it is damaged or compressed, which was reported. */
int packet_parse(const struct packets *in, struct proto_bytes bytes, struct packet *ret);

/*
 * Calls packet() for each packet, whose bytes are valid during the call; it returns 0, or -errno to stop. Returns 0, packet()'s error, or
 * -errno if the file cannot be read any further, which was reported. Packets above PACKET_BYTES_MAX are reported and skipped.
 */
int packets_each(struct packets *in, int (*packet)(void *arg, struct proto_bytes bytes), void *arg);

/*
 * Streams the samples of a trace with their stacks, and the names of processes and threads. Everything else is skipped.
 *
 * The file may be damaged. Memory is bounded: PACKET_BYTES_MAX for one packet, and PFTRACE_KEPT_MAX for names and stacks.
 */

#define PFTRACE_KEPT_MAX (UINT64_C(512) << 20)
#define PFTRACE_FRAMES_MAX 4096 /* per stack */

struct pftrace_frame {
	const char *name;     /* "": unknown */
	const char *mapping;  /* the path of the file, or "[kernel]"; "": unknown */
	const char *build_id; /* in hexadecimal; "": unknown */
	uint64_t rel_pc;
};

/* Valid until the reader clears the sequence of packets, which the caller cannot see. `user` is 0 at first and then
 * belongs to the caller: each sample of a stack gets the same pftrace_stack. */
struct pftrace_stack {
	uint32_t user;
	uint32_t n;
	const struct pftrace_frame **frames; /* the outermost first */
};

struct pftrace_sample {
	uint64_t ns; /* by the clock of its packet */
	uint32_t pid, tid;
	bool off_cpu;
	uint64_t weight_ns;          /* 0: unknown, as for samples that do not count time */
	struct pftrace_stack *stack; /* NULL: none, or it cannot be decoded */
};

struct pftrace_ops {
	/* Returns 0, or -errno to stop. */
	int (*sample)(void *ctx, const struct pftrace_sample *s);
	/* tid 0: the name of the process. The text is not terminated by a NUL. */
	int (*name)(void *ctx, uint32_t pid, uint32_t tid, const char *text, size_t len);
	/* Reports a problem at an offset of the (decompressed) file. */
	void (*bad)(void *ctx, uint64_t offset, const char *why);
};

/*
 * Reads an open source to its end, or to where it cannot be read any more. Returns 0, or -errno: the reason has
 * been passed to bad(), unless one of the ops returned the error. A torn last packet, as when the recorder was
 * killed, is no error but sets *ret_torn.
 */
int pftrace_read(struct json_source *source, const struct pftrace_ops *ops, void *ctx, bool *ret_torn);

#endif
