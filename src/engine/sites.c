// SPDX-License-Identifier: BSD-2-Clause
#include "engine/sites.h"

#include <errno.h>
#include <string.h>

struct walk {
	struct elf_file *elf;
	const struct probe_spec *spec;
	size_t id;
	probe_site_cb cb;
	void *arg;
};

static int on_symbol(const struct elf_symbol *sym, void *arg)
{
	struct walk *w = arg;
	struct probe_site site = { .spec = w->id, .symbol = sym };
	uint32_t regs = 0;

	for (unsigned int i = 0; i < w->spec->nargs; i++)
		regs |= 1u << w->spec->fetch[i].reg;
	site_choose(w->elf, sym, regs, w->spec->flags & PROBE_F_SPAN, &site.site);
	return w->cb(&site, w->arg);
}

/* A file that lacks the function is none of ours to report: another may have it. */
static int walk_spec(struct walk *w)
{
	struct elf_symbol sym;
	int err;

	if (strpbrk(w->spec->symbol, "*?["))
		err = elf_match_symbols(w->elf, w->spec->symbol, on_symbol, w);
	else
		err = elf_find_symbol(w->elf, w->spec->symbol, &sym) ?: on_symbol(&sym, w);
	return err == -ENOENT || err > 0 ? 0 : err;
}

static bool makes_states(const struct probe_spec *s)
{
	return s->role == ROLE_STEP || s->role == ROLE_BARRIER || s->role == ROLE_GPU_WAIT;
}

int probe_sites_each(struct probe_table *pt, const char *path, const char *shown, bool states_only,
	probe_site_cb cb, void *arg)
{
	struct walk w = { .cb = cb, .arg = arg };
	int err = 0;

	for (w.id = 0; w.id < pt->n && !err; w.id++) {
		w.spec = &pt->specs[w.id];
		if ((states_only && !makes_states(w.spec)) || !probe_spec_matches(w.spec, shown))
			continue;
		if (!w.elf)
			err = elf_open(path, &w.elf);
		if (!err)
			err = walk_spec(&w);
	}
	elf_close(w.elf);
	return err;
}
