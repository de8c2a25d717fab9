// SPDX-License-Identifier: BSD-2-Clause
#include "capture/seen.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define SLOTS_MAX (1u << 17)
#define SLOTS_FIRST (1u << 10)

struct entry {
	uint64_t dev, ino; /* ino 0: the slot is free */
	uint64_t name;	   /* hash; 0: under any */
	char *build_id;
};

struct seen {
	struct entry *slots; /* open addressing; at most half of them are in use */
	size_t n_slots, n;
	uint64_t seed; /* inode numbers and names that collide cannot be chosen */
};

struct seen *seen_new(void)
{
	struct seen *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->slots = calloc(SLOTS_FIRST, sizeof(*s->slots));
	s->n_slots = SLOTS_FIRST;
	if (!s->slots || getrandom(&s->seed, sizeof(s->seed), 0) != sizeof(s->seed)) {
		seen_free(s);
		return NULL;
	}
	return s;
}

void seen_free(struct seen *s)
{
	if (!s)
		return;
	for (size_t i = 0; s->slots && i < s->n_slots; i++)
		free(s->slots[i].build_id);
	free(s->slots);
	free(s);
}

static uint64_t mix(uint64_t h)
{
	h = (h ^ h >> 31) * 0x9e3779b97f4a7c15ull;
	h = (h ^ h >> 29) * 0xbf58476d1ce4e5b9ull;
	return h ^ h >> 32;
}

static uint64_t hash_name(const struct seen *s, const char *name)
{
	uint64_t hash = 0xcbf29ce484222325ull ^ s->seed;

	while (*name) /* FNV-1a */
		hash = (hash ^ (unsigned char)*name++) * 0x100000001b3ull;
	return hash | 1;
}

/* The slot of the file under a name, or the free one where it would be. */
static struct entry *find(const struct seen *s, uint64_t dev, uint64_t ino, uint64_t name)
{
	size_t i = mix(mix(ino ^ s->seed) ^ name) & (s->n_slots - 1);

	for (;; i = (i + 1) & (s->n_slots - 1)) {
		struct entry *e = &s->slots[i];

		/* dev 0: named by its path; stat's device differs from that in maps on some filesystems */
		if (!e->ino || (e->ino == ino && e->name == name && (e->dev == dev || !e->dev)))
			return e;
	}
}

/* Moves what is to stay into a table of that many slots. */
static void rebuild(struct seen *s, size_t n_slots, bool for_good_only)
{
	struct seen to = *s;

	to.slots = calloc(n_slots, sizeof(*to.slots));
	if (!to.slots)
		return;
	to.n_slots = n_slots;
	to.n = 0;
	for (size_t i = 0; i < s->n_slots; i++) {
		const struct entry *e = &s->slots[i];

		if (!e->ino)
			continue;
		if (for_good_only && e->name) {
			free(e->build_id);
			continue;
		}
		*find(&to, e->dev, e->ino, e->name) = *e;
		to.n++;
	}
	free(s->slots);
	*s = to;
}

void seen_add(struct seen *s, uint64_t dev, uint64_t ino, const char *name, bool for_good, const char *build_id)
{
	uint64_t hash = for_good ? 0 : hash_name(s, name);
	struct entry *e;

	if (!ino)
		return;
	if (2 * (s->n + 1) > s->n_slots)
		rebuild(s, s->n_slots < SLOTS_MAX ? 2 * s->n_slots : s->n_slots, s->n_slots == SLOTS_MAX);
	if (2 * (s->n + 1) > s->n_slots)
		return;
	e = find(s, dev, ino, hash);
	if (e->ino)
		return;
	*e = (struct entry){ dev, ino, hash, build_id ? strdup(build_id) : NULL };
	s->n++;
}

bool seen_has(const struct seen *s, uint64_t dev, uint64_t ino, const char *name, const char **ret_build_id)
{
	const struct entry *e = find(s, dev, ino, 0);

	if (!e->ino)
		e = find(s, dev, ino, hash_name(s, name));
	if (!e->ino)
		return false;
	if (ret_build_id)
		*ret_build_id = e->build_id;
	return true;
}
