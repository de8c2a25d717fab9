/* SPDX-License-Identifier: BSD-2-Clause */
/* A Perfetto trace as a reader sees it: packets sorted by time, and by place in the file at equal times. */
#ifndef INFTRACE_TEST_PFTRACE_H
#define INFTRACE_TEST_PFTRACE_H

#include "sinks.h"

#define NAMES_MAX 1024
#define ARGS_MAX 8

struct bytes {
	const uint8_t *p, *end;
};

/* The fields of a packet that are read. */
struct seen {
	uint64_t ns, track, type, name, category, arg, flow_begin, flow_end;
	size_t place;
	char text[64], category_text[64], arg_text[64];
};

typedef char name_table[32][NAMES_MAX][64]; /* by field of InternedData and number */

/* The position of its delta clock, and defaults for packets. */
struct sequence {
	uint64_t id, deltas_ns, clock, track;
	name_table *names;
};

struct reader {
	struct seen *events;
	size_t n, size, packets, cleared, dropped;
	struct sequence sequences[512];
	struct {
		uint64_t uuid;
		uint32_t tid;
		char name[32];
	} tracks[512];
	size_t n_tracks;
};

static inline uint64_t varint(struct bytes *b)
{
	uint64_t v = 0;

	for (int shift = 0;; shift += 7) {
		assert_true(b->p < b->end && shift < 64);
		v |= (uint64_t)(*b->p & 0x7f) << shift;
		if (!(*b->p++ & 0x80))
			return v;
	}
}

/* Reads the next field: its number, and its value or its bytes. 0 at the end. */
static inline uint32_t field_next(struct bytes *b, uint64_t *ret_v, struct bytes *ret_in)
{
	uint64_t key, len = 8;

	*ret_v = 0;
	*ret_in = (struct bytes){ b->p, b->p };
	if (b->p == b->end)
		return 0;
	key = varint(b);
	switch (key & 7) {
	case 0:
		*ret_v = varint(b);
		return (uint32_t)(key >> 3);
	case 2:
		len = varint(b);
		break;
	default:
		assert_int_equal(key & 7, 1);
	}
	assert_true(len <= (size_t)(b->end - b->p));
	*ret_in = (struct bytes){ b->p, b->p + len };
	b->p += len;
	if ((key & 7) == 1)
		memcpy(ret_v, ret_in->p, sizeof(*ret_v));
	return (uint32_t)(key >> 3);
}

static inline void copy_text(char *to, size_t size, struct bytes in)
{
	snprintf(to, size, "%.*s", (int)(in.end - in.p), (const char *)in.p);
}

static inline struct sequence *sequence_get(struct reader *r, uint64_t id)
{
	struct sequence *q = r->sequences;

	for (; q->id && q->id != id; q++)
		assert_true(q + 1 < r->sequences + ARRAY_SIZE(r->sequences));
	q->id = id;
	return q;
}

static inline void read_names(struct sequence *q, struct bytes data)
{
	struct bytes entry, in;
	uint64_t v, iid = 0;
	uint32_t kind, f;

	while ((kind = field_next(&data, &v, &entry))) {
		assert_true(kind < 32);
		if (kind >= 5 && kind <= 7) /* stacks */
			continue;
		if (kind >= 16 && kind <= 19)
			continue;
		while ((f = field_next(&entry, &v, &in))) {
			iid = f == 1 ? v : iid;
			assert_in_range(iid, 1, NAMES_MAX - 1);
			if (f == 2)
				copy_text((*q->names)[kind][iid], 64, in);
		}
	}
}

static inline void read_track(struct reader *r, struct bytes data)
{
	uint64_t v, uuid = 0, tid = 0;
	struct bytes in, sub;
	char name[32] = "";
	uint32_t f;
	size_t i;

	while ((f = field_next(&data, &v, &in))) {
		uuid = f == 1 ? v : uuid;
		if (f == 2)
			copy_text(name, sizeof(name), in);
		while (f == 4 && (f = field_next(&in, &v, &sub)))
			tid = f == 2 ? v : tid, f = 4;
	}
	for (i = 0; i < r->n_tracks && r->tracks[i].uuid != uuid; i++)
		;
	assert_true(i < ARRAY_SIZE(r->tracks));
	r->n_tracks += i == r->n_tracks;
	r->tracks[i].uuid = uuid;
	r->tracks[i].tid = (uint32_t)tid;
	memcpy(r->tracks[i].name, name, sizeof(name));
}

static inline void read_annotation(const struct sequence *q, struct seen *e, struct bytes data)
{
	struct bytes in;
	uint64_t v;
	uint32_t f;

	while ((f = field_next(&data, &v, &in))) {
		if (f == 1)
			assert_true(*(*q->names)[3][v]);
		else if (f == 17)
			strcpy(e->arg_text, (*q->names)[29][v]);
		else if (f == 6)
			copy_text(e->arg_text, sizeof(e->arg_text), in);
		else if (f != 10)
			e->arg = v;
	}
}

static inline void read_event(struct reader *r, const struct sequence *q, uint64_t ns, struct bytes data)
{
	struct seen e = { .ns = ns, .place = r->n, .track = q->track };
	struct bytes in;
	uint64_t v;
	uint32_t f;

	while ((f = field_next(&data, &v, &in))) {
		e.type = f == 9 ? v : e.type;
		e.track = f == 11 ? v : e.track;
		e.flow_begin = f == 47 ? v : e.flow_begin;
		e.flow_end = f == 48 ? v : e.flow_end;
		if (f == 23)
			copy_text(e.text, sizeof(e.text), in);
		else if (f == 10)
			strcpy(e.text, (*q->names)[2][v]);
		else if (f == 22)
			copy_text(e.category_text, sizeof(e.category_text), in);
		else if (f == 3)
			strcpy(e.category_text, (*q->names)[1][v]);
		else if (f == 4)
			read_annotation(q, &e, in);
	}
	assert_true(e.type == 2 || e.type == 4 || (e.text[0] && (e.category_text[0] || q->track)));
	if (r->n == r->size) {
		r->size = r->size ? 2 * r->size : 1024;
		r->events = realloc(r->events, r->size * sizeof(e));
		assert_non_null(r->events);
	}
	r->events[r->n++] = e;
}

/* The only clocks are CLOCK_BOOTTIME and the delta clock, which begins where a snapshot says. */
static inline void read_clocks(struct sequence *q, struct bytes data)
{
	struct bytes clock, in;
	uint64_t v;
	uint32_t f;

	while (field_next(&data, &v, &clock) == 1) {
		uint64_t values[4] = { 0 }; /* clock_id, timestamp, is_incremental */

		while ((f = field_next(&clock, &v, &in)))
			values[f % 4] = v;
		assert_int_equal(values[3], values[1] == 64);
		if (values[3])
			q->deltas_ns = values[2];
	}
}

static inline void read_defaults(struct sequence *q, struct bytes data)
{
	struct bytes event, in;
	uint64_t v;
	uint32_t f;

	while ((f = field_next(&data, &v, &event))) {
		q->clock = f == 58 ? v : q->clock;
		if (f == 11)
			assert_int_equal(field_next(&event, &q->track, &in), 11);
	}
}

static inline uint64_t time_of(struct sequence *q, uint64_t clock, uint64_t ns)
{
	clock = clock ? clock : q->clock;
	assert_true(clock == 6 || clock == 64);
	return clock == 64 ? q->deltas_ns += ns : ns;
}

static inline uint64_t sequence_of(struct bytes packet)
{
	struct bytes in;
	uint64_t v;
	uint32_t f;

	while ((f = field_next(&packet, &v, &in))) {
		if (f == 10)
			return v;
	}
	return UINT64_MAX;
}

static inline void read_packet(struct reader *r, struct bytes packet)
{
	struct sequence *q = sequence_get(r, sequence_of(packet));
	struct bytes in, event = { 0 };
	uint64_t v, ns = 0, clock = 0;
	uint32_t f;

	while ((f = field_next(&packet, &v, &in))) {
		if (f == 8)
			ns = v;
		else if (f == 58)
			clock = v;
		else if (f == 6)
			read_clocks(q, in);
		else if (f == 59)
			read_defaults(q, in);
		else if (f == 11)
			event = in;
		else if (f == 12)
			read_names(q, in);
		else if (f == 60)
			read_track(r, in);
		else if (f == 42)
			r->dropped++;
		else if (f == 13 && v & 1) {
			free(q->names);
			q->names = calloc(1, sizeof(*q->names));
			assert_non_null(q->names);
			r->cleared += q->id == 1;
		}
	}
	if (event.p)
		read_event(r, q, time_of(q, clock, ns), event);
}

static inline int by_time(const void *a, const void *b)
{
	const struct seen *x = a, *y = b;

	if (x->ns != y->ns)
		return x->ns < y->ns ? -1 : 1;
	return x->place < y->place ? -1 : x->place > y->place;
}

static inline void perfetto_open(struct out *o)
{
	out_open(o, WRITER_PACKETS, perfetto_sink_new);
}

/* Reads the file's contents, in the order of time. */
static inline struct reader *read_file(struct out *o)
{
	struct reader *r = calloc(1, sizeof(*r));
	struct bytes file, packet;
	uint64_t v;

	assert_non_null(r);
	read_text(o);
	file = (struct bytes){ (uint8_t *)o->text, (uint8_t *)o->text + o->len };
	for (; file.p < file.end; r->packets++) {
		assert_int_equal(field_next(&file, &v, &packet), 1);
		read_packet(r, packet);
	}
	if (r->n)
		qsort(r->events, r->n, sizeof(*r->events), by_time);
	free(o->text);
	close(o->fd);
	return r;
}

/* Closes the sink and reads what it wrote. */
static inline struct reader *perfetto_read(struct out *o)
{
	assert_int_equal(o->s->ops->close(o->s, &(struct window_totals){ .open_ns = START, .close_ns = START + 1000 }), 0);
	return read_file(o);
}

/* Continues the sink in another file; returns the contents of the previous one. */
static inline struct reader *perfetto_rotate(struct out *o)
{
	struct out first = out_rotate(o, WRITER_PACKETS);

	assert_int_equal(o->format->ops->held(o->format), 0);
	return read_file(&first);
}

static inline void reader_free(struct reader *r)
{
	for (size_t i = 0; i < ARRAY_SIZE(r->sequences); i++)
		free(r->sequences[i].names);
	free(r->events);
	free(r);
}

static inline uint32_t tid_of(const struct reader *r, uint64_t track, const char *name)
{
	for (size_t i = 0; i < r->n_tracks; i++) {
		if (r->tracks[i].uuid == track) {
			assert_string_equal(r->tracks[i].name, name);
			return r->tracks[i].tid;
		}
	}
	fail_msg("a track that is not described");
	return 0;
}

#endif
