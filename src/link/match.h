/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What two files have in common: messages of TCP connections, and calls of one program; and the distance of
 * their clocks according to the calls.
 */
#ifndef INFTRACE_LINK_MATCH_H
#define INFTRACE_LINK_MATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/map.h"

/* Messages of TCP connections in a recording: which bytes were received by a time, and which were not sent before one. */

#define MESSAGES_MAX (1u << 21) /* per file; 80 MB */
#define MESSAGE_STREAMS_MAX 65536

/* An interned name; ids count from 0. */
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
	int64_t from_ns, to_ns; /* the call, by the file's clock: sent not before from_ns, received by to_ns */
	uint64_t position;      /* after its last byte */
	uint32_t base;          /* TCP sequence number of position 0, give or take two: tells connections with the same ports apart */
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

/* The arguments of an event in a trace; if any is NULL or missing, the event is ignored. */
struct message_event {
	const char *name, *local, *peer;
	int64_t ns; /* when the call ended */
	uint64_t call_ns, bytes, position, sequence;
	unsigned int found; /* a bit for each number that was given */
};

/* Notes an argument of an event. text NULL: it is no text. */
void message_event_number(struct message_event *e, const char *key, uint64_t value);
void message_event_text(struct message_event *e, const char *key, const char *text);

/* Ignores events that are incomplete or of other programs. */
void messages_add(struct messages *m, const struct message_event *e);
/* Adds later_ns to all times, and sorts. Call it once, after the last message. */
void messages_finish(struct messages *m, int64_t later_ns);
void messages_clear(struct messages *m);

/* A message that was sent in one file and received in another. */
struct message_pair {
	const struct message *sent, *received;
};

/* Calls pair() for each message that `from` sent and `to` received. Both must be finished. */
void messages_match(const struct messages *from, const struct messages *to, void (*pair)(void *arg, const struct message_pair *p), void *arg);

/* Calls that two recordings of one program may both have: PyTorch's operators, and the functions of CUDA. */

#define SPANS_MAX (1u << 20) /* per file; 24 MB */
#define SPAN_NAMES_MAX 65536

/*
 * How a call in our recording relates to one in Kineto's. A probe fires before the function does anything, and so before
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
	uint64_t left_out; /* over the limits */
};

/* Leaves out calls over SPANS_MAX, and those with more than SPAN_NAMES_MAX names. */
void spans_add(struct spans *s, const char *name, uint32_t tid, int64_t start_ns, int64_t end_ns);
void spans_clear(struct spans *s);

/* A coarse hash: names with different keys are never related. */
uint64_t span_key(const char *name);
/* Orders such keys, for qsort() and bsearch(). */
int span_compare_keys(const void *x, const void *y);

/* FNV-1a. */
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
 * Each pair of calls bounds the distance from both sides, since one call lies within the other (enum span_relation). All pairs together
 * allow an interval, half of which is the residual.
 */

#define MATCH_WINDOW_NS INT64_C(10000000000) /* how far the clocks may be apart */
#define MATCH_PARTS 8                        /* of the time, each matched on its own */

/* The bounds from the calls in a part of the time. */
struct match_part {
	int64_t at_ns;           /* their middle, by their clock */
	int64_t low_ns, high_ns; /* theirs - ours is at least, at most */
	uint64_t pairs;
	uint32_t low_name, high_name; /* of theirs: the calls that set these bounds */
};

struct match {
	uint64_t pairs, calls;   /* calls: theirs that ours may have, too */
	int64_t low_ns, high_ns; /* of all parts; low > high: they contradict by the difference */
	struct match_part parts[MATCH_PARTS];
	size_t n_parts;
	size_t low_part, high_part; /* the parts that set these bounds */
};

/* Sorts theirs by time. ret->pairs 0: the recordings have no calls in common, or too few to tell. */
void match_find(struct spans *ours, struct spans *theirs, struct match *ret);

#endif
