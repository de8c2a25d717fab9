// SPDX-License-Identifier: BSD-2-Clause
#include "sink/tee.h"

#include <errno.h>
#include <stdlib.h>

static void tee_record(struct sink *s, const struct rec_hdr *rec, size_t size)
{
	struct tee *t = (struct tee *)s;

	for (size_t i = 0; i < t->n; i++)
		sink_record(t->list[i], rec, size);
}

void tee_loss(struct sink *s, const struct loss *l)
{
	struct tee *t = (struct tee *)s;

	for (size_t i = 0; i < t->n; i++)
		sink_loss(t->list[i], l);
}

void tee_mark(struct sink *s, const struct mark *m)
{
	struct tee *t = (struct tee *)s;

	for (size_t i = 0; i < t->n; i++)
		sink_mark(t->list[i], m);
}

void tee_settled(struct sink *s)
{
	struct tee *t = (struct tee *)s;

	for (size_t i = 0; i < t->n; i++)
		sink_settled(t->list[i]);
}

/* Flushes all of them, even after one has failed. */
int tee_flush(struct sink *s)
{
	struct tee *t = (struct tee *)s;
	int first = 0;

	for (size_t i = 0; i < t->n; i++) {
		int err = sink_flush(t->list[i]);

		first = first ? first : err;
	}
	return first;
}

static int tee_close(struct sink *s, const struct window_totals *totals)
{
	struct tee *t = (struct tee *)s;
	int first = 0;

	for (size_t i = 0; i < t->n; i++) {
		int err = sink_close(t->list[i], totals);

		first = first ? first : err;
	}
	free(t->list);
	free(t);
	return first;
}

uint64_t tee_bytes(const struct sink *s)
{
	const struct tee *t = (const struct tee *)s;
	uint64_t n = 0;

	for (size_t i = 0; i < t->n; i++)
		n += sink_bytes(t->list[i]);
	return n;
}

uint64_t tee_pending(const struct sink *s)
{
	const struct tee *t = (const struct tee *)s;
	uint64_t n = 0;

	for (size_t i = 0; i < t->n; i++)
		n += sink_pending(t->list[i]);
	return n;
}

void tee_dropped(const struct sink *s, uint64_t counts[REC_KIND_MAX])
{
	const struct tee *t = (const struct tee *)s;

	for (size_t i = 0; i < t->n; i++)
		sink_dropped(t->list[i], counts);
}

static const struct sink_ops tee_ops = {
	.record = tee_record,
	.loss = tee_loss,
	.mark = tee_mark,
	.settled = tee_settled,
	.flush = tee_flush,
	.close = tee_close,
	.bytes = tee_bytes,
	.pending = tee_pending,
	.dropped = tee_dropped,
};

int tee_add(struct tee *t, struct sink *s)
{
	struct sink **list = realloc(t->list, (t->n + 1) * sizeof(*list));

	if (!list)
		return -ENOMEM;
	t->list = list;
	list[t->n++] = s;
	return 0;
}

int tee_new(struct sink *const *list, size_t n, struct sink **ret_sink)
{
	struct tee *t;
	size_t i = 0;

	if (n == 1) {
		*ret_sink = list[0];
		return 0;
	}
	t = calloc(1, sizeof(*t));
	if (t)
		t->sink.ops = &tee_ops;
	while (t && i < n && !tee_add(t, list[i]))
		i++;
	if (t && i == n) {
		*ret_sink = &t->sink;
		return 0;
	}
	for (; i < n; i++)
		sink_close(list[i], NULL);
	if (t)
		tee_close(&t->sink, NULL);
	return -ENOMEM;
}

const struct sink *tee_nth(const struct sink *s, size_t i)
{
	const struct tee *t = (const struct tee *)s;

	if (s->ops != &tee_ops)
		return i ? NULL : s;
	return i < t->n ? t->list[i] : NULL;
}
