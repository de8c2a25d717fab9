/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Objects of CPython in the memory of a process: attributes, dicts, lists, small numbers. What is read may be anything, also while
 * it changes: walks are bounded, and no address is trusted. Part of functions.bpf.c; state is in struct python_objects, since the
 * stack has little room.
 */
#ifndef INFTRACE_PYTHON_OBJECTS_BPF_H
#define INFTRACE_PYTHON_OBJECTS_BPF_H

#include "python_step.bpf.h"

/* CPython 3.8 to 3.14: Include/object.h, Include/cpython/{dictobject,listobject,setobject,unicodeobject,longintrepr}.h,
 * Include/internal/pycore_dict.h. */
#define PYTHON_TYPE 8 /* of an object */
#define PYTHON_TYPE_NAME 24
#define PYTHON_TYPE_SIZE 32
#define PYTHON_TYPE_DICT 288
#define PYTHON_TYPE_FLAGS 168
#define PYTHON_TYPE_HAS_VALUES 4 /* of the flags: PYTHON_VALUES_WITHIN */
#define PYTHON_TYPE_IS_HEAP (1 << 9) /* likewise: it is a class in Python */
#define PYTHON_TYPE_IS_LIST (1 << 25) /* it is list, or derived from it */
#define PYTHON_TYPE_IS_STR (1 << 28) /* str */
#define PYTHON_DICT_KEYS 32
#define PYTHON_LIST_SIZE 16 /* the items come next */
#define PYTHON_SET_USED 24
#define PYTHON_SET_MASK 32
#define PYTHON_SET_TABLE 40
#define PYTHON_STR_HASH 24
#define PYTHON_INT 16

#define PYTHON_FIELDS_MAX 256 /* attributes of an object */
#define PYTHON_TRIES 32 /* slots of a dict in which a key may be: two thirds of them may be those of others that are gone */

#define PYTHON_NO_INT (-1ll)

/* The thread has gone on since objects were read: they may be others. */
static __always_inline void python_objects_begin(struct python_objects *o)
{
	o->number_at = 0;
	__builtin_memset(o->line, 0, sizeof(o->line));
}

/* The first of the two places that a line may have. Allocators put things at like offsets of pages and pools. */
static __always_inline u64 python_line_place(u64 line)
{
	return (line ^ line >> 4 ^ line >> 9) & (PYTHON_LINES / 2 - 1);
}

/* Reads a line to the one of its two places that was filled before the other. Returns the place, or PYTHON_LINES. */
__noinline u64 python_line_read(struct python_objects *o, u64 line)
{
	u64 i = python_line_place(line);

	if (!o)
		return PYTHON_LINES;
	o->later ^= 1ull << i;
	if (o->later >> i & 1)
		i += PYTHON_LINES / 2;
	barrier_var(i);
	i &= PYTHON_LINES - 1;
	o->line[i] = 0;
	if (bpf_probe_read_user(&o->lines[i * (PYTHON_LINE / 8)], PYTHON_LINE, (const void *)(line * PYTHON_LINE)))
		return PYTHON_LINES;
	o->line[i] = line + 1;
	return i;
}

/* A word of an object, at a multiple of 8; 0 if it cannot be read. Inlined as far as it is in a line: a call costs more than that. */
static __always_inline u64 python_near(struct python_objects *o, u64 address)
{
	u64 line = address / PYTHON_LINE, i = python_line_place(line);

	barrier_var(i);
	if (o->line[i] != line + 1) {
		i += PYTHON_LINES / 2;
		if (o->line[i] != line + 1) {
			i = python_line_read(o, line);
			if (i >= PYTHON_LINES)
				return 0;
		}
	}
	i = i * PYTHON_LINE / 8 + address / 8 % (PYTHON_LINE / 8);
	barrier_var(i);
	return o->lines[i & (PYTHON_LINES * PYTHON_LINE / 8 - 1)];
}

/* The hash of a string, as the interpreter has computed it; 0: it has not, so the string is no key of a dict. */
static __always_inline u64 python_hash(struct python_objects *o, u64 str)
{
	u64 hash = str ? python_near(o, str + PYTHON_STR_HASH) : 0;

	return hash == ~0ull ? 0 : hash;
}

/* A hash of what a short ASCII string says, and of the first bytes of others: for strings for which there is no other yet. */
__noinline u64 python_text_hash(const struct python_calls *c, struct python_objects *o, u64 str)
{
	u64 hash, left, word;

	if (!c || !o)
		return 0;
	hash = python_near(o, str + c->str_length);
	left = hash < PYTHON_TEXT_MAX ? hash : PYTHON_TEXT_MAX - 1;
	str += c->str_data;
	for (int i = 0; i < PYTHON_TEXT_MAX / 8; i++) {
		word = left ? python_word(str + 8 * i) : 0;
		if (left < 8)
			word &= (1ull << 8 * left) - 1;
		left -= left < 8 ? left : 8;
		hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
		hash ^= hash >> 32;
	}
	return hash;
}

/* A small number, not below 0; else PYTHON_NO_INT. */
static __always_inline s64 python_int(const struct python_calls *c, struct python_objects *o, u64 object)
{
	u64 size;

	if (!object)
		return PYTHON_NO_INT;
	if (o->number_at == object)
		return o->number;
	size = python_near(o, object + PYTHON_INT);
	if (c->tagged_ints)
		size = (size & 3) == 2 ? 2 : size >> 3; /* negative */
	o->number_at = object;
	o->number = PYTHON_NO_INT;
	if (size <= 1)
		o->number = size ? (u32)python_near(o, object + PYTHON_INT + 8) : 0;
	return o->number;
}

/* Bytes of a slot in a table of so many, before 3.11. */
static __always_inline u64 python_old_width(u64 slots)
{
	if (slots <= 0xff)
		return 1;
	return slots <= 0xffff ? 2 : 4;
}

/* Finds the entries of a dict's keys. Returns whether there are any. */
static __always_inline bool python_keys_begin(const struct python_calls *c, struct python_objects *o, u64 keys)
{
	u64 head = python_near(o, keys + 8);

	o->at = 0;
	if (c->old_keys) { /* head: the number of slots */
		o->n = python_near(o, keys + 32);
		o->entries = keys + 40 + head * python_old_width(head);
		o->bytes = 24;
	} else { /* its bytes: the logarithm of that, and of the bytes that these take, and whether all keys are strings */
		o->n = python_near(o, keys + 24);
		o->entries = keys + 32 + (1ull << (head >> 8 & 31));
		o->bytes = head >> 16 & 0xff ? 16 : 24;
	}
	o->key = o->bytes == 24 ? 8 : 0;
	return o->n != 0;
}

/* Returns the keys of a dict, and sets where its values are. */
static __always_inline u64 python_dict_keys(const struct python_calls *c, struct python_objects *o, u64 dict)
{
	u64 values = python_near(o, dict + PYTHON_DICT_KEYS + 8);

	o->values = values ? values + c->split_values : 0;
	return python_near(o, dict + PYTHON_DICT_KEYS);
}

/* Begins a walk through a dict. */
static __always_inline bool python_dict_begin(const struct python_calls *c, struct python_objects *o, u64 dict)
{
	u64 keys = dict ? python_dict_keys(c, o, dict) : 0;

	return keys && python_keys_begin(c, o, keys);
}

/* The next key and value of the walk; returns whether there is one. *ret_value 0: it was removed. */
static __always_inline bool python_dict_next(struct python_objects *o, u64 *ret_key, u64 *ret_value)
{
	u64 i = o->at, entry = o->entries + i * o->bytes + o->key;

	if (i >= o->n)
		return 0;
	o->at = i + 1;
	*ret_key = python_near(o, entry);
	*ret_value = python_near(o, o->values ? o->values + 8 * i : entry + 8);
	return 1;
}

/* Whether a string, at most ASCII, is this one. */
static __always_inline bool python_str_is(
	const struct python_calls *c, struct python_objects *o, u64 str, const struct python_text *text, u32 len)
{
	return str && python_word(str + c->str_length) == len && python_text_read(&o->text, str + c->str_data, len) &&
	       python_texts_equal(&o->text, text);
}

struct python_look {
	const struct python_calls *c;
	struct python_objects *o;
	const struct python_text *name;
	u32 len;
	struct python_place *place;
};

/* Reads words, not lines: for 6.1 there is no stack left to call python_line_read(). */
static long python_name_match(u32 nr, struct python_look *l)
{
	struct python_objects *o = l->o;

	if (o->at >= o->n)
		return 1;
	o->words[0] = o->entries + o->at * o->bytes + o->key;
	o->words[1] = o->values ? o->values + 8 * o->at : o->words[0] + 8;
	o->at++;
	o->found_key = python_word(o->words[0]);
	if (!python_str_is(l->c, o, o->found_key, l->name, l->len))
		return 0;
	o->found = python_word(o->words[1]);
	return 1;
}

/* Looks through the rest of a dict for a name: o->found is its value, and o->at behind it; or 0. */
static __always_inline void python_name_find(struct python_look *l)
{
	l->o->found = 0;
	bpf_loop(PYTHON_FIELDS_MAX, python_name_match, l, 0);
}

/* Looks for an attribute in the names at `keys`, or first where it was the last time that these, or others, were looked at: objects
 * with many attributes have each their own names, mostly in the same order. o->found: its value, or 0. */
static __always_inline void python_attribute_find(struct python_look *l, u64 keys)
{
	struct python_objects *o = l->o;
	struct python_place *p = l->place;
	u64 at;

	/* the name, and its value if it is there */
	if (p->keys == keys && python_near(o, p->at) == p->name) {
		o->found = python_near(o, o->values ? o->values + 8 * p->index : p->at + 8);
		return;
	}
	p->keys = 0;
	if (!python_keys_begin(l->c, o, keys))
		return;
	if (p->name && p->index < o->n) {
		at = o->entries + p->index * o->bytes + o->key;
		if (python_near(o, at) == p->name) {
			o->found = python_near(o, o->values ? o->values + 8 * p->index : at + 8);
			return;
		}
	}
	python_name_find(l);
	if (!o->found)
		return;
	p->keys = keys;
	p->index = o->at - 1;
	p->at = o->entries + p->index * o->bytes + o->key;
	p->name = o->found_key;
}

static __always_inline void python_member_find(const struct python_calls *c, struct python_objects *o, u64 keys, u32 member)
{
	struct python_look l = { .c = c, .o = o };

	barrier_var(member);
	if (member >= PYTHON_MEMBERS)
		return;
	l.place = &o->places[member];
	l.name = &c->batch.name[member];
	l.len = c->batch.len[member];
	python_attribute_find(&l, keys);
}

/* Returns the names of an object's attributes, and sets where their values are; 0: it has none. */
static __always_inline u64 python_attributes(const struct python_calls *c, struct python_objects *o, u64 object, u64 type)
{
	u64 dict = 0;

	o->found = o->values = 0;
	if (c->attributes == PYTHON_IN_DICT) {
		dict = python_near(o, object + (u16)python_near(o, type + PYTHON_TYPE_DICT));
	} else if (c->attributes == PYTHON_VALUES_BEFORE) {
		o->values = python_near(o, object - 32);
		dict = o->values ? 0 : python_near(o, object - 24);
	} else {
		dict = python_near(o, object - 24);
		if (c->attributes == PYTHON_VALUES_TAGGED && dict & 1) {
			o->values = dict + 1;
			dict = 0;
		} else if (c->attributes == PYTHON_VALUES_WITHIN && !dict && python_near(o, type + PYTHON_TYPE_FLAGS) & PYTHON_TYPE_HAS_VALUES) {
			o->values = object + python_near(o, type + PYTHON_TYPE_SIZE) + c->split_values;
		}
	}
	if (dict)
		return python_dict_keys(c, o, dict);
	return o->values ? python_near(o, type + c->type_keys) : 0;
}

/* Returns the value of an object's attribute; 0: there is none, or it cannot be found. */
__noinline u64 python_member(const struct python_calls *c, struct python_objects *o, u64 object, u32 member)
{
	u64 type, keys;

	if (!c || !o || !object || member >= PYTHON_MEMBERS || !c->batch.len[member])
		return 0;
	type = python_near(o, object + PYTHON_TYPE);
	keys = python_attributes(c, o, object, type);
	if (keys)
		python_member_find(c, o, keys, member);
	return o->found;
}

static __always_inline bool python_is(struct python_objects *o, u64 object, u64 flag)
{
	return object && python_near(o, python_near(o, object + PYTHON_TYPE) + PYTHON_TYPE_FLAGS) & flag;
}

/* Finds the items of a list; returns whether there are any. */
__noinline bool python_list_begin(struct python_objects *o, u64 list)
{
	if (!o)
		return 0;
	o->left = list ? python_near(o, list + PYTHON_LIST_SIZE) : 0;
	o->items = o->left < PYTHON_ITEMS ? o->left : PYTHON_ITEMS;
	o->items_at = o->items ? python_near(o, list + PYTHON_LIST_SIZE + 8) : 0;
	return o->items;
}

/* Finds the slots of a set; returns whether it has anything. */
static __always_inline bool python_set_begin(struct python_objects *o, u64 set)
{
	if (!set || !python_near(o, set + PYTHON_SET_USED))
		return 0;
	o->n = python_near(o, set + PYTHON_SET_MASK) + 1;
	o->entries = python_near(o, set + PYTHON_SET_TABLE);
	return 1;
}

/* Where the items of a list are that has at least n; 0: it has not. */
__noinline u64 python_items_at(struct python_objects *o, u64 list, u64 n)
{
	return o && list && python_near(o, list + PYTHON_LIST_SIZE) >= n ? python_near(o, list + PYTHON_LIST_SIZE + 8) : 0;
}

static __always_inline u64 python_item(struct python_objects *o, u64 i)
{
	return i < o->items ? python_near(o, o->items_at + 8 * i) : 0;
}

/* Finds the table of a dict, for python_is_alive(). CPython: Objects/dictobject.c. */
static __always_inline void python_alive_begin(const struct python_calls *c, struct python_objects *o, u64 dict)
{
	u64 keys = dict ? python_near(o, dict + PYTHON_DICT_KEYS) : 0, head = python_near(o, keys + 8);

	o->alive = o->table = o->alive_at = 0;
	if (!keys)
		return;
	if (c->old_keys) {
		o->mask = head - 1;
		o->width = python_old_width(head);
	} else {
		o->mask = (1ull << (head & 31)) - 1;
		o->width = 1ull << ((head >> 8) - head & 3);
	}
	o->none = o->width >= 4 ? 0xffffffff : (1ull << 8 * o->width) - 1;
	o->table = keys + (c->old_keys ? 40 : 32);
	o->alive = o->table + (o->mask + 1) * o->width;
	o->alive_bytes = !c->old_keys && head >> 16 & 0xff ? 16 : 24;
	o->alive_key = o->alive_bytes == 24 ? 8 : 0;
}

/* The entry of a slot of the table; its highest values stand for none, and for one that was removed. */
static __always_inline u64 python_alive_entry(struct python_objects *o, u64 slot)
{
	u64 at = o->table + slot * o->width;

	return python_word(at & ~7ull) >> 8 * (at & 7) & o->none;
}

/* Looks for an id by its hash. */
__noinline int python_alive_find(struct python_objects *o, u64 str, u64 hash)
{
	u64 i, at, key, perturb = hash;

	if (!o)
		return 1;
	i = hash & o->mask;
	for (int n = 0; n < PYTHON_TRIES; n++) {
		at = python_alive_entry(o, i);
		if (at == o->none)
			return 0;
		key = python_word(at < o->none - 1 ? o->alive + at * o->alive_bytes + o->alive_key : 0);
		if (key == str || python_word(key + PYTHON_STR_HASH) == hash) {
			o->alive_at = at + 1;
			return 1;
		}
		perturb >>= 5;
		i = (i * 5 + perturb + 1) & o->mask;
	}
	return 1;
}

/* Whether the dict has an id; 1 also if it is not known, or takes long to find. */
static __always_inline bool python_is_alive(struct python_objects *o, u64 str)
{
	if (!o->alive)
		return 1;
	for (int n = 0; n < 2; n++) {
		if (python_near(o, o->alive + (o->alive_at + n) * o->alive_bytes + o->alive_key) == str) {
			o->alive_at += n + 1;
			return 1;
		}
	}
	return python_alive_find(o, str, python_hash(o, str));
}

#endif
