// SPDX-License-Identifier: BSD-2-Clause
/*
 * Perfetto trace: slices wait until all that must come before them is there.
 *
 * A reader sorts packets by time, and those of one time stay in the order of the file. So of two
 * slices of a track that touch, the earlier must come first, and of two that begin together the
 * longer. Records come from several rings in whatever order, but whatever was sent before a call of
 * held_settled() has come by the next one: what came before the last call but one has all of its
 * predecessors here. It goes, with everything on its track that begins before it, sorted.
 *
 * One kind of slice is sent out of turn: a pair of functions that begin and end a span ends at the
 * last of its ends, and that is known when the next one begins. Where the end has a slice of its
 * own, the newest such slice of each track waits for the next.
 */
#include <errno.h>
#include <stdlib.h>

#include "sink/perfetto.h"

#define TURNS 3              /* the one in which slices come, and two in which they wait */
#define TURN_BYTES (1 << 20) /* some 10 ms of a storm; a turn ends early when it is full */
#define HELD_MAX (1 << 16)
#define SLICE_BYTES (2 * WRITER_EVENT_MAX)
#define RUN 8 /* this many are sorted by insertion */

struct held {
	uint64_t start_ns, end_ns;
	uint32_t at; /* of its packets among those of its turn */
	uint32_t turn;
	uint32_t row;
	uint16_t len;
	uint16_t is_end;
};

struct holder {
	struct held list[HELD_MAX], going[HELD_MAX], spare[HELD_MAX / 2];
	size_t n, waiting; /* slices, bytes */
	uint32_t turn;
	size_t used[TURNS];
	char bytes[TURNS][TURN_BYTES];
};

/* It has waited long enough. */
static bool is_ripe(const struct holder *hd, const struct held *h)
{
	return h->turn + 2 <= hd->turn;
}

/* The next one of its kind has not come. */
static bool waits(const struct perfetto_sink *s, const struct held *h)
{
	return h->is_end && s->rows[h->row].waits_ns == h->start_ns;
}

int held_new(struct holder **ret_holder)
{
	/* the pages of what is never used are never there */
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

	/* they are nearly in order: most of the first part is where it belongs */
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

/* A slice that waits for another is as if it had come now. False: there is no room for it. */
static bool stay(struct holder *hd, struct held *h)
{
	char *to = hd->bytes[hd->turn % TURNS];
	size_t *used = &hd->used[hd->turn % TURNS];

	if (*used + h->len + SLICE_BYTES > TURN_BYTES)
		return false;
	memcpy(to + *used, hd->bytes[h->turn % TURNS] + h->at, h->len);
	h->at = (uint32_t)*used;
	h->turn = hd->turn;
	*used += h->len;
	return true;
}

static void end_turn(struct perfetto_sink *s, bool all)
{
	struct holder *hd = s->held;
	size_t n_going = 0, n_left = 0;

	/* the packets of three turns ago are gone or have moved */
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
	for (size_t i = 0; i < n_going; i++) {
		const struct held *h = &hd->going[i];

		writer_append(s->w, hd->bytes[h->turn % TURNS] + h->at, h->len);
		hd->waiting -= h->len;
	}
}

char *held_reserve(struct perfetto_sink *s)
{
	struct holder *hd = s->held;

	/* in a storm, or in one go: what came long before has its predecessors most likely */
	for (int i = 0; i < TURNS && (hd->n == HELD_MAX ||
					     hd->used[hd->turn % TURNS] + SLICE_BYTES > TURN_BYTES);
		i++)
		end_turn(s, i == TURNS - 1);
	return hd->bytes[hd->turn % TURNS] + hd->used[hd->turn % TURNS];
}

void held_commit(struct perfetto_sink *s, uint32_t row, uint64_t start_ns, uint64_t end_ns,
	enum held_kind kind, const char *end)
{
	struct holder *hd = s->held;
	size_t at = hd->used[hd->turn % TURNS];
	size_t len = (size_t)(end - hd->bytes[hd->turn % TURNS]) - at;
	struct perfetto_row *r = &s->rows[row];

	hd->used[hd->turn % TURNS] += len;
	hd->waiting += len;
	hd->list[hd->n++] = (struct held){
		.start_ns = start_ns,
		.end_ns = end_ns,
		.at = (uint32_t)at,
		.turn = hd->turn,
		.row = row,
		.len = (uint16_t)len,
		.is_end = kind == HELD_END,
	};
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
