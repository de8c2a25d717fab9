// SPDX-License-Identifier: BSD-2-Clause
/* One set of outputs for all processes, or with windows one for each. */
#include "record/exports.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/log.h"

#define MARKS_MAX 4
/* Processes with files of their own, which take half a megabyte of memory while they are open: a shell
 * may start thousands within a window. */
#define EXPORTS_MAX 256

struct export {
	uint32_t tgid; /* 0: all, or all others */
	struct outputs *out;
	struct window_totals totals; /* of the process alone */
};

struct exports {
	const struct record_options *o;
	struct recording rec;
	bool by_process;
	bool no_others; /* than those that there are */
	int err; /* of an export that could not be made */
	struct export *list;
	size_t n, others; /* others: 1 + the place of those that are too many, 0: none */
	size_t last;	  /* where the record before went, which was of last_tgid */
	uint32_t last_tgid;
	/* what those that come later have missed */
	struct mark marks[MARKS_MAX];
	size_t n_marks;
	struct loss lost;
};

static int add(struct exports *e, uint32_t tgid)
{
	struct export *list = realloc(e->list, (e->n + 1) * sizeof(*list));
	struct recording own = e->rec;
	int err;

	if (!list)
		return -ENOMEM;
	e->list = list;
	list[e->n] = (struct export){ .tgid = tgid };
	own.tgid = tgid;
	/* a view may keep that of all */
	err = outputs_open(e->o, tgid ? &own : &e->rec, &list[e->n].out);
	if (err)
		return err;
	for (size_t i = 0; i < e->n_marks; i++)
		outputs_mark(list[e->n].out, &e->marks[i]);
	if (e->lost.to_ns)
		outputs_loss(list[e->n].out, &e->lost);
	e->n++;
	return 0;
}

static void add_process(struct task *t, void *arg)
{
	struct exports *e = arg;

	if (!e->err && e->n < EXPORTS_MAX)
		e->err = add(e, t->tgid);
}

int exports_open(const struct record_options *o, const struct recording *rec, bool by_process,
	struct exports **ret_exports)
{
	struct exports *e = calloc(1, sizeof(*e));
	int err;

	if (!e)
		return -ENOMEM;
	e->o = o;
	e->rec = *rec;
	e->by_process = by_process && !o->all;
	tasks_forget_outputs(rec->tasks);
	if (e->by_process) {
		tasks_each_process(rec->tasks, add_process, e);
	} else {
		e->err = add(e, 0);
	}
	err = e->err;
	if (err) {
		exports_close(e, NULL, NULL, NULL);
		return err;
	}
	*ret_exports = e;
	return 0;
}

int exports_open_of(const struct record_options *o, const struct recording *rec, const uint32_t *tgids, size_t n,
	struct exports **ret_exports)
{
	struct exports *e = calloc(1, sizeof(*e));
	int err = 0;

	if (!e)
		return -ENOMEM;
	e->o = o;
	e->rec = *rec;
	e->by_process = e->no_others = true;
	tasks_forget_outputs(rec->tasks);
	for (size_t i = 0; i < n && !err; i++)
		err = add(e, tgids[i]);
	if (err) {
		exports_close(e, NULL, NULL, NULL);
		return err;
	}
	*ret_exports = e;
	return 0;
}

static int add_others(struct exports *e)
{
	int err = add(e, 0);

	if (err)
		return err;
	e->others = e->n;
	log_warn("more than %d processes in one window: the files _others_ have all further ones", EXPORTS_MAX);
	return 0;
}

/* NULL when it is not wanted; or cannot be made: a line has been printed, and flush fails. */
static struct export *export_of(struct exports *e, uint32_t tgid)
{
	size_t i = 0;

	if (e->last < e->n && e->last_tgid == tgid)
		return &e->list[e->last];
	while (i < e->n && e->list[i].tgid != tgid)
		i++;
	if (i == e->n && e->others) {
		i = e->others - 1;
	} else if (i == e->n) {
		if (!e->no_others && !e->err)
			e->err = e->n < EXPORTS_MAX ? add(e, tgid) : add_others(e);
		if (e->no_others || e->err)
			return NULL;
	}
	e->last = i;
	e->last_tgid = tgid;
	return &e->list[i];
}

static void count(struct export *x, const struct rec_hdr *h)
{
	x->totals.records[h->kind]++;
	x->totals.steps += h->kind == REC_STEP && !(h->flags & REC_F_OPEN_START);
}

/* What ran on the CPUs besides is part of each. */
static bool is_for_all(const struct exports *e, const struct rec_hdr *h)
{
	return h->kind == REC_ON_CPU && e->o->events & EVENT_CPU;
}

bool exports_want(struct exports *e, const struct rec_hdr *h)
{
	return !e->by_process || is_for_all(e, h) || export_of(e, h->tgid);
}

void exports_record(struct exports *e, const struct rec_hdr *h)
{
	struct export *x;

	if (!e->by_process) {
		outputs_record(e->list[0].out, h);
		return;
	}
	if (is_for_all(e, h)) {
		for (size_t i = 0; i < e->n; i++) {
			count(&e->list[i], h);
			outputs_record(e->list[i].out, h);
		}
		return;
	}
	x = export_of(e, h->tgid);
	if (!x)
		return;
	count(x, h);
	outputs_record(x->out, h);
}

void exports_loss(struct exports *e, const struct loss *l)
{
	if (!e->lost.to_ns)
		e->lost.from_ns = l->from_ns;
	e->lost.to_ns = l->to_ns;
	for (int k = 0; k < REC_KIND_MAX; k++)
		e->lost.count[k] += l->count[k];
	for (size_t i = 0; i < e->n; i++)
		outputs_loss(e->list[i].out, l);
}

void exports_mark(struct exports *e, const struct mark *m)
{
	if (e->n_marks < MARKS_MAX)
		e->marks[e->n_marks++] = *m;
	for (size_t i = 0; i < e->n; i++)
		outputs_mark(e->list[i].out, m);
}

void exports_settled(struct exports *e)
{
	for (size_t i = 0; i < e->n; i++)
		outputs_settled(e->list[i].out);
}

int exports_flush(struct exports *e)
{
	int err = e->err;

	for (size_t i = 0; i < e->n; i++) {
		int x = outputs_flush(e->list[i].out);

		err = err ? err : x;
	}
	return err;
}

uint64_t exports_pending(const struct exports *e)
{
	uint64_t n = 0;

	for (size_t i = 0; i < e->n; i++)
		n += outputs_pending(e->list[i].out);
	return n;
}

uint64_t exports_bytes(const struct exports *e)
{
	uint64_t n = 0;

	for (size_t i = 0; i < e->n; i++)
		n += outputs_bytes(e->list[i].out);
	return n;
}

const char *exports_name(const struct exports *e, size_t i)
{
	return e->by_process || !e->n ? NULL : outputs_name(e->list[0].out, i);
}

int exports_reopen(const struct exports *e, size_t i)
{
	return e->by_process || !e->n ? -ENOENT : outputs_reopen(e->list[0].out, i);
}

void exports_dropped(const struct exports *e, uint64_t ret_dropped[REC_KIND_MAX])
{
	memset(ret_dropped, 0, REC_KIND_MAX * sizeof(*ret_dropped));
	for (size_t i = 0; i < e->n; i++)
		outputs_dropped(e->list[i].out, ret_dropped);
}

void exports_cut(struct exports *e)
{
	for (size_t i = 0; i < e->n; i++)
		outputs_cut(e->list[i].out);
}

static bool has_own(const struct exports *e, uint32_t tgid)
{
	size_t i = 0;

	while (i < e->n && e->list[i].tgid != tgid)
		i++;
	return i < e->n;
}

/* The sums of the processes that have none; NULL without memory. */
static struct process_totals *others_totals(const struct exports *e, const struct window_totals *t, size_t *ret_n)
{
	struct process_totals *list = calloc(t->n_processes + 1, sizeof(*list));
	size_t n = 0;

	for (size_t i = 0; i < t->n_processes && list; i++) {
		if (!has_own(e, t->processes[i].tgid))
			list[n++] = t->processes[i];
	}
	*ret_n = n;
	return list;
}

/* The window's, with the counts and sums of the process, or of all others. */
static void fill_totals(
	struct export *x, const struct window_totals *t, const struct process_totals *others, size_t n_others)
{
	struct window_totals own = *t;

	memcpy(own.records, x->totals.records, sizeof(own.records));
	own.steps = x->totals.steps;
	own.bytes = outputs_bytes(x->out);
	own.processes = x->tgid ? NULL : others;
	own.n_processes = x->tgid ? 0 : n_others;
	for (size_t i = 0; i < t->n_processes; i++) {
		if (t->processes[i].tgid == x->tgid) {
			own.processes = &t->processes[i];
			own.n_processes = 1;
		}
	}
	x->totals = own;
}

int exports_close(struct exports *e, const struct window_totals *t, exports_file_cb cb, void *arg)
{
	struct process_totals *others = NULL;
	size_t n_others = 0;
	int err;

	if (!e)
		return 0;
	err = e->err;
	if (t && e->others)
		others = others_totals(e, t, &n_others);
	for (size_t i = 0; i < e->n; i++) {
		struct export *x = &e->list[i];
		int close_err;

		if (t && e->by_process)
			fill_totals(x, t, others, n_others);
		close_err = outputs_close(x->out, t && e->by_process ? &x->totals : t, cb, arg);
		err = err ? err : close_err;
	}
	free(others);
	free(e->list);
	free(e);
	return err;
}
