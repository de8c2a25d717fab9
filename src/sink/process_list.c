// SPDX-License-Identifier: BSD-2-Clause
#include "sink/process_list.h"

#include <stdlib.h>
#include <string.h>

#include "target/tasks.h"
#include "util/alloc.h"

#define FIRST 64

static void process_list_drop_ended(struct process_list *l, struct tasks *tasks, void (*drop)(void *element, void *arg), void *arg)
{
	char *at = l->list, *to = at;

	for (size_t i = 0; i < l->n; i++, at += l->size) {
		if (tasks_ended(tasks, *(const uint32_t *)at)) {
			if (drop)
				drop(at, arg);
			continue;
		}
		memmove(to, at, l->size);
		to += l->size;
	}
	l->n = (size_t)(to - (char *)l->list) / l->size;
}

void process_list_room(struct process_list *l, struct tasks *tasks, void (*drop)(void *element, void *arg), void *arg)
{
	if (l->n < l->cap)
		return;
	if (tasks && l->n)
		process_list_drop_ended(l, tasks, drop, arg);
	/* grows unless half is free: a search through all must not free just a few */
	if (l->n < l->cap / 2)
		return;
	l->cap = l->cap ? 2 * l->cap : FIRST;
	l->list = xreallocarray(l->list, l->cap, l->size);
}

void *process_list_get(struct process_list *l, uint32_t tgid, struct tasks *tasks)
{
	char *at = l->list;

	for (size_t i = 0; i < l->n; i++, at += l->size) {
		if (*(const uint32_t *)at == tgid)
			return at;
	}
	process_list_room(l, tasks, NULL, NULL);
	at = memset((char *)l->list + l->n++ * l->size, 0, l->size);
	memcpy(at, &tgid, sizeof(tgid));
	return at;
}

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

	if (t)
		return m->last = t;
	if (m->max && HASH_COUNT(m->first) == m->max)
		return NULL;
	t = xcalloc(1, m->size);
	t->tid = tid;
	HASH_ADD(hh, m->first, tid, sizeof(tid), t);
	return m->last = t;
}

void *thread_map_next(const struct thread_map *m, const void *thread)
{
	return thread ? ((const struct thread_entry *)thread)->hh.next : m->first;
}

void thread_map_remove(struct thread_map *m, void *thread)
{
	struct thread_entry *t = thread;

	HASH_DEL(m->first, t);
	free(t);
	m->last = NULL;
}

void thread_map_clear(struct thread_map *m, void (*forget)(void *thread))
{
	while (m->first) {
		if (forget)
			forget(m->first);
		thread_map_remove(m, m->first);
	}
}
