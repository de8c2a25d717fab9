// SPDX-License-Identifier: BSD-2-Clause
#include "sink/behind.h"

#include <string.h>

static void take_row(struct behind_row *row, const struct behind *b)
{
	memset(row, 0, sizeof(*row));
	row->ns = b->ns;
	if (b->tid && b->tid != BEHIND_LIMIT) {
		row->tid = b->tid;
		row->tgid = b->tgid;
		memcpy(row->by, b->comm, sizeof(b->comm));
	} else {
		row->limit = b->tid;
		strcpy(row->by, b->tid ? "cpu.max" : "idle");
	}
}

size_t behind_rows(const struct behind_table *table, uint64_t waited_ns,
	struct behind_row rows[BEHIND_MAX], uint64_t *ret_others)
{
	uint64_t sum = 0;
	size_t n = 0, at;

	for (size_t i = 0; i < BEHIND_MAX; i++) {
		const struct behind *b = &table->slots[i];

		if (!b->ns)
			continue;
		for (at = n++; at && rows[at - 1].ns < b->ns; at--)
			rows[at] = rows[at - 1];
		take_row(&rows[at], b);
		sum += b->ns;
	}
	if (sum > waited_ns) {
		*ret_others = waited_ns;
		return 0;
	}
	*ret_others = waited_ns - sum;
	return n;
}
