// SPDX-License-Identifier: BSD-2-Clause
#include "engine/handles.h"

#include <stdlib.h>
#include <string.h>

#include "util/map.h"

#define HANDLES_MAX (1 << 18) /* PyTorch has some ten thousand kernels */

struct key {
	uint64_t handle, tgid;
};

struct handle {
	struct key key;
	UT_hash_handle hh;
	char name[];
};

struct handles {
	struct handle *all;
};

struct handles *handles_new(void)
{
	return calloc(1, sizeof(struct handles));
}

static void drop(struct handles *h, struct handle *e)
{
	HASH_DEL(h->all, e);
	free(e);
}

void handles_free(struct handles *h)
{
	struct handle *e, *next;

	if (!h)
		return;
	HASH_ITER(hh, h->all, e, next)
	drop(h, e);
	free(h);
}

static struct handle *find(const struct handles *h, uint32_t tgid, uint64_t handle)
{
	const struct key key = { handle, tgid };
	struct handle *e;

	HASH_FIND(hh, h->all, &key, sizeof(key), e);
	return e;
}

void handles_set(struct handles *h, uint32_t tgid, uint64_t handle, const char *name)
{
	size_t size = strlen(name) + 1;
	struct handle *old, *e;

	if (size == 1 || !handle)
		return;
	old = find(h, tgid, handle);
	if (old ? !strcmp(old->name, name) : HASH_COUNT(h->all) == HANDLES_MAX)
		return;
	e = malloc(sizeof(*e) + size);
	if (!e)
		return;
	e->key = (struct key){ handle, tgid };
	memcpy(e->name, name, size);
	if (old)
		drop(h, old);
	HASH_ADD(hh, h->all, key, sizeof(e->key), e);
	if (!e->hh.tbl)
		free(e);
}

const char *handles_get(const struct handles *h, uint32_t tgid, uint64_t handle)
{
	const struct handle *e = find(h, tgid, handle);

	return e ? e->name : NULL;
}

void handles_drop(struct handles *h, uint32_t tgid)
{
	struct handle *e, *next;

	HASH_ITER(hh, h->all, e, next)
	{
		if (e->key.tgid == tgid)
			drop(h, e);
	}
}
