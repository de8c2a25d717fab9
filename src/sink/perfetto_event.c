// SPDX-License-Identifier: BSD-2-Clause
/* Perfetto trace: TrackEvents and the names that they refer to by number. */
#include <errno.h>
#include <stdlib.h>

#include "sink/perfetto.h"
#include "util/map.h"

#define INTERNS_RECENT_BITS 10
#define WORDS_MAX (1 << 15) /* with more names than this, texts of arguments are written out */
#define NAME_MAX_LEN 512    /* of symbols, more of which says nothing to a reader */

struct intern {
	UT_hash_handle hh;
	enum intern_kind kind;
	uint32_t iid;
	char *text; /* by itself: texts next to one another are in the cache when records compare them */
};

struct interns {
	struct intern *by_text[INTERN_KINDS];
	size_t n;
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

	if (!in)
		return -ENOMEM;
	*ret_interns = in;
	return 0;
}

void interns_reset(struct interns *in)
{
	struct intern *e, *next;

	for (size_t kind = 0; kind < INTERN_KINDS; kind++) {
		HASH_ITER(hh, in->by_text[kind], e, next)
		{
			HASH_DEL(in->by_text[kind], e);
			free(e->text);
			free(e);
		}
	}
	memset(in->recent, 0, sizeof(in->recent));
	in->n = 0;
}

void interns_free(struct interns *in)
{
	if (in)
		interns_reset(in);
	free(in);
}

/* 2^64 / golden ratio: the upper bits are mixed best */
static inline struct recent *recent_of(struct interns *in, enum intern_kind kind, const char *text)
{
	uint64_t hash = ((uintptr_t)text ^ (uint64_t)kind << 40) * 0x9e3779b97f4a7c15ull;

	return &in->recent[hash >> (64 - INTERNS_RECENT_BITS)];
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
	uint64_t flags = SEQUENCE_F_CLEARED;
	const struct intern *e = NULL;
	char *packet, *data, *begin, *p;
	size_t kind = 0;

	do {
		begin = p = intern_packet_begin(s, flags, &packet);
		if (flags)
			p = proto_u64(p, dropped ? PACKET_DROPPED : PACKET_FIRST, 1);
		p = proto_open(p, PACKET_INTERNED, &data);
		while ((e || kind < INTERN_KINDS) && (size_t)(p - begin) < WRITER_EVENT_MAX / 2) {
			if (!e)
				e = s->interns->by_text[kind++];
			if (!e)
				continue;
			p = put_intern(p, e);
			e = e->hh.next;
		}
		packet_end(s, packet, proto_close(data, p));
		flags = 0;
	} while (e || kind < INTERN_KINDS);
}

static struct intern *intern_new(struct perfetto_sink *s, enum intern_kind kind, const char *text, size_t len)
{
	struct intern *e = calloc(1, sizeof(*e));
	char *packet, *data, *p;

	if (!e)
		return NULL;
	e->kind = kind;
	e->iid = (uint32_t)s->interns->n + 1;
	e->text = strdup(text);
	if (e->text)
		HASH_ADD_KEYPTR(hh, s->interns->by_text[kind], e->text, len, e);
	if (!e->hh.tbl) {
		free(e->text);
		free(e);
		return NULL;
	}
	s->interns->n++;
	p = intern_packet_begin(s, 0, &packet);
	p = proto_open(p, PACKET_INTERNED, &data);
	p = put_intern(p, e);
	packet_end(s, packet, proto_close(data, p));
	return e;
}

static uint32_t intern_look_up(struct perfetto_sink *s, enum intern_kind kind, const char *text)
{
	struct recent *recent = recent_of(s->interns, kind, text);
	size_t len = strlen(text);
	struct intern *e;

	HASH_FIND(hh, s->interns->by_text[kind], text, len, e);
	if (!e)
		e = intern_new(s, kind, text, len);
	if (!e)
		return 0;
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
