/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The rows of a step whose batch is a Python object: struct python_batch. They are read where the engine calls a function
 * that has it as an argument, within the step. A step whose rows do not add up to the total that the engine says has none. Part of
 * functions.bpf.c.
 *
 * When a request arrived is kept by its id, which has no number yet.
 *
 * A request's sequence is a number that its id gets when it is first seen in a process. The id itself is sent then, as a call of
 * the probe behind the step's; the one after that tells of requests that are over.
 */
#ifndef INFTRACE_PYTHON_BATCH_BPF_H
#define INFTRACE_PYTHON_BATCH_BPF_H

#include "python_objects.bpf.h"

#define PYTHON_REQUESTS_MAX ROW_IDS /* of a batch; one with more has no rows */
#define PYTHON_SLOTS_MAX 1024 /* of a set */

/* Numbers of ids. Full: the one that was not seen for longest is forgotten, and gets another number if it is seen again. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct python_id);
	__type(value, u64);
} python_ids __weak SEC(".maps");

u64 n_python_ids = 0;

/* When requests arrived, by the text of their ids. Full: for the one that arrived first, it is unknown. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct python_id);
	__type(value, u64);
} python_arrivals __weak SEC(".maps");

/* Added to the id of the step's probe: the probes whose calls tell of a sequence. */
enum python_tells {
	PYTHON_SEQUENCE = 1,
	PYTHON_SEQUENCE_ENDS = 2,
	PYTHON_SEQUENCE_SENT = 3, /* has the id alone: it has no number yet, and its engine may be another process */
};

/* Sends a call of the probe, with the sequence and the arrival from *o, and the id at `str`; or if that is 0, with the sequence
 * alone. */
__noinline int python_sequence_send(struct thread *t, struct python_objects *o, u64 str, u32 probe)
{
	u64 tgid_tid = bpf_get_current_pid_tgid();
	struct strings *s;
	u32 slot;

	if (!t || !o)
		return 0;
	s = bpf_task_storage_get(&strings, bpf_get_current_task_btf(), 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!s)
		return 0;
	hdr_fill(&s->out.h, REC_FUNCTION, now_ns(), 0, tgid_tid >> 32, (u32)tgid_tid, probe, 0);
	s->out.step = thread_step(t);
	s->out.off_cpu_ns = 0;
	s->out.vals[0] = o->sequence;
	if (!str) {
		emit(&s->out, REC_FUNCTION_SIZE(1), REC_FUNCTION);
		return 0;
	}
	s->out.vals[1] = o->arrived ? s->out.h.start_ns - o->arrived : ~0ull;
	s->out.vals[2] = str;
	slot = t->depth;
	slot = slot < FRAMES_MAX ? slot : FRAMES_MAX - 1;
	if (bpf_probe_read_user_str(s->slots[slot].s[0], FUNC_STR_LEN, (void *)str) < 0)
		s->slots[slot].s[0][0] = 0;
	return emit_strings(s, slot, 3);
}

/* Whether an id is text that can be sent as it lies there. */
static __always_inline bool python_is_plain(const struct python_calls *c, u64 str)
{
	return str && python_word(python_word(str + PYTHON_TYPE) + PYTHON_TYPE_FLAGS) & PYTHON_TYPE_IS_STR &&
	       (python_byte(str + c->str_state) & PYTHON_STR_COMPACT_ASCII) == PYTHON_STR_COMPACT_ASCII;
}

/* The number of the request with an id of this hash; 0: unknown. make: it gets one. */
__noinline u64 python_id_number(struct thread *t, const struct python_calls *c, struct python_objects *o, u64 str, bool make)
{
	struct python_id id = { .tgid = bpf_get_current_pid_tgid() >> 32 }; /* 6.1 takes keys and values from the stack alone */
	u64 *known, number;

	if (!t || !c || !o || !o->hash)
		return 0;
	id.hash = o->hash;
	known = bpf_map_lookup_elem(&python_ids, &id);
	if (known)
		return *known;
	if (!make || !python_is_plain(c, str))
		return 0;
	number = __sync_fetch_and_add(&n_python_ids, 1) + 1;
	if (bpf_map_update_elem(&python_ids, &id, &number, BPF_ANY))
		return 0;
	id.hash = python_text_hash(c, o, str);
	known = bpf_map_lookup_elem(&python_arrivals, &id);
	o->arrived = known ? *known : 0;
	o->sequence = number;
	python_sequence_send(t, o, str + c->str_data, t->python_probe + PYTHON_SEQUENCE);
	return o->sequence;
}

struct python_take {
	struct thread *t;
	const struct python_calls *c;
	struct rows *r;
};

/* The part of a request in the step that is read, by the hash of its id. Negative: there is none. */
__noinline int python_part(struct rows *r, u64 hash, bool make)
{
	return r && hash ? row_id(r, hash, make, 2 * ROW_TRIES) : -1;
}

static __always_inline struct row_part *python_part_at(struct rows *r, u64 part)
{
	barrier_var(part);
	return &parts_of(r, PARTS_FRESH)->part[part & (STEP_PARTS_MAX - 1)];
}

static __always_inline struct python_request *python_request_at(struct rows *r, u64 part)
{
	barrier_var(part);
	return &r->requests[part & (STEP_PARTS_MAX - 1)];
}

#define PYTHON_NUMBER_KEPT 8 /* batches for which the number of a request is believed: the map forgets those that are not looked up */

/* The number of a request that was in the batch before, at the same place or at the next one, as most are; 0: look it up. */
static __always_inline u64 python_request_kept(struct rows *r, u64 hash)
{
	struct python_objects *o = &r->objects;
	u64 next = o->next;

	for (int i = 0; i < 2; i++) {
		struct python_request *of = python_request_at(r, next + i);

		if (of->hash != hash)
			continue;
		o->next = next + i + 1;
		return (next ^ r->round) % PYTHON_NUMBER_KEPT ? of->number : 0;
	}
	return 0;
}

static long python_tokens_take(u32 nr, struct python_take *w)
{
	struct rows *r = w->r;
	u64 key, value, hash, number;
	s64 tokens;
	int part;

	if (!python_dict_next(&r->objects, &key, &value))
		return 1;
	if (!value)
		return 0;
	hash = python_hash(&r->objects, key);
	tokens = python_int(w->c, &r->objects, value);
	part = tokens < 0 ? -1 : python_part(r, hash, 1);
	if (part < 0)
		return 1;
	if (part < STEP_PARTS_MAX) {
		r->objects.hash = hash;
		number = python_request_kept(r, hash);
		if (!number)
			number = python_id_number(w->t, w->c, &r->objects, key, 1);
		if (!number)
			return 1;
		python_part_at(r, part)->sequence = number;
		part_add(r, part, tokens, 0);
		*python_request_at(r, part) = (struct python_request){ .id = key, .hash = hash, .number = number };
	}
	r->read += tokens;
	return 0;
}

/* The part of a request, which has most likely the next place, and often the same object as id. */
static __always_inline int python_part_of(struct rows *r, u64 str)
{
	u64 next = r->objects.next, hash = 0;
	struct python_request *of = python_request_at(r, next);
	int part = next;

	if (next >= parts_of(r, PARTS_FRESH)->n || of->id != str) {
		hash = python_hash(&r->objects, str);
		if (next >= parts_of(r, PARTS_FRESH)->n || of->hash != hash)
			part = python_part(r, hash, 0);
	}
	r->objects.next = part + 1;
	return part;
}

/* How many tokens a request has got: the length of the list of its number. */
static __always_inline u64 python_outputs_of(struct rows *r, s64 i)
{
	u64 list = python_item(&r->objects, i);

	return list ? python_near(&r->objects, list + PYTHON_LIST_SIZE) : 0;
}

static long python_outputs_take(u32 nr, struct python_take *w)
{
	struct rows *r = w->r;
	u64 key, value, n;
	int part;

	if (!python_dict_next(&r->objects, &key, &value))
		return 1;
	n = value ? python_outputs_of(r, python_int(w->c, &r->objects, value)) : 0;
	if (!n || n >= ROW_PART_UNKNOWN)
		return 0;
	part = python_part_of(r, key);
	if (part < 0 || !python_is_alive(&r->objects, part < STEP_PARTS_MAX ? python_request_at(r, part)->id : key))
		return 0;
	part_add(r, part, 0, n);
	r->outputs += n;
	return 0;
}

/* The requests that are new begin behind their cached tokens; and those of a list in which each tells whether it was preempted. */
static long python_new_take(u32 nr, struct python_take *w)
{
	struct rows *r = w->r;
	u64 object;
	s64 cached;
	int part;

	object = python_item(&r->objects, nr);
	if (!object)
		return 1;
	if (r->objects.lengths && python_int(w->c, &r->objects, python_member(w->c, &r->objects, object, PYTHON_RESUMED_TOO)) <= 0)
		return 0;
	cached = python_int(w->c, &r->objects, python_member(w->c, &r->objects, object, PYTHON_NEW_CACHED));
	part = python_part(r, python_hash(&r->objects, python_member(w->c, &r->objects, object, PYTHON_NEW_ID)), 0);
	if (cached >= 0 && part >= 0 && part < STEP_PARTS_MAX)
		python_part_at(r, part)->position = cached;
	return 0;
}

/* Marks a request that was preempted. */
static long python_resumed_mark(u32 nr, struct python_take *w)
{
	struct rows *r = w->r;
	int part;

	if (nr >= r->objects.n)
		return 1;
	part = python_part(r, python_hash(&r->objects, python_near(&r->objects, r->objects.entries + 16ull * nr)), 0);
	if (part >= 0 && part < STEP_PARTS_MAX)
		python_part_at(r, part)->position = 0;
	return 0;
}

/* A marked one, or one with a flag, goes on behind the tokens that it still has: o->positions of all, o->lengths with their flags. */
static long python_resumed_place(u32 nr, struct python_take *w)
{
	struct rows *r = w->r;
	struct python_objects *o = &r->objects;
	struct row_part *at;
	s64 computed;
	int part;

	if (nr >= o->items)
		return 1;
	if (o->lengths && python_int(w->c, o, python_near(o, o->lengths + 8ull * nr)) <= 0)
		return 0;
	part = python_part(r, python_hash(o, python_item(o, nr)), 0);
	if (part < 0 || part >= STEP_PARTS_MAX)
		return 0;
	at = python_part_at(r, part);
	if (!o->lengths && at->position)
		return 0;
	computed = python_int(w->c, o, python_near(o, o->positions + 8ull * nr));
	if (at->sequence >= o->first_new) /* it began before the recording */
		at->position = -1;
	else if (computed >= 0)
		at->position = computed;
	return 0;
}

static long python_finished_take(u32 nr, struct python_take *w)
{
	struct rows *r = w->r;
	u64 str, number;

	if (nr >= r->objects.n)
		return 1;
	str = python_near(&r->objects, r->objects.entries + 16ull * nr);
	r->objects.hash = python_hash(&r->objects, str);
	number = python_id_number(w->t, w->c, &r->objects, str, 0);
	if (!number)
		return 0;
	r->objects.sequence = number;
	python_sequence_send(w->t, &r->objects, 0, w->t->python_probe + PYTHON_SEQUENCE_ENDS);
	return 0;
}

static __always_inline u64 python_variable(struct python_objects *o, u32 i)
{
	return python_near(o, o->variables + 8 * i) & ~PYTHON_TAGS;
}

/* self. Up to 3.10 it is in a cell behind the variables if a comprehension uses it: in the first one, as functions with a batch
 * have it. CPython: Include/cpython/code.h, Include/cpython/cellobject.h. */
#define PYTHON_CODE_VARIABLES 24 /* in the upper half of the word: how many */
#define PYTHON_CELL 16
#define PYTHON_CELL_NAME 0x6c6c6563 /* "cell" */

/* From 3.13 on a variable that inner functions use is in a cell once the function is seen to begin. Returns what is in there. */
__noinline u64 python_uncelled(struct python_objects *o, u64 object)
{
	u64 type, name;

	if (!o || !object)
		return 0;
	type = python_near(o, object + PYTHON_TYPE);
	if (type == o->no_cell)
		return object;
	if (type != o->cell) {
		name = python_word(python_word(type + PYTHON_TYPE_NAME));
		if ((name & 0xffffffffff) != PYTHON_CELL_NAME || python_word(type + PYTHON_TYPE_FLAGS) & PYTHON_TYPE_IS_HEAP) {
			o->no_cell = type;
			return object;
		}
		o->cell = type;
	}
	return python_word(object + PYTHON_CELL);
}

static __always_inline u64 python_self_of(const struct python_calls *c, struct python_objects *o)
{
	u64 self = python_variable(o, 0), code;

	if (self || !c->old_keys)
		return self;
	code = python_near(o, o->variables - c->frame_locals + c->frame_code);
	return python_near(o, python_variable(o, python_near(o, code + PYTHON_CODE_VARIABLES) >> 32) + PYTHON_CELL);
}

static __always_inline bool python_take_begin(struct thread *t, struct python_take *w, u32 key)
{
	w->t = t;
	w->c = bpf_map_lookup_elem(&python_calls, &key);
	w->r = bpf_task_storage_get(&rows, bpf_get_current_task_btf(), 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	return w->c && w->r;
}

/* frame: of the function that has the batch. */
__noinline int python_batch_begin(struct thread *t, const struct probe *p, u64 frame)
{
	struct python_take w;
	struct python_objects *o;

	if (!t || !p || !python_take_begin(t, &w, t->python_key))
		return 0;
	for (int i = 0; i < ROW_COLUMNS; i++)
		w.r->array[i] = 0;
	parts_of(w.r, PARTS_FRESH)->n = parts_of(w.r, PARTS_FRESH)->left = 0;
	rows_begin(w.r, p, 0);
	o = &w.r->objects;
	python_objects_begin(o);
	o->variables = frame + w.c->frame_locals;
	o->next = 0;
	o->first_new = READ_ONCE(n_python_ids) + 1;
	o->total = python_int(w.c, o, python_member(w.c, o, python_variable(o, w.c->batch.batch), PYTHON_TOTAL));
	return 0;
}

/* Reads who is in the batch. */
__noinline int python_batch_requests(struct thread *t)
{
	struct python_take w;
	struct python_objects *o;

	if (!t || !python_take_begin(t, &w, t->python_key))
		return 0;
	o = &w.r->objects;
	if (python_dict_begin(w.c, o, python_member(w.c, o, python_variable(o, w.c->batch.batch), PYTHON_TOKENS)))
		bpf_loop(PYTHON_REQUESTS_MAX, python_tokens_take, &w, 0);
	return 0;
}

/* Reads which of them are new. */
__noinline int python_batch_new(struct thread *t)
{
	struct python_take w;
	struct python_objects *o;

	if (!t || !python_take_begin(t, &w, t->python_key))
		return 0;
	o = &w.r->objects;
	o->lengths = 0;
	if (python_list_begin(o, python_member(w.c, o, python_variable(o, w.c->batch.batch), PYTHON_NEW)))
		bpf_loop(PYTHON_ITEMS, python_new_take, &w, 0);
	return 0;
}

/* Reads which of them were preempted, and where they go on. */
__noinline int python_batch_resumed(struct thread *t)
{
	struct python_take w;
	struct python_objects *o;
	u64 known, set, ids;

	if (!t || !python_take_begin(t, &w, t->python_key))
		return 0;
	o = &w.r->objects;
	known = python_member(w.c, o, python_variable(o, w.c->batch.batch), PYTHON_KNOWN);
	if (!known)
		return 0;
	if (python_is(o, known, PYTHON_TYPE_IS_LIST)) {
		o->lengths = 1;
		if (python_list_begin(o, known))
			bpf_loop(PYTHON_ITEMS, python_new_take, &w, 0);
		return 0;
	}
	set = python_member(w.c, o, known, PYTHON_RESUMED);
	if (set && !python_set_begin(o, set))
		return 0;
	if (set)
		bpf_loop(PYTHON_SLOTS_MAX, python_resumed_mark, &w, 0);
	ids = python_member(w.c, o, known, PYTHON_KNOWN_IDS);
	if (!python_list_begin(o, ids))
		return 0;
	o->lengths = set ? 0 : python_items_at(o, python_member(w.c, o, known, PYTHON_RESUMED_TOO), o->items);
	o->positions = python_items_at(o, python_member(w.c, o, known, PYTHON_NEW_CACHED), o->items);
	if (o->positions && (set || o->lengths))
		bpf_loop(PYTHON_ITEMS, python_resumed_place, &w, 0);
	return 0;
}

/* Reads which tokens the step gave. An engine may have them in something else than lists in another release. */
__noinline int python_batch_outputs(struct thread *t)
{
	struct python_take w;
	struct python_objects *o;
	u64 outputs, lists;

	if (!t || !python_take_begin(t, &w, t->python_key))
		return 0;
	o = &w.r->objects;
	o->gave = 0;
	if (!w.c->batch.outputs)
		return 0;
	outputs = python_variable(o, w.c->batch.outputs);
	python_alive_begin(w.c, o, python_member(w.c, o, python_self_of(w.c, o), PYTHON_ALIVE));
	if (w.c->batch.len[PYTHON_ALIVE] && !o->alive)
		return 0;
	lists = python_member(w.c, o, outputs, PYTHON_OUTPUTS);
	if (!python_list_begin(o, lists)) {
		o->gave = python_is(o, lists, PYTHON_TYPE_IS_LIST); /* none */
		return 0;
	}
	if (!python_is(o, python_item(o, 0), PYTHON_TYPE_IS_LIST) ||
		!python_dict_begin(w.c, o, python_member(w.c, o, outputs, PYTHON_OUTPUT_INDEX)))
		return 0;
	o->gave = 1;
	o->next = 0;
	bpf_loop(PYTHON_REQUESTS_MAX, python_outputs_take, &w, 0);
	return 0;
}

/* Reads which requests were over before the step. */
__noinline int python_batch_finished(struct thread *t)
{
	struct python_take w;
	struct python_objects *o;
	u64 finished;

	if (!t || !python_take_begin(t, &w, t->python_key))
		return 0;
	o = &w.r->objects;
	finished = python_member(w.c, o, python_variable(o, w.c->batch.batch), PYTHON_FINISHED);
	if (python_set_begin(o, finished))
		bpf_loop(PYTHON_SLOTS_MAX, python_finished_take, &w, 0);
	return 0;
}

/* The thread calls a function that has a request, which arrives with it. */
__noinline int python_arrival_take(struct thread *t, u64 frame, u32 key)
{
	struct python_id id = { .tgid = bpf_get_current_pid_tgid() >> 32 };
	struct python_take w;
	struct python_objects *o;
	u64 str, now;

	if (!t || !python_take_begin(t, &w, key))
		return 0;
	o = &w.r->objects;
	python_objects_begin(o);
	o->variables = frame + w.c->frame_locals;
	str = python_member(w.c, o, python_variable(o, w.c->batch.arrival), PYTHON_ARRIVED);
	if (!str)
		return 0;
	id.hash = python_text_hash(w.c, o, str);
	now = now_ns();
	bpf_map_update_elem(&python_arrivals, &id, &now, BPF_ANY);
	return 0;
}

/* The thread calls a function that has a request, which is passed on. */
__noinline int python_sent_take(struct thread *t, u64 frame, u32 key, u32 id)
{
	struct python_take w;
	struct python_objects *o;
	u64 str;

	if (!t || !python_take_begin(t, &w, key))
		return 0;
	o = &w.r->objects;
	python_objects_begin(o);
	o->variables = frame + w.c->frame_locals;
	o->arrived = o->sequence = 0;
	str = python_variable(o, w.c->batch.sent);
	if (w.c->batch.len[PYTHON_SENT])
		str = python_member(w.c, o, str, PYTHON_SENT);
	if (str && python_is_plain(w.c, str))
		python_sequence_send(t, o, str + w.c->str_data, id + PYTHON_SEQUENCE_SENT);
	return 0;
}

/* What is known of a step before its batch is read, and if there is none. The number of rows is the first value. */
static __always_inline void python_batch_none(u64 *vals)
{
	vals[0] = PYTHON_NO_BATCH;
	vals[1 + ROW_N_OUTPUTS] = vals[1 + ROW_N_SEQUENCES] = vals[1 + ROW_ONE_SEQUENCE] = ROW_UNKNOWN;
	vals[1 + ROW_MASK] = 0;
	vals[1 + ROW_FIRST_POSITION] = ROW_UNKNOWN;
	vals[1 + ROW_READ] = PYTHON_NO_BATCH;
}

static long python_part_unknown(u32 i, struct python_take *w)
{
	python_part_at(w->r, i)->outputs = ROW_PART_UNKNOWN;
	return 0;
}

/* Makes what was read the rows of the step, if it adds up to the total. */
__noinline int python_batch_end(struct thread *t)
{
	struct python_take w;
	struct rows *r;

	if (!t || !python_take_begin(t, &w, t->python_key))
		return 0;
	r = w.r;
	python_batch_none(t->step.vals);
	t->step.vals[0] = r->objects.total < 0 ? PYTHON_BATCH_UNREAD : r->objects.total;
	t->step.vals[1 + ROW_READ] = r->read;
	if (r->objects.total != (s64)r->read) {
		parts_of(r, PARTS_FRESH)->n = 0;
	} else {
		t->step.vals[1 + ROW_N_OUTPUTS] = r->objects.gave ? r->outputs : ROW_UNKNOWN;
		if (!r->objects.gave)
			bpf_loop(parts_of(r, PARTS_FRESH)->n, python_part_unknown, &w, 0);
		t->step.vals[1 + ROW_N_SEQUENCES] = r->ids;
		if (r->ids == 1)
			t->step.vals[1 + ROW_ONE_SEQUENCE] = python_part_at(r, 0)->sequence;
	}
	parts_take(t, r);
	return 0;
}

/* The thread calls the function that has the batch of its step in flight; frame: of that call. */
static __always_inline void python_batch_take(struct thread *t, const struct probe *p, u64 frame)
{
	python_batch_begin(t, p, frame);
	python_batch_requests(t);
	python_batch_resumed(t);
	python_batch_new(t);
	python_batch_outputs(t);
	python_batch_finished(t);
	python_batch_end(t);
}

#endif
