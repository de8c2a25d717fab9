/* SPDX-License-Identifier: BSD-2-Clause */
/* Places in sorted lists. */
#ifndef INFTRACE_UTIL_BISECT_H
#define INFTRACE_UTIL_BISECT_H

#include <stddef.h>

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

#endif
