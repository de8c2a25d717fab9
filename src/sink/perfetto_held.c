// SPDX-License-Identifier: BSD-2-Clause
/*
 * Perfetto trace: slices wait until everything that must precede them has arrived.
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
#include <errno.h>
#include <stdlib.h>

#include "sink/perfetto.h"

#define TURNS 3              /* the one in which slices arrive, and two in which they wait */
#define TURN_BYTES (1 << 20) /* some 10 ms of a storm; a turn ends early when this is full */
#define HELD_MAX (1 << 16)
#define PIECE_BYTES (WRITER_EVENT_MAX / 2)
#define PACKET_BYTES 12 /* at least this for each packet around what is kept of its event */
#define RUN 8 /* this many are sorted by insertion */

struct held {
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
	struct held list[HELD_MAX], going[HELD_MAX], spare[HELD_MAX / 2];
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
static size_t bytes_of(const struct held *h)
{
	return h->len + (h->type == EVENT_BEGIN ? 2 : 1) * PACKET_BYTES;
}

/* Whether it has waited long enough. */
static bool is_ripe(const struct holder *hd, const struct held *h)
{
	return h->turn + 2 <= hd->turn;
}

/* Whether the next one of its kind has not arrived. */
static bool waits(const struct perfetto_sink *s, const struct held *h)
{
	return h->is_end && s->rows[h->row].waits_ns == h->start_ns;
}

int held_new(struct holder **ret_holder)
{
	/* pages that are never touched are never allocated */
	*ret_holder = calloc(1, sizeof(**ret_holder));
	return *ret_holder ? 0 : -ENOMEM;
}

void held_free(struct holder *hd)
{
	free(hd);
}

static bool goes_before(const struct held *a, const struct held *b)
{
	return a->start_ns < b->start_ns || (a->start_ns == b->start_ns && a->end_ns > b->end_ns);
}

static void sort_run(struct held *list, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		struct held h = list[i];
		size_t k = i;

		for (; k && goes_before(&h, &list[k - 1]); k--)
			list[k] = list[k - 1];
		list[k] = h;
	}
}

/* Stable; list[0, middle) and list[middle, n) are sorted. */
static void merge(struct held *list, size_t middle, size_t n, struct held *spare)
{
	size_t from = middle, i, k, to;

	/* they are nearly in order: most of the first part is in place already */
	while (from && goes_before(&list[middle], &list[from - 1]))
		from--;
	memcpy(spare, list + from, (middle - from) * sizeof(*list));
	for (i = 0, k = middle, to = from; i < middle - from; to++) {
		if (k < n && goes_before(&list[k], &spare[i]))
			list[to] = list[k++];
		else
			list[to] = spare[i++];
	}
}

static void sort(struct held *list, size_t n, struct held *spare)
{
	for (size_t i = 0; i < n; i += RUN)
		sort_run(list + i, n - i < RUN ? n - i : RUN);
	for (size_t width = RUN; width < n; width *= 2) {
		for (size_t i = 0; i + width < n; i += 2 * width)
			merge(list + i, width, n - i < 2 * width ? n - i : 2 * width, spare);
	}
}

/* A slice that waits for another is treated as if it had just arrived. False: there is no room for it. */
static bool stay(struct holder *hd, struct held *h)
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

	hd->piece.begin = hd->piece.end = writer_reserve(s->w);
	hd->piece.deltas_ns = s->deltas_ns;
}

static void piece_end(struct perfetto_sink *s)
{
	struct holder *hd = s->held;

	/* the next delta is relative to a packet that was written */
	if (!writer_commit(s->w, hd->piece.end))
		s->deltas_ns = hd->piece.deltas_ns;
}

static char *put_time(char *p, uint64_t time, bool before)
{
	p = proto_u64(p, PACKET_TIMESTAMP, time);
	return before ? proto_u64(p, PACKET_CLOCK, CLOCK_OF_BOOTTIME) : p;
}

/* Up to this length, lengths take one byte. */
#define SHORT_LEN 64

static char *put_short(char *p, uint32_t type, uint64_t time, bool before, uint32_t row, const char *data, size_t len)
{
	char *packet, *event;

	p = proto_open_short(p, 1 /* Trace.packet */, &packet);
	p = proto_u64(p, PACKET_SEQUENCE, SEQUENCE_EVENTS);
	p = put_time(p, time, before);
	p = proto_open_short(p, PACKET_EVENT, &event);
	p = proto_u64(p, 9 /* type */, type);
	p = proto_u64(p, 11 /* track_uuid */, row);
	memcpy(p, data, SHORT_LEN); /* a constant size, hence no call */
	return proto_close_short(packet, proto_close_short(event, p + len));
}

static char *put_long(char *p, uint32_t type, uint64_t time, bool before, uint32_t row, const char *data, size_t len)
{
	char *packet, *event;

	p = proto_open(p, 1 /* Trace.packet */, &packet);
	p = proto_u64(p, PACKET_SEQUENCE, SEQUENCE_EVENTS);
	p = put_time(p, time, before);
	p = proto_open(p, PACKET_EVENT, &event);
	p = proto_u64(p, 9 /* type */, type);
	p = proto_u64(p, 11 /* track_uuid */, row);
	memcpy(p, data, len);
	return proto_close(packet, proto_close(event, p + len));
}

/* The fields that all types have, then what is kept of the event. */
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
	hd->piece.end = len <= SHORT_LEN ? put_short(hd->piece.end, type, time, before, row, data, len)
					 : put_long(hd->piece.end, type, time, before, row, data, len);
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
static void write_going(struct perfetto_sink *s, size_t n)
{
	struct holder *hd = s->held;

	piece_begin(s);
	for (size_t i = 0; i < n; i++) {
		const struct held *h = &hd->going[i];

		write_ends(s, h->start_ns);
		write_event(s, h->type, h->start_ns, h->row, hd->bytes[h->turn % TURNS] + h->at, h->len);
		if (h->type == EVENT_BEGIN)
			push_end(hd, h->end_ns, h->row);
		hd->waiting -= bytes_of(h);
	}
	write_ends(s, UINT64_MAX);
	piece_end(s);
}

/* ---- turns ---- */

static void end_turn(struct perfetto_sink *s, bool all)
{
	struct holder *hd = s->held;
	size_t n_going = 0, n_left = 0;

	/* the packets of three turns ago have been written or moved */
	hd->turn++;
	hd->used[hd->turn % TURNS] = 0;
	for (size_t i = 0; i < hd->n; i++) {
		const struct held *h = &hd->list[i];
		uint64_t *due_ns = &s->rows[h->row].due_ns;

		if (is_ripe(hd, h) && h->start_ns > *due_ns && !waits(s, h))
			*due_ns = h->start_ns;
	}
	for (size_t i = 0; i < hd->n; i++) {
		struct held *h = &hd->list[i];
		bool goes;

		if (h->is_end)
			goes = waits(s, h) ? !stay(hd, h) : is_ripe(hd, h);
		else
			goes = h->start_ns <= s->rows[h->row].due_ns;
		if (goes || all)
			hd->going[n_going++] = *h;
		else
			hd->list[n_left++] = *h;
	}
	hd->n = n_left;
	sort(hd->going, n_going, hd->spare);
	if (n_going)
		write_going(s, n_going);
}

char *held_reserve(struct perfetto_sink *s)
{
	struct holder *hd = s->held;

	/* in a storm, or when many arrive at once: what arrived long ago most likely has all of its predecessors */
	for (int i = 0; i < TURNS && (hd->n == HELD_MAX ||
					     hd->used[hd->turn % TURNS] + HELD_BYTES > TURN_BYTES);
		i++)
		end_turn(s, i == TURNS - 1);
	return hd->bytes[hd->turn % TURNS] + hd->used[hd->turn % TURNS];
}

void held_commit(struct perfetto_sink *s, uint32_t row, uint32_t type, uint64_t start_ns, uint64_t end_ns,
	enum held_kind kind, const char *end)
{
	struct holder *hd = s->held;
	size_t at = hd->used[hd->turn % TURNS];
	size_t len = (size_t)(end - hd->bytes[hd->turn % TURNS]) - at;
	struct perfetto_row *r = &s->rows[row];

	hd->used[hd->turn % TURNS] += len;
	hd->list[hd->n] = (struct held){
		.start_ns = start_ns,
		.end_ns = end_ns,
		.at = (uint32_t)at,
		.turn = hd->turn,
		.row = row,
		.len = (uint16_t)len,
		.type = (uint8_t)type,
		.is_end = kind == HELD_END,
	};
	hd->waiting += bytes_of(&hd->list[hd->n++]);
	if (kind == HELD_END && start_ns > r->waits_ns)
		r->waits_ns = start_ns;
	else if (kind == HELD_PAIR && end_ns >= r->waits_ns)
		r->waits_ns = 0;
}

void held_settled(struct perfetto_sink *s)
{
	if (s->held->n)
		end_turn(s, false);
}

void held_close(struct perfetto_sink *s)
{
	end_turn(s, true);
}

size_t held_bytes(const struct perfetto_sink *s)
{
	return s->held->waiting;
}
