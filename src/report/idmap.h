/* SPDX-License-Identifier: BSD-2-Clause */
/* A hash map from numbers to numbers, 16 bytes each: there is one for every step (see util/map.h). */
#ifndef INFTRACE_REPORT_IDMAP_H
#define INFTRACE_REPORT_IDMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero: an empty map. */
struct idmap {
	struct idmap_slot *slots;
	size_t len, size;
};

void idmap_free(struct idmap *map);
bool idmap_get(const struct idmap *map, uint64_t key, uint32_t *ret_value);
/* Adds or replaces. Returns 0 or -ENOMEM. */
int idmap_set(struct idmap *map, uint64_t key, uint32_t value);

#endif
