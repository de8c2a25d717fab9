/* SPDX-License-Identifier: BSD-2-Clause */
/* What is kept of threads, by their numbers. */
#ifndef INFTRACE_SINK_THREAD_MAP_H
#define INFTRACE_SINK_THREAD_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "util/map.h"

/* The first member of what is kept of a thread. */
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

/* Finds it, or adds it with zeroes. NULL: no memory, or there are too many. */
void *thread_map_get(struct thread_map *m, uint32_t tid);

/* The next one, or with NULL the first; NULL: there is none. */
void *thread_map_next(const struct thread_map *m, const void *thread);

/* forget: frees what belongs to a thread, but not itself. */
void thread_map_clear(struct thread_map *m, void (*forget)(void *thread));

#endif
