// SPDX-License-Identifier: BSD-2-Clause
#include "sink/thread_map.h"

#include <stdlib.h>

void *thread_map_find(const struct thread_map *m, uint32_t tid)
{
	struct thread_entry *t;

	if (m->last && m->last->tid == tid)
		return m->last;
	HASH_FIND(hh, m->first, &tid, sizeof(tid), t);
	return t;
}

void *thread_map_get(struct thread_map *m, uint32_t tid)
{
	struct thread_entry *t = thread_map_find(m, tid);

	if (t) {
		m->last = t;
		return t;
	}
	if (m->max && HASH_COUNT(m->first) == m->max)
		return NULL;
	t = calloc(1, m->size);
	if (!t)
		return NULL;
	t->tid = tid;
	HASH_ADD(hh, m->first, tid, sizeof(tid), t);
	if (!t->hh.tbl) {
		free(t);
		return NULL;
	}
	m->last = t;
	return t;
}

void *thread_map_next(const struct thread_map *m, const void *thread)
{
	return thread ? ((const struct thread_entry *)thread)->hh.next : m->first;
}

void thread_map_clear(struct thread_map *m, void (*forget)(void *thread))
{
	struct thread_entry *t, *next;

	HASH_ITER(hh, m->first, t, next)
	{
		HASH_DEL(m->first, t);
		forget(t);
		free(t);
	}
	m->last = NULL;
}
