/* SPDX-License-Identifier: BSD-2-Clause */
/* Functions of a library that is not linked. */
#ifndef INFTRACE_GPU_AGENT_SYMBOLS_H
#define INFTRACE_GPU_AGENT_SYMBOLS_H

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

struct symbol {
	const char *name;
	void *function; /* the address of a pointer to it */
};

/* Finds all of them. -ENOSYS: one is missing. */
static inline int symbols_find(void *library, const struct symbol *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		void *found = dlsym(library, list[i].name);

		if (!found)
			return -ENOSYS;
		memcpy(list[i].function, &found, sizeof(found));
	}
	return 0;
}

#endif
