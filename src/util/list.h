/* SPDX-License-Identifier: BSD-2-Clause */
/* Lists: growing, sorting, and searching sorted ones. */
#ifndef INFTRACE_UTIL_LIST_H
#define INFTRACE_UTIL_LIST_H

#include <stddef.h>
#include <stdlib.h>

#include "util/alloc.h"

/*
 * Returns the first index below n at which `before` is false, or n, as size_t. `before` is an expression in the index `i` that is true up to
 * some place in the list and false from there on:
 *
 *	place = bisect(list->n, i, list->calls[i].start_ns < ns);
 */
#define bisect(n, i, before)                                                    \
	({                                                                      \
		size_t bisect_low = 0, bisect_high = (n);                       \
		while (bisect_low < bisect_high) {                              \
			size_t i = bisect_low + (bisect_high - bisect_low) / 2; \
			if (before)                                             \
				bisect_low = i + 1;                             \
			else                                                    \
				bisect_high = i;                                \
		}                                                               \
		bisect_low;                                                     \
	})

/* Makes room for one more element in *list, which has n elements of `size` bytes and room for *cap; 1 KiB at first, then doubling. */
static inline void list_room(void **list, size_t n, size_t *cap, size_t size)
{
	if (n < *cap)
		return;
	*cap = *cap ? 2 * *cap : 1024 / size + 1;
	*list = xreallocarray(*list, *cap, size);
}

/* Appends an element with undefined content to list, which has n and room for cap, and updates all three. Returns a pointer to it. */
#define list_push(list, n, cap)                                            \
	({                                                                 \
		list_room((void **)&(list), (n), &(cap), sizeof(*(list))); \
		&(list)[(n)++];                                            \
	})

/* qsort() that also takes n = 0 with list NULL. */
#define list_sort(list, n, compare)                               \
	do {                                                      \
		if (n)                                            \
			qsort(list, n, sizeof(*(list)), compare); \
	} while (0)

/* Compares two numbers, for qsort(). For several keys: cmp_int(x->a, y->a) ?: cmp_int(x->b, y->b) */
#define cmp_int(a, b) (((a) > (b)) - ((a) < (b)))

#endif
