// SPDX-License-Identifier: BSD-2-Clause
#include "sink/request_track.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sink/request_feed.h"
#include "sink/request_track_inner.h"

/* ---- steps ---- */

static struct live_request *find_live(struct request_tracks *t, const struct step_request *r)
{
	struct live_request *l;

	HASH_FIND(hh, t->live, &r->serial, sizeof(r->serial), l);
	return l;
}

static void on_begin(struct step_request *r, const struct step_seen *s, void *arg)
{
	struct request_tracks *t = arg;
	struct live_request *l = calloc(1, sizeof(*l));

	(void)s;
	if (!l)
		return;
	l->serial = r->serial;
	HASH_ADD(hh, t->live, serial, sizeof(l->serial), l);
	if (!l->hh.tbl)
		free(l);
}

static struct step_carrier carrier_of(const struct request_tracks *t, const struct step_seen *s)
{
	struct step_carrier c = { .start = s->start, .end = s->end, .number = s->number, .known = true };

	if (t->kept[s->number % STEPS_KEPT].number == s->number) {
		c.lane = t->kept[s->number % STEPS_KEPT].lane;
		c.file = t->kept[s->number % STEPS_KEPT].file;
	}
	return c;
}

static void on_part(struct step_request *r, const struct step_seen *s, const struct request_part *p, void *arg)
{
	struct request_tracks *t = arg;
	struct live_request *l = find_live(t, r);
	uint32_t group;

	(void)p;
	if (!l || !r->has_rows)
		return;
	group = request_group_of(t, r->tgid, r->context);
	l->before_last = l->last;
	l->last = carrier_of(t, s);
	if (!l->first.known)
		l->first = l->last;
	if (group < REQUEST_GROUPS)
		request_counts_part(&t->groups[group].counts, &l->counted, s->start, s->end);
}

static void on_first(struct step_request *r, const struct step_seen *s, void *arg)
{
	struct request_tracks *t = arg;
	struct live_request *l = find_live(t, r);

	(void)s;
	/* it may be reported with a later step */
	if (l && l->last.end == r->first_output)
		l->gave_first = l->last;
	else if (l && l->before_last.end == r->first_output)
		l->gave_first = l->before_last;
}

static void tell_counts(struct request_tracks *t, uint32_t group)
{
	struct request_change c;

	while (request_counts_next(&t->groups[group].counts, &c)) {
		if (c.active_changed)
			t->ops->counter(group, REQUEST_ACTIVE, c.ns, c.active, t->arg);
		if (c.waiting_changed)
			t->ops->counter(group, REQUEST_WAITING, c.ns, c.waiting, t->arg);
	}
}

static void tell_step(struct request_tracks *t, uint32_t group, const struct step_seen *s)
{
	t->ops->counter(group, REQUEST_BATCH_SIZE, s->start, s->tokens, t->arg);
	if (s->rows.outputs_known)
		t->ops->counter(group, REQUEST_TOKENS, s->start, step_seen_tokens(s), t->arg);
	t->ops->counter(group, REQUEST_BATCH_SIZE, s->end, 0, t->arg);
	if (s->rows.outputs_known)
		t->ops->counter(group, REQUEST_TOKENS, s->end, 0, t->arg);
}

static void on_step(struct step_request *r, const struct step_seen *s, void *arg)
{
	struct request_tracks *t = arg;
	uint32_t group;

	(void)r;
	if (!s->has_rows || !s->rows.readable)
		return;
	group = request_group_of(t, s->tgid, s->context);
	if (group == REQUEST_GROUPS)
		return;
	/* for two at once there would be one counter */
	if (request_counts_step(&t->groups[group].counts, s->start, s->end))
		tell_step(t, group, s);
	tell_counts(t, group);
}

static void on_mixed(struct step_request *r, void *arg)
{
	struct request_tracks *t = arg;
	struct live_request *l = find_live(t, r);
	uint32_t group = request_group_of(t, r->tgid, r->context);

	if (l && group < REQUEST_GROUPS)
		request_counts_end(&t->groups[group].counts, &l->counted);
}

static void on_sequence(void *request, const struct rec_request *socket, enum join_result why, void *arg)
{
	(void)why;
	if (socket)
		request_tell_queued(arg, request, socket);
}

/* Those without rows are of no interest. */
static struct over_request *over_of(const struct request_tracks *t, const struct step_request *r, uint32_t row)
{
	struct over_request *o = r->by_parts && request_feed_joins(t->rec->requests) ? malloc(sizeof(*o)) : NULL;

	if (o)
		*o = (struct over_request){ r->serial, r->tgid, row, t->file, r->start, r->last_end <= r->start };
	return o;
}

static void *on_done(struct step_request *r, void *arg)
{
	struct request_tracks *t = arg;
	struct live_request *l = find_live(t, r);
	uint32_t row = NO_ROW;

	if (l) {
		on_mixed(r, arg);
		HASH_DEL(t->live, l);
		row = request_tell(t, r, l);
		free(l);
	}
	return over_of(t, r, row);
}

/* ---- start and end ---- */

void request_tracks_step(struct request_tracks *t, const struct rec_step *r, uint32_t lane)
{
	if (!t)
		return;
	t->kept[r->number % STEPS_KEPT].number = r->number;
	t->kept[r->number % STEPS_KEPT].lane = lane;
	t->kept[r->number % STEPS_KEPT].file = t->file;
}

void request_tracks_rotate(struct request_tracks *t)
{
	if (!t)
		return;
	t->file++;
	memset(t->row_ids, 0, sizeof(t->row_ids));
	for (uint32_t i = 0; i < t->n_groups; i++)
		memset(t->groups[i].ids, 0, sizeof(t->groups[i].ids));
}

void request_tracks_finish(struct request_tracks *t)
{
	if (!t)
		return;
	for (uint32_t i = 0; i < t->n_groups; i++)
		tell_counts(t, i);
}

void request_tracks_free(struct request_tracks *t)
{
	struct live_request *l, *next;

	if (!t)
		return;
	HASH_ITER(hh, t->live, l, next)
	{
		HASH_DEL(t->live, l);
		free(l);
	}
	request_feed_remove(t->rec->requests, t);
	for (uint32_t i = 0; i < t->n_groups; i++)
		request_counts_clear(&t->groups[i].counts);
	free(t);
}

int request_tracks_new(const struct recording *rec, const struct request_tracks_ops *ops, void *arg,
	struct request_tracks **ret_tracks)
{
	static const struct request_reader_ops reader_ops = {
		.begin = on_begin,
		.part = on_part,
		.first = on_first,
		.step = on_step,
		.mixed = on_mixed,
		.done = on_done,
		.sequence = on_sequence,
	};
	struct request_tracks *t = NULL;

	if (!rec->requests) {
		*ret_tracks = NULL;
		return 0;
	}
	/* pages that are never touched are never allocated */
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	t->rec = rec;
	t->ops = ops;
	t->arg = arg;
	if (request_feed_add(rec->requests, &reader_ops, t)) {
		free(t);
		return -ENOMEM;
	}
	*ret_tracks = t;
	return 0;
}
