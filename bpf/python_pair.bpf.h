/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Steps that are two Python functions: one begins to compute a batch and returns, the other one waits for its results, and
 * its return ends the step. An engine that schedules the next batch meanwhile calls the first for a batch and the second for the batch
 * before it: the step is then that of the results. So what the first one has read of a batch waits for these. The batch is a list of
 * requests. Part of functions.bpf.c.
 */
#ifndef INFTRACE_PYTHON_PAIR_BPF_H
#define INFTRACE_PYTHON_PAIR_BPF_H

#include "python_values.bpf.h"

/* Adds the tokens of a request. */
static long python_request_take(u32 nr, struct python_take *w)
{
	struct rows *r = w->r;
	struct python_objects *o = &r->objects;
	u64 str = python_member(w->c, o, python_item(o, nr), PYTHON_NEW_ID), number;
	s64 tokens = o->lengths ? python_int(w->c, o, python_word(o->lengths + 8ull * nr)) : 1;
	int part;

	if (!str)
		return 1;
	o->hash = python_text_hash(w->c, o, str);
	part = tokens < 0 ? -1 : python_part(r, o->hash, 1);
	if (part < 0)
		return 1;
	if (part < STEP_PARTS_MAX) {
		number = python_id_number(w->t, w->c, o, str, 1);
		if (!number)
			return 1;
		python_part_at(r, part)->sequence = number;
		if (o->positions)
			python_part_at(r, part)->position = python_int(w->c, o, python_word(o->positions + 8ull * nr));
		part_add(r, part, tokens, 0);
	}
	r->read += tokens;
	return 0;
}

/* Reads who is in the batch, and keeps it for the results. */
__noinline int python_batch_queue(struct thread *t)
{
	struct python_take w;
	struct python_objects *o;
	struct row_parts *fresh;
	u64 batch, n;

	if (!t || !python_take_begin(t, &w, t->python_key))
		return 0;
	o = &w.r->objects;
	batch = python_variable(o, w.c->batch.batch);
	n = python_list_begin(o, python_member(w.c, o, batch, PYTHON_REQUESTS)) ? o->words[0] : 0;
	o->lengths = o->positions = 0;
	if (python_int(w.c, o, python_member(w.c, o, batch, PYTHON_MODE)) == w.c->batch.decodes) {
		o->total = n;
	} else {
		o->lengths = python_items_at(o, python_member(w.c, o, batch, PYTHON_LENGTHS), n);
		o->positions = python_items_at(o, python_member(w.c, o, batch, PYTHON_POSITIONS), n);
		if (!o->lengths)
			o->total = PYTHON_NO_INT;
	}
	if (n && n <= PYTHON_REQUESTS_MAX)
		bpf_loop(n, python_request_take, &w, 0);
	fresh = parts_of(w.r, PARTS_FRESH);
	fresh->same = python_member(w.c, o, batch, PYTHON_SAME);
	fresh->rows = o->total == (s64)w.r->read ? w.r->read : PYTHON_BATCH_UNREAD;
	fresh->ids = w.r->ids;
	if (w.r->queued) {
		w.r->queued = 2;
	} else {
		parts_move(w.r, PARTS_FRESH, PARTS_QUEUED);
		w.r->queued = 1;
	}
	return 0;
}

/* Whether an attribute is a number above 0. *ret_is: it is a number. */
static __always_inline bool python_positive(struct python_take *w, u64 object, u32 member, bool *ret_is)
{
	s64 n = python_int(w->c, &w->r->objects, python_member(w->c, &w->r->objects, object, member));

	*ret_is |= n != PYTHON_NO_INT;
	return n > 0;
}

static __always_inline struct row_part *python_step_part(struct rows *r, u64 part)
{
	barrier_var(part);
	return &parts_of(r, PARTS_STEP)->part[part & (STEP_PARTS_MAX - 1)];
}

/* Adds the token that a request gets, unless it gets none. */
static long python_result_take(u32 nr, struct python_take *w)
{
	struct rows *r = w->r;
	u64 object = python_item(&r->objects, nr);
	bool is = 0, more;

	if (!object)
		return 1;
	more = python_positive(w, object, PYTHON_MORE, &is);
	more |= python_positive(w, object, PYTHON_MORE_TOO, &is);
	r->objects.gave &= is;
	if (more || python_is(python_member(w->c, &r->objects, object, PYTHON_OVER), PYTHON_TYPE_IS_HEAP) ||
		python_positive(w, object, PYTHON_DROPPED, &is))
		return 0;
	r->outputs++;
	if (nr < STEP_PARTS_MAX)
		python_step_part(r, nr)->outputs = 1;
	return 0;
}

static long python_result_unknown(u32 i, struct python_take *w)
{
	python_step_part(w->r, i)->outputs = ROW_PART_UNKNOWN;
	return 0;
}

/* Takes a batch from the queue, and what is before it: after an error there are no results. Returns whether it is there: it is not if it
 * was begun before the window. */
static __always_inline bool python_queue_take(struct rows *r, u64 same)
{
	if (r->queued && parts_of(r, PARTS_QUEUED)->same == same) {
		parts_move(r, PARTS_QUEUED, PARTS_STEP);
		parts_move(r, PARTS_FRESH, PARTS_QUEUED);
		r->queued--;
		return 1;
	}
	if (r->queued < 2 || parts_of(r, PARTS_FRESH)->same != same)
		return 0;
	parts_move(r, PARTS_FRESH, PARTS_STEP);
	r->queued = 0;
	return 1;
}

/* Makes a batch that has waited for its results the step's. frame: of the function that has these. Returns whether there is one: an
 * engine may call the function without a batch. */
__noinline int python_batch_results(struct thread *t, u64 frame)
{
	struct python_take w;
	struct python_objects *o;
	struct row_parts *step;
	struct rows *r;

	if (!t || !python_take_begin(t, &w, t->python_key))
		return 0;
	r = w.r;
	o = &r->objects;
	o->variables = frame + w.c->frame_locals;
	o->number_at = 0;
	o->list = python_member(w.c, o, python_variable(o, w.c->batch.results), PYTHON_REQUESTS);
	if (!python_is(o->list, PYTHON_TYPE_IS_LIST))
		return 0;
	python_batch_none(t->step.vals);
	t->step.n_parts = t->step.parts_left = 0;
	python_list_begin(o, o->list);
	if (!python_queue_take(r, python_member(w.c, o, python_variable(o, w.c->batch.results), PYTHON_SAME)))
		return 1;
	step = parts_of(r, PARTS_STEP);
	t->step.vals[0] = t->step.vals[1 + ROW_READ] = step->rows;
	if (step->rows == PYTHON_BATCH_UNREAD)
		return 1;
	t->step.n_parts = step->n;
	t->step.parts_left = step->left;
	t->step.vals[1 + ROW_N_SEQUENCES] = step->ids;
	if (step->ids == 1)
		t->step.vals[1 + ROW_ONE_SEQUENCE] = python_step_part(r, 0)->sequence;
	r->outputs = 0;
	o->gave = 1;
	if (step->ids <= PYTHON_REQUESTS_MAX)
		bpf_loop(step->ids, python_result_take, &w, 0); /* requests that came into the list since are behind these */
	if (o->gave)
		t->step.vals[1 + ROW_N_OUTPUTS] = r->outputs;
	else
		bpf_loop(STEP_PARTS_MAX, python_result_unknown, &w, 0);
	return 1;
}

static long python_queued_match(u32 nr, struct python_take *w)
{
	u64 i = nr;

	barrier_var(i);
	w->r->objects.found = parts_of(w->r, PARTS_QUEUED)->part[i & (STEP_PARTS_MAX - 1)].sequence == w->r->objects.sequence;
	return w->r->objects.found;
}

static long python_over_take(u32 nr, struct python_take *w)
{
	struct rows *r = w->r;
	struct python_objects *o = &r->objects;

	if (!python_is(python_member(w->c, o, python_item(o, nr), PYTHON_OVER), PYTHON_TYPE_IS_HEAP))
		return 0;
	o->sequence = python_step_part(r, nr)->sequence;
	o->found = 0;
	if (r->queued) /* a batch that was begun before this was known may have it once more, in vain */
		bpf_loop(parts_of(r, PARTS_QUEUED)->n, python_queued_match, w, 0);
	if (!o->found)
		python_sequence_send(w->t, o, 0, w->t->python_probe + PYTHON_SEQUENCE_ENDS);
	return 0;
}

/* Tells which requests are over. The step has been sent, so that its rows are before that. */
__noinline int python_batch_over(struct thread *t)
{
	struct python_take w;

	if (!t || !t->step.n_parts || !python_take_begin(t, &w, t->python_key) || !w.c->batch.results)
		return 0;
	w.r->objects.number_at = 0;
	if (python_list_begin(&w.r->objects, w.r->objects.list))
		bpf_loop(t->step.n_parts, python_over_take, &w, 0);
	return 0;
}

/* Whether the call counts, which probe and watchpoint both may see: the probe first. */
static __always_inline bool python_pair_counts(struct python_watched *w, struct thread *t, const struct python_call *call)
{
	bool live = w && w->state == PYTHON_WATCH_LIVE, seen;

	python_note_call(w, call);
	if (!w || call->by == PYTHON_BY_PROBE) {
		if (!live)
			t->python_seen = call->frame;
		return !live;
	}
	seen = t->python_seen == call->frame; /* its probe counted */
	t->python_seen = 0;
	if (call->what == PYTHON_HAS_RESULTS)
		python_watch_begun(w, t, call->frame);
	return live && !seen;
}

/* Makes room for a batch: if there are two, the results of the older one did not come. */
static __always_inline void python_queue_shift(void)
{
	struct rows *r = bpf_task_storage_get(&rows, bpf_get_current_task_btf(), 0, 0);

	if (!r || r->queued < 2)
		return;
	parts_move(r, PARTS_FRESH, PARTS_QUEUED);
	r->queued = 1;
}

/* The window is closed: further batches, or their results, are not read. */
static __always_inline void python_queue_drop(void)
{
	struct rows *r = bpf_task_storage_get(&rows, bpf_get_current_task_btf(), 0, 0);

	if (r)
		r->queued = 0;
}

/* A step is in flight, and this is one of its calls. */
static __always_inline bool python_pair_goes_on(struct thread *t, const struct python_call *call)
{
	return t->python_frame && t->python_probe == call->id && frame_find(t, t->python_sp, t->python_probe);
}

/* The call belongs to the step in flight. */
static __always_inline void python_pair_called(struct thread *t, const struct probe *p, const struct python_call *call, u64 sp, bool open)
{
	bool ends = call->what == PYTHON_HAS_RESULTS;

	if (ends && open && !python_batch_results(t, call->frame))
		return;
	t->python_frame = ends ? call->frame : PYTHON_NO_FRAME;
	t->python_end_sp = ends ? sp : 0;
	if (!open) {
		python_queue_drop();
	} else if (!ends) {
		python_queue_shift();
		python_batch_begin(t, p, call->frame);
		python_batch_queue(t);
		python_scheduler_take(t, call->frame);
	}
}

#endif
