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

/* Takes over the names if there are none such yet. Returns the variant, or an error: then the names are the caller's. */
static int add_variant(struct enum_table *t, char **names, size_t n)
{
	struct enum_variant *list;

	for (size_t i = 0; i < t->n_variants; i++) {
		if (same_names(&t->variants[i], names, n)) {
			elf_strings_free(names, n);
			return (int)i;
		}
	}
	if (t->n_variants == ENUM_VARIANTS_MAX)
		return -E2BIG;
	if (!t->users)
		t->users = calloc(ENUM_USERS_MAX, sizeof(*t->users));
	list = t->users ? realloc(t->variants, (t->n_variants + 1) * sizeof(*list)) : NULL;
	if (!list)
		return -ENOMEM;
	t->variants = list;
	list[t->n_variants] = (struct enum_variant){ .names = names, .n = n };
	return (int)t->n_variants++;
}

static int add_file(struct enum_table *t, uint64_t dev, uint64_t ino, char **names, size_t n)
{
	struct enum_file *f = find_file(t, dev, ino); /* the same under another path, or one that has got its number */
	int variant;

	if (!f && t->n_files == ENUM_FILES_MAX)
		return -E2BIG;
	if (!f && list_room((void **)&t->files, t->n_files, &t->cap_files, sizeof(*t->files)))
		return -ENOMEM;
	variant = add_variant(t, names, n);
	if (variant < 0)
		return variant;
	if (!f)
		f = &t->files[t->n_files++];
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

static void each_table(struct probe_table *pt, void (*cb)(struct enum_table *t, const uint64_t *arg),
	const uint64_t *arg)
{
	for (size_t i = 0; i < pt->n_engines; i++) {
		struct engine *e = pt->engines[i];

		for (size_t k = 0; k < e->n_enums; k++) {
			if (e->enums[k].n_variants)
				cb(&e->enums[k], arg);
		}
	}
}

static void table_mapped(struct enum_table *t, const uint64_t *arg)
{
	const struct enum_file *f = find_file(t, arg[0], arg[1]);

	if (f)
		*user_of(t, (uint32_t)arg[2]) = (struct enum_user){ (uint32_t)arg[2], f->variant };
}

void probe_table_mapped(struct probe_table *pt, uint64_t dev, uint64_t ino, uint32_t tgid)
{
	each_table(pt, table_mapped, (const uint64_t[]){ dev, ino, tgid });
	pt->used = 0;
}

static void table_unmapped(struct enum_table *t, const uint64_t *arg)
{
	struct enum_file *f = find_file(t, arg[0], arg[1]);

	if (f)
		*f = t->files[--t->n_files];
}

void probe_table_unmapped(struct probe_table *pt, uint64_t dev, uint64_t ino)
{
	each_table(pt, table_unmapped, (const uint64_t[]){ dev, ino });
}

static void table_forked(struct enum_table *t, const uint64_t *arg)
{
	struct enum_user *parent = user_of(t, (uint32_t)arg[0]), *child = user_of(t, (uint32_t)arg[1]);

	if (parent->tgid == arg[0])
		*child = (struct enum_user){ (uint32_t)arg[1], parent->variant };
	else if (child->tgid == arg[1]) /* left over from an earlier process with that number */
		*child = (struct enum_user){ 0 };
}

void probe_table_forked(struct probe_table *pt, uint32_t parent, uint32_t tgid)
{
	each_table(pt, table_forked, (const uint64_t[]){ parent, tgid });
	pt->used = 0;
}

static void table_switch(struct enum_table *t, const uint64_t *arg)
{
	const struct enum_user *user = user_of(t, (uint32_t)arg[0]);
	const struct enum_variant *v = &t->variants[user->tgid == arg[0] ? user->variant : 0];

	t->names = v->names;
	t->n = v->n;
}

void probe_table_switch(struct probe_table *pt, uint32_t tgid)
{
	each_table(pt, table_switch, (const uint64_t[]){ tgid });
	pt->used = tgid;
}
