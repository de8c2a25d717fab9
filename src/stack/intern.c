// SPDX-License-Identifier: BSD-2-Clause
#include "stack/intern.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "util/fmt.h"
#include "util/map.h"

#define ENTRIES_MAX (1u << 19)
#define BLOCK 65536

struct intern_text {
	UT_hash_handle hh;
	char s[];
};

struct frame_entry {
	UT_hash_handle hh; /* by `frame` */
	uint32_t id;
	struct frame frame;
};

struct stack_entry {
	UT_hash_handle hh;
	uint32_t id;
	uint32_t n;
	uint32_t frames[];
};

/* Entries are carved from blocks that are freed only at the end: they never move, since another thread may read them. */
struct intern_block {
	struct intern_block *next;
	char bytes[BLOCK];
};

struct intern {
	size_t memory, memory_max;
	struct intern_block *blocks;
	size_t used; /* bytes of the newest block */
	struct intern_text *texts;
	struct frame_entry *by_frame;
	struct stack_entry *by_stack;
	/* by id; the kernel backs their pages only once used */
	struct frame_entry **frames;
	struct stack_entry **stacks;
	uint32_t n_frames, n_stacks;
};

struct intern *intern_new(size_t memory_max)
{
	struct intern *in = xcalloc(1, sizeof(*in));

	in->memory_max = memory_max;
	in->frames = xcalloc(ENTRIES_MAX, sizeof(*in->frames));
	in->stacks = xcalloc(ENTRIES_MAX, sizeof(*in->stacks));
	return in;
}

void intern_free(struct intern *in)
{
	struct intern_block *b, *next;

	if (!in)
		return;
	HASH_CLEAR(hh, in->texts);
	HASH_CLEAR(hh, in->by_frame);
	HASH_CLEAR(hh, in->by_stack);
	free(in->frames);
	free(in->stacks);
	for (b = in->blocks; b; b = next) {
		next = b->next;
		free(b);
	}
	free(in);
}

static void *intern_alloc(struct intern *in, size_t size)
{
	struct intern_block *b;

	size = (size + 7) & ~(size_t)7;
	if (!in->blocks || size > BLOCK - in->used) {
		if (sizeof(*b) > in->memory_max - in->memory)
			return NULL;
		in->memory += sizeof(*b);
		b = xmalloc(sizeof(*b));
		b->next = in->blocks;
		in->blocks = b;
		in->used = 0;
	}
	in->used += size;
	return in->blocks->bytes + in->used - size;
}

static size_t text_copy_clean(char *to, const char *text)
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
	struct intern_text *t;
	size_t len;

	if (!text)
		return NULL;
	len = text_copy_clean(buf, text);
	HASH_FIND(hh, in->texts, buf, len, t);
	if (t)
		return t->s;
	t = intern_alloc(in, sizeof(*t) + len + 1);
	if (!t)
		return NULL;
	memcpy(t->s, buf, len + 1);
	HASH_ADD_KEYPTR(hh, in->texts, t->s, len, t);
	return t->s;
}

uint32_t intern_frame(struct intern *in, const struct frame *f)
{
	struct frame_entry *e;
	struct frame key;

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
	e = in->n_frames < ENTRIES_MAX ? intern_alloc(in, sizeof(*e)) : NULL;
	if (!e)
		return INTERN_NONE;
	memcpy(&e->frame, &key, sizeof(key));
	e->id = in->n_frames;
	HASH_ADD_KEYPTR(hh, in->by_frame, &e->frame, sizeof(e->frame), e);
	in->frames[e->id] = e;
	return in->n_frames++;
}

uint32_t intern_stack(struct intern *in, const uint32_t *frames, unsigned int n)
{
	struct stack_entry *e;

	HASH_FIND(hh, in->by_stack, frames, n * sizeof(*frames), e);
	if (e)
		return e->id;
	e = in->n_stacks < ENTRIES_MAX ? intern_alloc(in, sizeof(*e) + n * sizeof(*frames)) : NULL;
	if (!e)
		return INTERN_NONE;
	memcpy(e->frames, frames, n * sizeof(*frames));
	e->n = n;
	e->id = in->n_stacks;
	HASH_ADD_KEYPTR(hh, in->by_stack, e->frames, n * sizeof(*frames), e);
	in->stacks[e->id] = e;
	return in->n_stacks++;
}

const struct frame *intern_get_frame(const struct intern *in, uint32_t frame)
{
	return frame < ENTRIES_MAX && in->frames[frame] ? &in->frames[frame]->frame : NULL;
}

unsigned int intern_get_stack(const struct intern *in, uint32_t stack, const uint32_t **ret_frames)
{
	const struct stack_entry *e = stack < ENTRIES_MAX ? in->stacks[stack] : NULL;

	if (!e)
		return 0;
	*ret_frames = e->frames;
	return e->n;
}

void intern_counts(const struct intern *in, struct intern_counts *ret_counts)
{
	*ret_counts = (struct intern_counts){ in->memory, in->n_frames, in->n_stacks };
}
