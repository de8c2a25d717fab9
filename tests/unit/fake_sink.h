/* SPDX-License-Identifier: BSD-2-Clause */
/* A sink that counts its calls, and fails on demand. */
#ifndef INFTRACE_TEST_FAKE_SINK_H
#define INFTRACE_TEST_FAKE_SINK_H

#include <stdlib.h>
#include <string.h>

#include "sink/sink.h"

#define FAKE_LOG 512

struct fake_sink {
	struct sink sink;
	uint32_t tgid;	 /* of the recording it was made for */
	char *log;	 /* FAKE_LOG bytes: a letter per call, shared by all sinks whose order matters; or NULL */
	unsigned int records, losses, marks, settled, flushes, closed;
	uint64_t lost;	 /* records, of all losses */
	size_t size;	 /* of the last record */
	uint32_t thread; /* of it */
	char marked[64]; /* the names of the marks, each followed by a blank */
	int flush_err, close_err;
	uint64_t bytes, pending, dropped;
	bool with_totals; /* closed with totals */
	struct window_totals totals;
};

static inline void fake_log(struct fake_sink *f, char c)
{
	size_t n = f->log ? strlen(f->log) : FAKE_LOG;

	if (n < FAKE_LOG - 1)
		f->log[n] = c;
}

static inline void fake_record(struct sink *s, const struct rec_hdr *h, size_t size)
{
	struct fake_sink *f = (struct fake_sink *)s;

	f->records++;
	f->size = size;
	f->thread = h->tid;
	fake_log(f, 'r');
}

static inline void fake_loss(struct sink *s, const struct loss *l)
{
	struct fake_sink *f = (struct fake_sink *)s;

	f->losses++;
	for (int k = 0; k < REC_KIND_MAX; k++)
		f->lost += l->count[k];
	fake_log(f, 'l');
}

static inline void fake_mark(struct sink *s, const struct mark *m)
{
	struct fake_sink *f = (struct fake_sink *)s;

	f->marks++;
	strncat(f->marked, m->name, sizeof(f->marked) - strlen(f->marked) - 1);
	strncat(f->marked, " ", sizeof(f->marked) - strlen(f->marked) - 1);
	fake_log(f, 'm');
}

static inline void fake_settled(struct sink *s)
{
	((struct fake_sink *)s)->settled++;
	fake_log((struct fake_sink *)s, 's');
}

static inline int fake_flush(struct sink *s)
{
	((struct fake_sink *)s)->flushes++;
	fake_log((struct fake_sink *)s, 'f');
	return ((struct fake_sink *)s)->flush_err;
}

/* Keeps the sink for inspection. */
static inline int fake_close(struct sink *s, const struct window_totals *t)
{
	struct fake_sink *f = (struct fake_sink *)s;

	f->closed++;
	f->with_totals = t;
	if (t)
		f->totals = *t;
	fake_log(f, 'c');
	return f->close_err;
}

static inline uint64_t fake_bytes(const struct sink *s)
{
	return ((const struct fake_sink *)s)->bytes;
}

static inline uint64_t fake_pending(const struct sink *s)
{
	return ((const struct fake_sink *)s)->pending;
}

static inline void fake_dropped(const struct sink *s, uint64_t counts[REC_KIND_MAX])
{
	counts[REC_FAULT] += ((const struct fake_sink *)s)->dropped;
}

static const struct sink_ops fake_ops = {
	.record = fake_record,
	.loss = fake_loss,
	.mark = fake_mark,
	.settled = fake_settled,
	.flush = fake_flush,
	.close = fake_close,
	.bytes = fake_bytes,
	.pending = fake_pending,
	.dropped = fake_dropped,
};

/* A sink with only the mandatory operations. */
static const struct sink_ops fake_least_ops = {
	.record = fake_record,
	.loss = fake_loss,
	.close = fake_close,
};

#endif
