/* SPDX-License-Identifier: BSD-2-Clause */
/* Lists, maps of numbers, and order statistics. */
#ifndef INFTRACE_REPORT_STATS_H
#define INFTRACE_REPORT_STATS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "util/list.h"

/* Defines the function `name` for qsort() of elements of the type, by these numbers: RISING(member), FALLING(member), or
 * any that compares x and y, which point to two elements. The first that is not 0 decides. */
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

/* Members of a struct: a list, n_list and list_size. */
#define LIST(type, list) \
	type *list;      \
	size_t n_##list, list##_size

/* Adds an element with undefined content to such a list of a struct: a pointer to it. */
#define list_add(of, list) list_push((of)->list, (of)->n_##list, (of)->list##_size)

/* The first index `i` below n for which `is` holds, or n: size_t. */
#define list_find(n, i, is)              \
	({                               \
		size_t i = 0;            \
		while (i < (n) && !(is)) \
			i++;             \
		i;                       \
	})

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

/* The columns of every table of percentiles, in the text and in JSON. */
#define PERCENTS(X) X(50) X(90) X(99)

#define PERCENT_MEMBER(percent) p##percent,
struct percentiles {
	size_t n; /* 0: the other members are 0 as well */
	int64_t PERCENTS(PERCENT_MEMBER) max, sum;
};

/* By nearest rank: each is one of the values, the smallest that at least that share of them does
 * not exceed. Sorts the values. */
struct percentiles percentiles_of(int64_t *values, size_t n);

/* Puts an expression with the index as `i`, below n, where it is not below 0, into `values`, which has room for n: their
 * number. */
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
/* Adds or replaces. */
void idmap_set(struct idmap *map, uint64_t key, uint32_t value);
/* The value of a key; a new key gets `value`. */
uint32_t idmap_number(struct idmap *map, uint64_t key, size_t value);

#endif
