/* SPDX-License-Identifier: BSD-2-Clause */
/* Lists that grow to twice their size. */
#ifndef INFTRACE_UTIL_LIST_ROOM_H
#define INFTRACE_UTIL_LIST_ROOM_H

#include <errno.h>
#include <stdlib.h>

/* Makes room in *list, which has n elements of `size` bytes and room for *cap, for one more. -ENOMEM, and the list is as it was. */
static inline int list_room(void **list, size_t n, size_t *cap, size_t size)
{
	size_t more = *cap ? 2 * *cap : 64;
	void *bigger;

	if (n < *cap)
		return 0;
	bigger = realloc(*list, more * size);
	if (!bigger)
		return -ENOMEM;
	*list = bigger;
	*cap = more;
	return 0;
}

#endif
