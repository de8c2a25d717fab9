// SPDX-License-Identifier: BSD-2-Clause
#include "engine/sites.h"

#include <errno.h>
#include <string.h>

#include "target/elf_pointers.h"

struct walk {
	struct elf_file *elf;
	struct probe_table *pt;
	size_t id;
	probe_site_cb cb;
	void *arg;
};

static void note_fetch(const struct fetch *f, uint32_t *regs, unsigned int *flags)
{
	*regs |= 1u << f->reg;
	if (f->derefs || f->flags & FETCH_F_STRING)
		*flags |= SITE_READS_MEMORY;
}

static int on_symbol(const struct elf_symbol *sym, void *arg)
{
	struct walk *w = arg;
	struct probe_site site = { .spec = w->id, .symbol = sym };
	const struct probe_spec *s;
	unsigned int flags = 0;
	uint32_t regs = 0;

	if (w->pt->specs[w->id].is_glob) {
		int err = probe_table_match(w->pt, w->id, sym->name, &site.spec);

		if (err)
			return err;
	}
	s = &w->pt->specs[site.spec];
	for (unsigned int i = 0; i < s->nargs; i++)
		note_fetch(&s->fetch[i], &regs, &flags);
	if (s->flags & PROBE_F_GROUP)
		note_fetch(&s->group, &regs, &flags);
	if (s->flags & PROBE_F_SPAN)
		flags |= SITE_RETURNS;
	if (s->past_early_return)
		flags |= SITE_PAST_EARLY_RETURN;
	site_choose(w->elf, sym, regs, flags, &site.site);
	return w->cb(&site, w->arg);
}

/* A file that lacks the function is none of ours to report: another may have it. */
static int walk_spec(struct walk *w)
{
	const struct probe_spec *s = &w->pt->specs[w->id];
	struct elf_symbol sym;
	int err;

	if (strstr(s->symbol, "()"))
		err = elf_resolve(w->elf, s->symbol, &sym) ?: on_symbol(&sym, w);
	else if (s->is_glob)
		err = elf_match_symbols(w->elf, s->symbol, on_symbol, w);
	else
		err = elf_find_symbol(w->elf, s->symbol, &sym) ?: on_symbol(&sym, w);
	return err == -ENOENT || err > 0 ? 0 : err;
}

static bool makes_states(const struct probe_spec *s)
{
	return s->role == ROLE_STEP || s->role == ROLE_BARRIER || s->role == ROLE_GPU_WAIT;
}

int probe_sites_each(struct probe_table *pt, const char *path, const char *shown, bool states_only,
	probe_site_cb cb, void *arg)
{
	struct walk w = { .pt = pt, .cb = cb, .arg = arg };
	size_t n = pt->n; /* matches of globs are appended, and done when they are */
	int err = 0;

	for (w.id = 0; w.id < n && !err; w.id++) {
		const struct probe_spec *s = &pt->specs[w.id];

		if (s->from || (states_only && !makes_states(s)) || !probe_spec_matches(s, shown))
			continue;
		if (!w.elf)
			err = elf_open(path, &w.elf);
		if (!err)
			err = walk_spec(&w);
	}
	elf_close(w.elf);
	return err;
}
