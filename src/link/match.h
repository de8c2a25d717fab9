/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What two files have in common: messages of TCP connections, and calls of one program; and how far their
 * clocks are apart by these.
 */
#ifndef INFTRACE_LINK_MATCH_H
#define INFTRACE_LINK_MATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/map.h"

/* What a recording says of TCP connections: which bytes had been received by some time, and which were not sent before one. */

#define MESSAGES_MAX (1u << 21) /* kept of a file; 80 MB */
#define MESSAGE_STREAMS_MAX 65536

/* A name, numbered from 0 on. */
struct match_name {
	UT_hash_handle hh;
	uint32_t id;
	uint64_t key; /* of calls: span_key() */
	char text[];
};

struct match_names {
	struct match_name *by_text, **list;
	size_t n, size;
};

struct message {
	int64_t from_ns, to_ns; /* of the call, by the file's clock; sent: not before it; received: by its end */
	uint64_t position;      /* behind its last byte */
	uint32_t base;          /* TCP's number of position 0, give or take two: tells connections apart that have the same ports */
	uint32_t bytes;
	uint32_t stream;
	bool sent;
};

/* All zero: empty. */
struct messages {
	struct match_names streams; /* directions of connections, by what both hosts know: "10.0.0.1:80>10.0.0.2:40000" */
	struct message *list;
	size_t n, size;
	uint64_t left_out; /* over the limits */
};

/* As the event in a trace has them; NULL and missing ones make it none. */
struct message_event {
	const char *name, *local, *peer;
	int64_t ns; /* when the call ended */
	uint64_t call_ns, bytes, position, sequence;
	unsigned int found; /* MESSAGE_F_*, of the numbers */
};

/* Notes an argument of an event. text: NULL for a number. */
void message_event_number(struct message_event *e, const char *key, uint64_t value);
void message_event_text(struct message_event *e, const char *key, const char *text);

/* Events that are incomplete, or of other programs, are left alone. */
void messages_add(struct messages *m, const struct message_event *e);
/* Adds to all times, and sorts; once, when all are known. */
void messages_finish(struct messages *m, int64_t later_ns);
void messages_clear(struct messages *m);

/* A message that one file has sent and another one received. */
struct message_pair {
	const struct message *sent, *received;
};

/* Calls `pair` for what `from` has sent and `to` received. Both are finished. */
void messages_match(const struct messages *from, const struct messages *to, void (*pair)(void *arg, const struct message_pair *p), void *arg);

/* Calls that two recordings of one program may both have: PyTorch's operators, and the functions of CUDA. */

#define SPANS_MAX (1u << 20) /* kept of a file; 24 MB */
#define SPAN_NAMES_MAX 65536

/*
 * How a call in our recording lies to one in Kineto's. A probe fires before the function does anything, and so before
 * CUPTI's or PyTorch's clock is read in it; the runtime's functions call the driver's.
 */
enum span_relation {
	SPAN_UNRELATED,
	SPAN_AROUND, /* ours begins before and ends after it */
	SPAN_WITHIN,
};

struct span {
	int64_t start_ns, end_ns;
	uint32_t name, tid;
};

struct spans {
	struct match_names names;
	struct span *list;
	size_t n, size;
	uint64_t left_out; /* over SPANS_MAX */
};

/* More names than SPAN_NAMES_MAX are left out. */
void spans_add(struct spans *s, const char *name, uint32_t tid, int64_t start_ns, int64_t end_ns);
void spans_clear(struct spans *s);

/* Coarse: names that differ in it are never related. */
uint64_t span_key(const char *name);
/* Orders such keys, for qsort() and bsearch(). */
int span_compare_keys(const void *x, const void *y);

/* FNV-1a, of names. */
static inline uint64_t name_hash(const char *text, size_t len)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < len; i++)
		hash = (hash ^ (uint8_t)text[i]) * UINT64_C(0x100000001b3);
	return hash;
}

/* theirs: as Kineto writes it, "aten::mul" or "cudaLaunchKernel"; ours: "mul_Tensor", "cuLaunchKernel". */
enum span_relation span_relate(const char *ours, const char *theirs);

/*
 * How far the clocks of two recordings of one program are apart, from the calls that both have.
 *
 * Each pair of calls bounds it from both sides, since one lies within the other (enum span_relation). What all pairs allow is an
 * interval, whose half is the residual.
 */

#define MATCH_WINDOW_NS INT64_C(10000000000) /* how far the clocks may be apart */
#define MATCH_PARTS 8                        /* of the time, each of which is matched on its own */

/* What the calls of a part of the time say. */
struct match_part {
	int64_t at_ns;           /* their middle, by their clock */
	int64_t low_ns, high_ns; /* theirs - ours is at least, at most */
	uint64_t pairs;
	uint32_t low_name, high_name; /* of theirs: the calls that say so */
};

struct match {
	uint64_t pairs, calls;   /* calls: of theirs that ours may have, too */
	int64_t low_ns, high_ns; /* of all parts; low > high: they contradict by that much */
	struct match_part parts[MATCH_PARTS];
	size_t n_parts;
	size_t low_part, high_part; /* the parts that set these bounds */
};

/* Sorts both. ret->pairs 0: the recordings have no calls in common, or too few to tell. */
void match_find(struct spans *ours, struct spans *theirs, struct match *ret);

#endif
