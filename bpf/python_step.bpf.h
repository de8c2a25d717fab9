/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Steps that are calls of a Python function. The interpreter runs most of these without a C call of its own, so the
 * probes are where it begins to run any function, and where it leaves one. Which function that is follows from its
 * structures in the memory of the process, which may hold anything: a bounded part of it is read. Part of
 * functions.bpf.c.
 *
 * A thread's outermost call is the step. Its frame in the interpreter tells its end from the ends of other
 * functions: the native stack pointer is the same for all Python functions that one call of the interpreter runs.
 */
#ifndef INFTRACE_PYTHON_STEP_BPF_H
#define INFTRACE_PYTHON_STEP_BPF_H

#include "fetch.bpf.h"
#include "python_memory.bpf.h"
#include "python_walk.h"
#include "python_watch.bpf.h"

/* By number of the option * PYTHON_LAYOUTS + enum python_layout. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PYTHON_CALLS_MAX *PYTHON_LAYOUTS);
	__type(key, u32);
	__type(value, struct python_calls);
} python_calls __weak SEC(".maps");

/* Of functions whose call makes a generator, and which run when it is resumed. CPython: Include/cpython/code.h. */
#define PYTHON_CODE_GENERATOR (0x20 | 0x80 | 0x200)
/* Of a string's state: it is ASCII, and the text follows the header. */
#define PYTHON_STR_COMPACT_ASCII 0x60

static __always_inline u64 python_current(const struct python_calls *c, u64 state)
{
	u64 frame = python_word(state + c->thread_frame);

	if (c->cframe_frame != PYTHON_NO_OFFSET && frame)
		frame = python_word(frame + c->cframe_frame);
	return frame;
}

static __always_inline bool python_texts_equal(const struct python_text *a, const struct python_text *b)
{
	u64 diff = 0;

	for (int i = 0; i < PYTHON_TEXT_MAX / 8; i++)
		diff |= a->words[i] ^ b->words[i];
	return !diff;
}

/* len < PYTHON_TEXT_MAX */
static __always_inline bool python_text_read(struct python_text *text, u64 address, u32 len)
{
	__builtin_memset(text, 0, sizeof(*text));
	len &= PYTHON_TEXT_MAX - 1;
	return !bpf_probe_read_user(text, len, (const void *)address);
}

/* Whether the file's path is the end that the user has given, or ends with it after a slash. */
__noinline bool python_file_ends(const struct python_calls *c, const struct python_function *n, u64 file)
{
	struct python_text text;
	u64 length;
	u32 len;

	if (!c || !n)
		return 0;
	len = n->file_len;
	length = python_word(file + c->str_length);
	if (length < len || (python_byte(file + c->str_state) & PYTHON_STR_COMPACT_ASCII) != PYTHON_STR_COMPACT_ASCII)
		return 0;
	file += c->str_data + length - len;
	return python_text_read(&text, file, len) && python_texts_equal(&text, &n->file) &&
	       (length == len || python_byte(file - 1) == '/');
}

struct python_match {
	const struct python_calls *c;
	struct python_text name;
	u64 code;
	u32 len, found;
};

static long python_function_match(u32 i, struct python_match *m)
{
	const struct python_function *n;

	barrier_var(i);
	if (i >= PYTHON_NAMES_MAX || i >= m->c->n)
		return 1;
	n = &m->c->names[i];
	if (n->name_len != m->len || !python_texts_equal(&m->name, &n->name))
		return 0;
	if (n->file_len && !python_file_ends(m->c, n, python_word(m->code + m->c->code_file)))
		return 0;
	m->found = 1 + n->what;
	return 1;
}

/* len: one of the lengths in c->lengths. Returns 1 + enum python_what; 0: an option does not name it. */
__noinline int python_is_named(const struct python_calls *c, u64 code, u64 name, u32 len)
{
	struct python_match m = { .c = c, .code = code, .len = len };

	if (!c || (python_byte(name + c->str_state) & PYTHON_STR_COMPACT_ASCII) != PYTHON_STR_COMPACT_ASCII ||
		!python_text_read(&m.name, name + c->str_data, len))
		return 0;
	bpf_loop(PYTHON_NAMES_MAX, python_function_match, &m, 0);
	return m.found;
}

/* Whether the function's own code is about to run: not if the call makes a generator, nor if an exception is thrown into one,
 * which the argument after the frame tells. */
static __always_inline bool python_runs(
	struct pt_regs *ctx, const struct python_calls *c, u32 place, u64 frame, u64 code, bool yields)
{
	if (c->how == PYTHON_BY_CALL)
		return !(u32)reg_at(ctx, place - 1);
	return !((u32)python_word(code + c->code_flags) & PYTHON_CODE_GENERATOR) ||
	       (yields && python_byte(frame + c->frame_owner) == PYTHON_OWNER_GENERATOR);
}

/* The interpreter begins to run a function. Returns whether an option names it; fills in *call then. */
static __always_inline bool python_probe_call(struct pt_regs *ctx, u32 at, u32 id, struct python_call *call)
{
	u64 cookie = bpf_get_attach_cookie(ctx), state, frame, code, name, length;
	u32 key = at * PYTHON_LAYOUTS + (cookie >> PROBE_COOKIE_PYTHON_SHIFT & PROBE_COOKIE_PYTHON_MAX);
	const struct python_calls *c = bpf_map_lookup_elem(&python_calls, &key);
	u32 place, named;

	if (!c || (c->if_equal && !found_equal(ctx)))
		return 0;
	place = cookie >> PROBE_COOKIE_REG_SHIFT & PROBE_COOKIE_REG_MAX;
	state = reg_at(ctx, place);
	frame = c->thread_frame == PYTHON_NO_OFFSET ? state : python_current(c, state);
	code = python_word(frame + c->frame_code) & ~PYTHON_TAGS;
	name = python_word(code + c->code_name);
	length = python_word(name + c->str_length);
	if (length >= PYTHON_TEXT_MAX || !(c->lengths >> length & 1))
		return 0;
	named = python_is_named(c, code, name, length);
	if (!named || !python_runs(ctx, c, place, frame, code, !(cookie & PROBE_COOKIE_NO_YIELDS)))
		return 0;
	*call = (struct python_call){ frame, state, code, key, id, named - 1, PYTHON_BY_PROBE, c->batch.results };
	return 1;
}

/* The frame of the function that the interpreter leaves; not with PYTHON_BY_CALL. */
static __always_inline u64 python_left(struct pt_regs *ctx, const struct python_calls *c, u64 state, u64 cookie)
{
	return c->how == PYTHON_BY_STATE ? python_current(c, state) : reg_at(ctx, cookie >> PROBE_COOKIE_EXIT_SHIFT & PROBE_COOKIE_REG_MAX);
}

/* The interpreter leaves a function. Returns whether it is the step in flight, which is over then. */
static __always_inline bool python_leave(struct pt_regs *ctx, struct thread *t, u32 id, u64 cookie, u64 sp)
{
	const struct python_calls *c;
	u32 key;

	if (!t->python_frame || t->python_probe != id)
		return 0;
	key = t->python_key;
	c = bpf_map_lookup_elem(&python_calls, &key);
	if (!c)
		return 0;
	if (c->how == PYTHON_BY_CALL) {
		if (t->python_end_sp != sp)
			return 0;
	} else if (python_left(ctx, c, t->python_state, cookie) != t->python_frame) {
		return 0;
	}
	python_note_left(t);
	t->python_frame = 0;
	return 1;
}

#endif
