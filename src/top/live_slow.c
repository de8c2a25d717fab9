// SPDX-License-Identifier: BSD-2-Clause
/*
 * Each frame makes the report again from the steps that are kept, so a step is compared with later
 * ones as soon as these exist. Verdicts on steps that were evicted stay.
 */
#include "top/live_slow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define KEPT_MAX \
	2048 /* steps: a minute at 34 per second; judging all of them takes a few milliseconds */
#define KEPT_MIN 256 /* kept for comparison, however old they are */
#define SLOW_MAX 256

struct slow_steps {
	struct live_step kept[KEPT_MAX]; /* a ring, beginning at `first` */
	size_t first, n;
	int64_t evicted_at; /* what began up to then is no longer kept */
	bool added;         /* since the last verdicts */
	struct live_slow slow[SLOW_MAX];
	size_t n_slow;
};

int slow_steps_new(struct slow_steps **ret)
{
	struct slow_steps *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->evicted_at = -1;
	*ret = s;
	return 0;
}

void slow_steps_free(struct slow_steps *s)
{
	free(s);
}

static struct live_step *kept(struct slow_steps *s, size_t i)
{
	return &s->kept[(s->first + i) % KEPT_MAX];
}

static void evict_first(struct slow_steps *s)
{
	int64_t at = kept(s, 0)->step.ts;

	if (at > s->evicted_at)
		s->evicted_at = at;
	s->first = (s->first + 1) % KEPT_MAX;
	s->n--;
}

int slow_steps_add(struct slow_steps *s, const struct live_step *step)
{
	if (s->n == KEPT_MAX)
		evict_first(s);
	*kept(s, s->n++) = *step;
	s->added = true;
	return 0;
}

static void evict_old(struct slow_steps *s, int64_t now)
{
	while (s->n > KEPT_MIN &&
		ns_add(kept(s, 0)->step.ts, kept(s, 0)->step.total) < now - LIVE_MINUTE_NS)
		evict_first(s);
}

static int model_add(struct model *m, const struct live_step *ls)
{
	size_t n_behind = (size_t)ls->step.n_behind + ls->step.n_workers_behind;
	struct behind_info behind[2 * BEHIND_MAX];
	struct step step = ls->step;
	struct process *p;
	int err = 0;

	for (size_t i = 0; !err && i < n_behind; i++) {
		behind[i] = ls->behind[i].row;
		err = model_name(m, ls->behind[i].by, &behind[i].by);
	}
	if (!err)
		err = model_name(m, ls->phase, &step.phase);
	if (!err)
		err = model_name(m, ls->by, &step.stall.by);
	if (!err)
		err = model_name(m, ls->straggler_by, &step.straggler.by);
	if (!err)
		err = model_name(m, ls->straggler_comm, &step.straggler_comm);
	if (!err)
		err = model_process(m, ls->pid, 0, &p);
	if (!err)
		err = process_add_behind(
			p, &step, behind, step.n_behind, behind + step.n_behind, step.n_workers_behind);
	return err ? err : process_add_step(p, &step);
}

static struct live_slow *slow_place(struct slow_steps *s, const struct live_slow *key)
{
	for (size_t i = 0; i < s->n_slow; i++) {
		struct live_slow *e = &s->slow[i];

		if (e->pid == key->pid && e->number == key->number && e->gap == key->gap)
			return e;
	}
	if (s->n_slow == SLOW_MAX)
		return s->slow[SLOW_MAX - 1].excess < key->excess ? &s->slow[SLOW_MAX - 1] : NULL;
	return &s->slow[s->n_slow++];
}

static int compare_slow(const void *a, const void *b)
{
	const struct live_slow *x = a, *y = b;

	if (x->excess != y->excess)
		return x->excess < y->excess ? 1 : -1;
	return x->number < y->number ? -1 : x->number > y->number;
}

static void slow_sort(struct slow_steps *s)
{
	if (s->n_slow)
		qsort(s->slow, s->n_slow, sizeof(*s->slow), compare_slow);
}

static int take_slow(struct slow_steps *s, const struct model *m, const struct process *p,
	const struct slow_step *slow, int64_t now)
{
	const struct step step = steps_load(&p->steps, slow->step);
	struct live_slow key = {
		.at = step.ts,
		.excess = slow->cause.excess,
		.pid = p->pid,
		.number = step.number,
		.gap = slow->gap,
	};
	struct live_slow *place;

	if (ns_add(step.ts, step.total) < now - LIVE_MINUTE_NS)
		return 0;
	place = slow_place(s, &key);
	if (!place)
		return 0;
	*place = key;
	return words_slow(m, p, slow, place->text);
}

static int judge_process(
	struct slow_steps *s, const struct model *m, struct process *p, int64_t now)
{
	const struct phase_names none = { 0 };
	struct summary sum;
	int err;

	err = typical_find(p);
	if (err)
		return err;
	err = summary_make(p, NULL, &none, &sum);
	for (size_t i = 0; !err && i < sum.n_slow; i++)
		err = take_slow(s, m, p, &sum.slow[i], now);
	summary_free(&sum);
	slow_sort(s);
	return err;
}

static int judge(struct slow_steps *s, int64_t now)
{
	struct model m;
	int err;

	err = model_init(&m);
	for (size_t i = 0; !err && i < s->n; i++)
		err = model_add(&m, kept(s, i));
	if (!err)
		err = model_finish(&m);
	for (size_t i = 0; !err && i < m.n_processes; i++)
		err = judge_process(s, &m, m.processes[i], now);
	model_free(&m);
	return err;
}

/* Drops what is judged again, and what is older than a minute. */
static void drop_slow(struct slow_steps *s, int64_t now)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n_slow; i++) {
		const struct live_slow *e = &s->slow[i];

		if (e->at >= now - LIVE_MINUTE_NS && (!s->added || e->at <= s->evicted_at))
			s->slow[n++] = *e;
	}
	s->n_slow = n;
}

int slow_steps_frame(struct slow_steps *s, int64_t now, struct live_frame *f)
{
	int err = 0;

	evict_old(s, now);
	drop_slow(s, now);
	if (s->added)
		err = judge(s, now);
	s->added = false;
	f->minute_slow = s->n_slow;
	f->minute_more = s->n_slow == SLOW_MAX;
	f->slow = s->slow;
	f->n_slow = s->n_slow < LIVE_SLOW_MAX ? s->n_slow : LIVE_SLOW_MAX;
	return err;
}
