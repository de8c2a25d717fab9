/* SPDX-License-Identifier: BSD-2-Clause */
/* Lists, maps of numbers, and order statistics. */
#ifndef INFTRACE_REPORT_STATS_H
#define INFTRACE_REPORT_STATS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "util/list.h"

/* Defines `name`, a qsort() comparator for elements of the type. Its keys are RISING(member), FALLING(member), or any int
 * expression over x and y, which point to the two elements. The first key that is not 0 decides. */
#define ORDER(name, type, ...)                                             \
	static int name(const void *a, const void *b)                      \
	{                                                                  \
		const type *x = a, *y = b;                                 \
		const int keys[] = { __VA_ARGS__ };                        \
		size_t i = 0;                                              \
		while (i + 1 < sizeof(keys) / sizeof(keys[0]) && !keys[i]) \
			i++;                                               \
		return keys[i];                                            \
	}
#define RISING(member) cmp_int(x->member, y->member)
#define FALLING(member) cmp_int(y->member, x->member)

/* Declares the struct members list, n_list and list_size. */
#define LIST(type, list) \
	type *list;      \
	size_t n_##list, list##_size

/* Appends an uninitialized element to a LIST() of *of; returns a pointer to it. */
#define list_add(of, list) list_push((of)->list, (of)->n_##list, (of)->list##_size)

/* The first index i < n for which the expression `is` holds, or n; size_t. */
#define list_find(n, i, is)              \
	({                               \
		size_t i = 0;            \
		while (i < (n) && !(is)) \
			i++;             \
		i;                       \
	})

/* Points x to each of the n elements of a list. */
#define list_for_each(x, list, n) for (typeof(*(list)) *x = (list); x && (size_t)(x - (list)) < (n); x++)

#define least_of(a, b) ((a) < (b) ? (a) : (b))

/* Inserts a value into a list sorted by a member, largest first, and keeps at most `max`. Equal ones stay in the order of
 * insertion. */
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

/* The columns of every table of percentiles, in the text and in JSON. */
#define PERCENTS(X) X(50) X(90) X(99)

#define PERCENT_MEMBER(percent) p##percent,
struct percentiles {
	size_t n; /* 0: the other members are 0 as well */
	int64_t PERCENTS(PERCENT_MEMBER) max, sum;
};

/* By nearest rank: pN is the smallest value that at least N % of the values do not exceed. Sorts the values. */
struct percentiles percentiles_of(int64_t *values, size_t n);

/* Evaluates the expression `value` for each index i < n and stores the results >= 0 in `values`, which has room for n.
 * Returns their number. */
#define fill_over(values, n, i, value)                                       \
	({                                                                   \
		size_t over_n = 0;                                           \
		for (size_t i = 0; i < (n); i++) {                           \
			typeof(*(values)) over = (typeof(*(values)))(value); \
			if (over >= 0)                                       \
				(values)[over_n++] = over;                   \
		}                                                            \
		over_n;                                                      \
	})
#define percentiles_over(values, ...) percentiles_of(values, fill_over(values, __VA_ARGS__))
#define median_over(values, ...) median_of(values, fill_over(values, __VA_ARGS__))

/* The median (the upper one of an even number), by selection: reorders the values. 0 if there are none. */
double median_of(double *values, size_t n);

/* The median absolute deviation from the center, scaled to equal the standard deviation for a normal distribution.
 * Overwrites the values. */
double mad_of(double *values, size_t n, double center);

/* ---- A hash map from u64 to u32 with 16 bytes a slot, since it may have an entry for every step (see util/map.h). ---- */

/* All zero: an empty map. */
struct idmap {
	struct idmap_slot *slots;
	size_t len, size;
};

void idmap_free(struct idmap *map);
bool idmap_get(const struct idmap *map, uint64_t key, uint32_t *ret_value);
/* Adds or replaces. */
void idmap_set(struct idmap *map, uint64_t key, uint32_t value);
/* Returns the value of a key; adds a new key with `value`. */
uint32_t idmap_number(struct idmap *map, uint64_t key, size_t value);

#endif
