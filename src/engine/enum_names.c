// SPDX-License-Identifier: BSD-2-Clause
/* Names of the values of arguments: each process has those of the files that it has mapped. */
#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "target/elf.h"
#include "util/list.h"

bool engine_claims(const struct engine *e, const char *path)
{
	const char *slash = strrchr(path, '/');
	bool claims = false;

	for (size_t k = 0; k < e->n_mapped && !claims; k++)
		claims = !fnmatch(e->mapped[k], slash ? slash + 1 : path, 0);
	return claims;
}

static struct enum_file *find_file(const struct enum_table *t, uint64_t dev, uint64_t ino)
{
	for (size_t i = 0; i < t->n_files; i++) {
		if (t->files[i].dev == dev && t->files[i].ino == ino)
			return &t->files[i];
	}
	return NULL;
}

static bool same_names(const struct enum_variant *v, char *const *names, size_t n)
{
	for (size_t i = 0; v->n == n && i < n; i++) {
		if (!v->names[i] != !names[i] || (names[i] && strcmp(v->names[i], names[i])))
			return false;
	}
	return v->n == n;
}

/* Takes over the names if there are none such yet. Returns the variant, or -E2BIG: then the names are the caller's. */
static int add_variant(struct enum_table *t, char **names, size_t n)
{
	for (size_t i = 0; i < t->n_variants; i++) {
		if (same_names(&t->variants[i], names, n)) {
			elf_strings_free(names, n);
			return (int)i;
		}
	}
	if (t->n_variants == ENUM_VARIANTS_MAX)
		return -E2BIG;
	if (!t->users)
		t->users = xcalloc(ENUM_USERS_MAX, sizeof(*t->users));
	t->variants = xreallocarray(t->variants, t->n_variants + 1, sizeof(*t->variants));
	t->variants[t->n_variants] = (struct enum_variant){ .names = names, .n = n };
	return (int)t->n_variants++;
}

static int add_file(struct enum_table *t, uint64_t dev, uint64_t ino, char **names, size_t n)
{
	struct enum_file *f = find_file(t, dev, ino); /* the same under another path, or one that has got its number */
	int variant;

	if (!f && t->n_files == ENUM_FILES_MAX)
		return -E2BIG;
	variant = add_variant(t, names, n);
	if (variant < 0)
		return variant;
	if (!f)
		f = list_push(t->files, t->n_files, t->cap_files);
	*f = (struct enum_file){ dev, ino, (uint32_t)variant };
	return 0;
}

void engine_set_names(struct probe_table *pt, struct engine *e, size_t i, char **names, size_t n)
{
	struct enum_table *t = &e->enums[i];

	for (size_t k = 0; k < n; k++) {
		for (unsigned char *c = (unsigned char *)names[k]; c && *c; c++)
			*c = iscntrl(*c) ? '?' : (unsigned char)tolower(*c);
	}
	if (!t->object || add_file(t, pt->reading.dev, pt->reading.ino, names, n)) {
		elf_strings_free(names, n);
		return;
	}
	pt->many_names |= t->n_variants > 1;
	if (t->from_file)
		return;
	t->own_names = t->names;
	t->n_own = t->n;
	t->names = t->variants[0].names;
	t->n = t->variants[0].n;
	t->from_file = true;
}

/* ---- whose names are in use ---- */

static struct enum_user *user_of(const struct enum_table *t, uint32_t tgid)
{
	return &t->users[tgid % ENUM_USERS_MAX];
}

struct table_place {
	size_t engine, table;
};

/* The next enumeration with variants, behind *at, which is all 0 at first; NULL: there is none. */
static struct enum_table *next_table(const struct probe_table *pt, struct table_place *at)
{
	for (; at->engine < pt->n_engines; at->engine++, at->table = 0) {
		const struct engine *e = pt->engines[at->engine];

		while (at->table < e->n_enums) {
			struct enum_table *t = &e->enums[at->table++];

			if (t->n_variants)
				return t;
		}
	}
	return NULL;
}

void probe_table_mapped(struct probe_table *pt, uint64_t dev, uint64_t ino, uint32_t tgid)
{
	struct enum_table *t;

	for (struct table_place at = {}; (t = next_table(pt, &at));) {
		const struct enum_file *f = find_file(t, dev, ino);

		if (f)
			*user_of(t, tgid) = (struct enum_user){ tgid, f->variant };
	}
	pt->used = 0;
}

void probe_table_unmapped(struct probe_table *pt, uint64_t dev, uint64_t ino)
{
	struct enum_table *t;

	for (struct table_place at = {}; (t = next_table(pt, &at));) {
		struct enum_file *f = find_file(t, dev, ino);

		if (f)
			*f = t->files[--t->n_files];
	}
}

void probe_table_forked(struct probe_table *pt, uint32_t parent, uint32_t tgid)
{
	struct enum_table *t;

	for (struct table_place at = {}; (t = next_table(pt, &at));) {
		const struct enum_user *p = user_of(t, parent);
		struct enum_user *child = user_of(t, tgid);

		if (p->tgid == parent)
			*child = (struct enum_user){ tgid, p->variant };
		else if (child->tgid == tgid) /* left over from an earlier process with that number */
			*child = (struct enum_user){ 0 };
	}
	pt->used = 0;
}

void probe_table_switch(struct probe_table *pt, uint32_t tgid)
{
	struct enum_table *t;

	for (struct table_place at = {}; (t = next_table(pt, &at));) {
		const struct enum_user *user = user_of(t, tgid);
		const struct enum_variant *v = &t->variants[user->tgid == tgid ? user->variant : 0];

		t->names = v->names;
		t->n = v->n;
	}
	pt->used = tgid;
}
