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

/* The hash of a string, as the interpreter has computed it; 0: it has not, so the string is no key of a dict. */
static __always_inline u64 python_hash(u64 str)
{
	u64 hash = str ? python_word(str + PYTHON_STR_HASH) : 0;

	return hash == ~0ull ? 0 : hash;
}

/* A hash of what a short ASCII string says, and of the first bytes of others: for strings for which there is no other yet. */
__noinline u64 python_text_hash(const struct python_calls *c, struct python_objects *o, u64 str)
{
	u64 hash, len;

	if (!c || !o)
		return 0;
	hash = python_word(str + c->str_length);
	len = hash < PYTHON_TEXT_MAX ? hash : PYTHON_TEXT_MAX - 1;
	barrier_var(len);
	if (!python_text_read(&o->text, str + c->str_data, len))
		return 0;
	for (int i = 0; i < PYTHON_TEXT_MAX / 8; i++) {
		hash = (hash ^ o->text.words[i]) * 0x9e3779b97f4a7c15ull;
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
	if (bpf_probe_read_user(o->words, sizeof(o->words), (const void *)(object + PYTHON_INT))) /* size and first digit */
		return PYTHON_NO_INT;
	size = o->words[0];
	if (c->tagged_ints)
		size = (size & 3) == 2 ? 2 : size >> 3; /* negative */
	o->number_at = object;
	o->number = PYTHON_NO_INT;
	if (size <= 1)
		o->number = size ? (u32)o->words[1] : 0;
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
	u64 head = python_word(keys + 8);

	o->at = 0;
	if (c->old_keys) { /* head: the number of slots */
		o->n = python_word(keys + 32);
		o->entries = keys + 40 + head * python_old_width(head);
		o->bytes = 24;
	} else { /* its bytes: the logarithm of that, and of the bytes that these take, and whether all keys are strings */
		o->n = python_word(keys + 24);
		o->entries = keys + 32 + (1ull << (head >> 8 & 31));
		o->bytes = head >> 16 & 0xff ? 16 : 24;
	}
	o->key = o->bytes == 24 ? 8 : 0;
	return o->n != 0;
}

/* Returns the keys of a dict, and sets where its values are. */
static __always_inline u64 python_dict_keys(const struct python_calls *c, struct python_objects *o, u64 dict)
{
	if (bpf_probe_read_user(o->words, sizeof(o->words), (const void *)(dict + PYTHON_DICT_KEYS))) /* keys and values */
		return 0;
	o->values = o->words[1] ? o->words[1] + c->split_values : 0;
	return o->words[0];
}

/* Begins a walk through a dict. */
static __always_inline bool python_dict_begin(const struct python_calls *c, struct python_objects *o, u64 dict)
{
	u64 keys = dict ? python_dict_keys(c, o, dict) : 0;

	return keys && python_keys_begin(c, o, keys);
}

/* Reads the next entries: a read costs the same whatever its length. */
static __always_inline long python_entries_ahead(struct python_objects *o)
{
	u64 left = o->n - o->at, len;

	len = (left < PYTHON_CHUNK ? left : PYTHON_CHUNK) * o->bytes;
	barrier_var(len);
	if (len > PYTHON_CHUNK * PYTHON_ENTRY_MAX)
		return -1;
	return bpf_probe_read_user(o->ahead, len, (const void *)(o->entries + o->at * o->bytes));
}

/* The next key and value of the walk; returns whether there is one. *ret_value 0: it was removed. */
static __always_inline bool python_dict_next(struct python_objects *o, u64 *ret_key, u64 *ret_value)
{
	u64 i = o->at, at = (i & (PYTHON_CHUNK - 1)) * o->bytes + o->key;

	if (i >= o->n || (!(i & (PYTHON_CHUNK - 1)) && python_entries_ahead(o)))
		return 0;
	o->at = i + 1;
	*ret_key = ahead_at(o->ahead, at, 512);
	*ret_value = o->values ? python_word(o->values + 8 * i) : ahead_at(o->ahead, at + 8, 512);
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

static long python_name_match(u32 nr, struct python_look *l)
{
	struct python_objects *o = l->o;
	u64 key, value;

	if (!python_dict_next(o, &key, &value))
		return 1;
	if (!python_str_is(l->c, o, key, l->name, l->len))
		return 0;
	o->found = value;
	o->found_key = key;
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
	if (p->keys == keys && !bpf_probe_read_user(o->words, sizeof(o->words), (const void *)p->at) && o->words[0] == p->name) {
		o->found = o->values ? python_word(o->values + 8 * p->index) : o->words[1];
		return;
	}
	p->keys = 0;
	if (!python_keys_begin(l->c, o, keys))
		return;
	if (p->name && p->index < o->n) {
		at = o->entries + p->index * o->bytes + o->key;
		if (python_word(at) == p->name) {
			o->found = python_word(o->values ? o->values + 8 * p->index : at + 8);
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
		dict = python_word(object + (u16)python_word(type + PYTHON_TYPE_DICT));
	} else if (c->attributes == PYTHON_VALUES_BEFORE) {
		o->values = python_word(object - 32);
		dict = o->values ? 0 : python_word(object - 24);
	} else {
		dict = python_word(object - 24);
		if (c->attributes == PYTHON_VALUES_TAGGED && dict & 1) {
			o->values = dict + 1;
			dict = 0;
		} else if (c->attributes == PYTHON_VALUES_WITHIN && !dict && python_word(type + PYTHON_TYPE_FLAGS) & PYTHON_TYPE_HAS_VALUES) {
			o->values = object + python_word(type + PYTHON_TYPE_SIZE) + c->split_values;
		}
	}
	if (dict)
		return python_dict_keys(c, o, dict);
	return o->values ? python_word(type + c->type_keys) : 0;
}

/* Returns the value of an object's attribute; 0: there is none, or it cannot be found. */
__noinline u64 python_member(const struct python_calls *c, struct python_objects *o, u64 object, u32 member)
{
	u64 type, keys;

	if (!c || !o || !object || member >= PYTHON_MEMBERS || !c->batch.len[member])
		return 0;
	type = python_word(object + PYTHON_TYPE);
	keys = python_attributes(c, o, object, type);
	if (keys)
		python_member_find(c, o, keys, member);
	return o->found;
}

static __always_inline bool python_is(u64 object, u64 flag)
{
	return object && python_word(python_word(object + PYTHON_TYPE) + PYTHON_TYPE_FLAGS) & flag;
}

/* Reads the items of a list; returns whether there are any. */
static __always_inline bool python_list_begin(struct python_objects *o, u64 list)
{
	u64 len;

	o->items = 0;
	/* its size, and where they are */
	if (!list || bpf_probe_read_user(o->words, sizeof(o->words), (const void *)(list + PYTHON_LIST_SIZE)) || !o->words[0])
		return 0;
	o->items = o->words[0] < PYTHON_ITEMS ? o->words[0] : PYTHON_ITEMS;
	len = 8 * o->items;
	barrier_var(len);
	if (len > 8 * PYTHON_ITEMS || bpf_probe_read_user(o->item, len, (const void *)o->words[1]))
		o->items = 0;
	return o->items;
}

/* Finds the slots of a set; returns whether it has anything. */
static __always_inline bool python_set_begin(struct python_objects *o, u64 set)
{
	if (!set || !python_word(set + PYTHON_SET_USED))
		return 0;
	o->n = python_word(set + PYTHON_SET_MASK) + 1;
	o->entries = python_word(set + PYTHON_SET_TABLE);
	return 1;
}

/* Where the items of a list are that has at least n; 0: it has not. */
static __always_inline u64 python_items_at(struct python_objects *o, u64 list, u64 n)
{
	if (!list || bpf_probe_read_user(o->words, sizeof(o->words), (const void *)(list + PYTHON_LIST_SIZE)) || o->words[0] < n)
		return 0;
	return o->words[1];
}

static __always_inline u64 python_item(struct python_objects *o, u64 i)
{
	barrier_var(i);
	return i < o->items ? o->item[i & (PYTHON_ITEMS - 1)] : 0;
}

/* Finds the table of a dict, for python_is_alive(). CPython: Objects/dictobject.c. */
static __always_inline void python_alive_begin(const struct python_calls *c, struct python_objects *o, u64 dict)
{
	u64 keys = dict ? python_word(dict + PYTHON_DICT_KEYS) : 0, head = python_word(keys + 8);

	o->alive = o->table = 0;
	if (!keys)
		return;
	if (c->old_keys) {
		o->mask = head - 1;
		o->width = python_old_width(head);
	} else {
		o->mask = (1ull << (head & 31)) - 1;
		o->width = 1ull << ((head >> 8) - head & 3);
	}
	o->table = keys + (c->old_keys ? 40 : 32);
	o->alive = o->table + (o->mask + 1) * o->width;
	o->alive_bytes = !c->old_keys && head >> 16 & 0xff ? 16 : 24;
	o->alive_key = o->alive_bytes == 24 ? 8 : 0;
}

/* Whether the dict has an id; 1 also if it is not known, or takes long to find. */
__noinline int python_is_alive(struct python_objects *o, u64 str, u64 hash)
{
	u64 i, none, perturb = hash;

	if (!o || !o->alive)
		return 1;
	i = hash & o->mask;
	none = o->width >= 4 ? 0xffffffff : (1ull << 8 * o->width) - 1;
	for (int n = 0; n < PYTHON_TRIES; n++) {
		u64 at = 0, key;

		bpf_probe_read_user(&at, sizeof(at), (void *)(o->table + i * o->width));
		at &= none;
		if (at == none)
			return 0;
		key = at == none - 1 ? 0 : python_word(o->alive + at * o->alive_bytes + o->alive_key);
		if (key == str || (key && python_word(key + PYTHON_STR_HASH) == hash))
			return 1;
		perturb >>= 5;
		i = (i * 5 + perturb + 1) & o->mask;
	}
	return 1;
}

#endif
