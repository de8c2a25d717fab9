/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a sink keeps per thread, by tid, and per process, in a list that does not grow with short-lived processes: when it is
 * full, processes leave that ended long enough ago for all of their records to have arrived.
 */
#ifndef INFTRACE_SINK_PROCESS_LIST_H
#define INFTRACE_SINK_PROCESS_LIST_H

#include <stddef.h>
#include <stdint.h>

#include "util/map.h"

struct tasks;

struct process_list {
	void *list;          /* elements begin with the uint32_t tgid of their process */
	size_t n, cap, size; /* size: of an element */
};

/* Makes room for one more element; all may move. tasks NULL: no process has ended. drop: writes and frees what an element that
 * leaves has; or NULL. */
void process_list_room(struct process_list *l, struct tasks *tasks, void (*drop)(void *element, void *arg), void *arg);

/* Returns the process's element, or adds it as zeroes, when all may move. For elements that need no `drop`. */
void *process_list_get(struct process_list *l, uint32_t tgid, struct tasks *tasks);

/* The first member of what is kept per thread, or per anything else with a number. */
struct thread_entry {
	UT_hash_handle hh;
	uint32_t tid;
};

struct thread_map {
	struct thread_entry *first;
	struct thread_entry *last; /* the one looked up last: the next one is often the same */
	size_t size;               /* of what is kept per thread */
	size_t max;                /* threads; 0: no limit */
};

/* NULL: nothing is kept for this thread. */
void *thread_map_find(const struct thread_map *m, uint32_t tid);

/* Returns the thread's entry, or adds it as zeroes. NULL: there are too many. */
void *thread_map_get(struct thread_map *m, uint32_t tid);

/* Returns the entry added after `thread`, NULL after the last. thread NULL: returns the first. */
void *thread_map_next(const struct thread_map *m, const void *thread);

void thread_map_remove(struct thread_map *m, void *thread);

/* forget: frees what a thread's entry owns, but not the entry; or NULL. */
void thread_map_clear(struct thread_map *m, void (*forget)(void *thread));

#endif
