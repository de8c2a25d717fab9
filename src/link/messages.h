/* SPDX-License-Identifier: BSD-2-Clause */
/* What a recording says of TCP connections: which bytes had been received by some time, and which were not sent before one. */
#ifndef INFTRACE_LINK_MESSAGES_H
#define INFTRACE_LINK_MESSAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/map.h"

#define MESSAGES_MAX (1u << 21) /* kept of a file; 80 MB */
#define MESSAGE_STREAMS_MAX 65536

/* One direction of a connection, by the name that both hosts know: "10.0.0.1:80>10.0.0.2:40000". */
struct message_stream {
	UT_hash_handle hh;
	uint32_t id;
	char name[];
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
	struct message_stream *by_name, **streams;
	uint32_t n_streams;
	size_t streams_size;
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

/* Events that are incomplete, or of other programs, are left alone. -ENOMEM. */
int messages_add(struct messages *m, const struct message_event *e);
/* Adds to all times, and sorts; once, when all are known. */
void messages_finish(struct messages *m, int64_t later_ns);
void messages_clear(struct messages *m);

/* A message that one file has sent and another one received. */
struct message_pair {
	const struct message *sent, *received;
};

/* Calls `pair` for what `from` has sent and `to` received. Its first error, or 0. Both are finished. */
int messages_match(const struct messages *from, const struct messages *to, int (*pair)(void *arg, const struct message_pair *p), void *arg);

#endif
