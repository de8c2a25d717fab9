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

/* How many tokens a request has got, by its number. Full: of the one that was not seen for longest that is not known, and its next step's
 * tokens are not. */
struct python_given {
	u64 unbroken; /* as the thread's: what was given since then was seen */
	u64 tokens;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, u64);
	__type(value, struct python_given);
} python_given __weak SEC(".maps");

/* The results of a batch are not counted: how many tokens its requests have is read once more as they are in another one. */
static __always_inline void python_given_break(struct python_objects *o)
{
	o->unbroken = now_ns();
}

/* How many tokens a request has got since the last time; PYTHON_NO_INT: that is not known. */
__noinline s64 python_given_since(struct python_objects *o, u64 sequence, u64 tokens)
{
	struct python_given *last, now = {};
	s64 since = PYTHON_NO_INT;

	if (!o)
		return PYTHON_NO_INT;
	last = bpf_map_lookup_elem(&python_given, &sequence);
	now.unbroken = o->unbroken;
	now.tokens = tokens;
	if (!last) {
		bpf_map_update_elem(&python_given, &sequence, &now, BPF_ANY);
		return PYTHON_NO_INT;
	}
	if (last->unbroken == now.unbroken && tokens >= last->tokens)
		since = tokens - last->tokens;
	*last = now;
	return since;
}

static __always_inline bool python_given_known(struct python_objects *o, u64 sequence)
{
	struct python_given *last = bpf_map_lookup_elem(&python_given, &sequence);

	return last && last->unbroken == o->unbroken;
}

/* The number of tokens that a request has, or PYTHON_NO_INT. */
__noinline s64 python_given_to(const struct python_calls *c, struct python_objects *o, u64 object)
{
	u64 list = python_member(c, o, object, PYTHON_GIVEN);

	if (!o || !list || !python_near(o, list + PYTHON_TYPE)) /* without a type it cannot be read: it may have none */
		return PYTHON_NO_INT;
	return python_near(o, list + PYTHON_LIST_SIZE);
}

/* Adds the tokens of a request. */
static long python_request_take(u32 nr, struct python_take *w)
{
	struct rows *r = w->r;
	struct python_objects *o = &r->objects;
	u64 str = python_member(w->c, o, python_item(o, nr), PYTHON_NEW_ID), number;
	s64 tokens = o->lengths ? python_int(w->c, o, python_near(o, o->lengths + 8ull * nr)) : 1;
	int part;

	if (!str)
		return 1;
	o->hash = python_text_hash(w->c, o, str);
	part = tokens < 0 ? -1 : python_part(r, o->hash, 1);
	if (part < 0)
		return 1;
	if (part < STEP_PARTS_MAX) {
		number = python_request_kept(r, o->hash);
		if (!number || o->unbroken != o->unbroken_before) {
			number = python_id_number(w->t, w->c, o, str, 1);
			if (!number)
				return 1;
			if (!python_given_known(o, number))
				python_given_since(o, number, python_given_to(w->c, o, python_item(o, nr)));
		}
		*python_request_at(r, part) = (struct python_request){ .hash = o->hash, .number = number };
		python_part_at(r, part)->sequence = number;
		if (o->positions)
			python_part_at(r, part)->position = python_int(w->c, o, python_near(o, o->positions + 8ull * nr));
		part_add(r, part, tokens, 0);
	}
	r->read += tokens;
	return 0;
}

/* Finds how many tokens of n requests are computed. */
__noinline int python_batch_lengths(const struct python_calls *c, struct python_objects *o, u64 batch, u64 n)
{
	if (!c || !o)
		return 0;
	o->lengths = o->positions = 0;
	if (python_int(c, o, python_member(c, o, batch, PYTHON_MODE)) == c->batch.decodes) {
		o->total = n;
		return 0;
	}
	o->lengths = python_items_at(o, python_member(c, o, batch, PYTHON_LENGTHS), n);
	o->positions = python_items_at(o, python_member(c, o, batch, PYTHON_POSITIONS), n);
	if (!o->lengths)
		o->total = PYTHON_NO_INT;
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
	n = python_list_begin(o, python_member(w.c, o, batch, PYTHON_REQUESTS)) ? o->left : 0;
	python_batch_lengths(w.c, o, batch, n);
	if (n && n <= PYTHON_REQUESTS_MAX)
		bpf_loop(n, python_request_take, &w, 0);
	o->unbroken_before = o->unbroken;
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

static __always_inline struct row_part *python_step_part(struct rows *r, u64 part)
{
	barrier_var(part);
	return &parts_of(r, PARTS_STEP)->part[part & (STEP_PARTS_MAX - 1)];
}

static long python_given_take(u32 nr, struct python_take *w)
{
	struct rows *r = w->r;
	struct python_objects *o = &r->objects;
	u64 object = python_item(o, nr);
	s64 tokens = python_given_to(w->c, o, object), since;

	python_request_at(r, nr)->over = python_is(o, python_member(w->c, o, object, PYTHON_OVER), PYTHON_TYPE_IS_HEAP);
	since = tokens < 0 ? PYTHON_NO_INT : python_given_since(o, python_step_part(r, nr)->sequence, tokens);
	if (since < 0 || since >= ROW_PART_UNKNOWN) {
		o->gave = 0;
		python_step_part(r, nr)->outputs = ROW_PART_UNKNOWN;
		return 0;
	}
	python_step_part(r, nr)->outputs = since;
	r->outputs += since;
	return 0;
}

/* Of a batch that was begun before the window, or could not be read: its requests are those of the next one, too. o->left: how many
 * of them are to come. */
static long python_given_reread(u32 nr, struct python_take *w)
{
	struct python_objects *o = &w->r->objects;
	u64 object = python_item(o, nr), str = python_member(w->c, o, object, PYTHON_NEW_ID), number;

	if (!str)
		return 1;
	o->hash = python_text_hash(w->c, o, str);
	number = python_id_number(w->t, w->c, o, str, 0);
	if (number)
		python_given_since(o, number, python_given_to(w->c, o, object));
	o->left--;
	return 0;
}

/* The function with the results returns: how many tokens each request has got in the step, also before this function was called, as
 * with speculative decoding. */
__noinline int python_batch_given(struct thread *t)
{
	struct python_take w = {};
	struct python_objects *o;
	u32 key;

	if (!t)
		return 0;
	key = t->python_key;
	w.c = bpf_map_lookup_elem(&python_calls, &key);
	if (!w.c || !w.c->batch.results || !python_take_begin(t, &w, key))
		return 0;
	o = &w.r->objects;
	w.r->outputs = 0;
	o->gave = !t->step.parts_left;
	python_objects_begin(o);
	python_list_begin(o, o->list);
	if (!t->step.n_parts) {
		bpf_loop(PYTHON_ITEMS, python_given_reread, &w, 0);
		if (o->left)
			python_given_break(o);
		return 0;
	}
	bpf_loop(t->step.n_parts, python_given_take, &w, 0); /* requests that came into the list since are behind these */
	t->step.vals[1 + ROW_N_OUTPUTS] = o->gave ? w.r->outputs : ROW_UNKNOWN;
	if (t->step.parts_left)
		python_given_break(o);
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
	python_objects_begin(o);
	o->variables = frame + w.c->frame_locals;
	o->list = python_member(w.c, o, python_variable(o, w.c->batch.results), PYTHON_REQUESTS);
	if (!python_is(o, o->list, PYTHON_TYPE_IS_LIST))
		return 0;
	python_batch_none(t->step.vals);
	t->step.n_parts = t->step.parts_left = 0;
	__builtin_memset(t->step.scheduler, 0, sizeof(t->step.scheduler));
	python_list_begin(o, o->list);
	if (!python_queue_take(r, python_member(w.c, o, python_variable(o, w.c->batch.results), PYTHON_SAME)))
		return 1;
	step = parts_of(r, PARTS_STEP);
	__builtin_memcpy(t->step.scheduler, step->scheduler, sizeof(step->scheduler));
	t->step.vals[0] = t->step.vals[1 + ROW_READ] = step->rows;
	if (step->rows == PYTHON_BATCH_UNREAD)
		return 1;
	t->step.n_parts = step->n;
	t->step.parts_left = step->left;
	t->step.vals[1 + ROW_N_SEQUENCES] = step->ids;
	if (step->ids == 1)
		t->step.vals[1 + ROW_ONE_SEQUENCE] = python_step_part(r, 0)->sequence;
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

	if (!python_request_at(r, nr)->over)
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
	python_given_break(&r->objects);
	parts_move(r, PARTS_FRESH, PARTS_QUEUED);
	r->queued = 1;
}

/* The window is closed: further batches, or their results, are not read. */
static __always_inline void python_queue_drop(void)
{
	struct rows *r = bpf_task_storage_get(&rows, bpf_get_current_task_btf(), 0, 0);

	if (!r)
		return;
	r->queued = 0;
	python_given_break(&r->objects);
}

/* The call whose return ends the step in flight returns. */
static __always_inline void python_results_over(struct thread *t, bool open)
{
	if (open)
		python_batch_given(t);
	else
		python_queue_drop();
}

/* What the scheduler says belongs to the batch that it has just begun. */
static __always_inline void python_queue_scheduler(struct thread *t)
{
	struct rows *r = bpf_task_storage_get(&rows, bpf_get_current_task_btf(), 0, 0);

	if (r)
		__builtin_memcpy(parts_of(r, r->queued > 1 ? PARTS_FRESH : PARTS_QUEUED)->scheduler, t->step.scheduler, sizeof(t->step.scheduler));
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
		python_queue_scheduler(t);
	}
}

#endif
