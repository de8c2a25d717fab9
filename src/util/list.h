/* SPDX-License-Identifier: BSD-2-Clause */
/* Lists: places in sorted ones, and room for more. */
#ifndef INFTRACE_UTIL_LIST_H
#define INFTRACE_UTIL_LIST_H

#include <stddef.h>
#include <stdlib.h>

#include "util/alloc.h"

/*
 * The first index below n at which `before` is false, or n: size_t. `before` is an expression with the index as `i`, which is true up to some place
 * of the list and false from there on:
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

/* Makes room in *list, which has n elements of `size` bytes and room for *cap, for one more; at first 1 KiB. */
static inline void list_room(void **list, size_t n, size_t *cap, size_t size)
{
	if (n < *cap)
		return;
	*cap = *cap ? 2 * *cap : 1024 / size + 1;
	*list = xreallocarray(*list, *cap, size);
}

/* Adds an element with undefined content to list[n], which has room for cap: a pointer to it. n and cap change. */
#define list_push(list, n, cap)                                            \
	({                                                                 \
		list_room((void **)&(list), (n), &(cap), sizeof(*(list))); \
		&(list)[(n)++];                                            \
	})

/* qsort(), also of none. */
#define list_sort(list, n, compare)                               \
	do {                                                      \
		if (n)                                            \
			qsort(list, n, sizeof(*(list)), compare); \
	} while (0)

/* The order of two numbers, for qsort(). Of several: cmp_int(x->a, y->a) ?: cmp_int(x->b, y->b) */
#define cmp_int(a, b) (((a) > (b)) - ((a) < (b)))

#endif
