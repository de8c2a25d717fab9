// SPDX-License-Identifier: BSD-2-Clause
#include "capture/checked_files.h"

#include <stdlib.h>
#include <sys/random.h>

#include "util/clock.h"

/* Random, so that nobody can choose inode numbers and names that collide. */
static uint64_t seed;
static unsigned int hash_words(const uint64_t *words);
#define HASH_FUNCTION(key, len, hash) ((hash) = hash_words((const void *)(key)))
#include "util/map.h"

#define FILES_MAX (1u << 15)

struct checked_key {
	uint64_t dev, ino;
	uint64_t name; /* hash; 0: any name */
};

struct checked_entry {
	struct checked_key key;
	uint32_t number;
	uint64_t used_ns;
	bool claimed;
	UT_hash_handle hh;
};

struct checked_files {
	struct checked_entry *files;
};

static uint64_t hash_mix_word(uint64_t h)
{
	h = (h ^ h >> 31) * 0x9e3779b97f4a7c15ull;
	h = (h ^ h >> 29) * 0xbf58476d1ce4e5b9ull;
	return h ^ h >> 32;
}

static unsigned int hash_words(const uint64_t *words)
{
	return (unsigned int)hash_mix_word(hash_mix_word(hash_mix_word(words[0] ^ seed) ^ words[1]) ^ words[2]);
}

static uint64_t hash_name(const char *name)
{
	uint64_t hash = 0xcbf29ce484222325ull ^ seed;

	while (*name) /* FNV-1a */
		hash = (hash ^ (unsigned char)*name++) * 0x100000001b3ull;
	return hash | 1;
}

struct checked_files *checked_files_new(void)
{
	if (!seed && getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		seed = clock_mono_ns();
	return xcalloc(1, sizeof(struct checked_files));
}

static void checked_files_drop(struct checked_files *s, struct checked_entry *f)
{
	HASH_DEL(s->files, f);
	free(f);
}

static void checked_files_forget(struct checked_files *s, bool probed_too)
{
	struct checked_entry *f, *next;

	HASH_ITER(hh, s->files, f, next)
	{
		if (!f->number || probed_too)
			checked_files_drop(s, f);
	}
}

void checked_files_free(struct checked_files *s)
{
	if (!s)
		return;
	checked_files_forget(s, true);
	free(s);
}

void checked_files_forget_unused(struct checked_files *s, uint64_t since_ns, unused_file_cb cb, void *arg)
{
	struct checked_entry *f, *next;

	HASH_ITER(hh, s->files, f, next)
	{
		if (f->key.dev && f->used_ns < since_ns && cb(f->key.dev, f->key.ino, f->number, arg))
			checked_files_drop(s, f);
	}
}

static struct checked_entry *checked_files_find(const struct checked_files *s, uint64_t dev, uint64_t ino, uint64_t name)
{
	struct checked_key key = { dev, ino, name };
	struct checked_entry *f;

	HASH_FIND(hh, s->files, &key, sizeof(key), f);
	if (f)
		return f;
	/* dev 0: named by its path; on some filesystems stat(2) and maps have different devices */
	key.dev = 0;
	HASH_FIND(hh, s->files, &key, sizeof(key), f);
	return f;
}

void checked_files_add(struct checked_files *s, const struct checked_file *file, uint64_t now_ns)
{
	struct checked_key key = { file->dev, file->ino, file->number ? 0 : hash_name(file->name) };
	struct checked_entry *f;

	if (!file->ino || checked_files_find(s, file->dev, file->ino, key.name))
		return;
	if (HASH_COUNT(s->files) == FILES_MAX)
		checked_files_forget(s, false);
	if (HASH_COUNT(s->files) == FILES_MAX)
		return;
	f = xmalloc(sizeof(*f));
	*f = (struct checked_entry){ .key = key, .number = file->number, .claimed = file->claimed, .used_ns = now_ns };
	HASH_ADD(hh, s->files, key, sizeof(f->key), f);
}

bool checked_files_use(struct checked_files *s, uint64_t dev, uint64_t ino, const char *name, uint64_t now_ns, bool *ret_claimed)
{
	struct checked_entry *f = checked_files_find(s, dev, ino, 0);

	if (!f)
		f = checked_files_find(s, dev, ino, hash_name(name));
	if (!f)
		return false;
	f->used_ns = now_ns;
	if (ret_claimed)
		*ret_claimed = f->claimed;
	return true;
}

bool checked_files_number(const struct checked_files *s, uint64_t dev, uint64_t ino, const char *name, uint32_t *ret_number)
{
	const struct checked_entry *f = checked_files_find(s, dev, ino, 0) ?: checked_files_find(s, dev, ino, hash_name(name));

	if (f)
		*ret_number = f->number;
	return f;
}
