// SPDX-License-Identifier: BSD-2-Clause
#include "sink/op_hot.h"

#include <stdlib.h>

#include "util/chance.h"
#include "util/map.h"

#define FUNCTIONS_MAX 65536 /* some 8 MB */

/* Texts are interned, so that their addresses tell functions apart. The line is none of a function's. */
struct function_key {
	const char *name, *file;
	uint64_t rel_pc;
	uint32_t op, kind;
};

struct op_function {
	UT_hash_handle hh;
	struct function_key key;
	const struct frame *frame;
	uint64_t samples;
};

static struct op_function *function_new(struct op_hot *h, uint32_t *total, const struct function_key *key)
{
	struct op_function *f = *total < FUNCTIONS_MAX ? calloc(1, sizeof(*f)) : NULL;

	if (!f)
		return NULL;
	f->key = *key;
	HASH_ADD(hh, h->functions, key, sizeof(f->key), f);
	if (f->hh.tbl) {
		(*total)++;
		return f;
	}
	free(f);
	return NULL;
}

void op_hot_add(struct op_hot *h, uint32_t *total, uint32_t op, const struct frame *frame)
{
	struct function_key key = { frame->name, frame->file, frame->rel_pc, op, frame->kind };
	struct op_function *f;

	HASH_FIND(hh, h->functions, &key, sizeof(key), f);
	f = f ? f : function_new(h, total, &key);
	if (!f) {
		h->cut = true;
		return;
	}
	f->frame = frame;
	f->samples++;
}

void op_hot_clear(struct op_hot *h, uint32_t *total)
{
	struct op_function *f, *next;

	HASH_ITER(hh, h->functions, f, next)
	{
		HASH_DEL(h->functions, f);
		free(f);
		(*total)--;
	}
	*h = (struct op_hot){ 0 };
}

static void take(struct op_hottest *best, const struct op_function *f)
{
	best->of += f->samples;
	if (f->key.kind == FRAME_UNKNOWN || f->key.name[0] == '[')
		return;
	if (f->samples > best->samples) {
		best->next = best->samples;
		best->samples = f->samples;
		best->function = f->frame;
	} else if (f->samples > best->next) {
		best->next = f->samples;
	}
}

struct op_hottest *op_hot_find(const struct op_hot *h, uint32_t n)
{
	struct op_hottest *best = h->functions && !h->cut && n ? calloc(n, sizeof(*best)) : NULL;

	for (const struct op_function *f = h->functions; best && f; f = f->hh.next) {
		if (f->key.op < n)
			take(&best[f->key.op], f);
	}
	return best;
}

bool op_hottest_is_clear(const struct op_hottest *h)
{
	return h->function && chance_is_clear((double)h->samples, (double)h->next);
}
