// SPDX-License-Identifier: BSD-2-Clause
#include "requests/request_feed.h"

#include <errno.h>
#include <stdlib.h>

#include "requests/request_pairs.h"

struct reader {
	const struct request_reader_ops *ops; /* NULL: it is gone */
	void *arg;
};

struct request_feed {
	struct sink sink;
	struct sink *inner;
	const struct probe_table *probes;
	struct step_requests *steps;
	struct request_pairs *pairs; /* NULL: sockets are not recorded */
	struct reader *readers;
	size_t n_readers;
	uint64_t number;
};

/* Tells every reader that wants to know. */
#define TELL(f, op, ...)                                                       \
	do {                                                                   \
		for (size_t i_ = 0; i_ < (f)->n_readers; i_++) {               \
			const struct reader *to_ = &(f)->readers[i_];          \
			if (to_->ops && to_->ops->op)                          \
				to_->ops->op(__VA_ARGS__, to_->arg);           \
		}                                                              \
	} while (0)

/* ---- from steps ---- */

static void on_begin(struct step_request *r, const struct step_seen *s, void *arg)
{
	struct request_feed *f = arg;

	if (f->pairs)
		request_pairs_begin(f->pairs, r);
	TELL(f, begin, r, s);
}

static void on_part(struct step_request *r, const struct step_seen *s, const struct request_part *p, void *arg)
{
	TELL((struct request_feed *)arg, part, r, s, p);
}

static void on_first(struct step_request *r, void *arg)
{
	struct request_feed *f = arg;

	if (f->pairs)
		request_pairs_first(f->pairs, r);
	TELL(f, first, r);
}

static void on_step(struct step_request *r, const struct step_seen *s, void *arg)
{
	TELL((struct request_feed *)arg, step, r, s);
}

static void on_mixed(struct step_request *r, void *arg)
{
	TELL((struct request_feed *)arg, mixed, r);
}

/* What the readers have of a request that is over: for each what its `done` returned. */
static void held_free(const struct request_feed *f, void **held)
{
	for (size_t i = 0; held && i < f->n_readers; i++)
		free(held[i]);
	free(held);
}

static void on_done(struct step_request *r, void *arg)
{
	struct request_feed *f = arg;
	void **held = f->pairs ? calloc(f->n_readers + 1, sizeof(*held)) : NULL;
	bool any = false;

	for (size_t i = 0; i < f->n_readers; i++) {
		const struct reader *to = &f->readers[i];
		void *mine = to->ops && to->ops->done ? to->ops->done(r, to->arg) : NULL;

		any |= mine != NULL;
		if (held)
			held[i] = mine;
		else if (mine) /* without memory it is joined with none */
			to->ops->sequence(mine, NULL, JOIN_NONE, to->arg);
		if (!held)
			free(mine);
	}
	if (!any) {
		free(held);
		held = NULL;
	}
	if (f->pairs)
		request_pairs_done(f->pairs, r, held);
}

/* ---- pairs ---- */

static void on_pair(void *request, const struct rec_request *socket, enum join_result why, void *arg)
{
	struct request_feed *f = arg;
	void **held = request;

	for (size_t i = 0; i < f->n_readers; i++) {
		const struct reader *to = &f->readers[i];

		if (held[i] && to->ops)
			to->ops->sequence(held[i], socket, why, to->arg);
	}
	held_free(f, held);
}

static void on_pair_dropped(void *request, void *arg)
{
	held_free(arg, request);
}

static void on_socket(const struct rec_request *r, bool alone, enum join_result why, void *arg)
{
	TELL((struct request_feed *)arg, socket, r, alone, why);
}

static const struct request_pairs_ops pairs_ops = {
	.sequence = on_pair, .socket = on_socket, .dropped = on_pair_dropped
};

/* ---- the sink ---- */

static void feed_step(struct request_feed *f, const struct rec_step *r)
{
	if (f->pairs)
		request_pairs_step(f->pairs, r->h.start_ns + r->h.dur_ns);
	step_requests_step(f->steps, r);
}

static void feed_socket(struct request_feed *f, const struct rec_request *r)
{
	if (f->pairs)
		request_pairs_socket(f->pairs, r);
	else
		on_socket(r, true, JOIN_NONE, f);
}

static void feed_call(struct request_feed *f, const struct rec_function *r)
{
	uint64_t given;

	if (f->pairs && sequence_received(f->probes, r, &given))
		request_pairs_received(f->pairs, &r->h, given);
	step_requests_call(f->steps, r);
}

static void feed_record(struct sink *s, const struct rec_hdr *rec, size_t size)
{
	struct request_feed *f = (struct request_feed *)s;

	f->number++;
	sink_record(f->inner, rec, size);
	if (rec->kind == REC_STEP && rec->id < f->probes->n)
		feed_step(f, (const struct rec_step *)rec);
	else if (rec->kind == REC_FUNCTION && rec->id < f->probes->n)
		feed_call(f, (const struct rec_function *)rec);
	else if (rec->kind == REC_REQUEST)
		feed_socket(f, (const struct rec_request *)rec);
}

static void feed_loss(struct sink *s, const struct loss *l)
{
	struct request_feed *f = (struct request_feed *)s;

	sink_loss(f->inner, l);
	if (l->count[REC_STEP])
		step_requests_lost(f->steps, l->count[REC_STEP]);
}

static void feed_mark(struct sink *s, const struct mark *m)
{
	sink_mark(((struct request_feed *)s)->inner, m);
}

static void feed_settled(struct sink *s)
{
	struct request_feed *f = (struct request_feed *)s;

	/* what the readers make of it settles with the rest */
	step_requests_settled(f->steps);
	if (f->pairs)
		request_pairs_settled(f->pairs);
	sink_settled(f->inner);
}

static int feed_flush(struct sink *s)
{
	return sink_flush(((struct request_feed *)s)->inner);
}

/* Tells the readers of what is left as long as they are all there. */
static int feed_close(struct sink *s, const struct window_totals *t)
{
	struct request_feed *f = (struct request_feed *)s;
	int err;

	if (t)
		step_requests_finish(f->steps);
	if (t && f->pairs)
		request_pairs_finish(f->pairs);
	err = sink_close(f->inner, t);
	request_feed_free(f);
	return err;
}

static uint64_t feed_bytes(const struct sink *s)
{
	return sink_bytes(((const struct request_feed *)s)->inner);
}

static uint64_t feed_pending(const struct sink *s)
{
	return sink_pending(((const struct request_feed *)s)->inner);
}

static void feed_dropped(const struct sink *s, uint64_t counts[REC_KIND_MAX])
{
	sink_dropped(((const struct request_feed *)s)->inner, counts);
}

static const struct sink_ops feed_ops = {
	.record = feed_record,
	.loss = feed_loss,
	.mark = feed_mark,
	.settled = feed_settled,
	.flush = feed_flush,
	.close = feed_close,
	.bytes = feed_bytes,
	.pending = feed_pending,
	.dropped = feed_dropped,
};

struct sink *request_feed_sink(struct request_feed *f, struct sink *inner)
{
	f->inner = inner;
	return &f->sink;
}

const struct sink *request_feed_inner(const struct sink *s)
{
	return s->ops == &feed_ops ? ((const struct request_feed *)s)->inner : s;
}

/* ---- readers ---- */

int request_feed_add(struct request_feed *f, const struct request_reader_ops *ops, void *arg)
{
	struct reader *readers = f ? realloc(f->readers, (f->n_readers + 1) * sizeof(*readers)) : NULL;

	if (!f)
		return 0;
	if (!readers)
		return -ENOMEM;
	f->readers = readers;
	readers[f->n_readers++] = (struct reader){ ops, arg };
	return 0;
}

void request_feed_remove(struct request_feed *f, const void *arg)
{
	for (size_t i = 0; f && i < f->n_readers; i++) {
		if (f->readers[i].arg == arg)
			f->readers[i].ops = NULL;
	}
}

bool request_feed_joins(const struct request_feed *f)
{
	return f && f->pairs;
}

uint64_t request_feed_number(const struct request_feed *f)
{
	return f ? f->number : 0;
}

void request_feed_free(struct request_feed *f)
{
	if (!f)
		return;
	step_requests_free(f->steps);
	request_pairs_free(f->pairs);
	free(f->readers);
	free(f);
}

int request_feed_new(const struct recording *rec, struct request_feed **ret_feed)
{
	static const struct step_requests_ops ops = {
		.begin = on_begin,
		.part = on_part,
		.first = on_first,
		.step = on_step,
		.mixed = on_mixed,
		.done = on_done,
	};
	struct request_feed *f = calloc(1, sizeof(*f));
	int err;

	if (!f)
		return -ENOMEM;
	f->sink.ops = &feed_ops;
	f->probes = rec->probes;
	err = step_requests_new(rec->probes, &ops, f, &f->steps);
	if (!err && rec->sockets)
		err = request_pairs_new(&pairs_ops, f, &f->pairs);
	if (err) {
		request_feed_free(f);
		return err;
	}
	*ret_feed = f;
	return 0;
}
