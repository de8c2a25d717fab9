// SPDX-License-Identifier: BSD-2-Clause
/*
 * Where the versions of CPython keep what, on 64-bit machines. The offsets of a release series do not change after its
 * first release, since extension modules are compiled against them.
 *
 * Sources: 3.9 and 3.11 are from offsetof() with the headers of Debian's packages, 3.8, 3.10 and 3.12 from CPython's public
 * headers (Include/cpython, Include/internal). From 3.13 on the interpreter has a table of its own offsets,
 * _Py_DebugOffsets, of which only the order must be known: from offsetof() with Debian's headers of 3.13 and 3.14. All have been
 * compared with what interpreters of these versions say of themselves (tests/unit/test_python_live.c), except for builds
 * without the global lock.
 *
 * asyncio's tasks are not among them, since their type is private to a module: the offsets of 3.8 to 3.13 are where interpreters
 * of these versions have a task's own coroutine and name (compared by the same test), those of 3.14 are from the layout in
 * CPython's Modules/_asynciomodule.c and have not been tried.
 */
#include "target/python.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define NONE PYTHON_NO_OFFSET
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* The same in 3.8 to 3.10 ... */
#define OLD_RUNTIME .interpreters = 32, .interp_next = 0, .interp_threads = 8
#define OLD_THREAD .thread_next = 8, .thread_self = 176, .thread_native = NONE, .thread_frame = 24, .cframe_frame = NONE
#define OLD_FRAME .frame_code = 32, .frame_previous = 24, .frame_owner = NONE, .frame_entry = NONE, \
	.gen_owner = NONE, .gen_frame = NONE, .code_flags = NONE, .flags = PYTHON_WALK_LASTI | PYTHON_WALK_EACH
#define OLD_CODE .type = 8, .code_name = 112, .code_filename = 104, .code_qualname = NONE, .code_lines = 120, \
	.code_firstlineno = 40, .code_start = NONE
/* ... and up to 3.11, where strings could have a wchar_t copy */
#define OLD_STRINGS .bytes_size = 16, .bytes_data = 32, .str_length = 16, .str_state = 32, .str_kind_shift = 2, \
	.str_data = 48, .str_data_wide = 72

static const struct python known[] = {
	{
		.major = 3, .minor = 8,
		.walk = { OLD_RUNTIME, OLD_THREAD, OLD_FRAME, .frame_instr = 104, .frame_gen = 96, .frame_locals = 360,
			.task_coro = 112, .task_name = 120 },
		.objects = { OLD_CODE, OLD_STRINGS, .lines = PYTHON_LINES_LNOTAB, .lasti_unit = 1 },
	},
	{
		.major = 3, .minor = 9,
		.walk = { OLD_RUNTIME, OLD_THREAD, OLD_FRAME, .frame_instr = 104, .frame_gen = 96, .frame_locals = 360,
			.task_coro = 152, .task_name = 160 },
		.objects = { OLD_CODE, OLD_STRINGS, .lines = PYTHON_LINES_LNOTAB, .lasti_unit = 1 },
	},
	{
		.major = 3, .minor = 10,
		.walk = { OLD_RUNTIME, OLD_THREAD, OLD_FRAME, .frame_instr = 96, .frame_gen = 88, .frame_locals = 352,
			.task_coro = 160, .task_name = 168 },
		.objects = { OLD_CODE, OLD_STRINGS, .lines = PYTHON_LINES_RANGES, .lasti_unit = 2 },
	},
	{
		.major = 3, .minor = 11,
		.walk = {
			.interpreters = 40, .interp_next = 0, .interp_threads = 16,
			.thread_next = 8, .thread_self = 152, .thread_native = 160, .thread_frame = 56, .cframe_frame = 8,
			.frame_code = 32, .frame_previous = 48, .frame_instr = 56, .frame_owner = NONE, .frame_entry = 68,
			.frame_gen = NONE, .gen_owner = 69, .gen_frame = 80, .frame_locals = 72, .code_flags = NONE,
			.task_coro = 136, .task_name = 144,
		},
		.objects = {
			.type = 8, .code_name = 120, .code_filename = 112, .code_qualname = 128, .code_lines = 136,
			.code_firstlineno = 72, .code_start = 184, OLD_STRINGS, .lines = PYTHON_LINES_LOCATIONS,
		},
	},
	{
		.major = 3, .minor = 12,
		.walk = {
			.interpreters = 40, .interp_next = 0, .interp_threads = 72,
			.thread_next = 8, .thread_self = 136, .thread_native = 144, .thread_frame = 56, .cframe_frame = 0,
			.frame_code = 0, .frame_previous = 8, .frame_instr = 56, .frame_owner = 70, .frame_entry = NONE,
			.owner_shim = 3,
			.frame_gen = NONE, .gen_owner = 70, .gen_frame = 72, .frame_locals = 72, .code_flags = 48,
			.task_coro = 136, .task_name = 144,
		},
		.objects = {
			.type = 8, .code_name = 120, .code_filename = 112, .code_qualname = 128, .code_lines = 136,
			.code_firstlineno = 68, .code_start = 192,
			.bytes_size = 16, .bytes_data = 32, .str_length = 16, .str_state = 32, .str_kind_shift = 2,
			.str_data = 40, .str_data_wide = 56, .lines = PYTHON_LINES_LOCATIONS,
		},
	},
};

int python_layout_known(unsigned int major, unsigned int minor, struct python *ret_python)
{
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (known[i].major != major || known[i].minor != minor)
			continue;
		*ret_python = known[i];
		return 0;
	}
	return -ENOTSUP;
}

/* Which word of _Py_DebugOffsets has what. */
struct debug_words {
	unsigned int minor;
	uint8_t interpreters, interp_next, interp_threads;
	uint8_t thread_next, thread_frame, thread_self, thread_native;
	uint8_t frame_previous, frame_code, frame_instr, frame_locals, frame_owner;
	uint8_t code_filename, code_name, code_qualname, code_lines, code_firstlineno, code_argcount, code_start;
	uint8_t type, bytes_size, bytes_data, str_state, str_length, str_data;
	uint8_t free_kind_shift; /* of a build without the global lock */
	/* Not among them: asyncio's tasks, of builds with the lock. */
	uint16_t task_coro, task_name, gen_frame;
};

static const struct debug_words debug_words[] = {
	{
		.minor = 13,
		.interpreters = 5, .interp_next = 8, .interp_threads = 9,
		.thread_next = 21, .thread_frame = 23, .thread_self = 24, .thread_native = 25,
		.frame_previous = 29, .frame_code = 30, .frame_instr = 31, .frame_locals = 32, .frame_owner = 33,
		.code_filename = 35, .code_name = 36, .code_qualname = 37, .code_lines = 38, .code_firstlineno = 39,
		.code_argcount = 40, .code_start = 43,
		.type = 45, .bytes_size = 65, .bytes_data = 66, .str_state = 68, .str_length = 69, .str_data = 70,
		.free_kind_shift = 2, .task_coro = 120, .task_name = 128, .gen_frame = 72,
	},
	{
		.minor = 14,
		.interpreters = 5, .interp_next = 8, .interp_threads = 9,
		.thread_next = 24, .thread_frame = 26, .thread_self = 27, .thread_native = 28,
		.frame_previous = 32, .frame_code = 33, .frame_instr = 34, .frame_locals = 35, .frame_owner = 36,
		.code_filename = 40, .code_name = 41, .code_qualname = 42, .code_lines = 43, .code_firstlineno = 44,
		.code_argcount = 45, .code_start = 48,
		.type = 51, .bytes_size = 75, .bytes_data = 76, .str_state = 78, .str_length = 79, .str_data = 80,
		.free_kind_shift = 8, .task_coro = 128, .task_name = 136, .gen_frame = 72,
	},
};

#define COOKIE "xdebugpy"
#define WORD_VERSION 1
#define WORD_FREE_THREADED 2

#define CODE_FLAGS_SIZE 4 /* an int right before the number of arguments */

/* Larger offsets than any version has, several times over. */
#define RUNTIME_MAX (1u << 20)
#define OBJECT_MAX 4096

/* What was read, and whether all of it could be right so far. */
struct words {
	const uint64_t *word;
	bool bad;
};

static uint32_t take(struct words *w, unsigned int at, uint32_t max)
{
	if (w->word[at] < max)
		return (uint32_t)w->word[at];
	w->bad = true;
	return 0;
}

static uint16_t take_offset(struct words *w, unsigned int at)
{
	return (uint16_t)take(w, at, OBJECT_MAX);
}

static void read_walk(struct words *w, const struct debug_words *d, struct python_walk *ret)
{
	bool tasks = !w->word[WORD_FREE_THREADED];
	uint16_t argcount = take_offset(w, d->code_argcount);

	*ret = (struct python_walk){
		.interpreters = take(w, d->interpreters, RUNTIME_MAX),
		.interp_next = take(w, d->interp_next, RUNTIME_MAX),
		.interp_threads = take(w, d->interp_threads, RUNTIME_MAX),
		.thread_next = take_offset(w, d->thread_next),
		.thread_self = take_offset(w, d->thread_self),
		.thread_native = take_offset(w, d->thread_native),
		.thread_frame = take_offset(w, d->thread_frame),
		.cframe_frame = NONE,
		.frame_code = take_offset(w, d->frame_code),
		.frame_previous = take_offset(w, d->frame_previous),
		.frame_instr = take_offset(w, d->frame_instr),
		.frame_owner = take_offset(w, d->frame_owner),
		.frame_entry = NONE,
		.owner_shim = 3, /* FRAME_OWNED_BY_CSTACK; in 3.14 FRAME_OWNED_BY_INTERPRETER, and _CSTACK is 4 */
		.task_coro = tasks ? d->task_coro : NONE,
		.task_name = d->task_name,
		.frame_locals = take_offset(w, d->frame_locals),
		.frame_gen = NONE,
		.gen_frame = d->gen_frame,
		.code_flags = argcount >= CODE_FLAGS_SIZE ? argcount - CODE_FLAGS_SIZE : NONE,
	};
	ret->gen_owner = ret->frame_owner;
}

static void read_objects(struct words *w, const struct debug_words *d, struct python_objects *ret)
{
	bool free_threaded = w->word[WORD_FREE_THREADED] != 0;

	*ret = (struct python_objects){
		.type = take_offset(w, d->type),
		.code_name = take_offset(w, d->code_name),
		.code_filename = take_offset(w, d->code_filename),
		.code_qualname = take_offset(w, d->code_qualname),
		.code_lines = take_offset(w, d->code_lines),
		.code_firstlineno = take_offset(w, d->code_firstlineno),
		.code_start = take_offset(w, d->code_start),
		.bytes_size = take_offset(w, d->bytes_size),
		.bytes_data = take_offset(w, d->bytes_data),
		.str_length = take_offset(w, d->str_length),
		.str_state = take_offset(w, d->str_state),
		.str_data = take_offset(w, d->str_data),
		.str_kind_shift = free_threaded ? d->free_kind_shift : 2,
		.lines = PYTHON_LINES_LOCATIONS,
	};
	/* behind the length and the address of a copy in UTF-8 */
	ret->str_data_wide = ret->str_data + 16;
}

int python_layout_read(const uint64_t *words, size_t n, struct python *ret_python)
{
	struct words w = { .word = words };
	struct python p = {};

	if (n < PYTHON_DEBUG_WORDS || memcmp(words, COOKIE, sizeof(uint64_t)))
		return -ENOENT;
	p.major = (words[WORD_VERSION] >> 24) & 0xff; /* PY_VERSION_HEX */
	p.minor = (words[WORD_VERSION] >> 16) & 0xff;
	for (size_t i = 0; i < ARRAY_SIZE(debug_words); i++) {
		if (p.major != 3 || debug_words[i].minor != p.minor)
			continue;
		read_walk(&w, &debug_words[i], &p.walk);
		read_objects(&w, &debug_words[i], &p.objects);
		if (w.bad)
			return -EBADMSG;
		*ret_python = p;
		return 0;
	}
	ret_python->major = p.major;
	ret_python->minor = p.minor;
	return -ENOTSUP;
}
