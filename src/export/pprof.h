/* SPDX-License-Identifier: BSD-2-Clause */
/* One copy of each of some pieces of memory, numbered from 0 in the order in which they came. */
#ifndef INFTRACE_EXPORT_POOL_H
#define INFTRACE_EXPORT_POOL_H

#include <stddef.h>
#include <stdint.h>

struct pool_item;

struct pool {
	struct pool_item *by_data, **items;
	uint32_t n, size;
	size_t bytes; /* of memory */
};

/* The number of the piece, or -ENOMEM. Padding in it needs to be 0. */
int64_t pool_add(struct pool *p, const void *data, size_t len);
/* The same, without adding it: -ENOENT. */
int64_t pool_find(const struct pool *p, const void *data, size_t len);
/* Valid until pool_clear(). */
const void *pool_get(const struct pool *p, uint32_t number);
size_t pool_len(const struct pool *p, uint32_t number);
void pool_clear(struct pool *p);

#endif
