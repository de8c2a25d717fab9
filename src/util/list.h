/* SPDX-License-Identifier: BSD-2-Clause */
/* Lists: places in sorted ones, and room for more. */
#ifndef INFTRACE_UTIL_LIST_H
#define INFTRACE_UTIL_LIST_H

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

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

/* Makes room in *list, which has n elements of `size` bytes and room for *cap, for one more. -ENOMEM, and the list is as it was. */
static inline int list_room(void **list, size_t n, size_t *cap, size_t size)
{
	size_t more = *cap ? 2 * *cap : 64;
	void *bigger;

	if (n < *cap)
		return 0;
	bigger = realloc(*list, more * size);
	if (!bigger)
		return -ENOMEM;
	*list = bigger;
	*cap = more;
	return 0;
}

#endif
