// SPDX-License-Identifier: BSD-2-Clause
#include "export/pool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/map.h"

struct pool_item {
	UT_hash_handle hh;
	uint32_t number;
	size_t len;
	_Alignas(8) char data[];
};

static int pool_grow(struct pool *p)
{
	uint32_t size = p->size ? 2 * p->size : 256;
	struct pool_item **items;

	if (p->n < p->size)
		return 0;
	if (p->n >= UINT32_MAX / 2)
		return -ENOMEM;
	items = realloc(p->items, size * sizeof(struct pool_item *));
	if (!items)
		return -ENOMEM;
	p->items = items;
	p->size = size;
	return 0;
}

int64_t pool_add(struct pool *p, const void *data, size_t len)
{
	struct pool_item *item;

	HASH_FIND(hh, p->by_data, data, len, item);
	if (item)
		return item->number;
	item = pool_grow(p) ? NULL : malloc(sizeof(*item) + len);
	if (!item)
		return -ENOMEM;
	item->number = p->n;
	item->len = len;
	memcpy(item->data, data, len);
	HASH_ADD_KEYPTR(hh, p->by_data, item->data, len, item);
	if (!item->hh.tbl) {
		free(item);
		return -ENOMEM;
	}
	p->items[p->n++] = item;
	p->bytes += sizeof(*item) + len + sizeof(struct pool_item *);
	return item->number;
}

int64_t pool_find(const struct pool *p, const void *data, size_t len)
{
	struct pool_item *item;

	HASH_FIND(hh, p->by_data, data, len, item);
	return item ? (int64_t)item->number : -ENOENT;
}

const void *pool_get(const struct pool *p, uint32_t number)
{
	return p->items[number]->data;
}

size_t pool_len(const struct pool *p, uint32_t number)
{
	return p->items[number]->len;
}

void pool_clear(struct pool *p)
{
	HASH_CLEAR(hh, p->by_data);
	for (uint32_t i = 0; i < p->n; i++)
		free(p->items[i]);
	free(p->items);
	*p = (struct pool){ 0 };
}
