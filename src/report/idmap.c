// SPDX-License-Identifier: BSD-2-Clause
#include "report/idmap.h"

#include <errno.h>
#include <stdlib.h>

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

static int map_grow(struct idmap *map)
{
	struct idmap bigger = { .size = map->size ? map->size * 2 : 16 };

	bigger.slots = calloc(bigger.size, sizeof(*bigger.slots));
	if (!bigger.slots)
		return -ENOMEM;
	for (size_t i = 0; i < map->size; i++) {
		if (map->slots[i].used)
			*slot_find(&bigger, map->slots[i].key) = map->slots[i];
	}
	bigger.len = map->len;
	free(map->slots);
	*map = bigger;
	return 0;
}

int idmap_set(struct idmap *map, uint64_t key, uint32_t value)
{
	struct idmap_slot *slot;

	if (map->len * 4 >= map->size * 3 && map_grow(map))
		return -ENOMEM;
	slot = slot_find(map, key);
	map->len += !slot->used;
	*slot = (struct idmap_slot){ .key = key, .value = value, .used = true };
	return 0;
}
