// SPDX-License-Identifier: BSD-2-Clause
/* Perfetto trace: TrackEvents, and the names that they refer to by id. */
#include <errno.h>
#include <stdlib.h>

#include "sink/perfetto.h"
#include "util/map.h"

#define INTERNS_RECENT_BITS 10
#define WORDS_MAX (1 << 15) /* beyond that number of names, texts of arguments are written out */
#define NAME_MAX_LEN 512    /* of symbols; longer ones tell a reader nothing more */

struct intern {
	UT_hash_handle hh;
	enum intern_kind kind;
	uint32_t iid;
	char *text; /* stored together, so that comparisons by records hit the cache */
};

struct interns {
	struct intern *by_text[INTERN_KINDS];
	size_t n;
	uint32_t n_of[INTERN_KINDS]; /* ids are per kind, so that they are small */
	/* by the address of the text, which for most is the same each time */
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
	memset(in->n_of, 0, sizeof(in->n_of));
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

/* The clock of deltas continues from where it is. */
static void write_deltas_clock(struct perfetto_sink *s)
{
	static const uint32_t clocks[] = { CLOCK_DELTAS, CLOCK_OF_BOOTTIME };
	char *packet, *snapshot, *clock, *p = packet_begin(s, &packet);

	p = proto_u64(p, PACKET_SEQUENCE, SEQUENCE_EVENTS);
	p = proto_open(p, PACKET_CLOCKS, &snapshot);
	for (size_t i = 0; i < 2; i++) {
		p = proto_open(p, 1 /* clocks */, &clock);
		p = proto_u64(p, 1 /* clock_id */, clocks[i]);
		p = proto_u64(p, 2 /* timestamp */, s->deltas_ns);
		if (clocks[i] == CLOCK_DELTAS)
			p = proto_u64(p, 3 /* is_incremental */, 1);
		p = proto_close(clock, p);
	}
	packet_end(s, packet, proto_close(snapshot, p));
}

void interns_begin(struct perfetto_sink *s, bool dropped)
{
	uint64_t flags = SEQUENCE_F_CLEARED;
	const struct intern *e = NULL;
	char *packet, *data, *defaults, *begin, *p;
	size_t kind = 0;

	do {
		begin = p = intern_packet_begin(s, flags, &packet);
		if (flags) {
			p = proto_u64(p, dropped ? PACKET_DROPPED : PACKET_FIRST, 1);
			p = proto_open(p, PACKET_DEFAULTS, &defaults);
			p = proto_close(defaults, proto_u64(p, PACKET_CLOCK, CLOCK_DELTAS));
		}
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
	write_deltas_clock(s);
}

static struct intern *intern_new(struct perfetto_sink *s, enum intern_kind kind, const char *text, size_t len)
{
	struct intern *e = calloc(1, sizeof(*e));
	char *packet, *data, *p;

	if (!e)
		return NULL;
	e->kind = kind;
	e->iid = s->interns->n_of[kind] + 1;
	e->text = strdup(text);
	if (e->text)
		HASH_ADD_KEYPTR(hh, s->interns->by_text[kind], e->text, len, e);
	if (!e->hh.tbl) {
		free(e->text);
		free(e);
		return NULL;
	}
	s->interns->n++;
	s->interns->n_of[kind]++;
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

/* Returns the id of a name, which is written before its first use. 0 without memory. */
static inline uint32_t intern(struct perfetto_sink *s, enum intern_kind kind, const char *text)
{
	const struct recent *r = recent_of(s->interns, kind, text);

	if (r->place == text && r->kind == kind && !strcmp(r->text, text))
		return r->iid;
	return intern_look_up(s, kind, text);
}

/* For a text whose address and content do not change. */
static inline uint32_t intern_literal(
	struct perfetto_sink *s, enum intern_kind kind, const char *text)
{
	const struct recent *r = recent_of(s->interns, kind, text);

	return r->place == text && r->kind == kind ? r->iid : intern_look_up(s, kind, text);
}

static void begin(struct event *e, struct perfetto_sink *s, uint32_t row, const char *category)
{
	e->s = s;
	e->row = row;
	e->n = e->texts = 0;
	e->begin = held_reserve(s);
	e->end = proto_u64(e->begin, 3 /* category_iids */, intern_literal(s, INTERN_CATEGORY, category));
}

void event_init(struct event *e, struct perfetto_sink *s, uint32_t row, const char *category, const char *name)
{
	begin(e, s, row, category);
	e->end = proto_u64(e->end, 10 /* name_iid */, intern_literal(s, INTERN_NAME, name));
}

void event_init_copy(struct event *e, struct perfetto_sink *s, uint32_t row, const char *category, const char *name)
{
	begin(e, s, row, category);
	e->end = proto_u64(e->end, 10 /* name_iid */, intern(s, INTERN_NAME, name));
}

void event_init_text(struct event *e, struct perfetto_sink *s, uint32_t row, const char *category, const char *name)
{
	begin(e, s, row, category);
	e->end = proto_text(e->end, 23 /* name */, name, strnlen(name, EVENT_TEXT_MAX));
}

void event_again(struct event *e, uint32_t row)
{
	char *to = held_reserve(e->s);

	memmove(to, e->begin, (size_t)(e->end - e->begin));
	e->end = to + (e->end - e->begin);
	e->begin = to;
	e->row = row;
}

void event_add_flow(struct event *e, uint32_t field, uint64_t flow)
{
	e->end = proto_fixed64(e->end, field, flow);
}

void event_add_submission(struct event *e, uint64_t number)
{
	char *mark, *p = proto_open_short(e->end, EVENT_GPU_CORRELATION, &mark);

	e->end = proto_close_short(mark, proto_u64(p, 1 /* render_stage_submission_event_ids */, number));
}

static inline void add(struct event *e, uint32_t name, enum value_type type, uint64_t v)
{
	char *mark, *p;

	if (e->n == EVENT_ARGS_MAX)
		return;
	e->n++;
	p = proto_u64(proto_open_short(e->end, 4 /* debug_annotations */, &mark), 1 /* name_iid */, name);
	p = type == VALUE_DOUBLE ? proto_fixed64(p, VALUE_DOUBLE, v) : proto_u64(p, type, v);
	e->end = proto_close_short(mark, p);
}

void event_add(struct event *e, const char *name, enum value_type type, uint64_t v)
{
	add(e, intern_literal(e->s, INTERN_ANNOTATION, name), type, v);
}

void event_add_copy(struct event *e, const char *name, enum value_type type, uint64_t v)
{
	add(e, intern(e->s, INTERN_ANNOTATION, name), type, v);
}

void event_add_word(struct event *e, const char *name, const char *text)
{
	if (e->s->interns->n < WORDS_MAX)
		event_add(e, name, VALUE_WORD, intern(e->s, INTERN_WORD, text));
	else
		event_add_text(e, name, text, strlen(text));
}

void event_add_text(struct event *e, const char *name, const char *text, size_t len)
{
	char *mark, *p;

	if (e->n == EVENT_ARGS_MAX || e->texts == EVENT_TEXTS_MAX)
		return;
	e->n++;
	e->texts++;
	p = proto_open(e->end, 4 /* debug_annotations */, &mark);
	p = proto_u64(p, 1 /* name_iid */, intern_literal(e->s, INTERN_ANNOTATION, name));
	p = proto_text(p, VALUE_TEXT, text, len < EVENT_TEXT_MAX ? len : EVENT_TEXT_MAX);
	e->end = proto_close(mark, p);
}

void event_add_open(struct event *e, uint8_t flags)
{
	if (flags & REC_F_OPEN_START)
		event_add(e, "began_before", VALUE_BOOL, 1);
	if (flags & REC_F_OPEN_END)
		event_add(e, "unfinished", VALUE_BOOL, 1);
}

void event_write_instant(struct event *e, uint64_t ns)
{
	if (e->row)
		held_commit(e->s, e->row, EVENT_INSTANT, ns, ns, HELD_PLAIN, e->end);
}

void event_write_span(struct event *e, uint64_t start_ns, uint64_t end_ns)
{
	if (e->row)
		held_commit(e->s, e->row, EVENT_BEGIN, start_ns, end_ns > start_ns ? end_ns : start_ns, HELD_PLAIN,
			e->end);
}

void event_write_record(struct event *e, const struct rec_hdr *h, enum held_kind kind)
{
	struct perfetto_sink *s = e->s;
	uint64_t start = h->start_ns, end = h->start_ns + h->dur_ns;

	if (!e->row)
		return;
	/* Everything open at the start seems to begin at the same time, and the innermost slice
	 * comes first. What surrounds it begins earlier. */
	if (h->flags & REC_F_OPEN_START || start < s->rec.start_boot_ns)
		start = s->rec.start_boot_ns - s->rows[e->row].open++;
	held_commit(s, e->row, EVENT_BEGIN, start, end > start ? end : start, kind, e->end);
}

void event_write_counter(struct perfetto_sink *s, uint32_t row, uint64_t ns, uint64_t value)
{
	char *p = proto_u64(held_reserve(s), 30 /* counter_value */, value);

	ns = perfetto_ts(s, ns);
	if (row)
		held_commit(s, row, EVENT_COUNTER, ns, ns, HELD_PLAIN, p);
}
