// SPDX-License-Identifier: BSD-2-Clause
/* Perfetto trace: the slices of a thread in the order of their begins, within a window. */
#include <stdlib.h>

#include "sink/perfetto.h"

static void write_bytes(struct perfetto_sink *s, const char *bytes, size_t len)
{
	char *p = writer_reserve(s->w);

	memmove(p, bytes, len);
	writer_commit(s->w, p + len);
}

/* Whether a slice that is to stay must go with one behind it after all. */
static bool must_go(const struct perfetto_thread *t, unsigned int i, const bool *goes)
{
	const struct held *h = &t->held[i];

	for (unsigned int k = i + 1; k < t->n_held && t->held[k].start_ns <= h->end_ns; k++) {
		if (goes[k] &&
			(t->held[k].start_ns == h->end_ns || t->held[k].start_ns == h->start_ns))
			return true;
	}
	return false;
}

/* All but the last `keep` to arrive, and what must come before those; the buffers are used again.
 */
static void write_but(struct perfetto_sink *s, struct perfetto_thread *t, uint32_t keep)
{
	struct held left[HELD_MAX];
	unsigned int n = 0, done = 0;
	bool goes[HELD_MAX];

	for (unsigned int i = t->n_held; i--;)
		goes[i] = t->arrived - t->held[i].number >= keep || must_go(t, i, goes);
	for (unsigned int i = 0; i < t->n_held; i++) {
		struct held h = t->held[i];

		if (!goes[i]) {
			left[n++] = h;
			continue;
		}
		write_bytes(s, h.bytes, h.len);
		t->held[done++] = h;
	}
	memmove(t->held + n, t->held, done * sizeof(*left));
	memcpy(t->held, left, n * sizeof(*left));
	t->n_held = n;
}

static bool begins_before(const struct held *h, uint64_t start_ns, uint64_t end_ns)
{
	return h->start_ns < start_ns || (h->start_ns == start_ns && h->end_ns >= end_ns);
}

void held_add(struct perfetto_sink *s, struct perfetto_thread *t, uint64_t start_ns,
	uint64_t end_ns, const char *bytes, size_t len)
{
	struct held free_one, *list;
	unsigned int i;

	if (!t->held)
		t->held = calloc(HELD_MAX, sizeof(*t->held));
	list = t->held;
	if (!list) {
		write_bytes(s, bytes, len);
		return;
	}
	free_one = list[t->n_held]; /* with a buffer from before, perhaps */
	if (free_one.size < len) {
		char *room = realloc(free_one.bytes, len);

		if (!room) {
			write_bytes(s, bytes, len);
			return;
		}
		free_one.bytes = room;
		free_one.size = len;
	}
	memcpy(free_one.bytes, bytes, len);
	free_one.len = len;
	free_one.start_ns = start_ns;
	free_one.end_ns = end_ns;
	free_one.number = ++t->arrived;
	for (i = t->n_held; i && !begins_before(&list[i - 1], start_ns, end_ns); i--)
		;
	memmove(list + i + 1, list + i, (t->n_held - i) * sizeof(*list));
	list[i] = free_one;
	t->n_held++;
	if (t->n_held == HELD_MAX)
		write_but(s, t, HELD_MAX / 2);
}

void held_flush(struct perfetto_sink *s, bool all)
{
	for (size_t i = 0; i < s->threads_size; i++) {
		struct perfetto_thread *t = &s->threads[i];

		if (t->n_held)
			write_but(s, t, all ? 0 : t->arrived - t->settled);
		t->settled = t->arrived;
	}
}

void held_free(struct perfetto_sink *s)
{
	for (size_t i = 0; i < s->threads_size; i++) {
		for (unsigned int k = 0; s->threads[i].held && k < HELD_MAX; k++)
			free(s->threads[i].held[k].bytes);
		free(s->threads[i].held);
	}
}
