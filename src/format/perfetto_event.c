// SPDX-License-Identifier: BSD-2-Clause
/* Perfetto trace: TrackEvents, and the names that they refer to by id. */
#include <stdlib.h>

#include "format/perfetto.h"
#include "util/map.h"

/*
 * ---- slices wait until everything that must precede them has arrived ----
 *
 * A reader sorts packets by time, and those of equal time stay in the order of the file. So of two
 * adjacent slices of a track the earlier must come first, and of two that begin together the
 * longer. Records come from several rings in any order, but everything sent before a call of
 * held_settled() has arrived by the next one: what arrived before the second last call has all of
 * its predecessors here. It is written, sorted, with everything on its track that begins before it.
 *
 * Slices are written in the order of time, ends among beginnings, since the time of each packet is
 * relative to the previous one. A slice that belongs before those (it was open for longer than others
 * waited) has its absolute time.
 *
 * One kind of slice is sent out of order: a pair of functions that begin and end a span ends at the
 * last of its ends, which is known only when the next one begins. If the end has a slice of its
 * own, the newest such slice of each track waits for the next.
 */
#define HELD_BYTES (WRITER_EVENT_MAX - 64) /* of an event's content */
#define TURNS 3                            /* the one in which slices arrive, and two in which they wait */
#define TURN_BYTES (1 << 20)               /* some 10 ms of a storm; a turn ends early when this is full */
#define HELD_MAX (1 << 16)
#define PIECE_BYTES (WRITER_EVENT_MAX / 2)
#define PACKET_BYTES 12 /* at least, for each packet around its event's content */
#define RUN 8           /* this many are sorted by insertion */

struct perfetto_held {
	uint64_t start_ns, end_ns;
	uint32_t at; /* offset of the event's data among that of its turn */
	uint32_t turn;
	uint32_t row;
	uint16_t len;
	uint8_t type;
	uint8_t is_end;
};

/* The end of a slice whose beginning was written. */
struct end {
	uint64_t ns;
	uint32_t row;
};

struct holder {
	struct perfetto_held list[HELD_MAX], going[HELD_MAX], spare[HELD_MAX / 2];
	struct end ends[HELD_MAX]; /* a heap, the earliest first */
	size_t n_ends;
	/* packets that are passed to the writer in one piece */
	struct {
		char *begin, *end;
		uint64_t deltas_ns; /* the clock before them */
	} piece;
	size_t n, waiting; /* number of slices; bytes */
	uint32_t turn;
	size_t used[TURNS];
	char bytes[TURNS][TURN_BYTES];
};

/* The least number of bytes that it will take in the file. */
static size_t held_file_bytes(const struct perfetto_held *h)
{
	return h->len + (h->type == EVENT_BEGIN ? 2 : 1) * PACKET_BYTES;
}

/* Whether it has waited long enough. */
static bool held_is_ripe(const struct holder *hd, const struct perfetto_held *h)
{
	return h->turn + 2 <= hd->turn;
}

/* Whether it waits for the next one of its kind, which has not arrived. */
static bool held_is_waiting(const struct perfetto_sink *s, const struct perfetto_held *h)
{
	return h->is_end && s->rows[h->row].waits_ns == h->start_ns;
}

struct holder *held_new(void)
{
	/* pages that are never touched are never allocated */
	return xcalloc(1, sizeof(struct holder));
}

static bool held_is_before(const struct perfetto_held *a, const struct perfetto_held *b)
{
	return a->start_ns < b->start_ns || (a->start_ns == b->start_ns && a->end_ns > b->end_ns);
}

static void held_sort_run(struct perfetto_held *list, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		struct perfetto_held h = list[i];
		size_t k = i;

		for (; k && held_is_before(&h, &list[k - 1]); k--)
			list[k] = list[k - 1];
		list[k] = h;
	}
}

/* Stable; list[0, middle) and list[middle, n) are sorted. */
static void held_merge_runs(struct perfetto_held *list, size_t middle, size_t n, struct perfetto_held *spare)
{
	size_t from = middle, i, k, to;

	/* they are nearly in order: most of the first part is in place already */
	while (from && held_is_before(&list[middle], &list[from - 1]))
		from--;
	memcpy(spare, list + from, (middle - from) * sizeof(*list));
	for (i = 0, k = middle, to = from; i < middle - from; to++) {
		if (k < n && held_is_before(&list[k], &spare[i]))
			list[to] = list[k++];
		else
			list[to] = spare[i++];
	}
}

static void held_sort(struct perfetto_held *list, size_t n, struct perfetto_held *spare)
{
	for (size_t i = 0; i < n; i += RUN)
		held_sort_run(list + i, n - i < RUN ? n - i : RUN);
	for (size_t width = RUN; width < n; width *= 2) {
		for (size_t i = 0; i + width < n; i += 2 * width)
			held_merge_runs(list + i, width, n - i < 2 * width ? n - i : 2 * width, spare);
	}
}

/* Keeps a slice that waits for another as if it had just arrived. False: there is no room for it. */
static bool held_keep(struct holder *hd, struct perfetto_held *h)
{
	char *to = hd->bytes[hd->turn % TURNS];
	size_t *used = &hd->used[hd->turn % TURNS];

	if (*used + h->len + HELD_BYTES > TURN_BYTES)
		return false;
	memcpy(to + *used, hd->bytes[h->turn % TURNS] + h->at, h->len);
	h->at = (uint32_t)*used;
	h->turn = hd->turn;
	*used += h->len;
	return true;
}

/* ---- packets ---- */

static void piece_begin(struct perfetto_sink *s)
{
	struct holder *hd = s->held;

	hd->piece.begin = hd->piece.end = writer_reserve(s->sink.w);
	hd->piece.deltas_ns = s->deltas_ns;
}

static void piece_end(struct perfetto_sink *s)
{
	struct holder *hd = s->held;

	/* the next delta is relative to a packet that was written */
	if (!writer_commit(s->sink.w, hd->piece.end))
		s->deltas_ns = hd->piece.deltas_ns;
}

static char *put_event_time(char *p, uint64_t time, bool before)
{
	p = proto_u64(p, PACKET_TIMESTAMP, time);
	return before ? proto_u64(p, PACKET_CLOCK, CLOCK_OF_BOOTTIME) : p;
}

/* Up to this length, lengths take one byte. */
#define SHORT_LEN 64

static char *put_short_event(char *p, uint32_t type, uint64_t time, bool before, uint32_t row, const char *data, size_t len)
{
	char *packet, *event;

	p = proto_open_short(p, 1 /* Trace.packet */, &packet);
	p = proto_u64(p, PACKET_SEQUENCE, SEQUENCE_EVENTS);
	p = put_event_time(p, time, before);
	p = proto_open_short(p, PACKET_EVENT, &event);
	p = proto_u64(p, 9 /* type */, type);
	p = proto_u64(p, 11 /* track_uuid */, row);
	memcpy(p, data, SHORT_LEN); /* a constant size, hence no call */
	return proto_close_short(packet, proto_close_short(event, p + len));
}

static char *put_long_event(char *p, uint32_t type, uint64_t time, bool before, uint32_t row, const char *data, size_t len)
{
	char *packet, *event;

	p = proto_open(p, 1 /* Trace.packet */, &packet);
	p = proto_u64(p, PACKET_SEQUENCE, SEQUENCE_EVENTS);
	p = put_event_time(p, time, before);
	p = proto_open(p, PACKET_EVENT, &event);
	p = proto_u64(p, 9 /* type */, type);
	p = proto_u64(p, 11 /* track_uuid */, row);
	memcpy(p, data, len);
	return proto_close(packet, proto_close(event, p + len));
}

/* Writes the fields that all types have, then the event's content. */
static void write_event(struct perfetto_sink *s, uint32_t type, uint64_t ns, uint32_t row, const char *data, size_t len)
{
	struct holder *hd = s->held;
	bool before = ns < s->deltas_ns;
	uint64_t time = before ? ns : ns - s->deltas_ns;

	if (hd->piece.end - hd->piece.begin > PIECE_BYTES || len > SHORT_LEN) {
		piece_end(s);
		piece_begin(s);
		before = ns < s->deltas_ns;
		time = before ? ns : ns - s->deltas_ns;
	}
	hd->piece.end = len <= SHORT_LEN ? put_short_event(hd->piece.end, type, time, before, row, data, len)
					 : put_long_event(hd->piece.end, type, time, before, row, data, len);
	if (!before)
		s->deltas_ns = ns;
}

static void push_end(struct holder *hd, uint64_t ns, uint32_t row)
{
	size_t i = hd->n_ends++;

	for (; i && hd->ends[(i - 1) / 2].ns > ns; i = (i - 1) / 2)
		hd->ends[i] = hd->ends[(i - 1) / 2];
	hd->ends[i] = (struct end){ ns, row };
}

static struct end pop_end(struct holder *hd)
{
	struct end first = hd->ends[0], last = hd->ends[--hd->n_ends];
	size_t i = 0, k;

	for (; (k = 2 * i + 1) < hd->n_ends; i = k) {
		k += k + 1 < hd->n_ends && hd->ends[k + 1].ns < hd->ends[k].ns;
		if (hd->ends[k].ns >= last.ns)
			break;
		hd->ends[i] = hd->ends[k];
	}
	hd->ends[i] = last;
	return first;
}

static void write_ends(struct perfetto_sink *s, uint64_t until_ns)
{
	struct holder *hd = s->held;

	while (hd->n_ends && hd->ends[0].ns <= until_ns) {
		struct end e = pop_end(hd);

		write_event(s, EVENT_END, e.ns, e.row, hd->bytes[0], 0);
	}
}

/* Writes the slices, which are sorted. */
static void held_write_going(struct perfetto_sink *s, size_t n)
{
	struct holder *hd = s->held;

	piece_begin(s);
	for (size_t i = 0; i < n; i++) {
		const struct perfetto_held *h = &hd->going[i];

		write_ends(s, h->start_ns);
		write_event(s, h->type, h->start_ns, h->row, hd->bytes[h->turn % TURNS] + h->at, h->len);
		if (h->type == EVENT_BEGIN)
			push_end(hd, h->end_ns, h->row);
		hd->waiting -= held_file_bytes(h);
	}
	write_ends(s, UINT64_MAX);
	piece_end(s);
}

/* ---- turns ---- */

static void held_end_turn(struct perfetto_sink *s, bool all)
{
	struct holder *hd = s->held;
	size_t n_going = 0, n_left = 0;

	/* the packets of three turns ago have been written or moved */
	hd->turn++;
	hd->used[hd->turn % TURNS] = 0;
	for (size_t i = 0; i < hd->n; i++) {
		const struct perfetto_held *h = &hd->list[i];
		uint64_t *due_ns = &s->rows[h->row].due_ns;

		if (held_is_ripe(hd, h) && h->start_ns > *due_ns && !held_is_waiting(s, h))
			*due_ns = h->start_ns;
	}
	for (size_t i = 0; i < hd->n; i++) {
		struct perfetto_held *h = &hd->list[i];
		bool goes;

		if (h->is_end)
			goes = held_is_waiting(s, h) ? !held_keep(hd, h) : held_is_ripe(hd, h);
		else
			goes = h->start_ns <= s->rows[h->row].due_ns;
		if (goes || all)
			hd->going[n_going++] = *h;
		else
			hd->list[n_left++] = *h;
	}
	hd->n = n_left;
	held_sort(hd->going, n_going, hd->spare);
	if (n_going)
		held_write_going(s, n_going);
}

/* Returns room for an event's content, HELD_BYTES. */
static char *held_reserve(struct perfetto_sink *s)
{
	struct holder *hd = s->held;

	/* in a storm, or when many arrive at once: what arrived long ago most likely has all of its predecessors */
	for (int i = 0; i < TURNS && (hd->n == HELD_MAX ||
					     hd->used[hd->turn % TURNS] + HELD_BYTES > TURN_BYTES);
		i++)
		held_end_turn(s, i == TURNS - 1);
	return hd->bytes[hd->turn % TURNS] + hd->used[hd->turn % TURNS];
}

static void held_commit(struct perfetto_sink *s, uint32_t row, uint32_t type, uint64_t start_ns, uint64_t end_ns,
	enum held_kind kind, const char *end)
{
	struct holder *hd = s->held;
	size_t at = hd->used[hd->turn % TURNS];
	size_t len = (size_t)(end - hd->bytes[hd->turn % TURNS]) - at;
	struct perfetto_row *r = &s->rows[row];

	hd->used[hd->turn % TURNS] += len;
	hd->list[hd->n] = (struct perfetto_held){
		.start_ns = start_ns,
		.end_ns = end_ns,
		.at = (uint32_t)at,
		.turn = hd->turn,
		.row = row,
		.len = (uint16_t)len,
		.type = (uint8_t)type,
		.is_end = kind == HELD_END,
	};
	hd->waiting += held_file_bytes(&hd->list[hd->n++]);
	if (kind == HELD_END && start_ns > r->waits_ns)
		r->waits_ns = start_ns;
	else if (kind == HELD_PAIR && end_ns >= r->waits_ns)
		r->waits_ns = 0;
}

void held_settled(struct perfetto_sink *s)
{
	if (s->held->n)
		held_end_turn(s, false);
}

void held_close(struct perfetto_sink *s)
{
	held_end_turn(s, true);
}

size_t held_bytes(const struct perfetto_sink *s)
{
	return s->held->waiting;
}

#define INTERNS_RECENT_BITS 10
#define WORDS_MAX (1 << 15) /* beyond that number of names, texts of arguments are written out */
#define NAME_MAX_LEN 512    /* of symbols; longer ones tell a reader nothing more */

struct perfetto_intern {
	UT_hash_handle hh;
	enum intern_kind kind;
	uint32_t iid;
	char *text; /* stored together, so that comparisons by records hit the cache */
};

struct interns {
	struct perfetto_intern *by_text[INTERN_KINDS];
	size_t n;
	uint32_t n_of[INTERN_KINDS]; /* ids are per kind, so that they are small */
	/* by the address of the text, which for most is the same each time */
	struct recent {
		const char *place, *text;
		enum intern_kind kind;
		uint32_t iid;
	} recent[1 << INTERNS_RECENT_BITS];
};

struct interns *interns_new(void)
{
	return xcalloc(1, sizeof(struct interns));
}

void interns_reset(struct interns *in)
{
	struct perfetto_intern *e, *next;

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

/* 2^64 / golden ratio: the upper bits are mixed best */
static inline struct recent *recent_slot(struct interns *in, enum intern_kind kind, const char *text)
{
	uint64_t hash = ((uintptr_t)text ^ (uint64_t)kind << 40) * 0x9e3779b97f4a7c15ull;

	return &in->recent[hash >> (64 - INTERNS_RECENT_BITS)];
}

void interns_begin(struct perfetto_sink *s, bool dropped)
{
	uint64_t flags = SEQUENCE_F_CLEARED;
	const struct perfetto_intern *e = NULL;
	char *packet, *data, *defaults, *begin, *p;
	size_t kind = 0;

	do {
		begin = p = packet_of(s, SEQUENCE_EVENTS, flags, &packet);
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
			p = put_interned(p, e->kind, e->iid, e->text, strnlen(e->text, NAME_MAX_LEN));
			e = e->hh.next;
		}
		packet_end(s, packet, proto_close(data, p));
		flags = 0;
	} while (e || kind < INTERN_KINDS);
	/* the clock of deltas continues from where it is */
	p = proto_u64(packet_begin(s, &packet), PACKET_SEQUENCE, SEQUENCE_EVENTS);
	p = proto_open(p, PACKET_CLOCKS, &data);
	p = put_clock(p, CLOCK_DELTAS, s->deltas_ns);
	packet_end(s, packet, proto_close(data, put_clock(p, CLOCK_OF_BOOTTIME, s->deltas_ns)));
}

static struct perfetto_intern *intern_add_text(struct perfetto_sink *s, enum intern_kind kind, const char *text, size_t len)
{
	struct perfetto_intern *e = xcalloc(1, sizeof(*e));
	char *packet, *data, *p;

	e->kind = kind;
	e->iid = ++s->interns->n_of[kind];
	e->text = xstrdup(text);
	HASH_ADD_KEYPTR(hh, s->interns->by_text[kind], e->text, len, e);
	s->interns->n++;
	p = proto_open(packet_of(s, SEQUENCE_EVENTS, 0, &packet), PACKET_INTERNED, &data);
	p = put_interned(p, kind, e->iid, text, strnlen(text, NAME_MAX_LEN));
	packet_end(s, packet, proto_close(data, p));
	return e;
}

static uint32_t intern_look_up(struct perfetto_sink *s, enum intern_kind kind, const char *text)
{
	struct recent *recent = recent_slot(s->interns, kind, text), *beside = &s->interns->recent[(recent - s->interns->recent) ^ 1];
	size_t len = strlen(text);
	struct perfetto_intern *e;

	/* two texts with the same place would replace each other each time */
	if (beside->place == text && beside->kind == kind && !strcmp(beside->text, text))
		return beside->iid;
	HASH_FIND(hh, s->interns->by_text[kind], text, len, e);
	if (!e)
		e = intern_add_text(s, kind, text, len);
	if (recent->place && recent->place != text && !beside->place)
		recent = beside;
	*recent = (struct recent){ .place = text, .text = e->text, .kind = kind, .iid = e->iid };
	return e->iid;
}

/* Returns the id of a name, which is written before its first use. */
static inline uint32_t interns_get_text(struct perfetto_sink *s, enum intern_kind kind, const char *text)
{
	const struct recent *r = recent_slot(s->interns, kind, text);

	if (r->place == text && r->kind == kind && !strcmp(r->text, text))
		return r->iid;
	return intern_look_up(s, kind, text);
}

/* For a text whose address and content do not change. */
static inline uint32_t intern_literal(
	struct perfetto_sink *s, enum intern_kind kind, const char *text)
{
	const struct recent *r = recent_slot(s->interns, kind, text);

	return r->place == text && r->kind == kind ? r->iid : intern_look_up(s, kind, text);
}

static void event_begin_category(struct event *e, struct perfetto_sink *s, uint32_t row, const char *category)
{
	e->s = s;
	e->row = row;
	e->n = e->texts = 0;
	e->begin = held_reserve(s);
	e->end = proto_u64(e->begin, 3 /* category_iids */, intern_literal(s, INTERN_CATEGORY, category));
}

void event_init(struct event *e, struct perfetto_sink *s, uint32_t row, const char *category, const char *name)
{
	event_begin_category(e, s, row, category);
	e->end = proto_u64(e->end, 10 /* name_iid */, intern_literal(s, INTERN_NAME, name));
}

void event_init_copy(struct event *e, struct perfetto_sink *s, uint32_t row, const char *category, const char *name)
{
	event_begin_category(e, s, row, category);
	e->end = proto_u64(e->end, 10 /* name_iid */, interns_get_text(s, INTERN_NAME, name));
}

void event_init_text(struct event *e, struct perfetto_sink *s, uint32_t row, const char *category, const char *name)
{
	event_begin_category(e, s, row, category);
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

static inline void event_put_arg(struct event *e, uint32_t name, enum value_type type, uint64_t v)
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
	event_put_arg(e, intern_literal(e->s, INTERN_ANNOTATION, name), type, v);
}

void event_add_copy(struct event *e, const char *name, enum value_type type, uint64_t v)
{
	event_put_arg(e, interns_get_text(e->s, INTERN_ANNOTATION, name), type, v);
}

void event_add_word(struct event *e, const char *name, const char *text)
{
	if (e->s->interns->n < WORDS_MAX)
		event_add(e, name, VALUE_WORD, interns_get_text(e->s, INTERN_WORD, text));
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
	/* Slices open at the start would begin together. The innermost one comes first, so each outer one begins 1 ns earlier. */
	if (h->flags & REC_F_OPEN_START || start < s->rec.start_boot_ns)
		start = s->rec.start_boot_ns - s->rows[e->row].open++;
	held_commit(s, e->row, EVENT_BEGIN, start, end > start ? end : start, kind, e->end);
}

static void counter_commit(struct perfetto_sink *s, uint32_t row, uint64_t ns, char *end)
{
	ns = perfetto_ts(s, ns);
	if (row)
		held_commit(s, row, EVENT_COUNTER, ns, ns, HELD_PLAIN, end);
}

void event_write_counter(struct perfetto_sink *s, uint32_t row, uint64_t ns, uint64_t value)
{
	counter_commit(s, row, ns, proto_u64(held_reserve(s), 30 /* counter_value */, value));
}

void event_write_real(struct perfetto_sink *s, uint32_t row, uint64_t ns, uint64_t bits)
{
	counter_commit(s, row, ns, proto_fixed64(held_reserve(s), 44 /* double_counter_value */, bits));
}
