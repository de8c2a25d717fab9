// SPDX-License-Identifier: BSD-2-Clause
/*
 * A uprobe belongs to a file, not to a process: attached once, it is in every process that
 * maps the file, now and later, and the programs leave at once where the thread is no target.
 */
#include "capture/attach.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/sites.h"
#include "target/elf.h"
#include "target/process.h"
#include "util/log.h"

/* include/uapi/linux/bpf.h of 6.6; Debian 12's libbpf 1.1 does not know them yet */
#define ATTACH_UPROBE_MULTI 48
#define UPROBE_MULTI_RETURN 1

/* Without uprobe_multi each link is closed after a grace period of its own, 0.1 s, under one lock:
 * with more than these of one file the end of the recording would take minutes. */
#define SINGLE_LINKS_MAX 128

/* A file that was looked at. One that has probes keeps its inode by them; the inode of another may
 * be given to a new file once it is deleted, so that its name counts too. */
struct seen {
	uint64_t dev, ino;
	uint64_t name; /* hash; 0: it has probes */
};

struct attach {
	struct probe_table *pt;
	struct bpf_program *entry, *ret;
	int probes_fd;
	bool multi, states_only;
	struct seen *seen;
	size_t n_seen;
	struct bpf_link **links; /* single links */
	size_t n_links;
	int *fds; /* multi links */
	size_t n_fds;
};

/* The sites in one file for one program. */
struct batch {
	unsigned long *offsets;
	uint64_t *cookies;
	size_t n;
};

int attach_new(struct probe_table *pt, int probes_fd, struct bpf_program *entry,
	struct bpf_program *ret_prog, bool multi, bool states_only, struct attach **ret_attach)
{
	struct attach *a = calloc(1, sizeof(*a));

	if (!a)
		return -ENOMEM;
	a->pt = pt;
	a->probes_fd = probes_fd;
	a->entry = entry;
	a->ret = ret_prog;
	a->multi = multi;
	a->states_only = states_only;
	*ret_attach = a;
	return 0;
}

void attach_free(struct attach *a)
{
	if (!a)
		return;
	for (size_t i = 0; i < a->n_links; i++)
		bpf_link__destroy(a->links[i]);
	for (size_t i = 0; i < a->n_fds; i++)
		close(a->fds[i]);
	free(a->links);
	free(a->fds);
	free(a->seen);
	free(a);
}

static int batch_add(struct batch *b, uint64_t offset, uint64_t cookie)
{
	unsigned long *offsets = realloc(b->offsets, (b->n + 1) * sizeof(*offsets));
	uint64_t *cookies;

	if (!offsets)
		return -ENOMEM;
	b->offsets = offsets;
	cookies = realloc(b->cookies, (b->n + 1) * sizeof(*cookies));
	if (!cookies)
		return -ENOMEM;
	b->cookies = cookies;
	offsets[b->n] = offset;
	cookies[b->n++] = cookie;
	return 0;
}

static void batch_free(struct batch *b)
{
	free(b->offsets);
	free(b->cookies);
}

static int attach_multi(struct attach *a, int prog_fd, bool ret, const char *path, const struct batch *b)
{
	struct {
		uint32_t prog_fd, target_fd, attach_type, flags;
		uint64_t path, offsets, ref_ctr_offsets, cookies;
		uint32_t cnt, multi_flags, pid;
		uint32_t pad;
	} attr = {
		.prog_fd = (uint32_t)prog_fd,
		.attach_type = ATTACH_UPROBE_MULTI,
		.path = (uintptr_t)path,
		.offsets = (uintptr_t)b->offsets,
		.cookies = (uintptr_t)b->cookies,
		.cnt = (uint32_t)b->n,
		.multi_flags = ret ? UPROBE_MULTI_RETURN : 0,
	};
	int *fds, fd;

	fd = (int)syscall(SYS_bpf, BPF_LINK_CREATE, &attr, sizeof(attr));
	if (fd < 0)
		return -errno;
	fds = realloc(a->fds, (a->n_fds + 1) * sizeof(*fds));
	if (!fds) {
		close(fd);
		return -ENOMEM;
	}
	a->fds = fds;
	fds[a->n_fds++] = fd;
	return 0;
}

static int attach_single(struct attach *a, struct bpf_program *prog, bool ret, const char *path,
	const struct batch *b)
{
	struct bpf_link **links = realloc(a->links, (a->n_links + b->n) * sizeof(*links));

	if (!links)
		return -ENOMEM;
	a->links = links;
	for (size_t i = 0; i < b->n; i++) {
		LIBBPF_OPTS(bpf_uprobe_opts, opts, .retprobe = ret, .bpf_cookie = b->cookies[i]);
		struct bpf_link *l = bpf_program__attach_uprobe_opts(prog, -1, path, b->offsets[i], &opts);

		if (!l)
			return -errno;
		links[a->n_links++] = l;
	}
	return 0;
}

static int attach_batch(struct attach *a, bool ret, const char *path, const struct batch *b)
{
	struct bpf_program *prog = ret ? a->ret : a->entry;

	if (!b->n)
		return 0;
	if (a->multi)
		return attach_multi(a, bpf_program__fd(prog), ret, path, b);
	return attach_single(a, prog, ret, path, b);
}

struct collect {
	struct probe_table *pt;
	int probes_fd;
	struct batch entries, returns;
};

static int collect_site(const struct probe_site *ps, void *arg)
{
	struct collect *c = arg;
	struct probe_spec *spec = &c->pt->specs[ps->spec];
	uint32_t id = (uint32_t)ps->spec;
	struct probe probe;

	if (probe_spec_encode(spec, &probe)) {
		log_warn("%s: this build has no %s; left out", spec->symbol, spec->when_name);
		return 0;
	}
	if (!spec->attached && bpf_map_update_elem(c->probes_fd, &id, &probe, BPF_ANY))
		return -errno;
	if (batch_add(&c->entries, ps->site.offset, ps->spec))
		return -ENOMEM;
	/* the return address is on top of the stack at the site too */
	if (spec->flags & PROBE_F_SPAN && batch_add(&c->returns, ps->site.offset, ps->spec))
		return -ENOMEM;
	spec->attached++;
	spec->attached_dear += !ps->site.cheap;
	if (spec->from)
		c->pt->specs[spec->from - 1].attached++;
	log_debug("probe %s: +0x%lx %s", ps->symbol->name,
		(unsigned long)(ps->site.offset - ps->symbol->offset),
		ps->site.cheap ? "emulated" : "single-stepped");
	return 0;
}

static bool is_claimed(const struct probe_table *pt, const char *shown)
{
	for (size_t i = 0; i < pt->n; i++) {
		if (probe_spec_matches(&pt->specs[i], shown))
			return true;
	}
	return false;
}

/* shown: the path as the target sees it, which the globs are about. Returns sites or an error. */
static int attach_file(struct attach *a, const char *path, const char *shown)
{
	struct collect c = { .pt = a->pt, .probes_fd = a->probes_fd };
	char opened[32];
	int err, fd;

	if (!is_claimed(a->pt, shown))
		return 0;
	/* the same file from here on, also when it is deleted or replaced meanwhile */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	err = fd < 0 ? -errno : 0;
	snprintf(opened, sizeof(opened), "/proc/self/fd/%d", fd);
	if (!err)
		err = probe_sites_each(a->pt, opened, shown, a->states_only, collect_site, &c);
	if (!err && !a->multi && c.entries.n + c.returns.n > SINGLE_LINKS_MAX)
		err = -EFBIG;
	/* returns first: a return without its entry is nothing, an entry without its return stays open */
	if (!err)
		err = attach_batch(a, true, opened, &c.returns);
	if (!err)
		err = attach_batch(a, false, opened, &c.entries);
	if (!err)
		err = (int)c.entries.n;
	else if (err != -ENOENT) /* gone: no longer to be probed, or to be found elsewhere */
		log_warn("cannot probe %s: %s; its functions are left out", shown, strerror(-err));
	if (fd >= 0)
		close(fd);
	batch_free(&c.entries);
	batch_free(&c.returns);
	return err;
}

static uint64_t hash_name(const char *name)
{
	uint64_t hash = 0xcbf29ce484222325ull;

	while (*name) /* FNV-1a */
		hash = (hash ^ (unsigned char)*name++) * 0x100000001b3ull;
	return hash | 1;
}

static bool is_seen(const struct attach *a, uint64_t dev, uint64_t ino, const char *name)
{
	for (size_t i = 0; i < a->n_seen; i++) {
		const struct seen *s = &a->seen[i];

		/* dev 0: named by its path; stat's device differs from that in maps on some filesystems */
		if (s->ino == ino && (s->dev == dev || !s->dev) &&
			(!s->name || s->name == hash_name(name)))
			return true;
	}
	return false;
}

static void remember(struct attach *a, uint64_t dev, uint64_t ino, const char *name, bool probed)
{
	struct seen *seen = realloc(a->seen, (a->n_seen + 1) * sizeof(*seen));

	if (!seen)
		return;
	a->seen = seen;
	seen[a->n_seen++] = (struct seen){ dev, ino, probed ? 0 : hash_name(name) };
}

/* The engines that claim the file; what they want to know from it is read. */
static void note_engines(struct attach *a, const char *path, const char *shown)
{
	const char *base = strrchr(shown, '/') + 1;
	struct elf_file *elf = NULL;

	for (size_t i = 0; i < a->pt->n_engines; i++) {
		struct engine *e = a->pt->engines[i];
		bool claimed = false;

		for (size_t k = 0; k < e->n_mapped && !claimed; k++)
			claimed = !fnmatch(e->mapped[k], base, 0);
		if (!claimed)
			continue;
		e->matched = true;
		if (elf || !elf_open(path, &elf))
			engine_read_enums(e, elf);
	}
	elf_close(elf);
}

struct scan {
	struct attach *a;
	pid_t pid;
	int sites;
};

static int scan_mapping(const struct mapped_file *m, void *arg)
{
	char path[PATH_MAX];
	struct scan *s = arg;
	int n = -ENOENT;

	if (is_seen(s->a, m->dev, m->ino, m->path))
		return 0;
	/* deleted between the two: then it is found by its mapping */
	for (int try = 0; try < 2 && n == -ENOENT; try++) {
		if (process_file_path(s->pid, m, path, sizeof(path)))
			return 0; /* gone with its process: another one may still have it */
		note_engines(s->a, path, m->path);
		n = attach_file(s->a, path, m->path);
	}
	remember(s->a, m->dev, m->ino, m->path, n > 0);
	if (n > 0)
		s->sites += n;
	return 0;
}

int attach_process(struct attach *a, pid_t pid)
{
	struct scan s = { .a = a, .pid = pid };
	int err;

	if (!a->pt->n)
		return 0;
	err = process_each_mapped(pid, scan_mapping, &s);
	return err ? err : s.sites;
}

static int report_missing(const struct probe_spec *s, struct elf_file *elf)
{
	const char *near[3];
	int n = elf_nearest_symbols(elf, s->symbol, near, 3);
	char list[256] = "";

	for (int i = 0; i < n; i++)
		snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%.70s", i ? ", " : "", near[i]);
	log_error("%s has no function %s; nearest: %s", s->library, s->symbol, n > 0 ? list : "none");
	return -ENOENT;
}

static int check_named(const struct probe_spec *s)
{
	struct elf_file *elf;
	struct elf_symbol sym;
	int err;

	err = elf_open(s->library, &elf);
	if (err) {
		log_error("cannot read %s: %s", s->library,
			err == -ENOEXEC ? "not an ELF file" : strerror(-err));
		return err;
	}
	if (!strpbrk(s->symbol, "*?[") && elf_find_symbol(elf, s->symbol, &sym))
		err = report_missing(s, elf);
	elf_close(elf);
	return err;
}

int attach_named_files(struct attach *a)
{
	struct stat st;
	int err;

	for (size_t i = 0; i < a->pt->n; i++) {
		const struct probe_spec *s = &a->pt->specs[i];

		if (s->engine || !strchr(s->library, '/'))
			continue;
		err = check_named(s);
		if (err)
			return err;
		if (stat(s->library, &st) || is_seen(a, 0, st.st_ino, s->library))
			continue;
		err = attach_file(a, s->library, s->library);
		if (err < 0)
			return err;
		remember(a, 0, st.st_ino, s->library, true);
	}
	return 0;
}
