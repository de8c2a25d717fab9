// SPDX-License-Identifier: BSD-2-Clause
#include "engine/handles.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "target/tasks.h"
#include "util/map.h"

#define HANDLES_MAX (1 << 18) /* PyTorch has some ten thousand kernels */
#define MANY 4096
#define RECENT_MAX 32768 /* a power of two */
#define REFUSED_AGAIN 65536 /* a full table looks for room again each time that so many were refused */

struct handle_key {
	uint64_t handle, tgid;
};

struct handle {
	struct handle_key key;
	UT_hash_handle hh;
	char name[];
};

struct handles {
	struct handle *all;
	struct tasks *tasks;
	unsigned int many; /* at this number, names of ended processes are dropped */
	unsigned int refused;
	struct handle_key *recent; /* RECENT_MAX, the oldest at n_recent % RECENT_MAX; NULL: none yet */
	uint64_t n_recent;
};

struct handles *handles_new(struct tasks *tasks)
{
	struct handles *h = xcalloc(1, sizeof(*h));

	h->tasks = tasks;
	h->many = MANY;
	return h;
}

static void handle_drop(struct handles *h, struct handle *e)
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
	handle_drop(h, e);
	free(h->recent);
	free(h);
}

static struct handle *handle_find(const struct handles *h, uint32_t tgid, uint64_t handle)
{
	const struct handle_key key = { handle, tgid };
	struct handle *e;

	HASH_FIND(hh, h->all, &key, sizeof(key), e);
	return e;
}

/* Drops the names of ended processes; the next time is when the number of names has doubled. */
static void handles_drop_ended(struct handles *h)
{
	struct handle *e, *next;
	uint64_t tgid = 0;
	bool ended = false;

	HASH_ITER(hh, h->all, e, next)
	{
		if (e->key.tgid != tgid) { /* handles of a process come in runs */
			tgid = e->key.tgid;
			ended = tasks_ended(h->tasks, (uint32_t)tgid);
		}
		if (ended)
			handle_drop(h, e);
	}
	h->many = HASH_COUNT(h->all) > MANY / 2 ? 2 * HASH_COUNT(h->all) : MANY;
	if (h->many > HANDLES_MAX)
		h->many = HANDLES_MAX;
}

static bool handles_has_room(struct handles *h)
{
	unsigned int n = HASH_COUNT(h->all);

	if (h->tasks && n >= h->many && (n < HANDLES_MAX || !(h->refused % REFUSED_AGAIN)))
		handles_drop_ended(h);
	if (HASH_COUNT(h->all) == HANDLES_MAX) {
		h->refused++;
		return false;
	}
	h->refused = 0;
	return true;
}

void handles_set(struct handles *h, uint32_t tgid, uint64_t handle, const char *name)
{
	size_t size = strlen(name) + 1;
	struct handle *old, *e;

	if (size == 1 || !handle)
		return;
	old = handle_find(h, tgid, handle);
	if (old ? !strcmp(old->name, name) : !handles_has_room(h))
		return;
	e = xmalloc(sizeof(*e) + size);
	e->key = (struct handle_key){ handle, tgid };
	memcpy(e->name, name, size);
	if (old)
		handle_drop(h, old);
	HASH_ADD(hh, h->all, key, sizeof(e->key), e);
}

void handles_set_recent(struct handles *h, uint32_t tgid, uint64_t handle, const char *name)
{
	struct handle_key *oldest;
	struct handle *e;

	handles_set(h, tgid, handle, name);
	if (!h->recent)
		h->recent = xcalloc(RECENT_MAX, sizeof(*h->recent));
	oldest = &h->recent[h->n_recent++ % RECENT_MAX];
	e = oldest->handle ? handle_find(h, (uint32_t)oldest->tgid, oldest->handle) : NULL;
	if (e)
		handle_drop(h, e);
	*oldest = (struct handle_key){ handle, tgid };
}

const char *handles_get(const struct handles *h, uint32_t tgid, uint64_t handle)
{
	const struct handle *e = handle_find(h, tgid, handle);

	return e ? e->name : NULL;
}

void handles_drop(struct handles *h, uint32_t tgid)
{
	struct handle *e, *next;

	HASH_ITER(hh, h->all, e, next)
	{
		if (e->key.tgid == tgid)
			handle_drop(h, e);
	}
}
