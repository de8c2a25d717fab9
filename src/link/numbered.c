// SPDX-License-Identifier: BSD-2-Clause
/* Lists of calls by number. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "link/file.h"
#include "util/bisect.h"
#include "util/list_room.h"

int numbereds_add(struct numbereds *l, uint64_t number, int64_t ns, uint64_t name)
{
	if (l->n == NUMBERED_MAX) {
		l->left_out++;
		return 0;
	}
	if (list_room((void **)&l->list, l->n, &l->size, sizeof(*l->list)))
		return -ENOMEM;
	l->list[l->n++] = (struct numbered){ number, ns, name };
	return 0;
}

static int compare(const void *x, const void *y)
{
	const struct numbered *a = x, *b = y;

	if (a->number != b->number)
		return a->number < b->number ? -1 : 1;
	return a->ns < b->ns ? -1 : a->ns > b->ns;
}

void numbereds_sort(struct numbereds *l)
{
	if (l->n)
		qsort(l->list, l->n, sizeof(*l->list), compare);
}

void numbereds_clear(struct numbereds *l)
{
	free(l->list);
	memset(l, 0, sizeof(*l));
}

const struct numbered *numbereds_find(const struct numbereds *l, uint64_t number)
{
	size_t i = bisect(l->n, k, l->list[k].number < number);

	return i < l->n && l->list[i].number == number ? &l->list[i] : NULL;
}
