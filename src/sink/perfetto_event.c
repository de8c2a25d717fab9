// SPDX-License-Identifier: BSD-2-Clause
/* Perfetto trace: TrackEvents and the names that they refer to by number. */
#include <errno.h>
#include <stdlib.h>

#include "sink/perfetto.h"

#define INTERNS_FIRST 512
#define INTERNS_RECENT_BITS 10
#define WORDS_MAX (1 << 15) /* with more names than this, texts of arguments are written out */
#define NAME_MAX_LEN 512    /* of symbols, more of which says nothing to a reader */

struct intern {
	char *text; /* NULL: the slot is empty */
	uint64_t hash;
	enum intern_kind kind;
	uint32_t iid;
};

struct interns {
	struct intern *table; /* open addressing */
	size_t n, size;
	/* by the place of the text in memory, which for most is the same each time */
	struct recent {
		const char *place, *text;
		enum intern_kind kind;
		uint32_t iid;
	} recent[1 << INTERNS_RECENT_BITS];
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

void interns_reset(struct interns *in)
{
	for (size_t i = 0; i < in->size; i++)
		free(in->table[i].text);
	memset(in->table, 0, in->size * sizeof(*in->table));
	memset(in->recent, 0, sizeof(in->recent));
	in->n = 0;
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

/* 2^64 / golden ratio: the upper bits are mixed best */
static inline struct recent *recent_of(struct interns *in, enum intern_kind kind, const char *text)
{
	uint64_t hash = ((uintptr_t)text ^ (uint64_t)kind << 40) * 0x9e3779b97f4a7c15ull;

	return &in->recent[hash >> (64 - INTERNS_RECENT_BITS)];
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

static char *put_intern(char *p, const struct intern *in)
{
	char *entry;

	p = proto_open(p, in->kind, &entry);
	p = proto_u64(p, 1 /* iid */, in->iid);
	p = proto_text(p, 2 /* name */, in->text, strnlen(in->text, NAME_MAX_LEN));
	return proto_close(entry, p);
}

static char *intern_packet_begin(struct perfetto_sink *s, uint64_t flags, char **ret_packet)
{
	char *p = packet_begin(s, ret_packet);

	p = proto_u64(p, PACKET_SEQUENCE, SEQUENCE_EVENTS);
	return proto_u64(p, PACKET_SEQUENCE_FLAGS, flags | SEQUENCE_F_NEEDS);
}

void interns_begin(struct perfetto_sink *s, bool dropped)
{
	const struct interns *in = s->interns;
	uint64_t flags = SEQUENCE_F_CLEARED;
	char *packet, *data, *begin, *p;
	size_t i = 0;

	do {
		begin = p = intern_packet_begin(s, flags, &packet);
		if (flags)
			p = proto_u64(p, dropped ? PACKET_DROPPED : PACKET_FIRST, 1);
		p = proto_open(p, PACKET_INTERNED, &data);
		for (; i < in->size && (size_t)(p - begin) < WRITER_EVENT_MAX / 2; i++) {
			if (in->table[i].text)
				p = put_intern(p, &in->table[i]);
		}
		packet_end(s, packet, proto_close(data, p));
		flags = 0;
	} while (i < in->size);
}

static void intern_new(struct perfetto_sink *s, struct intern *e)
{
	char *packet, *data, *p;

	e->iid = (uint32_t)++s->interns->n;
	p = intern_packet_begin(s, 0, &packet);
	p = proto_open(p, PACKET_INTERNED, &data);
	p = put_intern(p, e);
	packet_end(s, packet, proto_close(data, p));
}

static uint32_t intern_look_up(struct perfetto_sink *s, enum intern_kind kind, const char *text)
{
	struct interns *in = s->interns;
	uint64_t hash = 0xcbf29ce484222325 ^ kind; /* FNV-1a */
	struct recent *recent;
	struct intern *e;

	for (const char *p = text; *p; p++)
		hash = (hash ^ (unsigned char)*p) * 0x100000001b3;
	hash ^= hash >> 32;
	if (2 * in->n >= in->size && interns_grow(in))
		return 0;
	e = find_slot(in->table, in->size, kind, text, hash);
	if (!e->text) {
		e->text = strdup(text);
		if (!e->text)
			return 0;
		e->hash = hash;
		e->kind = kind;
		intern_new(s, e);
	}
	recent = recent_of(in, kind, text);
	*recent = (struct recent){ .place = text, .text = e->text, .kind = kind, .iid = e->iid };
	return e->iid;
}

/* The number of a name, which is written before it is used. 0 without memory. */
static inline uint32_t intern(struct perfetto_sink *s, enum intern_kind kind, const char *text)
{
	const struct recent *r = recent_of(s->interns, kind, text);

	if (r->place == text && r->kind == kind && !strcmp(r->text, text))
		return r->iid;
	return intern_look_up(s, kind, text);
}

/* Of a text that is there, and the same, as long as the program runs. */
static inline uint32_t intern_literal(
	struct perfetto_sink *s, enum intern_kind kind, const char *text)
{
	const struct recent *r = recent_of(s->interns, kind, text);

	return r->place == text && r->kind == kind ? r->iid : intern_look_up(s, kind, text);
}

void event_init(struct event *e, struct perfetto_sink *s, uint64_t track, const char *category,
	const char *name)
{
	e->s = s;
	e->track = track;
	e->category = intern_literal(s, INTERN_CATEGORY, category);
	e->name = name ? intern(s, INTERN_NAME, name) : 0;
	e->text_name = NULL;
	e->flow_field = 0;
	e->n = e->texts = 0;
}

static inline void add(struct event *e, uint32_t name, enum value_type type, uint64_t v)
{
	struct event_arg *a = &e->args[e->n];

	if (e->n == EVENT_ARGS_MAX)
		return;
	a->name = name;
	a->type = type;
	a->u = v;
	e->n++;
}

void event_add(struct event *e, const char *name, enum value_type type, uint64_t v)
{
	add(e, intern_literal(e->s, INTERN_ANNOTATION, name), type, v);
}

void event_add_arg(struct event *e, const char *name, enum value_type type, uint64_t v)
{
	add(e, intern(e->s, INTERN_ANNOTATION, name), type, v);
}

void event_add_word(struct event *e, const char *name, const char *text)
{
	if (e->s->interns->n < WORDS_MAX)
		event_add_arg(e, name, VALUE_WORD, intern(e->s, INTERN_WORD, text));
	else
		event_add_text(e, name, text, strlen(text));
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

static char *put_event_begin(
	char *p, uint64_t track, uint32_t type, uint64_t ns, char **ret_packet, char **ret_event)
{
	p = proto_open(p, 1 /* Trace.packet */, ret_packet);
	p = proto_u64(p, PACKET_SEQUENCE, SEQUENCE_EVENTS);
	p = proto_u64(p, PACKET_SEQUENCE_FLAGS, SEQUENCE_F_NEEDS);
	p = proto_u64(p, PACKET_TIMESTAMP, ns);
	p = proto_open(p, PACKET_EVENT, ret_event);
	p = proto_u64(p, 9 /* type */, type);
	return proto_u64(p, 11 /* track_uuid */, track);
}

static char *put_event(char *p, const struct event *e, uint32_t type, uint64_t ns)
{
	char *packet, *event;

	p = put_event_begin(p, e->track, type, ns, &packet, &event);
	if (type != EVENT_END) {
		p = proto_u64(p, 3 /* category_iids */, e->category);
		if (e->text_name)
			p = proto_text(p, 23 /* name */, e->text_name,
				strnlen(e->text_name, EVENT_TEXT_MAX));
		else
			p = proto_u64(p, 10 /* name_iid */, e->name);
		if (e->flow_field)
			p = proto_fixed64(p, e->flow_field, e->flow);
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

void event_write_record(
	const struct event *e, const struct rec_hdr *h, uint32_t row, enum held_kind kind)
{
	struct perfetto_sink *s = e->s;
	uint64_t start = h->start_ns, end = h->start_ns + h->dur_ns;
	char *p;

	if (!e->track)
		return;
	/* All that was open at the start began at the same time, as far as is known, and the
	 * innermost comes first. What is around it begins before. */
	if (h->flags & REC_F_OPEN_START || start < s->rec.start_boot_ns)
		start = s->rec.start_boot_ns - s->rows[row].open++;
	if (end < start)
		end = start;
	p = put_event(held_reserve(s), e, EVENT_BEGIN, start);
	p = put_event(p, e, EVENT_END, end);
	held_commit(s, row, start, end, kind, p);
}

void event_write_counter(struct perfetto_sink *s, uint64_t track, uint64_t ns, uint64_t value)
{
	char *packet, *event, *p;

	p = put_event_begin(
		writer_reserve(s->w), track, EVENT_COUNTER, perfetto_ts(s, ns), &packet, &event);
	p = proto_u64(p, 30 /* counter_value */, value);
	writer_commit(s->w, proto_close(packet, proto_close(event, p)));
}
