/* SPDX-License-Identifier: BSD-2-Clause */
/* Hand-made Perfetto traces for the reader: samples, stacks and names. */
#ifndef INFTRACE_TEST_TRACE_BUILDER_H
#define INFTRACE_TEST_TRACE_BUILDER_H

#include <stdlib.h>

#include "schema/perfetto_fields.h"
#include "schema/proto.h"

#define BUILDER_BYTES (1 << 18)

struct builder {
	char data[BUILDER_BYTES], *p;
	char *marks[8]; /* of the packet, and of nested messages */
	unsigned int depth;
};

static inline void open_message(struct builder *b, uint32_t field)
{
	b->p = proto_open(b->p, field, &b->marks[b->depth++]);
}

static inline void close_messages(struct builder *b)
{
	while (b->depth)
		b->p = proto_close(b->marks[--b->depth], b->p);
}

static inline void add_number(struct builder *b, uint32_t field, uint64_t v)
{
	b->p = proto_u64(b->p, field, v);
}

static inline void add_bytes(struct builder *b, uint32_t field, const char *bytes, size_t len)
{
	open_message(b, field);
	b->p = fmt_str(b->p, bytes, len);
	b->depth--;
	b->p = proto_close(b->marks[b->depth], b->p);
}

static inline void begin_packet(struct builder *b, uint32_t sequence, uint64_t flags)
{
	open_message(b, TRACE_PACKET);
	add_number(b, PACKET_SEQUENCE, sequence);
	add_number(b, PACKET_SEQUENCE_FLAGS, flags);
}

/* The timebase of a sequence, which is cleared. name NULL: cpu-clock. */
static inline void add_defaults(struct builder *b, uint32_t sequence, uint64_t period_ns, const char *name)
{
	begin_packet(b, sequence, SEQUENCE_F_CLEARED | SEQUENCE_F_NEEDS);
	open_message(b, PACKET_DEFAULTS);
	open_message(b, DEFAULTS_PERF_SAMPLE);
	open_message(b, PERF_DEFAULTS_TIMEBASE);
	if (period_ns)
		add_number(b, TIMEBASE_PERIOD, period_ns);
	if (name)
		add_bytes(b, TIMEBASE_NAME, name, strlen(name));
	else
		add_number(b, TIMEBASE_COUNTER, COUNTER_CPU_CLOCK);
	close_messages(b);
}

/* Begins an entry of interned data; the caller adds what follows its iid. */
static inline void begin_entry(struct builder *b, uint32_t sequence, uint32_t field, uint64_t iid)
{
	begin_packet(b, sequence, SEQUENCE_F_NEEDS);
	open_message(b, PACKET_INTERNED);
	open_message(b, field);
	add_number(b, 1, iid);
}

static inline void add_text(struct builder *b, uint32_t sequence, uint32_t field, uint64_t iid, const char *text)
{
	begin_entry(b, sequence, field, iid);
	add_bytes(b, 2, text, strlen(text));
	close_messages(b);
}

/* With its own name and mapping, of the same iid. */
static inline void add_frame(struct builder *b, uint32_t sequence, uint64_t iid, const char *name, const char *path)
{
	add_text(b, sequence, INTERNED_FUNCTION, iid, name);
	add_text(b, sequence, INTERNED_PATH, iid, path);
	add_text(b, sequence, INTERNED_BUILD_ID, iid, "\x01\xfe");
	begin_entry(b, sequence, INTERNED_MAPPING, iid);
	add_number(b, 2, iid);
	add_number(b, 7, iid);
	close_messages(b);
	begin_entry(b, sequence, INTERNED_FRAME, iid);
	add_number(b, 2, iid);
	add_number(b, 3, iid);
	add_number(b, 4, 0x1000 + iid);
	close_messages(b);
}

/* Frames from the outermost to the innermost, terminated by 0. */
static inline void add_stack(struct builder *b, uint32_t sequence, uint64_t iid, const uint64_t *frames)
{
	begin_entry(b, sequence, INTERNED_STACK, iid);
	while (*frames)
		add_number(b, 2, *frames++);
	close_messages(b);
}

static inline void add_sample(
	struct builder *b, uint32_t sequence, uint64_t ns, uint32_t pid, uint32_t tid, uint64_t stack, uint64_t count)
{
	begin_packet(b, sequence, SEQUENCE_F_NEEDS);
	add_number(b, PACKET_TIMESTAMP, ns);
	open_message(b, PACKET_PERF_SAMPLE);
	add_number(b, SAMPLE_PID, pid);
	add_number(b, SAMPLE_TID, tid);
	if (stack)
		add_number(b, SAMPLE_STACK, stack);
	if (count)
		add_number(b, SAMPLE_COUNT, count);
	close_messages(b);
}

static inline void add_thread(struct builder *b, uint32_t pid, uint32_t tid, const char *name)
{
	begin_packet(b, 2, 0);
	open_message(b, PACKET_PROCESS_TREE);
	open_message(b, 2 /* threads */);
	add_number(b, 1, tid);
	add_bytes(b, 2, name, strlen(name));
	add_number(b, 3, pid);
	close_messages(b);
}

#endif
