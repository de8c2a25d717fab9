// SPDX-License-Identifier: BSD-2-Clause
#include "engine/sites.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine/spec.h"
#include "target/elf_pointers.h"
#include "target/go.h"
#include "target/usdt.h"
#include "util/log.h"

struct walk {
	struct elf_file *elf;
	struct probe_table *pt;
	size_t id;
	bool warned; /* about a place of the USDT probe, a function of Go's */
	struct go_text go;
	const char *shown;
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
	struct probe_spec *s;
	unsigned int flags = 0;
	uint32_t regs = 0;

	if (w->pt->specs[w->id].is_glob) {
		int err = probe_table_match(w->pt, w->id, sym->name, &site.spec);

		if (err == -E2BIG) {
			w->pt->left_out++;
			return 0;
		}
		if (err)
			return err;
	}
	s = &w->pt->specs[site.spec];
	if (s->flags & PROBE_F_SPAN && sym->vaddr >= w->go.from && sym->vaddr < w->go.to) {
		if (!w->warned)
			log_warn("%s in %s is a Go function, which a return probe would break: left out (a preset can "
				 "probe its entry, with \"instant\")",
				sym->name, w->shown);
		w->warned = s->refused = true;
		return 0;
	}
	for (unsigned int i = 0; i < s->nargs; i++) {
		if (!s->args[i].is_row)
			note_fetch(&s->fetch[i], &regs, &flags);
	}
	for (unsigned int i = 0; i < ROW_COLUMNS; i++) {
		if (!s->row[i].loads)
			continue;
		note_fetch(&s->row[i].array, &regs, &flags);
		flags |= SITE_READS_MEMORY;
	}
	if (s->flags & PROBE_F_GROUP)
		note_fetch(&s->group, &regs, &flags);
	if (s->flags & PROBE_F_SPAN)
		flags |= SITE_RETURNS;
	if (s->past_early_return)
		flags |= SITE_PAST_EARLY_RETURN;
	site_choose(w->elf, sym, regs, flags, &site.site);
	return w->cb(&site, w->arg);
}

/* Where the arguments of a USDT probe are at one of its places. */
static int place_args(struct walk *w, const struct usdt_note *note, struct fetch fetch[FUNC_VALS_MAX])
{
	const struct probe_spec *s = &w->pt->specs[w->id];
	const char *why;

	memset(fetch, 0, sizeof(s->fetch));
	for (unsigned int i = 0; i < s->nargs; i++) {
		if (!fetch_place(&s->fetch[i], &s->args[i], note, &fetch[i], &why))
			continue;
		if (!w->warned)
			log_warn("%s at +0x%lx: argument %s cannot be had: %s; the probe is left out there",
				note->name, (unsigned long)note->offset, s->args[i].name, why);
		w->warned = true;
		return -EINVAL;
	}
	return 0;
}

/* The nop of a USDT probe is emulated on x86_64; arm64 does not single-step it either since 6.12. */
static int on_note(const struct usdt_note *note, void *arg)
{
	char name[sizeof(SPEC_USDT) + USDT_NAME_MAX];
	struct elf_symbol sym = { .name = name, .vaddr = note->vaddr, .offset = note->offset };
	struct walk *w = arg;
	struct probe_site site = { .symbol = &sym, .semaphore = note->semaphore };
	struct fetch fetch[FUNC_VALS_MAX];
	uint8_t code = 0;
	int err;

	if (place_args(w, note, fetch))
		return 0;
	snprintf(name, sizeof(name), SPEC_USDT "%s", note->name);
	err = probe_table_place(w->pt, w->id, name, fetch, &site.spec);
	if (err == -E2BIG) {
		w->pt->left_out++;
		return 0;
	}
	if (err)
		return err;
	elf_read_at_offset(w->elf, note->offset, &code, sizeof(code));
	site.site.offset = note->offset;
	site.site.cheap = elf_machine(w->elf) == EM_X86_64 && code == 0x90;
	return w->cb(&site, w->arg);
}

/* A file that lacks the function is none of ours to report: another may have it. */
static int walk_spec(struct walk *w)
{
	const struct probe_spec *s = &w->pt->specs[w->id];
	struct elf_symbol sym;
	int err;

	w->warned = false;
	if (s->is_usdt)
		err = usdt_each(w->elf, s->symbol + strlen(SPEC_USDT), on_note, w);
	else if (strstr(s->symbol, "()"))
		err = elf_resolve(w->elf, s->symbol, &sym) ?: on_symbol(&sym, w);
	else if (s->is_glob)
		err = elf_match_symbols(w->elf, s->symbol, on_symbol, w);
	else
		err = elf_find_symbol(w->elf, s->symbol, &sym) ?: on_symbol(&sym, w);
	return err == -ENOENT || err > 0 ? 0 : err;
}

static bool makes_states(const struct probe_spec *s)
{
	return s->role == ROLE_STEP || s->role == ROLE_BARRIER || s->role == ROLE_GPU_WAIT ||
	       s->flags & PROBE_F_GRAPH;
}

int probe_sites_each(struct probe_table *pt, const char *path, const char *shown, bool states_only,
	probe_site_cb cb, void *arg)
{
	struct walk w = { .pt = pt, .shown = shown, .cb = cb, .arg = arg };
	size_t n = pt->n; /* matches of globs are appended, and done when they are */
	int err = 0;

	for (w.id = 0; w.id < n && !err; w.id++) {
		const struct probe_spec *s = &pt->specs[w.id];

		if (s->from || (states_only && s->engine && !makes_states(s)) || !probe_spec_matches(s, shown))
			continue;
		if (!w.elf)
			err = elf_open(path, &w.elf) ?: go_text_read(w.elf, &w.go);
		if (!err)
			err = walk_spec(&w);
	}
	elf_close(w.elf);
	return err;
}
