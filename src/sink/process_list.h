/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a sink keeps of threads, by their numbers, and of processes, in a list that does not grow with the number of those that come and go: when it is full,
 * those go that ended long enough ago for all of their records to have arrived.
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

/* Makes room for one more, after which all have moved. tasks NULL: nobody has ended. drop: called for each that goes, to write
 * and free what it has; or NULL. */
void process_list_room(struct process_list *l, struct tasks *tasks, void (*drop)(void *element, void *arg), void *arg);

/* Finds it, or adds it with zeroes, after which all have moved. For elements that need no `drop`. */
void *process_list_get(struct process_list *l, uint32_t tgid, struct tasks *tasks);

/* The first member of what is kept of a thread, or of anything else with a number. */
struct thread_entry {
	UT_hash_handle hh;
	uint32_t tid;
};

struct thread_map {
	struct thread_entry *first;
	struct thread_entry *last; /* that was asked for: the next one is often the same */
	size_t size;               /* of what is kept of a thread */
	size_t max;                /* threads; 0: no limit */
};

/* NULL: nothing is kept of this thread. */
void *thread_map_find(const struct thread_map *m, uint32_t tid);

/* Finds it, or adds it with zeroes. NULL: there are too many. */
void *thread_map_get(struct thread_map *m, uint32_t tid);

/* In the order in which they were added; thread NULL: the first. NULL: no further one. */
void *thread_map_next(const struct thread_map *m, const void *thread);

void thread_map_remove(struct thread_map *m, void *thread);

/* forget: frees what belongs to a thread, but not itself; or NULL. */
void thread_map_clear(struct thread_map *m, void (*forget)(void *thread));

#endif
