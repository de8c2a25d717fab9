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

#include "stack/python_frames.h"
#include "stack/python_line.h"
#include "stack/python_text.h"
#include "util/bytes.h"
#include "util/map.h"

/* Code objects of all processes: beyond this all are forgotten and read again. */
#define MEMORY_MAX (8u << 20)
#define LINES_MAX (256u << 10) /* bytes; a function of more has no lines */
#define GONE_MAX 64	       /* processes that names are kept of */
#define CODE_MAX 512	       /* bytes of a code object up to the last offset */

_Static_assert(STACK_PYTHON_ENTRY == PYTHON_F_ENTRY, "the bit is the one that the BPF programs set");

struct task_name {
	UT_hash_handle hh;
	char text[];
};

struct process {
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

/* A code object may be freed and another one be put in its place: it is the same as long as it has these. */
struct code_mark {
	uint64_t name, file, lines;
	uint32_t first_line;
};

struct code {
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
	struct process *processes; /* in the order in which they came */
	unsigned int n_gone;
	struct code *codes;
	struct python_names_stats stats;
	/* the last answer */
	char name[PYTHON_NAME_MAX], file[PYTHON_FILE_MAX];
	char task[PYTHON_NAME_MAX + sizeof("[task ]")];
};

int python_names_new(python_read read, void *arg, struct python_names **ret_names)
{
	struct python_names *n = calloc(1, sizeof(*n));

	if (!n)
		return -ENOMEM;
	pthread_mutex_init(&n->lock, NULL);
	n->read = read;
	n->arg = arg;
	*ret_names = n;
	return 0;
}

static void code_drop(struct python_names *n, struct code *c)
{
	HASH_DEL(n->codes, c);
	n->stats.memory -= c->size;
	free(c->lines);
	free(c);
}

static void codes_drop(struct python_names *n, uint32_t tgid)
{
	struct code *c = n->codes, *next;

	for (; c; c = next) {
		next = c->hh.next;
		if (!tgid || c->key.tgid == tgid)
			code_drop(n, c);
	}
}

static void process_drop(struct python_names *n, struct process *p)
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
		process_drop(n, n->processes);
	pthread_mutex_destroy(&n->lock);
	free(n);
}

static struct process *process_find(const struct python_names *n, uint32_t tgid)
{
	struct process *p;

	HASH_FIND(hh, n->processes, &tgid, sizeof(tgid), p);
	return p;
}

void python_names_gone(struct python_names *n, uint32_t tgid)
{
	struct process *p, *old;

	pthread_mutex_lock(&n->lock);
	p = process_find(n, tgid);
	if (p && !p->gone) {
		p->gone = true;
		n->n_gone++;
	}
	old = n->processes;
	while (old && n->n_gone > GONE_MAX && !old->gone)
		old = old->hh.next;
	if (old && n->n_gone > GONE_MAX)
		process_drop(n, old);
	pthread_mutex_unlock(&n->lock);
}

bool python_names_has(struct python_names *n, uint32_t tgid, struct python *ret_python)
{
	struct process *p;

	pthread_mutex_lock(&n->lock);
	p = process_find(n, tgid);
	if (p && p->gone)
		p = NULL;
	if (p)
		*ret_python = p->python;
	pthread_mutex_unlock(&n->lock);
	return p;
}

int python_names_set(struct python_names *n, uint32_t tgid, const struct python *python)
{
	struct process *p = calloc(1, sizeof(*p)), *old;
	int err = 0;

	if (!p)
		return -ENOMEM;
	p->tgid = tgid;
	p->fd = -1;
	p->python = *python;
	pthread_mutex_lock(&n->lock);
	old = process_find(n, tgid);
	if (old)
		process_drop(n, old);
	HASH_ADD(hh, n->processes, tgid, sizeof(p->tgid), p);
	if (!p->hh.tbl) {
		free(p);
		err = -ENOMEM;
	}
	pthread_mutex_unlock(&n->lock);
	return err;
}

void python_names_stats(struct python_names *n, struct python_names_stats *ret_stats)
{
	pthread_mutex_lock(&n->lock);
	*ret_stats = n->stats;
	pthread_mutex_unlock(&n->lock);
}

/* ---- memory of the process ---- */

/* The descriptor stays with the memory that it was opened for: after an exec, as at the end, there is none. */
static int read_memory(struct python_names *n, struct process *p, uint64_t address, void *buf, size_t len)
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

/* Bytes of an object up to the end of its last field; 0: out of bounds. */
static size_t extent(const uint16_t *offsets, size_t n)
{
	size_t end = 0;

	for (size_t i = 0; i < n; i++) {
		if (offsets[i] != PYTHON_NO_OFFSET && offsets[i] + sizeof(uint64_t) > end)
			end = offsets[i] + sizeof(uint64_t);
	}
	return end <= CODE_MAX ? end : 0;
}
#define EXTENT(...) extent((const uint16_t[]){ __VA_ARGS__ }, sizeof((const uint16_t[]){ __VA_ARGS__ }) / sizeof(uint16_t))

static bool has_type(const struct python *p, const uint8_t *object, uint64_t type)
{
	return !type || u64_at(object, p->objects.type) == type;
}

/* Reads a string as UTF-8, NUL-terminated, as much of it as fits. */
static int read_text(struct python_names *n, struct process *p, uint64_t address, char *buf, size_t size)
{
	const struct python_objects *o = &p->python.objects;
	uint8_t head[CODE_MAX], data[PYTHON_FILE_MAX * 4];
	size_t len = EXTENT(o->type, o->str_length, o->str_state);
	struct python_text t;
	int err;

	if (!len)
		return -EFAULT;
	err = read_memory(n, p, address, head, len);
	if (err)
		return err;
	if (!has_type(&p->python, head, p->python.type_str) ||
		python_text_kind(u32_at(head, o->str_state) >> o->str_kind_shift, u64_at(head, o->str_length), &t))
		return -EFAULT;
	/* no character is shorter than a byte */
	if (t.length > size - 1)
		t.length = size - 1;
	err = read_memory(n, p, address + (t.ascii ? o->str_data : o->str_data_wide), data, t.length * t.width);
	if (!err)
		python_text_write(&t, data, buf, size);
	return err;
}

/* Without them the function has a name, but no lines. */
static void read_lines(struct python_names *n, struct process *p, struct code *c)
{
	const struct python_objects *o = &p->python.objects;
	size_t len = EXTENT(o->type, o->bytes_size);
	uint8_t head[CODE_MAX];
	uint64_t size;

	if (!len || read_memory(n, p, c->mark.lines, head, len) || !has_type(&p->python, head, p->python.type_bytes))
		return;
	size = u64_at(head, o->bytes_size);
	if (size > LINES_MAX)
		return;
	c->lines = malloc(size + 1); /* an empty table says that all of it is in the first line */
	if (!c->lines)
		return;
	if (size && read_memory(n, p, c->mark.lines + o->bytes_data, c->lines, size)) {
		free(c->lines);
		c->lines = NULL;
		return;
	}
	c->lines_len = size;
}

/* ---- code objects ---- */

static int read_mark(struct python_names *n, struct process *p, uint64_t address, struct code_mark *ret_mark)
{
	const struct python_objects *o = &p->python.objects;
	uint16_t name = o->code_qualname == PYTHON_NO_OFFSET ? o->code_name : o->code_qualname;
	size_t len = EXTENT(o->type, name, o->code_filename, o->code_lines, o->code_firstlineno);
	uint8_t object[CODE_MAX];
	int err;

	if (!len)
		return -EFAULT;
	err = read_memory(n, p, address, object, len);
	if (err)
		return err;
	if (!has_type(&p->python, object, p->python.type_code))
		return -EFAULT;
	*ret_mark = (struct code_mark){
		.name = u64_at(object, name),
		.file = u64_at(object, o->code_filename),
		.lines = u64_at(object, o->code_lines),
		.first_line = u32_at(object, o->code_firstlineno),
	};
	return 0;
}

static int code_read(struct python_names *n, struct process *p, const struct code_key *key, const struct code_mark *mark,
	struct code **ret_code)
{
	char name[PYTHON_NAME_MAX], file[PYTHON_FILE_MAX];
	struct code *c;
	size_t len;
	int err;

	err = read_text(n, p, mark->name, name, sizeof(name));
	if (err)
		return err;
	if (read_text(n, p, mark->file, file, sizeof(file)))
		file[0] = 0;
	len = strlen(name) + 1;
	c = calloc(1, sizeof(*c) + len + strlen(file) + 1);
	if (!c)
		return -ENOMEM;
	c->key = *key;
	c->mark = *mark;
	c->file = c->name + len;
	memcpy(c->name, name, len);
	memcpy(c->file, file, strlen(file) + 1);
	read_lines(n, p, c);
	c->size = sizeof(*c) + len + strlen(file) + 1 + c->lines_len;
	if (n->stats.memory + c->size > MEMORY_MAX)
		codes_drop(n, 0);
	HASH_ADD(hh, n->codes, key, sizeof(c->key), c);
	if (!c->hh.tbl) {
		free(c->lines);
		free(c);
		return -ENOMEM;
	}
	n->stats.memory += c->size;
	n->stats.read++;
	*ret_code = c;
	return 0;
}

static int code_get(struct python_names *n, struct process *p, uint64_t address, struct code **ret_code)
{
	struct code_key key = { .address = address, .tgid = p->tgid };
	struct code_mark mark;
	struct code *c;
	int err;

	HASH_FIND(hh, n->codes, &key, sizeof(key), c);
	err = read_mark(n, p, address, &mark);
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
	return code_read(n, p, &key, &mark, ret_code);
}

static uint32_t code_line(const struct process *p, const struct code *c, uint64_t instr)
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
	struct process *p;
	struct code *c;
	int err = -ENOENT;

	pthread_mutex_lock(&n->lock);
	p = process_find(n, tgid);
	if (p)
		err = code_get(n, p, code, &c);
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

struct reading {
	struct python_names *names;
	struct process *process;
};

static int read_for_frames(void *arg, uint64_t address, void *buf, size_t len)
{
	struct reading *r = arg;

	return read_memory(r->names, r->process, address, buf, len);
}

void python_names_frames(struct python_names *n, uint32_t tgid, uint64_t self, struct python_found *ret_found)
{
	struct reading r = { .names = n };

	ret_found->n = 0;
	ret_found->cut = ret_found->has_task = false;
	pthread_mutex_lock(&n->lock);
	r.process = process_find(n, tgid);
	if (r.process)
		python_frames(read_for_frames, &r, &r.process->python.walk, self, ret_found);
	pthread_mutex_unlock(&n->lock);
}

/* ---- asyncio ---- */

/* The text of a string of which there is a copy of the beginning. -EFAULT: it is none. */
static int copied_text(const struct python *p, const struct python_task *task, char *buf, size_t size)
{
	const struct python_objects *o = &p->objects;
	uint32_t bytes = task->bytes < PYTHON_TASK_BYTES ? task->bytes : PYTHON_TASK_BYTES;
	size_t len = EXTENT(o->type, o->str_length, o->str_state), at;
	struct python_text t;

	if (!len || len > bytes || !has_type(p, task->name, p->type_str) ||
		python_text_kind(u32_at(task->name, o->str_state) >> o->str_kind_shift, u64_at(task->name, o->str_length), &t))
		return -EFAULT;
	at = t.ascii ? o->str_data : o->str_data_wide;
	if (at > bytes)
		return -EFAULT;
	if (t.length > (bytes - at) / t.width)
		t.length = (bytes - at) / t.width;
	python_text_write(&t, task->name + at, buf, size);
	return 0;
}

/* Whether asyncio made it up, as "Task-7". */
static bool is_number(const char *name)
{
	return !strncmp(name, "Task-", 5) && name[5] && !name[5 + strspn(name + 5, "0123456789")];
}

/* Whether the name is one of those that are shown. */
static bool task_known(struct python_names *n, struct process *p, const char *name)
{
	size_t len = strlen(name);
	struct task_name *t;

	HASH_FIND(hh, p->tasks, name, len, t);
	if (t)
		return true;
	t = HASH_COUNT(p->tasks) < PYTHON_TASKS_MAX ? malloc(sizeof(*t) + len + 1) : NULL;
	if (t) {
		memcpy(t->text, name, len + 1);
		HASH_ADD_KEYPTR(hh, p->tasks, t->text, len, t);
		if (t->hh.tbl)
			return true;
		free(t);
	}
	n->stats.tasks_left++;
	return false;
}

const char *python_names_task(struct python_names *n, uint32_t tgid, const struct python_task *task)
{
	char name[PYTHON_NAME_MAX];
	const char *found = NULL;
	struct process *p;

	pthread_mutex_lock(&n->lock);
	p = process_find(n, tgid);
	if (p && !copied_text(&p->python, task, name, sizeof(name))) {
		found = n->task;
		if (name[0] && !is_number(name) && task_known(n, p, name))
			snprintf(n->task, sizeof(n->task), "[task %s]", name);
		else
			found = "[task]";
	} else if (p && p->python.type_int && task->bytes >= sizeof(uint64_t) * 2 &&
		   u64_at(task->name, p->python.objects.type) == p->python.type_int) {
		found = "[task]"; /* the number is all there is, until somebody asks for the name */
	}
	pthread_mutex_unlock(&n->lock);
	return found;
}
