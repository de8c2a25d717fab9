// SPDX-License-Identifier: BSD-2-Clause
#include "stack/python_name.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/bytes.h"
#include "util/map.h"
#include "util/text.h"

/* ---- converting a string's characters in memory to UTF-8 ---- */

struct python_string {
	uint64_t length;    /* characters */
	unsigned int width; /* bytes per character */
	bool ascii;
};

#define LENGTH_MAX (1u << 20)

/* Decodes a string's state: three bits of width, one for compact, one for ASCII. -EBADMSG: no such string exists, or it is not a
 * function's name: a legacy string, or longer than LENGTH_MAX. */
static int python_text_kind(uint32_t state, uint64_t length, struct python_string *ret_text)
{
	struct python_string t = { .length = length, .width = state & 7, .ascii = state & 16 };
	bool compact = state & 8;

	if (!compact || (t.width != 1 && t.width != 2 && t.width != 4) || (t.ascii && t.width != 1) || length > LENGTH_MAX)
		return -EBADMSG;
	*ret_text = t;
	return 0;
}

/* Writes as many whole characters as fit with a NUL; invalid ones become '?'. */
static void python_text_write(const struct python_string *t, const uint8_t *data, char *buf, size_t size)
{
	size_t at = 0;

	for (uint64_t i = 0; i < t->length; i++) {
		uint32_t c = 0;
		char utf8[4];
		size_t n;

		memcpy(&c, data + i * t->width, t->width); /* both are little-endian */
		if (!c || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) || (t->ascii && c >= 0x80))
			c = '?';
		n = (size_t)(text_encode(utf8, c) - utf8);
		if (at + n >= size)
			break;
		memcpy(buf + at, utf8, n);
		at += n;
	}
	buf[at] = 0;
}

/* The formats are described in CPython's Objects/lnotab_notes.txt and Objects/locations.md. */
#define UNIT 2 /* bytes of a code unit, in which locations count */

/* Kinds of locations; smaller ones stay on the same line, with columns in one more byte. */
enum {
	LOC_ONE_LINE = 10, /* 10 to 12: 0 to 2 lines further, and two bytes of columns */
	LOC_NO_COLUMNS = 13,
	LOC_LONG = 14,
	LOC_NONE = 15,
};

static uint32_t to_line(int64_t line)
{
	return line > 0 && line <= INT32_MAX ? (uint32_t)line : 0;
}

/* Table of byte pairs: code offset increment, signed line increment. */
static uint32_t line_by_lnotab(const uint8_t *t, size_t len, int64_t line, int64_t offset)
{
	int64_t at = 0;

	for (size_t i = 0; i + 1 < len; i += 2) {
		at += t[i];
		if (at > offset)
			break;
		line += (int8_t)t[i + 1];
	}
	return to_line(line);
}

/* Table of byte pairs: length of a code range, line difference to the range before; -128: the range has no line. */
static uint32_t line_by_ranges(const uint8_t *t, size_t len, int64_t line, int64_t offset)
{
	int64_t end = 0;

	if (offset < 0)
		return to_line(line);
	for (size_t i = 0; i + 1 < len; i += 2) {
		int8_t delta = (int8_t)t[i + 1];

		end += t[i];
		if (delta != -128)
			line += delta;
		if (offset < end)
			return delta == -128 ? 0 : to_line(line);
	}
	return 0;
}

/* Six bits per byte, lowest first; bit 6: more follow; bit 0 of the number is its sign. */
static int64_t read_svarint(const uint8_t *t, size_t len, size_t i)
{
	uint64_t value = 0;

	for (unsigned int shift = 0; i < len && shift < 36; shift += 6) {
		value |= (uint64_t)(t[i] & 63) << shift;
		if (!(t[i++] & 64))
			break;
	}
	return value & 1 ? -(int64_t)(value >> 1) : (int64_t)(value >> 1);
}

/* Each entry is a first byte with bit 7 set (kind and length) and further bytes without. */
static uint32_t line_by_locations(const uint8_t *t, size_t len, int64_t line, int64_t offset)
{
	int64_t end = 0;
	size_t i = 0;

	if (offset < 0)
		return to_line(line);
	while (i < len) {
		unsigned int kind = (t[i] >> 3) & 15;

		end += ((t[i] & 7) + 1) * UNIT;
		if (kind == LOC_LONG || kind == LOC_NO_COLUMNS)
			line += read_svarint(t, len, i + 1);
		else if (kind >= LOC_ONE_LINE && kind < LOC_NO_COLUMNS)
			line += kind - LOC_ONE_LINE;
		if (offset < end)
			return kind == LOC_NONE ? 0 : to_line(line);
		for (i++; i < len && !(t[i] & 0x80); i++)
			;
	}
	return 0;
}

uint32_t python_line(enum python_lines kind, const uint8_t *table, size_t len, uint32_t first_line, int64_t offset)
{
	switch (kind) {
	case PYTHON_LINES_LNOTAB:
		return line_by_lnotab(table, len, first_line, offset);
	case PYTHON_LINES_RANGES:
		return line_by_ranges(table, len, first_line, offset);
	case PYTHON_LINES_LOCATIONS:
		return line_by_locations(table, len, first_line, offset);
	}
	return 0;
}

/* Bytes of code objects of all processes: beyond this all are forgotten and read again. */
#define MEMORY_MAX (8u << 20)
#define LINES_MAX (256u << 10) /* bytes of a line table; a function with more gets no lines */
#define GONE_MAX 64            /* gone processes whose names are kept */
#define CODE_MAX 512           /* bytes of a code object up to the last offset */

struct task_name {
	UT_hash_handle hh;
	char text[];
};

struct python_process {
	uint32_t tgid;
	int fd;
	bool gone;
	struct python python;
	struct task_name *tasks;
	UT_hash_handle hh;
};

struct code_key {
	uint64_t address;
	uint32_t tgid, pad;
};

/* A freed code object's address may be reused: it is the same object while these fields are equal. */
struct code_mark {
	uint64_t name, file, lines;
	uint32_t first_line;
};

struct python_code {
	struct code_key key;
	struct code_mark mark;
	size_t size, lines_len;
	uint8_t *lines;
	char *file; /* behind the name */
	UT_hash_handle hh;
	char name[];
};

struct python_names {
	pthread_mutex_t lock;
	python_read read;
	void *arg;
	struct python_process *processes; /* oldest first */
	unsigned int n_gone;
	struct python_code *codes;
	struct python_names_stats stats;
	/* the last answer */
	char name[PYTHON_NAME_MAX], file[PYTHON_FILE_MAX];
	char task[PYTHON_NAME_MAX + sizeof("[task ]")];
};

struct python_names *python_names_new(python_read read, void *arg)
{
	struct python_names *n = xcalloc(1, sizeof(*n));

	pthread_mutex_init(&n->lock, NULL);
	n->read = read;
	n->arg = arg;
	return n;
}

static void code_drop(struct python_names *n, struct python_code *c)
{
	HASH_DEL(n->codes, c);
	n->stats.memory -= c->size;
	free(c->lines);
	free(c);
}

static void codes_drop(struct python_names *n, uint32_t tgid)
{
	struct python_code *c = n->codes, *next;

	for (; c; c = next) {
		next = c->hh.next;
		if (!tgid || c->key.tgid == tgid)
			code_drop(n, c);
	}
}

static void names_drop_process(struct python_names *n, struct python_process *p)
{
	struct task_name *t, *next;

	codes_drop(n, p->tgid);
	HASH_ITER(hh, p->tasks, t, next)
	{
		HASH_DEL(p->tasks, t);
		free(t);
	}
	n->n_gone -= p->gone;
	HASH_DEL(n->processes, p);
	if (p->fd >= 0)
		close(p->fd);
	free(p);
}

void python_names_free(struct python_names *n)
{
	if (!n)
		return;
	while (n->processes)
		names_drop_process(n, n->processes);
	pthread_mutex_destroy(&n->lock);
	free(n);
}

static struct python_process *names_find_process(const struct python_names *n, uint32_t tgid)
{
	struct python_process *p;

	HASH_FIND(hh, n->processes, &tgid, sizeof(tgid), p);
	return p;
}

bool python_names_gone(struct python_names *n, uint32_t tgid)
{
	struct python_process *p, *old;
	bool had;

	pthread_mutex_lock(&n->lock);
	p = names_find_process(n, tgid);
	had = p && !p->gone;
	n->n_gone += had;
	if (had)
		p->gone = true;
	old = n->processes;
	while (old && n->n_gone > GONE_MAX && !old->gone)
		old = old->hh.next;
	if (old && n->n_gone > GONE_MAX)
		names_drop_process(n, old);
	pthread_mutex_unlock(&n->lock);
	return had;
}

bool python_names_has(struct python_names *n, uint32_t tgid, struct python *ret_python)
{
	struct python_process *p;

	pthread_mutex_lock(&n->lock);
	p = names_find_process(n, tgid);
	if (p && p->gone)
		p = NULL;
	if (p)
		*ret_python = p->python;
	pthread_mutex_unlock(&n->lock);
	return p;
}

void python_names_set(struct python_names *n, uint32_t tgid, const struct python *python)
{
	struct python_process *p = xcalloc(1, sizeof(*p)), *old;

	p->tgid = tgid;
	p->fd = -1;
	p->python = *python;
	pthread_mutex_lock(&n->lock);
	old = names_find_process(n, tgid);
	if (old)
		names_drop_process(n, old);
	HASH_ADD(hh, n->processes, tgid, sizeof(p->tgid), p);
	pthread_mutex_unlock(&n->lock);
}

void python_names_stats(struct python_names *n, struct python_names_stats *ret_stats)
{
	pthread_mutex_lock(&n->lock);
	*ret_stats = n->stats;
	pthread_mutex_unlock(&n->lock);
}

/* ---- memory of the process ---- */

/* The descriptor stays with the address space that it was opened for: after exec or exit it reads nothing. */
static int proc_read_memory(struct python_names *n, struct python_process *p, uint64_t address, void *buf, size_t len)
{
	char path[64];
	ssize_t got;

	if (address > INT64_MAX - len)
		return -EFAULT;
	if (n->read)
		return n->read(n->arg, p->tgid, address, buf, len);
	if (p->fd < 0) {
		snprintf(path, sizeof(path), "/proc/%u/mem", p->tgid);
		p->fd = open(path, O_RDONLY | O_CLOEXEC);
		if (p->fd < 0)
			return -ESRCH;
	}
	got = pread(p->fd, buf, len, (off_t)address);
	if (got == (ssize_t)len)
		return 0;
	return got ? -EFAULT : -ESRCH;
}

/* Returns the bytes of an object up to the end of its last field; 0: more than CODE_MAX. */
static size_t object_extent(const uint16_t *offsets, size_t n)
{
	size_t end = 0;

	for (size_t i = 0; i < n; i++) {
		if (offsets[i] != PYTHON_NO_OFFSET && offsets[i] + sizeof(uint64_t) > end)
			end = offsets[i] + sizeof(uint64_t);
	}
	return end <= CODE_MAX ? end : 0;
}
#define EXTENT(...) object_extent((const uint16_t[]){ __VA_ARGS__ }, sizeof((const uint16_t[]){ __VA_ARGS__ }) / sizeof(uint16_t))

static bool has_type(const struct python *p, const uint8_t *object, uint64_t type)
{
	return !type || u64_at(object, p->objects.type) == type;
}

/* Reads the first len bytes of an object and checks its type. len 0, from object_extent(), fails. */
static int proc_read_object(struct python_names *n, struct python_process *p, uint64_t address, uint64_t type, uint8_t *buf, size_t len)
{
	int err = len ? proc_read_memory(n, p, address, buf, len) : -EFAULT;

	return err || has_type(&p->python, buf, type) ? err : -EFAULT;
}

/* head: a copy of the string object, at least up to its state. */
static int object_get_string(const struct python_objects *o, const uint8_t *head, struct python_string *ret)
{
	return python_text_kind(u32_at(head, o->str_state) >> o->str_kind_shift, u64_at(head, o->str_length), ret);
}

/* Reads a string as UTF-8, NUL-terminated, as much of it as fits. */
static int proc_read_string(struct python_names *n, struct python_process *p, uint64_t address, char *buf, size_t size)
{
	const struct python_objects *o = &p->python.objects;
	uint8_t head[CODE_MAX], data[PYTHON_FILE_MAX * 4];
	struct python_string t;
	int err = proc_read_object(n, p, address, p->python.type_str, head, EXTENT(o->type, o->str_length, o->str_state));

	if (err)
		return err;
	if (object_get_string(o, head, &t))
		return -EFAULT;
	/* each character takes at least a byte */
	if (t.length > size - 1)
		t.length = size - 1;
	err = proc_read_memory(n, p, address + (t.ascii ? o->str_data : o->str_data_wide), data, t.length * t.width);
	if (!err)
		python_text_write(&t, data, buf, size);
	return err;
}

/* On failure the function has a name, but no lines. */
static void code_read_lines(struct python_names *n, struct python_process *p, struct python_code *c)
{
	const struct python_objects *o = &p->python.objects;
	uint8_t head[CODE_MAX];
	uint64_t size;

	if (proc_read_object(n, p, c->mark.lines, p->python.type_bytes, head, EXTENT(o->type, o->bytes_size)))
		return;
	size = u64_at(head, o->bytes_size);
	if (size > LINES_MAX)
		return;
	c->lines = xmalloc(size); /* an empty table means that all code is in the first line */
	if (size && proc_read_memory(n, p, c->mark.lines + o->bytes_data, c->lines, size)) {
		free(c->lines);
		c->lines = NULL;
		return;
	}
	c->lines_len = size;
}

/* ---- code objects ---- */

static int code_read_mark(struct python_names *n, struct python_process *p, uint64_t address, struct code_mark *ret_mark)
{
	const struct python_objects *o = &p->python.objects;
	uint16_t name = o->code_qualname == PYTHON_NO_OFFSET ? o->code_name : o->code_qualname;
	uint8_t object[CODE_MAX];
	int err = proc_read_object(n, p, address, p->python.type_code, object,
		EXTENT(o->type, name, o->code_filename, o->code_lines, o->code_firstlineno));

	if (err)
		return err;
	*ret_mark = (struct code_mark){
		.name = u64_at(object, name),
		.file = u64_at(object, o->code_filename),
		.lines = u64_at(object, o->code_lines),
		.first_line = u32_at(object, o->code_firstlineno),
	};
	return 0;
}

static int code_object_read(struct python_names *n, struct python_process *p, const struct code_key *key, const struct code_mark *mark,
	struct python_code **ret_code)
{
	char name[PYTHON_NAME_MAX], file[PYTHON_FILE_MAX];
	struct python_code *c;
	size_t len;
	int err;

	err = proc_read_string(n, p, mark->name, name, sizeof(name));
	if (err)
		return err;
	if (proc_read_string(n, p, mark->file, file, sizeof(file)))
		file[0] = 0;
	len = strlen(name) + 1;
	c = xcalloc(1, sizeof(*c) + len + strlen(file) + 1);
	c->key = *key;
	c->mark = *mark;
	c->file = c->name + len;
	memcpy(c->name, name, len);
	memcpy(c->file, file, strlen(file) + 1);
	code_read_lines(n, p, c);
	c->size = sizeof(*c) + len + strlen(file) + 1 + c->lines_len;
	if (n->stats.memory + c->size > MEMORY_MAX)
		codes_drop(n, 0);
	HASH_ADD(hh, n->codes, key, sizeof(c->key), c);
	n->stats.memory += c->size;
	n->stats.read++;
	*ret_code = c;
	return 0;
}

static int code_object_get(struct python_names *n, struct python_process *p, uint64_t address, struct python_code **ret_code)
{
	struct code_key key = { .address = address, .tgid = p->tgid };
	struct code_mark mark;
	struct python_code *c;
	int err;

	HASH_FIND(hh, n->codes, &key, sizeof(key), c);
	err = code_read_mark(n, p, address, &mark);
	if (err == -ESRCH && c) {
		*ret_code = c; /* the process has exited since the sample */
		return 0;
	}
	if (err)
		return err;
	if (c && c->mark.name == mark.name && c->mark.file == mark.file && c->mark.lines == mark.lines &&
		c->mark.first_line == mark.first_line) {
		*ret_code = c;
		return 0;
	}
	if (c)
		code_drop(n, c);
	return code_object_read(n, p, &key, &mark, ret_code);
}

static uint32_t code_line(const struct python_process *p, const struct python_code *c, uint64_t instr)
{
	const struct python_objects *o = &p->python.objects;
	int64_t offset;

	if (!c->lines)
		return 0;
	if (p->python.walk.flags & PYTHON_WALK_LASTI)
		offset = (int64_t)(int32_t)instr * o->lasti_unit;
	else
		offset = (int64_t)(instr - (c->key.address + o->code_start));
	/* before the first instruction: the function has not begun; far from it: not this code */
	if (offset < -16)
		return 0;
	return python_line(o->lines, c->lines, c->lines_len, c->mark.first_line, offset);
}

int python_names_get(struct python_names *n, uint32_t tgid, uint64_t code, uint64_t instr, struct python_name *ret_named)
{
	struct python_process *p;
	struct python_code *c;
	int err = -ENOENT;

	pthread_mutex_lock(&n->lock);
	p = names_find_process(n, tgid);
	if (p)
		err = code_object_get(n, p, code, &c);
	if (!err) {
		snprintf(n->name, sizeof(n->name), "%s", c->name);
		snprintf(n->file, sizeof(n->file), "%s", c->file);
		*ret_named = (struct python_name){ n->name, n->file[0] ? n->file : NULL, code_line(p, c, instr) };
		n->stats.named++;
	} else {
		n->stats.failed++;
	}
	pthread_mutex_unlock(&n->lock);
	return err;
}

/* ---- the Python frames of a waiting thread, found as in bpf/python.bpf.h ---- */

struct python_memory {
	struct python_names *names;
	struct python_process *process;
	const struct python_walk *w; /* of the process */
};

/* Returns 0 also if the word cannot be read. */
static uint64_t get_word(const struct python_memory *m, uint64_t address, size_t len)
{
	uint64_t v = 0;

	return proc_read_memory(m->names, m->process, address, &v, len) ? 0 : v;
}

static uint64_t thread_innermost_frame(const struct python_memory *m, uint64_t thread)
{
	uint64_t frame = get_word(m, thread + m->w->thread_frame, 8);

	if (frame && m->w->cframe_frame != PYTHON_NO_OFFSET)
		frame = get_word(m, frame + m->w->cframe_frame, 8);
	return frame;
}

/* Returns the innermost frame of the thread, or 0. */
static uint64_t find_frame(const struct python_memory *m, uint64_t self)
{
	uint64_t interp = get_word(m, m->w->runtime + m->w->interpreters, 8), thread = 0;

	for (unsigned int i = 0; i < PYTHON_THREADS_MAX; i++) {
		uint64_t frame;

		if (!thread) {
			if (!interp)
				break;
			thread = get_word(m, interp + m->w->interp_threads, 8);
			interp = get_word(m, interp + m->w->interp_next, 8);
			continue;
		}
		frame = get_word(m, thread + m->w->thread_self, 8) == self ? thread_innermost_frame(m, thread) : 0;
		if (frame)
			return frame;
		thread = get_word(m, thread + m->w->thread_next, 8);
	}
	return 0;
}

static struct python_frame read_frame(const struct python_memory *m, uint64_t frame)
{
	const struct python_walk *w = m->w;
	struct python_frame f = {
		.code = get_word(m, frame + w->frame_code, 8) & ~PYTHON_TAGS,
		.instr = get_word(m, frame + w->frame_instr, w->flags & PYTHON_WALK_LASTI ? 4 : 8) & ~PYTHON_F_ENTRY,
	};

	if (w->flags & PYTHON_WALK_EACH || (w->frame_entry != PYTHON_NO_OFFSET && get_word(m, frame + w->frame_entry, 1)))
		f.instr |= PYTHON_F_ENTRY;
	return f;
}

/* Returns the generator or coroutine that a frame belongs to, or 0. */
static uint64_t generator_of(const struct python_memory *m, uint64_t frame)
{
	if (m->w->frame_gen != PYTHON_NO_OFFSET)
		return get_word(m, frame + m->w->frame_gen, 8);
	return get_word(m, frame + m->w->gen_owner, 1) == PYTHON_OWNER_GENERATOR ? frame - m->w->gen_frame : 0;
}

static void copy_task(const struct python_memory *m, uint64_t name, struct python_found *f)
{
	const uint32_t step = 32;

	f->task.frames = f->n;
	f->task.bytes = 0;
	while (f->task.bytes < PYTHON_TASK_BYTES && !proc_read_memory(m->names, m->process, name + f->task.bytes, f->task.name + f->task.bytes, step))
		f->task.bytes += step;
	f->has_task = f->task.bytes > 0;
}

/* See python_task_look() in bpf/python.bpf.h. Returns whether the search for a task is over. */
static bool frame_find_task(const struct python_memory *m, uint64_t frame, uint64_t gen, struct python_found *f)
{
	uint64_t self = get_word(m, frame + m->w->frame_locals, 8) & ~PYTHON_TAGS, callback, task;

	callback = self ? get_word(m, self + PYTHON_HANDLE_CALLBACK, 8) : 0;
	for (int i = 0; callback && i < 2; i++) {
		task = get_word(m, callback + (i ? PYTHON_CALLBACK_METHOD : PYTHON_CALLBACK_STEP), 8);
		if (!task || get_word(m, task + m->w->task_coro, 8) != gen)
			continue;
		copy_task(m, get_word(m, task + m->w->task_name, 8), f);
		return true;
	}
	return m->w->code_flags != PYTHON_NO_OFFSET && f->n &&
	       get_word(m, f->frames[f->n - 1].code + m->w->code_flags, 4) & PYTHON_CODE_ASYNC;
}

static void find_frames(const struct python_memory *m, uint64_t self, struct python_found *ret)
{
	const struct python_walk *w = m->w;
	uint64_t frame = self ? find_frame(m, self) : 0, previous, gen, inner = 0;
	bool looks = w->task_coro != PYTHON_NO_OFFSET;

	for (unsigned int i = 0; frame && i < PYTHON_STEPS_MAX; i++) {
		if (proc_read_memory(m->names, m->process, frame + w->frame_previous, &previous, sizeof(previous)))
			break;
		if (w->frame_owner != PYTHON_NO_OFFSET && get_word(m, frame + w->frame_owner, 1) >= w->owner_shim) {
			if (ret->n)
				ret->frames[ret->n - 1].instr |= PYTHON_F_ENTRY;
		} else {
			if (ret->n == SAMPLE_PYTHON_MAX)
				break;
			gen = looks ? generator_of(m, frame) : 0;
			if (!gen && inner)
				looks = !frame_find_task(m, frame, inner, ret);
			inner = gen;
			ret->frames[ret->n++] = read_frame(m, frame);
		}
		frame = previous;
	}
	ret->cut = frame != 0;
}

void python_names_frames(struct python_names *n, uint32_t tgid, uint64_t self, struct python_found *ret_found)
{
	struct python_process *p;

	ret_found->n = 0;
	ret_found->cut = ret_found->has_task = false;
	pthread_mutex_lock(&n->lock);
	p = names_find_process(n, tgid);
	if (p)
		find_frames(&(struct python_memory){ n, p, &p->python.walk }, self, ret_found);
	pthread_mutex_unlock(&n->lock);
}

/* ---- asyncio ---- */

/* Gives the text of a task's name, of whose string object the beginning was copied. -EFAULT: it is not a string. */
static int task_name_text(const struct python *p, const struct python_task *task, char *buf, size_t size)
{
	const struct python_objects *o = &p->objects;
	uint32_t bytes = task->bytes < PYTHON_TASK_BYTES ? task->bytes : PYTHON_TASK_BYTES;
	size_t len = EXTENT(o->type, o->str_length, o->str_state), at;
	struct python_string t;

	if (!len || len > bytes || !has_type(p, task->name, p->type_str) || object_get_string(o, task->name, &t))
		return -EFAULT;
	at = t.ascii ? o->str_data : o->str_data_wide;
	if (at > bytes)
		return -EFAULT;
	if (t.length > (bytes - at) / t.width)
		t.length = (bytes - at) / t.width;
	python_text_write(&t, task->name + at, buf, size);
	return 0;
}

/* Whether asyncio generated the name, like "Task-7". */
static bool task_is_numbered(const char *name)
{
	return !strncmp(name, "Task-", 5) && name[5] && !name[5 + strspn(name + 5, "0123456789")];
}

/* Whether the name may be shown: it is known, or there is room to add it. */
static bool task_known(struct python_names *n, struct python_process *p, const char *name)
{
	size_t len = strlen(name);
	struct task_name *t;

	HASH_FIND(hh, p->tasks, name, len, t);
	if (t)
		return true;
	if (HASH_COUNT(p->tasks) >= PYTHON_TASKS_MAX) {
		n->stats.tasks_left++;
		return false;
	}
	t = xmalloc(sizeof(*t) + len + 1);
	memcpy(t->text, name, len + 1);
	HASH_ADD_KEYPTR(hh, p->tasks, t->text, len, t);
	return true;
}

const char *python_names_task(struct python_names *n, uint32_t tgid, const struct python_task *task)
{
	char name[PYTHON_NAME_MAX];
	const char *found = NULL;
	struct python_process *p;

	pthread_mutex_lock(&n->lock);
	p = names_find_process(n, tgid);
	if (p && !task_name_text(&p->python, task, name, sizeof(name))) {
		found = n->task;
		if (name[0] && !task_is_numbered(name) && task_known(n, p, name))
			snprintf(n->task, sizeof(n->task), "[task %s]", name);
		else
			found = "[task]";
	} else if (p && p->python.type_int && task->bytes >= sizeof(uint64_t) * 2 &&
		   u64_at(task->name, p->python.objects.type) == p->python.type_int) {
		found = "[task]"; /* asyncio keeps only the number until somebody asks for the name */
	}
	pthread_mutex_unlock(&n->lock);
	return found;
}
