// SPDX-License-Identifier: BSD-2-Clause
#include "sink/tee.h"

#include <stdlib.h>
#include <string.h>

#include "util/alloc.h"
#include "util/log.h"

struct tee {
	struct sink sink;
	struct sink **list;
	size_t n;
};

static void tee_record(struct sink *s, const struct rec_hdr *h, size_t size)
{
	struct tee *t = (struct tee *)s;

	for (size_t i = 0; i < t->n; i++)
		sink_record(t->list[i], h, size);
}

static void tee_loss(struct sink *s, const struct loss *l)
{
	struct tee *t = (struct tee *)s;

	for (size_t i = 0; i < t->n; i++)
		sink_loss(t->list[i], l);
}

static void tee_mark(struct sink *s, const struct mark *m)
{
	struct tee *t = (struct tee *)s;

	for (size_t i = 0; i < t->n; i++)
		sink_mark(t->list[i], m);
}

static void tee_settled(struct sink *s)
{
	struct tee *t = (struct tee *)s;

	for (size_t i = 0; i < t->n; i++)
		sink_settled(t->list[i]);
}

/* Flushes all of them, even after one has failed. */
static int tee_flush(struct sink *s)
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

static uint64_t tee_bytes(const struct sink *s)
{
	const struct tee *t = (const struct tee *)s;
	uint64_t n = 0;

	for (size_t i = 0; i < t->n; i++)
		n += sink_bytes(t->list[i]);
	return n;
}

static uint64_t tee_pending(const struct sink *s)
{
	const struct tee *t = (const struct tee *)s;
	uint64_t n = 0;

	for (size_t i = 0; i < t->n; i++)
		n += sink_pending(t->list[i]);
	return n;
}

static void tee_dropped(const struct sink *s, uint64_t counts[REC_KIND_MAX])
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

static void tee_add(struct tee *t, struct sink *s)
{
	t->list = xreallocarray(t->list, t->n + 1, sizeof(*t->list));
	t->list[t->n++] = s;
}

struct sink *tee_new(struct sink *const *list, size_t n)
{
	struct tee *t;

	if (n == 1)
		return list[0];
	t = xcalloc(1, sizeof(*t));
	t->sink.ops = &tee_ops;
	for (size_t i = 0; i < n; i++)
		tee_add(t, list[i]);
	return &t->sink;
}

const struct sink *tee_nth(const struct sink *s, size_t i)
{
	const struct tee *t = (const struct tee *)s;

	if (s->ops != &tee_ops)
		return i ? NULL : s;
	return i < t->n ? t->list[i] : NULL;
}

/* ---- one for each process ---- */

#define MARKS_MAX 4
/* Processes with files of their own, which take half a megabyte of memory while open: a shell may
 * start thousands within a window. */
#define PROCESSES_MAX 256

struct tee_part {
	uint32_t tgid;               /* 0: all others */
	struct window_totals totals; /* of this process alone */
};

struct by_process {
	struct tee tee; /* of the sinks of all parts */
	struct by_process_config c;
	struct recording rec;
	int err; /* why a part could not be made */
	struct tee_part *parts;
	size_t others; /* 1 + the index of the part for further processes; 0: not made yet */
	size_t last;   /* index of the previous record's part; the record was of last_tgid */
	uint32_t last_tgid;
	/* what later parts have missed */
	struct mark marks[MARKS_MAX];
	size_t n_marks;
	struct loss lost;
};

static int by_process_add(struct by_process *b, uint32_t tgid)
{
	struct recording own = b->rec;
	struct sink *sink;
	int err;

	own.tgid = tgid;
	err = b->c.open(&own, b->c.arg, &sink);
	if (err)
		return err;
	b->parts = xreallocarray(b->parts, b->tee.n + 1, sizeof(*b->parts));
	b->parts[b->tee.n] = (struct tee_part){ .tgid = tgid };
	tee_add(&b->tee, sink);
	for (size_t i = 0; i < b->n_marks; i++)
		sink_mark(sink, &b->marks[i]);
	if (b->lost.to_ns)
		sink_loss(sink, &b->lost);
	return 0;
}

static void by_process_add_task(struct task *t, void *arg)
{
	struct by_process *b = arg;

	if (!b->err && b->tee.n < PROCESSES_MAX)
		b->err = by_process_add(b, t->tgid);
}

static int by_process_add_others(struct by_process *b)
{
	int err = by_process_add(b, 0);

	if (err)
		return err;
	b->others = b->tee.n;
	log_warn("more than %d processes in one window: the files _others_ have all further ones", PROCESSES_MAX);
	return 0;
}

/* Returns the index of the process's own part; one past the last: it has none. */
static size_t by_process_find(const struct by_process *b, uint32_t tgid)
{
	size_t i = 0;

	while (i < b->tee.n && b->parts[i].tgid != tgid)
		i++;
	return i;
}

/* Returns the index of the part; one past the last if it is not wanted or cannot be made: then a line has
 * been printed, and flush will fail. */
static size_t by_process_get(struct by_process *b, uint32_t tgid)
{
	size_t i;

	if (b->last < b->tee.n && b->last_tgid == tgid)
		return b->last;
	i = by_process_find(b, tgid);
	if (i == b->tee.n && b->others) {
		i = b->others - 1;
	} else if (i == b->tee.n) {
		if (b->c.tgids || b->err)
			return i;
		b->err = i < PROCESSES_MAX ? by_process_add(b, tgid) : by_process_add_others(b);
		if (b->err)
			return b->tee.n;
	}
	b->last = i;
	b->last_tgid = tgid;
	return i;
}

static void by_process_pass_on(struct by_process *b, size_t i, const struct rec_hdr *h, size_t size)
{
	struct window_totals *t = &b->parts[i].totals;

	t->records[h->kind]++;
	t->steps += h->kind == REC_STEP && !(h->flags & REC_F_OPEN_START);
	sink_record(b->tee.list[i], h, size);
}

/* Whether the record belongs to every output: what ran on the CPUs, and what the engine tells of itself. */
static bool record_is_for_all(const struct by_process *b, const struct rec_hdr *h)
{
	return (h->kind == REC_ON_CPU && b->c.all_cpus) || h->kind == REC_METRIC;
}

static bool by_process_wants(struct sink *s, const struct rec_hdr *h)
{
	struct by_process *b = (struct by_process *)s;

	return record_is_for_all(b, h) || by_process_get(b, h->tgid) < b->tee.n;
}

static void by_process_record(struct sink *s, const struct rec_hdr *h, size_t size)
{
	struct by_process *b = (struct by_process *)s;
	size_t i;

	if (record_is_for_all(b, h)) {
		for (i = 0; i < b->tee.n; i++)
			by_process_pass_on(b, i, h, size);
		return;
	}
	i = by_process_get(b, h->tgid);
	if (i < b->tee.n)
		by_process_pass_on(b, i, h, size);
}

static void by_process_loss(struct sink *s, const struct loss *l)
{
	struct by_process *b = (struct by_process *)s;

	if (!b->lost.to_ns)
		b->lost.from_ns = l->from_ns;
	b->lost.to_ns = l->to_ns;
	for (int k = 0; k < REC_KIND_MAX; k++)
		b->lost.count[k] += l->count[k];
	tee_loss(s, l);
}

static void by_process_mark(struct sink *s, const struct mark *m)
{
	struct by_process *b = (struct by_process *)s;
	size_t i = m->tgid ? by_process_get(b, m->tgid) : b->tee.n;

	if (i < b->tee.n)
		sink_mark(b->tee.list[i], m);
	if (m->tgid)
		return;
	if (b->n_marks < MARKS_MAX)
		b->marks[b->n_marks++] = *m;
	tee_mark(s, m);
}

static int by_process_flush(struct sink *s)
{
	const struct by_process *b = (const struct by_process *)s;
	int err = tee_flush(s);

	return b->err ? b->err : err;
}

/* Returns the totals of the processes without a part; the caller frees the list. */
static struct process_totals *by_process_others(const struct by_process *b, const struct window_totals *t, size_t *ret_n)
{
	struct process_totals *list = xcalloc(t->n_processes + 1, sizeof(*list));
	size_t n = 0;

	for (size_t i = 0; i < t->n_processes; i++) {
		if (by_process_find(b, t->processes[i].tgid) == b->tee.n)
			list[n++] = t->processes[i];
	}
	*ret_n = n;
	return list;
}

/* Sets p->totals to the window's, with the counts and sums of the part's process, or of all others. */
static void fill_totals(struct tee_part *p, const struct window_totals *t, uint64_t bytes,
	const struct process_totals *others, size_t n_others)
{
	struct window_totals own = *t;

	memcpy(own.records, p->totals.records, sizeof(own.records));
	own.steps = p->totals.steps;
	own.bytes = bytes;
	own.processes = p->tgid ? NULL : others;
	own.n_processes = p->tgid ? 0 : n_others;
	for (size_t i = 0; i < t->n_processes; i++) {
		if (t->processes[i].tgid == p->tgid) {
			own.processes = &t->processes[i];
			own.n_processes = 1;
		}
	}
	p->totals = own;
}

static int by_process_close(struct sink *s, const struct window_totals *t)
{
	struct by_process *b = (struct by_process *)s;
	struct process_totals *others = NULL;
	size_t n_others = 0;
	int first = b->err;

	if (t && b->others)
		others = by_process_others(b, t, &n_others);
	for (size_t i = 0; i < b->tee.n; i++) {
		struct tee_part *p = &b->parts[i];
		int err;

		if (t)
			fill_totals(p, t, sink_bytes(b->tee.list[i]), others, n_others);
		err = sink_close(b->tee.list[i], t ? &p->totals : NULL);
		first = first ? first : err;
	}
	free(others);
	free(b->parts);
	free(b->tee.list);
	free(b);
	return first;
}

static const struct sink_ops by_process_ops = {
	.record = by_process_record,
	.loss = by_process_loss,
	.mark = by_process_mark,
	.settled = tee_settled,
	.flush = by_process_flush,
	.close = by_process_close,
	.bytes = tee_bytes,
	.pending = tee_pending,
	.dropped = tee_dropped,
	.wants = by_process_wants,
};

int by_process_new(const struct by_process_config *c, const struct recording *rec, struct sink **ret_sink)
{
	struct by_process *b = xcalloc(1, sizeof(*b));
	int err;

	b->tee.sink.ops = &by_process_ops;
	b->c = *c;
	b->rec = *rec;
	if (!c->tgids)
		tasks_each_process(rec->tasks, by_process_add_task, b);
	for (size_t i = 0; i < c->n_tgids && !b->err; i++)
		b->err = by_process_add(b, c->tgids[i]);
	err = b->err;
	if (err) {
		by_process_close(&b->tee.sink, NULL);
		return err;
	}
	*ret_sink = &b->tee.sink;
	return 0;
}
