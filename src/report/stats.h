/* SPDX-License-Identifier: BSD-2-Clause */
/* Growing lists, maps of numbers, and order statistics. */
#ifndef INFTRACE_REPORT_STATS_H
#define INFTRACE_REPORT_STATS_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "util/list.h"

/* Makes room for `need` elements in a growing array. 0 or -ENOMEM. */
int array_reserve(void *array, size_t need, size_t *size, size_t element);

/* Members of a struct: a list, n_list and list_size. */
#define LIST(type, list) \
	type *list;      \
	size_t n_##list, list##_size

/* Adds a value at the end of a list of n that has room for `size`. 0 or -ENOMEM. */
#define list_add(list, n, size, ...) \
	(array_reserve(&(list), (n) + 1, &(size), sizeof(*(list))) ?: ((list)[(n)++] = __VA_ARGS__, 0))

/* One after the other of a list of n. */
#define list_for_each(x, list, n) for (typeof(*(list)) *x = (list); x && (size_t)(x - (list)) < (n); x++)

#define least_of(a, b) ((a) < (b) ? (a) : (b))

/* Puts a value into a list that is sorted by a member, the largest first; at most `max` stay, and of equal ones the
 * first are first. */
#define list_insert(list, n, max, member, value)                                                  \
	do {                                                                                      \
		size_t insert_at = (n);                                                           \
		for (; insert_at && (list)[insert_at - 1].member < (value).member; insert_at--) { \
			if (insert_at < (max))                                                    \
				(list)[insert_at] = (list)[insert_at - 1];                        \
		}                                                                                 \
		if (insert_at < (max)) {                                                          \
			(list)[insert_at] = (value);                                              \
			(n) += (n) < (max);                                                       \
		}                                                                                 \
	} while (0)

struct percentiles {
	size_t n; /* 0: the other members are 0 as well */
	int64_t p50, p90, p99, max, sum;
};

/* By nearest rank: each is one of the values, the smallest that at least that share of them does
 * not exceed. Sorts the values. */
struct percentiles percentiles_of(int64_t *values, size_t n);

/* Those of an expression with the index as `i`, below n, where it is not below 0; values: room for n. */
#define percentiles_over(values, n, i, value)                    \
	({                                                       \
		size_t over_n = 0;                               \
		for (size_t i = 0; i < (n); i++) {               \
			int64_t over_value = (value);            \
			if (over_value >= 0)                     \
				(values)[over_n++] = over_value; \
		}                                                \
		percentiles_of(values, over_n);                  \
	})

/* The median (the upper one of an even number), by selection: reorders the values. 0 if there are none. */
double median_of(double *values, size_t n);

/* That of an expression, as of percentiles_over(). */
#define median_over(values, n, i, value)                         \
	({                                                       \
		size_t over_n = 0;                               \
		for (size_t i = 0; i < (n); i++) {               \
			double over_value = (double)(value);     \
			if (over_value >= 0)                     \
				(values)[over_n++] = over_value; \
		}                                                \
		median_of(values, over_n);                       \
	})

/* The median absolute deviation from the center, scaled so that it is the standard deviation of a
 * normal distribution. Overwrites the values. */
double mad_of(double *values, size_t n, double center);

/* ---- A hash map from numbers to numbers, 16 bytes each: there is one for every step (see util/map.h). ---- */

/* All zero: an empty map. */
struct idmap {
	struct idmap_slot *slots;
	size_t len, size;
};

void idmap_free(struct idmap *map);
bool idmap_get(const struct idmap *map, uint64_t key, uint32_t *ret_value);
/* Adds or replaces. Returns 0 or -ENOMEM. */
int idmap_set(struct idmap *map, uint64_t key, uint32_t value);
/* The value of a key; one that is new gets *value. Returns 0 or -ENOMEM. */
int idmap_number(struct idmap *map, uint64_t key, uint32_t *value);

#endif
