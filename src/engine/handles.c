// SPDX-License-Identifier: BSD-2-Clause
#include "engine/handles.h"

#include <stdlib.h>
#include <string.h>

#define BUCKETS 8192          /* a power of two */
#define HANDLES_MAX (1 << 18) /* PyTorch has some ten thousand kernels */

struct handle {
	struct handle *next;
	uint64_t handle;
	uint32_t tgid;
	char name[];
};

struct handles {
	struct handle *buckets[BUCKETS];
	size_t n;
};

struct handles *handles_new(void)
{
	return calloc(1, sizeof(struct handles));
}

void handles_free(struct handles *h)
{
	if (!h)
		return;
	for (size_t i = 0; i < BUCKETS; i++) {
		while (h->buckets[i]) {
			struct handle *e = h->buckets[i];

			h->buckets[i] = e->next;
			free(e);
		}
	}
	free(h);
}

/* Where the entry is linked in, or a new one would be. */
static struct handle **find(struct handles *h, uint32_t tgid, uint64_t handle)
{
	uint64_t hash = (handle ^ (uint64_t)tgid << 32) * 0x9e3779b97f4a7c15ull;
	struct handle **p = &h->buckets[hash >> 51 & (BUCKETS - 1)];

	while (*p && ((*p)->handle != handle || (*p)->tgid != tgid))
		p = &(*p)->next;
	return p;
}

void handles_set(struct handles *h, uint32_t tgid, uint64_t handle, const char *name)
{
	size_t size = strlen(name) + 1;
	struct handle **p, *e;

	if (size == 1 || !handle)
		return;
	p = find(h, tgid, handle);
	if (*p && !strcmp((*p)->name, name))
		return;
	if (!*p && h->n == HANDLES_MAX)
		return;
	e = malloc(sizeof(*e) + size);
	if (!e)
		return;
	*e = (struct handle){ .next = *p ? (*p)->next : NULL, .handle = handle, .tgid = tgid };
	memcpy(e->name, name, size);
	h->n += !*p;
	free(*p);
	*p = e;
}

const char *handles_get(const struct handles *h, uint32_t tgid, uint64_t handle)
{
	const struct handle *e = *find((struct handles *)h, tgid, handle);

	return e ? e->name : NULL;
}

void handles_drop(struct handles *h, uint32_t tgid)
{
	for (size_t i = 0; i < BUCKETS && h->n; i++) {
		for (struct handle **p = &h->buckets[i]; *p;) {
			struct handle *e = *p;

			if (e->tgid != tgid) {
				p = &e->next;
				continue;
			}
			*p = e->next;
			free(e);
			h->n--;
		}
	}
}
