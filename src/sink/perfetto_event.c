// SPDX-License-Identifier: BSD-2-Clause
/* Perfetto trace: TrackEvents and the names that they refer to by number. */
#include <errno.h>
#include <stdlib.h>

#include "sink/perfetto.h"

#define INTERNS_FIRST 512
#define NAME_MAX_LEN 512 /* of symbols, more of which says nothing to a reader */

struct intern {
	char *text; /* NULL: the slot is empty */
	uint64_t hash;
	enum intern_kind kind;
	uint32_t iid; /* 0: not in the trace since the last loss */
};

struct interns {
	struct intern *table; /* open addressing */
	size_t n, size;
	uint32_t last;
};

int interns_new(struct interns **ret_interns)
{
	struct interns *in = calloc(1, sizeof(*in));

	if (in)
		in->table = calloc(INTERNS_FIRST, sizeof(*in->table));
	if (!in || !in->table) {
		free(in);
		return -ENOMEM;
	}
	in->size = INTERNS_FIRST;
	*ret_interns = in;
	return 0;
}

void interns_free(struct interns *in)
{
	if (!in)
		return;
	for (size_t i = 0; i < in->size; i++)
		free(in->table[i].text);
	free(in->table);
	free(in);
}

void interns_clear(struct interns *in)
{
	for (size_t i = 0; i < in->size; i++)
		in->table[i].iid = 0;
}

static struct intern *find_slot(
	struct intern *table, size_t size, enum intern_kind kind, const char *text, uint64_t hash)
{
	size_t i = hash & (size - 1);

	while (table[i].text &&
		(table[i].hash != hash || table[i].kind != kind || strcmp(table[i].text, text)))
		i = (i + 1) & (size - 1);
	return &table[i];
}

static int interns_grow(struct interns *in)
{
	struct intern *table = calloc(2 * in->size, sizeof(*table));

	if (!table)
		return -ENOMEM;
	for (size_t i = 0; i < in->size; i++) {
		const struct intern *old = &in->table[i];

		if (old->text)
			*find_slot(table, 2 * in->size, old->kind, old->text, old->hash) = *old;
	}
	free(in->table);
	in->table = table;
	in->size *= 2;
	return 0;
}

/* A packet of the sequence that has the interned names. */
static char *event_packet_put(char *p, struct perfetto_sink *s, char **ret_mark)
{
	uint64_t flags = SEQUENCE_F_NEEDS;

	p = proto_open(p, 1 /* Trace.packet */, ret_mark);
	p = proto_u64(p, PACKET_SEQUENCE, SEQUENCE_EVENTS);
	if (s->dropped)
		p = proto_u64(p, PACKET_DROPPED, 1);
	if (!s->first_event)
		p = proto_u64(p, PACKET_FIRST, 1);
	if (s->dropped || !s->first_event)
		flags |= SEQUENCE_F_CLEARED;
	s->first_event = true;
	s->dropped = false;
	return proto_u64(p, PACKET_SEQUENCE_FLAGS, flags);
}

static char *event_packet_begin(struct perfetto_sink *s, char **ret_mark)
{
	return event_packet_put(writer_reserve(s->w), s, ret_mark);
}

/* The number of a name, which is written before it is used. 0 without memory. */
static uint32_t intern(struct perfetto_sink *s, enum intern_kind kind, const char *text)
{
	struct interns *in = s->interns;
	uint64_t hash = 0xcbf29ce484222325 ^ kind; /* FNV-1a */
	char *packet, *data, *entry, *p;
	struct intern *e;

	for (p = (char *)text; *p; p++)
		hash = (hash ^ (unsigned char)*p) * 0x100000001b3;
	hash ^= hash >> 32;
	if (2 * in->n >= in->size && interns_grow(in))
		return 0;
	e = find_slot(in->table, in->size, kind, text, hash);
	if (e->iid)
		return e->iid;
	if (!e->text) {
		e->text = strdup(text);
		if (!e->text)
			return 0;
		e->hash = hash;
		e->kind = kind;
		in->n++;
	}
	e->iid = ++in->last;
	p = event_packet_begin(s, &packet);
	p = proto_open(p, PACKET_INTERNED, &data);
	p = proto_open(p, kind, &entry);
	p = proto_u64(p, 1 /* iid */, e->iid);
	p = proto_text(p, 2 /* name */, text, strnlen(text, NAME_MAX_LEN));
	p = proto_close(entry, p);
	packet_end(s, packet, proto_close(data, p));
	return e->iid;
}

void event_init(struct event *e, struct perfetto_sink *s, uint64_t track, const char *category,
	const char *name)
{
	e->s = s;
	e->track = track;
	e->category = intern(s, INTERN_CATEGORY, category);
	e->name = name ? intern(s, INTERN_NAME, name) : 0;
	e->text_name = NULL;
	e->n = e->texts = 0;
}

void event_add(struct event *e, const char *name, enum value_type type, uint64_t v)
{
	if (e->n < EVENT_ARGS_MAX)
		e->args[e->n++] = (struct event_arg){
			.name = intern(e->s, INTERN_ANNOTATION, name), .type = type, .u = v
		};
}

void event_add_text(struct event *e, const char *name, const char *text, size_t len)
{
	if (e->n == EVENT_ARGS_MAX || e->texts == EVENT_TEXTS_MAX)
		return;
	e->texts++;
	e->args[e->n++] = (struct event_arg){
		.name = intern(e->s, INTERN_ANNOTATION, name),
		.type = VALUE_TEXT,
		.text = text,
		.len = len < EVENT_TEXT_MAX ? len : EVENT_TEXT_MAX,
	};
}

void event_add_open(struct event *e, uint8_t flags)
{
	if (flags & REC_F_OPEN_START)
		event_add(e, "began_before", VALUE_BOOL, 1);
	if (flags & REC_F_OPEN_END)
		event_add(e, "unfinished", VALUE_BOOL, 1);
}

static char *put_args(char *p, const struct event *e)
{
	for (unsigned int i = 0; i < e->n; i++) {
		const struct event_arg *a = &e->args[i];
		char *mark;

		p = proto_open(p, 4 /* debug_annotations */, &mark);
		p = proto_u64(p, 1 /* name_iid */, a->name);
		if (a->type == VALUE_TEXT)
			p = proto_text(p, VALUE_TEXT, a->text, a->len);
		else if (a->type == VALUE_DOUBLE)
			p = proto_fixed64(p, VALUE_DOUBLE, a->u);
		else
			p = proto_u64(p, a->type, a->u);
		p = proto_close(mark, p);
	}
	return p;
}

static char *put_event(char *p, const struct event *e, uint32_t type, uint64_t ns)
{
	char *packet, *event;

	p = event_packet_put(p, e->s, &packet);
	p = proto_u64(p, PACKET_TIMESTAMP, ns);
	p = proto_open(p, PACKET_EVENT, &event);
	p = proto_u64(p, 9 /* type */, type);
	p = proto_u64(p, 11 /* track_uuid */, e->track);
	if (type != EVENT_END) {
		p = proto_u64(p, 3 /* category_iids */, e->category);
		if (e->text_name)
			p = proto_text(p, 23 /* name */, e->text_name,
				strnlen(e->text_name, EVENT_TEXT_MAX));
		else
			p = proto_u64(p, 10 /* name_iid */, e->name);
		p = put_args(p, e);
	}
	return proto_close(packet, proto_close(event, p));
}

void event_write(const struct event *e, uint32_t type, uint64_t ns)
{
	writer_commit(e->s->w, put_event(writer_reserve(e->s->w), e, type, ns));
}

void event_write_span(const struct event *e, uint64_t start_ns, uint64_t end_ns)
{
	event_write(e, EVENT_BEGIN, start_ns);
	event_write(e, EVENT_END, end_ns > start_ns ? end_ns : start_ns);
}

void event_write_record(const struct event *e, const struct rec_hdr *h)
{
	struct perfetto_thread *t = e->track ? perfetto_thread(e->s, h->tgid, h->tid) : NULL;
	uint64_t start = h->start_ns, end = h->start_ns + h->dur_ns;
	char *bytes, *p;

	if (!t)
		return;
	/* All that was open at the start began at the same time, as far as is known, and the
	 * innermost comes first. What is around it begins before. */
	if (h->flags & REC_F_OPEN_START || start < e->s->rec.start_boot_ns)
		start = e->s->rec.start_boot_ns - t->open++;
	if (end < start)
		end = start;
	bytes = writer_reserve(e->s->w);
	p = put_event(bytes, e, EVENT_BEGIN, start);
	p = put_event(p, e, EVENT_END, end);
	held_add(e->s, t, start, end, bytes, (size_t)(p - bytes));
}

void event_write_counter(struct perfetto_sink *s, uint64_t track, uint64_t ns, uint64_t value)
{
	char *packet, *event, *p = event_packet_begin(s, &packet);

	p = proto_u64(p, PACKET_TIMESTAMP, perfetto_ts(s, ns));
	p = proto_open(p, PACKET_EVENT, &event);
	p = proto_u64(p, 9 /* type */, EVENT_COUNTER);
	p = proto_u64(p, 11 /* track_uuid */, track);
	p = proto_u64(p, 30 /* counter_value */, value);
	packet_end(s, packet, proto_close(event, p));
}
