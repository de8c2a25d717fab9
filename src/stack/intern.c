// SPDX-License-Identifier: BSD-2-Clause
#include "stack/intern.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "util/fmt.h"
#include "util/map.h"

/* Entries never move, since another thread may look at them: they lie in chunks, and so do texts. */
#define CHUNK 1024
#define CHUNKS_MAX 512
#define ENTRIES_MAX (CHUNK * CHUNKS_MAX)
#define BLOCK 65536

struct text {
	UT_hash_handle hh;
	char s[];
};

struct frame_entry {
	UT_hash_handle hh; /* by what is in `frame` */
	uint32_t id;
	struct frame frame;
};

struct stack_entry {
	UT_hash_handle hh;
	uint32_t id;
	uint32_t n;
	uint32_t frames[];
};

/* Memory is only given back at the end, so it is handed out from blocks. */
struct block {
	struct block *next;
	char bytes[BLOCK];
};

struct intern {
	size_t memory, memory_max;
	struct block *blocks;
	size_t used; /* of the newest block */
	struct text *texts;
	struct frame_entry *by_frame;
	struct stack_entry *by_stack;
	void **frames[CHUNKS_MAX]; /* struct frame_entry */
	void **stacks[CHUNKS_MAX]; /* struct stack_entry */
	uint32_t n_frames, n_stacks;
};

struct intern *intern_new(size_t memory_max)
{
	struct intern *in = xcalloc(1, sizeof(*in));

	in->memory_max = memory_max;
	return in;
}

void intern_free(struct intern *in)
{
	struct block *b, *next;

	if (!in)
		return;
	HASH_CLEAR(hh, in->texts);
	HASH_CLEAR(hh, in->by_frame);
	HASH_CLEAR(hh, in->by_stack);
	for (size_t i = 0; i < CHUNKS_MAX; i++) {
		free(in->frames[i]);
		free(in->stacks[i]);
	}
	for (b = in->blocks; b; b = next) {
		next = b->next;
		free(b);
	}
	free(in);
}

static bool take_memory(struct intern *in, size_t size)
{
	if (size > in->memory_max - in->memory)
		return false;
	in->memory += size;
	return true;
}

static void *take_bytes(struct intern *in, size_t size)
{
	struct block *b;

	size = (size + 7) & ~(size_t)7;
	if (!in->blocks || size > BLOCK - in->used) {
		if (!take_memory(in, sizeof(*b)))
			return NULL;
		b = xmalloc(sizeof(*b));
		b->next = in->blocks;
		in->blocks = b;
		in->used = 0;
	}
	in->used += size;
	return in->blocks->bytes + in->used - size;
}

static size_t clean(char *to, const char *text)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t n = 0, max = strnlen(text, STACK_NAME_MAX - 1), i = 0;

	while (i < max) {
		int len = s[i] < 0x80 ? 1 : fmt_utf8_scan(s + i, max - i);

		if (len <= 0 || s[i] < ' ' || s[i] == 0x7f) {
			to[n++] = '?';
			i++;
			continue;
		}
		memcpy(to + n, s + i, (size_t)len);
		n += (size_t)len;
		i += (size_t)len;
	}
	to[n] = '\0';
	return n;
}

const char *intern_text(struct intern *in, const char *text)
{
	char buf[STACK_NAME_MAX];
	struct text *t;
	size_t len;

	if (!text)
		return NULL;
	len = clean(buf, text);
	HASH_FIND(hh, in->texts, buf, len, t);
	if (t)
		return t->s;
	t = take_bytes(in, sizeof(*t) + len + 1);
	if (!t)
		return NULL;
	memcpy(t->s, buf, len + 1);
	HASH_ADD_KEYPTR(hh, in->texts, t->s, len, t);
	return t->s;
}

/* A chunk of pointers, for the entry with this number. */
static void **slot_of(struct intern *in, void **chunks[], uint32_t id)
{
	void ***chunk = &chunks[id / CHUNK];

	if (!*chunk) {
		if (!take_memory(in, CHUNK * sizeof(**chunk)))
			return NULL;
		*chunk = xcalloc(CHUNK, sizeof(**chunk));
	}
	return &(*chunk)[id % CHUNK];
}

uint32_t intern_frame(struct intern *in, const struct frame *f)
{
	struct frame_entry *e;
	struct frame key;
	void **slot;

	if (!f->name)
		return INTERN_NONE;
	memset(&key, 0, sizeof(key)); /* the bytes between members are part of the key */
	key.name = f->name;
	key.file = f->file;
	key.build_id = f->build_id;
	key.rel_pc = f->rel_pc;
	key.line = f->line;
	key.kind = f->kind;
	HASH_FIND(hh, in->by_frame, &key, sizeof(key), e);
	if (e)
		return e->id;
	slot = in->n_frames < ENTRIES_MAX ? slot_of(in, in->frames, in->n_frames) : NULL;
	e = slot ? take_bytes(in, sizeof(*e)) : NULL;
	if (!e)
		return INTERN_NONE;
	memcpy(&e->frame, &key, sizeof(key));
	e->id = in->n_frames;
	HASH_ADD_KEYPTR(hh, in->by_frame, &e->frame, sizeof(e->frame), e);
	*slot = e;
	return in->n_frames++;
}

uint32_t intern_stack(struct intern *in, const uint32_t *frames, unsigned int n)
{
	struct stack_entry *e;
	void **slot;

	HASH_FIND(hh, in->by_stack, frames, n * sizeof(*frames), e);
	if (e)
		return e->id;
	slot = in->n_stacks < ENTRIES_MAX ? slot_of(in, in->stacks, in->n_stacks) : NULL;
	e = slot ? take_bytes(in, sizeof(*e) + n * sizeof(*frames)) : NULL;
	if (!e)
		return INTERN_NONE;
	memcpy(e->frames, frames, n * sizeof(*frames));
	e->n = n;
	e->id = in->n_stacks;
	HASH_ADD_KEYPTR(hh, in->by_stack, e->frames, n * sizeof(*frames), e);
	*slot = e;
	return in->n_stacks++;
}

static void *get(void *const *const chunks[], uint32_t id)
{
	return id < ENTRIES_MAX && chunks[id / CHUNK] ? chunks[id / CHUNK][id % CHUNK] : NULL;
}

const struct frame *intern_get_frame(const struct intern *in, uint32_t frame)
{
	const struct frame_entry *e = get((void *const *const *)in->frames, frame);

	return e ? &e->frame : NULL;
}

unsigned int intern_get_stack(const struct intern *in, uint32_t stack, const uint32_t **ret_frames)
{
	const struct stack_entry *e = get((void *const *const *)in->stacks, stack);

	if (!e)
		return 0;
	*ret_frames = e->frames;
	return e->n;
}

void intern_counts(const struct intern *in, struct intern_counts *ret_counts)
{
	*ret_counts = (struct intern_counts){ in->memory, in->n_frames, in->n_stacks };
}
