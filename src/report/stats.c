// SPDX-License-Identifier: BSD-2-Clause
#include "report/stats.h"

ORDER(compare_values, int64_t, cmp_int(*x, *y))

static int64_t percentile_at(const int64_t *sorted, size_t n, unsigned int percent)
{
	size_t k = n / 100 * percent + (n % 100 * percent + 99) / 100;

	return sorted[k - 1];
}

#define TAKE_PERCENT(percent) p.p##percent = percentile_at(values, n, percent);

struct percentiles percentiles_of(int64_t *values, size_t n)
{
	struct percentiles p = { .n = n };

	if (!n)
		return p;
	qsort(values, n, sizeof(*values), compare_values);
	PERCENTS(TAKE_PERCENT)
	p.max = values[n - 1];
	for (size_t i = 0; i < n; i++) {
		if (__builtin_add_overflow(p.sum, values[i], &p.sum))
			p.sum = INT64_MAX;
	}
	return p;
}

/* Hoare's selection: moves the k-th smallest value to its place. */
static double select_rank(double *v, size_t n, size_t k)
{
	size_t lo = 0, hi = n - 1;

	while (lo < hi) {
		double pivot = v[lo + (hi - lo) / 2], t;
		size_t i = lo, j = hi;

		for (;;) {
			while (v[i] < pivot)
				i++;
			while (pivot < v[j])
				j--;
			if (i >= j)
				break;
			t = v[i];
			v[i++] = v[j];
			v[j--] = t;
		}
		/* v[lo..j] <= pivot <= v[j+1..hi]; j < hi since the pivot is not the last of two */
		if (k <= j)
			hi = j;
		else
			lo = j + 1;
	}
	return v[k];
}

double median_of(double *values, size_t n)
{
	return n ? select_rank(values, n, n / 2) : 0;
}

double mad_of(double *values, size_t n, double center)
{
	for (size_t i = 0; i < n; i++)
		values[i] = values[i] < center ? center - values[i] : values[i] - center;
	return 1.4826 * median_of(values, n);
}

/* ---- maps ---- */

struct idmap_slot {
	uint64_t key;
	uint32_t value;
	bool used;
};

void idmap_free(struct idmap *map)
{
	free(map->slots);
	*map = (struct idmap){ 0 };
}

/* The slot of the key, or the free slot where it would go. There always is one. */
static struct idmap_slot *slot_find(const struct idmap *map, uint64_t key)
{
	/* Fibonacci hashing: the high bits of the product depend on all bits of the key */
	size_t i = (size_t)((key * 0x9e3779b97f4a7c15ULL) >> 20) & (map->size - 1);

	while (map->slots[i].used && map->slots[i].key != key)
		i = (i + 1) & (map->size - 1);
	return &map->slots[i];
}

bool idmap_get(const struct idmap *map, uint64_t key, uint32_t *ret_value)
{
	const struct idmap_slot *slot;

	if (!map->size)
		return false;
	slot = slot_find(map, key);
	if (!slot->used)
		return false;
	*ret_value = slot->value;
	return true;
}

static void map_grow(struct idmap *map)
{
	struct idmap bigger = { .size = map->size ? map->size * 2 : 16, .len = map->len };

	bigger.slots = xcalloc(bigger.size, sizeof(*bigger.slots));
	for (size_t i = 0; i < map->size; i++) {
		if (map->slots[i].used)
			*slot_find(&bigger, map->slots[i].key) = map->slots[i];
	}
	free(map->slots);
	*map = bigger;
}

void idmap_set(struct idmap *map, uint64_t key, uint32_t value)
{
	struct idmap_slot *slot;

	if (map->len * 4 >= map->size * 3)
		map_grow(map);
	slot = slot_find(map, key);
	map->len += !slot->used;
	*slot = (struct idmap_slot){ .key = key, .value = value, .used = true };
}

uint32_t idmap_number(struct idmap *map, uint64_t key, size_t value)
{
	uint32_t number = (uint32_t)value;

	if (!idmap_get(map, key, &number))
		idmap_set(map, key, number);
	return number;
}
