/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Arguments of steps that are calls of Python functions: struct python_values. They are read as the step begins, from objects that
 * the variables of the function lead to. Part of functions.bpf.c.
 */
#ifndef INFTRACE_PYTHON_VALUES_BPF_H
#define INFTRACE_PYTHON_VALUES_BPF_H

#include "python_batch.bpf.h"

/* By number of the option: see struct python_calls. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PYTHON_CALLS_MAX);
	__type(key, u32);
	__type(value, struct python_values);
} python_values __weak SEC(".maps");

/* CPython: Include/cpython/listobject.h, longintrepr.h, setobject.h, object.h. */
#define PYTHON_SIZE 16 /* of what has a length: lists, tuples, dicts, strings, bytes */
#define PYTHON_LIST_ITEMS 24
#define PYTHON_INT_BITS 30 /* of a digit */
#define PYTHON_TYPE_BASE 256
#define PYTHON_TYPE_IS_INT (1 << 24)
#define PYTHON_TYPE_IS_TUPLE (1 << 26)
#define PYTHON_TYPE_IS_BYTES (1 << 27)
#define PYTHON_TYPE_IS_DICT (1 << 29)
#define PYTHON_TYPE_HAS_SIZE (PYTHON_TYPE_IS_LIST | PYTHON_TYPE_IS_TUPLE | PYTHON_TYPE_IS_BYTES | PYTHON_TYPE_IS_STR | PYTHON_TYPE_IS_DICT)
#define PYTHON_VARIABLES_MAX 64 /* of a function; further ones are unknown */
#define PYTHON_BASES_MAX 8	/* of a type, likewise */

/* NumPy: struct tagPyArrayObject_fields. PyTorch: struct THPVariable; its tensor is, or follows a flag: it is another variable's. */
#define NUMPY_DIMENSIONS 24 /* how many, and their address */
#define TORCH_TENSOR 16
#define TORCH_DIMENSIONS_MAX 64

enum python_kind {
	PYTHON_KIND_NONE,
	PYTHON_KIND_SET,
	PYTHON_KIND_SIZED, /* its length is at PYTHON_SIZE */
	PYTHON_KIND_ARRAY,
	PYTHON_KIND_TENSOR,
	PYTHON_KIND_OTHER,
};

/* Types known by their names, or by that of a type that they are derived from. Classes in Python have names without a point, and may
 * be called as those that are built in. */
static const struct {
	struct python_text name;
	u32 kind;
	bool built_in;
} python_kinds[] = {
	{ { .text = "NoneType" }, PYTHON_KIND_NONE, 1 },
	{ { .text = "set" }, PYTHON_KIND_SET, 1 },
	{ { .text = "frozenset" }, PYTHON_KIND_SET, 1 },
	{ { .text = "bytearray" }, PYTHON_KIND_SIZED, 1 },
	{ { .text = "collections.deque" }, PYTHON_KIND_SIZED, 0 },
	{ { .text = "numpy.ndarray" }, PYTHON_KIND_ARRAY, 0 },
	{ { .text = "torch._C.TensorBase" }, PYTHON_KIND_TENSOR, 0 },
	{ { .text = "torch._C._TensorBase" }, PYTHON_KIND_TENSOR, 0 },
};

/* The stack has no room for more: see struct python_objects. */
struct python_eval {
	const struct python_calls *c;
	const struct python_values *all;
	struct python_objects *o;
};

static __always_inline const struct python_value *python_value_of(struct python_eval *e)
{
	u64 nr = e->o->nr;

	barrier_var(nr);
	return &e->all->value[nr & (PYTHON_VALUES_MAX - 1)];
}

static long python_kind_match(u32 nr, struct python_eval *e)
{
	struct python_text *text = &e->o->text;
	u64 type = e->o->type, name = python_near(e->o, type + PYTHON_TYPE_NAME);
	bool is_class = python_near(e->o, type + PYTHON_TYPE_FLAGS) & PYTHON_TYPE_IS_HEAP;

	if (!type || !name)
		return 1;
	__builtin_memset(text, 0, sizeof(*text));
	if (bpf_probe_read_user_str(text, sizeof(*text), (const void *)name) < 0)
		return 1;
	for (u32 i = 0; i < sizeof(python_kinds) / sizeof(python_kinds[0]); i++) {
		if (python_texts_equal(text, &python_kinds[i].name) && !(python_kinds[i].built_in && is_class))
			e->o->kind = python_kinds[i].kind;
	}
	e->o->type = python_near(e->o, type + PYTHON_TYPE_BASE);
	return e->o->kind != PYTHON_KIND_OTHER;
}

/* Sets e->o->kind. */
static __always_inline void python_kind_find(struct python_eval *e)
{
	u64 type = python_near(e->o, e->o->object + PYTHON_TYPE), nr = e->o->nr;
	struct python_kind_of *known;

	barrier_var(nr);
	known = &e->o->kinds[nr & (PYTHON_VALUES_MAX - 1)];
	e->o->kind = known->kind;
	if (type && known->type == type)
		return;
	e->o->kind = PYTHON_KIND_OTHER;
	e->o->type = known->type = type;
	bpf_loop(PYTHON_BASES_MAX, python_kind_match, e, 0);
	known->kind = e->o->kind;
}

static long python_variable_match(u32 nr, struct python_eval *e)
{
	const struct python_value *v = python_value_of(e);

	if (!python_str_is(e->c, e->o, python_word(e->o->object + e->c->tuple_items + 8ull * nr), &v->hops[0].name, v->hops[0].len))
		return 0;
	e->o->variable = nr + 1;
	return 1;
}

/* The object of the variable that the first hop names. */
static __always_inline u64 python_variable_named(struct python_eval *e)
{
	u64 code = python_near(e->o, e->o->frame + e->c->frame_code) & ~PYTHON_TAGS, n;

	e->o->object = python_near(e->o, code + e->c->code_locals);
	n = python_near(e->o, e->o->object + PYTHON_SIZE);
	e->o->variable = 0;
	bpf_loop(n < PYTHON_VARIABLES_MAX ? n : PYTHON_VARIABLES_MAX, python_variable_match, e, 0);
	if (e->o->variable == 1) {
		e->o->variables = e->o->frame + e->c->frame_locals;
		return python_self_of(e->c, e->o);
	}
	return e->o->variable ? python_near(e->o, e->o->frame + e->c->frame_locals + 8ull * (e->o->variable - 1)) & ~PYTHON_TAGS : 0;
}

static __always_inline u64 python_item_of(const struct python_calls *c, struct python_objects *o, u64 object, s64 i)
{
	u64 flags = python_near(o, python_near(o, object + PYTHON_TYPE) + PYTHON_TYPE_FLAGS), n, items;

	n = python_near(o, object + PYTHON_SIZE);
	if (i < 0)
		i += n;
	if (i < 0 || i >= (s64)n)
		return 0;
	if (flags & PYTHON_TYPE_IS_TUPLE)
		items = object + c->tuple_items;
	else if (flags & PYTHON_TYPE_IS_LIST)
		items = python_near(o, object + PYTHON_LIST_ITEMS);
	else
		return 0;
	return python_near(o, items + 8 * i);
}

/* Finds the attributes of an object, of which the value before it may have been one, too. */
static __always_inline u64 python_attributes_again(struct python_eval *e)
{
	struct python_objects *o = e->o;

	if (o->object != o->last) {
		o->last = o->object;
		o->last_keys = python_attributes(e->c, o, o->object, python_near(o, o->object + PYTHON_TYPE));
		o->last_values = o->values;
	}
	o->found = 0;
	o->values = o->last_values;
	return o->last_keys;
}

static long python_hop_next(u32 nr, struct python_eval *e)
{
	struct python_look l = { .c = e->c, .o = e->o };
	const struct python_value *v = python_value_of(e);
	const struct python_hop *h;
	u64 keys, at;

	barrier_var(nr);
	if (nr >= PYTHON_HOPS_MAX || nr >= v->n)
		return 1;
	h = &v->hops[nr];
	l.name = &h->name;
	l.len = h->len;
	at = e->o->nr * PYTHON_HOPS_MAX + nr;
	barrier_var(at);
	if (at >= PYTHON_VALUES_MAX * PYTHON_HOPS_MAX)
		return 1;
	l.place = &e->o->hops[at];
	if (l.place->option != e->o->option) {
		l.place->option = e->o->option;
		l.place->keys = l.place->name = 0;
	}
	switch (h->how) {
	case PYTHON_HOP_VARIABLE:
		e->o->object = python_uncelled(e->o, python_variable_named(e));
		break;
	case PYTHON_HOP_ITEM:
		e->o->object = python_item_of(e->c, e->o, e->o->object, h->index);
		break;
	case PYTHON_HOP_KEY:
		e->o->found = 0;
		if (python_is(e->o, e->o->object, PYTHON_TYPE_IS_DICT) && python_dict_begin(e->c, e->o, e->o->object))
			python_name_find(&l);
		e->o->object = e->o->found;
		break;
	case PYTHON_HOP_LOCAL:
		e->o->object = python_uncelled(e->o, h->index ? python_variable(e->o, h->index) : python_self_of(e->c, e->o));
		break;
	default:
		keys = python_attributes_again(e);
		if (keys)
			python_attribute_find(&l, keys);
		if (h->how != PYTHON_HOP_IF_ANY || e->o->found)
			e->o->object = e->o->found;
	}
	return !e->o->object;
}

/* A number of at most 60 bits. */
static __always_inline u64 python_number(struct python_eval *e)
{
	u64 n, *words = e->o->words;
	bool negative;
	s64 size;

	if (!python_is(e->o, e->o->object, PYTHON_TYPE_IS_INT) ||
		bpf_probe_read_user(words, sizeof(e->o->words), (const void *)(e->o->object + PYTHON_SIZE)))
		return PYTHON_UNKNOWN;
	size = words[0];
	negative = e->c->tagged_ints ? (size & 3) == 2 : size < 0;
	if (e->c->tagged_ints)
		size >>= 3;
	else if (negative)
		size = -size;
	if (size > 2)
		return PYTHON_UNKNOWN;
	n = size ? (u32)words[1] : 0;
	if (size > 1)
		n |= (words[1] >> 32) << PYTHON_INT_BITS;
	return negative ? -n : n;
}

static __always_inline u64 python_dimension(const struct python_eval *e, s64 i)
{
	u64 n, at;

	if (e->o->kind == PYTHON_KIND_ARRAY) {
		n = (u32)python_near(e->o, e->o->object + NUMPY_DIMENSIONS);
		at = python_near(e->o, e->o->object + NUMPY_DIMENSIONS + 8);
	} else if (e->o->kind == PYTHON_KIND_TENSOR && e->all->tensor_sizes) {
		at = python_near(e->o, e->o->object + TORCH_TENSOR);
		if (at <= 1) {
			n = at;
			at = python_near(e->o, e->o->object + TORCH_TENSOR + 8);
			at = n ? python_near(e->o, at) : at;
		}
		at += e->all->tensor_sizes;
		n = python_near(e->o, at);
		if (n > TORCH_DIMENSIONS_MAX)
			return PYTHON_UNKNOWN;
		at = n > SHAPE_SIZES ? python_near(e->o, at + 8) : at + 8;
	} else {
		return PYTHON_UNKNOWN;
	}
	if (i < 0)
		i += n;
	return i < 0 || i >= (s64)n || !at ? PYTHON_UNKNOWN : python_near(e->o, at + 8 * i);
}

static __always_inline u64 python_length(struct python_eval *e)
{
	if (python_is(e->o, e->o->object, PYTHON_TYPE_HAS_SIZE))
		return python_near(e->o, e->o->object + PYTHON_SIZE);
	python_kind_find(e);
	if (e->o->kind == PYTHON_KIND_SET)
		return python_near(e->o, e->o->object + PYTHON_SET_USED);
	if (e->o->kind == PYTHON_KIND_SIZED)
		return python_near(e->o, e->o->object + PYTHON_SIZE);
	return python_dimension(e, 0);
}

static __always_inline bool python_value_holds(const struct python_value *v, s64 n)
{
	if (v->when == WHEN_EQ)
		return n == v->than;
	if (v->when == WHEN_NE)
		return n != v->than;
	return v->when == WHEN_LT ? n < v->than : n > v->than;
}

/* What a value is, once its hops have led to an object. */
static __always_inline u64 python_value_get(struct python_eval *e, const struct python_value *v)
{
	u64 object = e->o->object, n;

	if (v->as == PYTHON_AS_STRING)
		return object && python_is_plain(e->c, object) ? object + e->c->str_data : 0;
	if (v->as == PYTHON_AS_TYPE)
		return object ? python_near(e->o, python_near(e->o, object + PYTHON_TYPE) + PYTHON_TYPE_NAME) : 0;
	if (!object)
		return PYTHON_UNKNOWN;
	if (v->as == PYTHON_AS_LENGTH) {
		n = python_length(e);
	} else if (v->as == PYTHON_AS_NUMBER) {
		n = python_number(e);
	} else {
		python_kind_find(e);
		n = v->as == PYTHON_AS_SIZE ? python_dimension(e, v->index) : e->o->kind == PYTHON_KIND_NONE;
	}
	return v->when && n != PYTHON_UNKNOWN ? python_value_holds(v, n) : n;
}

/* Begins to read the values of a step. Returns how many there are. */
__noinline int python_values_begin(struct thread *t, const struct probe *p, struct call_vals *to)
{
	const struct python_values *all;
	struct python_take w;
	u32 of;

	if (!t || !p || !to)
		return 0;
	of = t->python_key / PYTHON_LAYOUTS;
	for (int i = 0; i < FUNC_VALS_MAX; i++)
		to->vals[i] = p->rows && i == p->rows_at + ROW_MASK ? 0 : PYTHON_UNKNOWN;
	all = bpf_map_lookup_elem(&python_values, &of);
	if (!all || !python_take_begin(t, &w, t->python_key))
		return 0;
	python_objects_begin(&w.r->objects);
	w.r->objects.request = w.r->objects.last = 0;
	if (p->role != ROLE_STEP) /* the step that it is called in may have its batch there */
		return all->n;
	for (int i = 0; i < ROW_COLUMNS; i++)
		w.r->array[i] = 0;
	parts_of(w.r, PARTS_FRESH)->n = parts_of(w.r, PARTS_FRESH)->left = 0;
	if (p->rows)
		rows_begin(w.r, p, 0);
	return all->n;
}

/* Reads one value; frame: of the call. to: the call's arguments; NULL: it is the scheduler's. Called for each one: with a loop over them
 * in here, too, the calls would take more stack than the verifier of 6.1 grants. */
__noinline int python_value_take(struct thread *t, struct call_vals *to, u64 frame, u32 nr)
{
	const struct python_value *v;
	struct python_take w;
	struct python_eval e;
	u64 n;
	u32 of;

	if (!t || nr >= PYTHON_VALUES_MAX || !python_take_begin(t, &w, t->python_key))
		return 0;
	of = t->python_key / PYTHON_LAYOUTS;
	e.c = w.c;
	e.o = &w.r->objects;
	e.all = bpf_map_lookup_elem(&python_values, &of);
	if (!e.all)
		return 0;
	e.o->option = of + 1;
	e.o->frame = frame;
	e.o->nr = nr;
	e.o->object = 0;
	bpf_loop(PYTHON_HOPS_MAX, python_hop_next, &e, 0);
	v = python_value_of(&e);
	if (v->as == PYTHON_AS_REQUEST) {
		e.o->request = e.o->object;
		return 0;
	}
	n = python_value_get(&e, v);
	if (to)
		to->vals[nr] = n;
	else
		t->step.scheduler[nr & (SCHEDULER_VALUES - 1)] = n < 0xffffffff ? n + 1 : 0;
	return 0;
}

#define SCHEDULER_SETTINGS (1u << SCHEDULER_SLOTS | 1u << SCHEDULER_TOKENS_MAX | 1u << SCHEDULER_KV_BLOCKS | 1u << SCHEDULER_AHEAD)
#define SCHEDULER_KEPT 256 /* steps for which these are believed */

/* The thread calls the function that has the batch of its step in flight: reads what the scheduler says of itself. Of the KV cache
 * only if requests wait: it takes as long as all else. */
static __always_inline void python_scheduler_take(struct thread *t, u64 frame)
{
	struct python_take w;
	struct python_objects *o;
	u64 self;

	if (!python_take_begin(t, &w, t->python_key) || !w.c->batch.scheduler)
		return;
	o = &w.r->objects;
	self = python_self_of(w.c, o);
	o->last = 0;
	if (o->kept_of != self || !o->kept)
		o->kept = SCHEDULER_KEPT;
	for (u32 i = 0; i < SCHEDULER_VALUES; i++) {
		u32 *known = &t->step.scheduler[i];

		if (o->kept < SCHEDULER_KEPT && SCHEDULER_SETTINGS & 1u << i) {
			*known = o->settings[i];
			continue;
		}
		if (!((i == SCHEDULER_KV_FREE || i == SCHEDULER_FULL) && t->step.scheduler[SCHEDULER_WAITING] == 1))
			python_value_take(t, NULL, frame, i);
		o->settings[i] = *known;
	}
	o->kept_of = self;
	o->kept--;
}

/* Finds the number of the step's request, and whether it is a new one. Returns whether it is known. */
static __always_inline bool python_request_find(struct thread *t, struct python_take *w, u64 *ret_number, bool *ret_new)
{
	struct python_objects *o = &w->r->objects;
	struct python_eval e = { .c = w->c, .o = o };
	struct python_id id = { .tgid = bpf_get_current_pid_tgid() >> 32 };
	u64 n;

	o->sequence = 0;
	if (python_is_plain(w->c, o->request)) {
		o->hash = python_text_hash(w->c, o, o->request);
		*ret_number = python_id_number(t, w->c, o, o->request, 1);
		*ret_new = o->sequence;
		return *ret_number;
	}
	o->object = o->request;
	n = o->request ? python_number(&e) : PYTHON_UNKNOWN;
	if ((s64)n < 0)
		return 0;
	/* it is its own number: only whether it was seen is kept */
	o->hash = id.hash = (n + 1) * 0x9e3779b97f4a7c15ull;
	*ret_number = n;
	*ret_new = !bpf_map_lookup_elem(&python_ids, &id);
	if (*ret_new)
		bpf_map_update_elem(&python_ids, &id, &n, BPF_ANY);
	return 1;
}

static __always_inline bool python_is_prompt(const struct thread *t, const struct call_vals *to, u64 tokens)
{
	u32 of = t->python_key / PYTHON_LAYOUTS, at;
	const struct python_values *all = bpf_map_lookup_elem(&python_values, &of);

	if (!all || !all->prefill)
		return tokens > 1;
	at = all->prefill - 1;
	barrier_var(at);
	return at < FUNC_VALS_MAX && (s64)to->vals[at] > 0;
}

/* Makes the step's tokens one row of its request. */
__noinline int python_values_row(struct thread *t, const struct probe *p, struct call_vals *to)
{
	struct python_take w;
	u64 number, tokens;
	u32 count, at;
	bool new;
	int part;

	if (!t || !p || !to || !p->rows || !python_take_begin(t, &w, t->python_key))
		return 0;
	count = p->rows - 1;
	at = p->rows_at;
	barrier_var(count);
	barrier_var(at);
	if (count >= FUNC_VALS_MAX || at > FUNC_VALS_MAX - ROW_VALUES)
		return 0;
	tokens = to->vals[at + ROW_READ] = to->vals[count];
	if (tokens > 0x7fffffff || !python_request_find(t, &w, &number, &new))
		return 0;
	part = python_part(w.r, w.r->objects.hash, 1);
	if (part < 0 || part >= STEP_PARTS_MAX)
		return 0;
	python_part_at(w.r, part)->sequence = number;
	/* else it is the first one that was seen: the request began before */
	if (new && python_is_prompt(t, to, tokens))
		python_part_at(w.r, part)->position = 0;
	part_add(w.r, part, tokens, 1);
	to->vals[at + ROW_N_OUTPUTS] = to->vals[at + ROW_N_SEQUENCES] = 1;
	to->vals[at + ROW_ONE_SEQUENCE] = number;
	return 0;
}

#endif
