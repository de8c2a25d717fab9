// SPDX-License-Identifier: BSD-2-Clause
#include "capture/attach.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capture/checked_files.h"
#include "capture/features.h"
#include "capture/links.h"
#include "engine/inspect.h"
#include "engine/python_steps.h"
#include "engine/sites.h"
#include "engine/spec.h"
#include "target/elf.h"
#include "target/file.h"
#include "target/process.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/list.h"
#include "util/log.h"

/*
 * Limits of the time spent reading the files of one process and of all: a process can map any number of files that take
 * long to read, and fork any number of such processes. The libraries of PyTorch with CUDA, some 5 GB, take 3 s.
 */
#define PROCESS_NS (20 * NSEC_PER_SEC)
#define ALL_NS (60 * NSEC_PER_SEC)
#define GROWS_BY 5                    /* 1/5 s per s, for all processes */
#define SMALL_NS (NSEC_PER_SEC / 100) /* less than this is not charged to a process */

static uint64_t *budget_find(struct attach *a, pid_t pid)
{
	for (unsigned int i = 0; i < BUDGET_PROCESSES; i++) {
		if (a->budget.processes[i].pid == pid)
			return &a->budget.processes[i].spent_ns;
	}
	return NULL;
}

/* Returns the nanoseconds that another file of the process may take; 0: it may not be read. */
static uint64_t budget_left(struct attach *a, pid_t pid, uint64_t now_ns)
{
	const uint64_t *spent = budget_find(a, pid);
	uint64_t left = a->budget.left_ns;

	if (a->budget.since_ns)
		left += (now_ns - a->budget.since_ns) / GROWS_BY;
	a->budget.left_ns = left = left < ALL_NS ? left : ALL_NS;
	a->budget.since_ns = now_ns;
	if (spent && *spent >= PROCESS_NS)
		return 0;
	if (left > PROCESS_NS - (spent ? *spent : 0))
		left = PROCESS_NS - (spent ? *spent : 0);
	return left;
}

static void budget_spend(struct attach *a, pid_t pid, uint64_t ns)
{
	uint64_t *spent = budget_find(a, pid);

	a->budget.left_ns = a->budget.left_ns > ns ? a->budget.left_ns - ns : 0;
	if (!spent && ns >= SMALL_NS) {
		a->budget.processes[a->budget.next].pid = pid;
		spent = &a->budget.processes[a->budget.next].spent_ns;
		*spent = 0;
		a->budget.next = (a->budget.next + 1) % BUDGET_PROCESSES;
	}
	if (spent)
		*spent += ns;
}

/*
 * A return probe replaces the return address on the stack. Where the thread has a shadow stack
 * (x86, since Linux 6.6, for programs that ask for it) the kernel must change that too, or the
 * return faults. It does since 6.11, and in some later releases of older branches: commit
 * 1713b63a07a2 ("x86/shstk: Make return uprobe work with shadow stack"). BTF shows whether its function is there.
 */
static bool kernel_has_fix(void)
{
	struct btf *btf = btf__load_vmlinux_btf();
	bool found = btf && btf__find_by_name_kind(btf, "shstk_update_last_frame", BTF_KIND_FUNC) > 0;

	btf__free(btf);
	return found;
}

struct attach *attach_new(const struct attach_config *c)
{
	struct attach *a = xcalloc(1, sizeof(*a));

	a->c = *c;
	a->checked = checked_files_new();
	a->budget.left_ns = ALL_NS;
	a->nop5 = FEATURE_UNTRIED;
	a->links = links_new(c->programs, c->multi, c->link_gens);
	return a;
}

void attach_free(struct attach *a)
{
	if (!a)
		return;
	links_free(a->links);
	checked_files_free(a->checked);
	free(a->pythons);
	free(a);
}

struct attach_collect {
	struct attach *a;
	uint32_t number;              /* of the file */
	const struct engine *only;    /* its Python functions; NULL: all but those of engines that no target has */
	const char *nop5_refused; /* symbol of the last one */
	size_t nop5s_refused;
	uint32_t parts; /* 1 << enum shed_part, of parts with sites */
	size_t refused;
	struct file_sites sites[LINK_WHENS];
};

/* Steps have links of their own only with several windows, shed parts only where links can be detached. */
static enum link_when spec_link_when(const struct attach_config *c, const struct probe_spec *spec, enum shed_part part)
{
	if (c->windows && spec->role == ROLE_STEP)
		return LINK_WHEN_ALWAYS;
	switch (c->multi ? part : SHED_PARTS) {
	case SHED_BARRIERS:
		return LINK_WHEN_BARRIERS;
	case SHED_OPERATORS:
		return LINK_WHEN_OPERATORS;
	default:
		return LINK_WHEN_RECORDING;
	}
}

/* Tells the programs which Python functions the probe stands for. Returns 0 or -errno. */
static int set_python(const struct attach_config *c, size_t spec, struct probe *p)
{
	const struct probe_spec *s = &c->probes->specs[spec];
	struct python_calls calls;
	unsigned int at = 0, key;

	if (!s->is_python)
		return 0;
	for (unsigned int layout = 0; layout < PYTHON_LAYOUTS; layout++) {
		at = probe_spec_python(c->probes, spec, layout, &calls);
		key = at * PYTHON_LAYOUTS + layout;
		if (bpf_map_update_elem(c->python_calls_fd, &key, &calls, BPF_ANY))
			return -errno;
	}
	p->python = (uint8_t)(1 + at);
	p->values = s->values && !s->batch;
	return s->values && bpf_map_update_elem(c->python_values_fd, &at, s->values, BPF_ANY) ? -errno : 0;
}

/* The bits of the cookie that describe the site, to go with the probe's id. */
static uint32_t cookie_of(const struct probe_spec *spec, const struct site *site, enum link_when when)
{
	uint32_t cookie = when == LINK_WHEN_ALWAYS ? PROBE_COOKIE_STEP : 0;

	if (!site->cheap)
		cookie |= PROBE_COOKIE_STEPPED;
	if (site->exit)
		return cookie | (site->exit_bp ? PROBE_COOKIE_EXIT_BP : 0) | (spec->is_python ? PROBE_COOKIE_PYTHON : 0) |
		       (uint32_t)site->exit_units << PROBE_COOKIE_EXIT_SHIFT;
	return cookie | (site->no_yields ? PROBE_COOKIE_NO_YIELDS : 0) | (uint32_t)site->python << PROBE_COOKIE_PYTHON_SHIFT |
	       (uint32_t)site->reg << PROBE_COOKIE_REG_SHIFT;
}

static enum link_kind site_link_kind(const struct probe_spec *spec, const struct site *site)
{
	if (spec->node.layout.bytes)
		return LINK_NODE;
	if (spec->is_python)
		return site->exit ? LINK_PYTHON_EXIT : LINK_PYTHON_ENTRY;
	if (site->exit)
		return LINK_EXIT;
	return site->arrival ? LINK_ARRIVAL : LINK_ENTRY;
}

static void spec_refuse(struct probe_table *pt, struct probe_spec *spec)
{
	spec->refused = true;
	if (spec->from)
		pt->specs[spec->from - 1].refused = true;
}

static int collect_site(const struct probe_site *ps, void *arg)
{
	struct attach_collect *c = arg;
	const struct attach_config *config = &c->a->c;
	struct probe_table *pt = config->probes;
	struct probe_spec *spec = &pt->specs[ps->spec];
	uint32_t id = (uint32_t)ps->spec, cookie;
	enum shed_part part = config->sheds ? probe_spec_part(spec) : SHED_PARTS;
	enum link_when when = spec_link_when(config, spec, spec->ordered ? SHED_BARRIERS : part);
	struct file_sites *to = &c->sites[when];
	bool returns = spec->flags & PROBE_F_SPAN && !ps->site.arrival && !spec->exits && !spec->is_python;
	struct probe probe;
	int err;

	if (c->only ? !spec->is_python || spec->engine != c->only : spec->is_python && spec->engine && !spec->engine->matched)
		return 0;
	if (spec->hooked)
		return 0;
	if (c->a->no_returns && returns) {
		spec_refuse(pt, spec);
		c->refused++;
		return 0;
	}
	if (ps->site.nop5 && c->a->nop5 == FEATURE_UNTRIED)
		c->a->nop5 = features_nop5();
	if (ps->site.nop5 && c->a->nop5) {
		spec_refuse(pt, spec);
		c->nop5_refused = spec->symbol;
		c->nop5s_refused++;
		return 0;
	}
	if (probe_spec_encode(spec, &probe)) {
		log_warn("%s: this build has no %s; left out", spec->symbol, spec->when.name);
		return 0;
	}
	probe.hooked = spec->ordered;
	if (part < SHED_PROBES) {
		probe.shed = (uint8_t)(1 + part);
		c->parts |= 1u << part;
	}
	err = set_python(config, ps->spec, &probe);
	if (err)
		return err;
	if (!spec->attached && bpf_map_update_elem(config->probes_fd, &id, &probe, BPF_ANY))
		return -errno;
	spec->dear_ends |= ps->site.exit && !ps->site.cheap;
	spec->dear_begin |= !ps->site.exit && !ps->site.cheap;
	cookie = id | cookie_of(spec, &ps->site, when);
	link_sites_add(&to->of[site_link_kind(spec, &ps->site)], ps->site.offset, cookie, ps->semaphore);
	/* the return address is on top of the stack at the site, too */
	if (returns)
		link_sites_add(&to->of[LINK_RETURN], ps->site.offset, cookie, ps->semaphore);
	log_debug("probe %s: +0x%lx %s", ps->symbol->name, (unsigned long)(ps->site.offset - ps->symbol->offset),
		ps->site.cheap ? "emulated" : "single-stepped");
	return 0;
}

static bool probe_table_claims(const struct probe_table *pt, const char *shown)
{
	for (size_t i = 0; i < pt->n; i++) {
		if (probe_spec_matches(&pt->specs[i], shown))
			return true;
	}
	return false;
}

static void count_links(struct probe_table *pt, const struct link_sites *s, int by)
{
	for (size_t i = 0; i < s->n; i++) {
		uint32_t id = (uint32_t)s->cookies[i] & PROBE_COOKIE_ID;
		struct probe_spec *spec = &pt->specs[id];

		spec->attached += (unsigned int)by;
		if (spec->from)
			pt->specs[spec->from - 1].attached += (unsigned int)by;
		if (by < 0)
			spec_refuse(pt, spec);
	}
}

/* by: 1, or -1 if attaching failed after all. Each site has one entry, arrival or node; returns and exits do not count. */
static void count_sites(struct probe_table *pt, const struct file_sites *s, int by)
{
	count_links(pt, &s->of[LINK_ENTRY], by);
	count_links(pt, &s->of[LINK_PYTHON_ENTRY], by);
	count_links(pt, &s->of[LINK_ARRIVAL], by);
	count_links(pt, &s->of[LINK_NODE], by);
}

static size_t sites_placed(const struct file_sites *s)
{
	return s->of[LINK_ENTRY].n + s->of[LINK_PYTHON_ENTRY].n + s->of[LINK_ARRIVAL].n + s->of[LINK_NODE].n;
}

static void warn_file(const char *shown, int err, size_t links)
{
	if (err == -EFBIG)
		log_warn("%s: %zu probes, at most %d without uprobe_multi (Linux 6.6), where each takes 0.1 s "
			 "to detach: give narrower globs; none is attached",
			shown, links, LINKS_SINGLE_MAX);
	else if (err == -EOVERFLOW)
		log_warn("cannot probe %s: its symbols take more than 128 MB; its functions are left out", shown);
	else if (err == -ETIMEDOUT || err == -EPROTO)
		log_warn("cannot probe %s: reading its symbols took too much time or memory; its functions are "
			 "left out",
			shown);
	else if (err == -ECANCELED)
		log_debug("%s was not read: the recording ends", shown);
	else if (err != -ENOENT) /* gone: nothing to probe any more, or to be found elsewhere */
		log_warn("cannot probe %s: %s; its functions are left out", shown, strerror(-err));
}

static int add_sites(struct attach *a, uint32_t number, int file, struct file_sites *s, enum link_when when)
{
	int fd, err;

	if (!sites_placed(s))
		return 0;
	fd = fcntl(file, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	count_sites(a->c.probes, s, 1);
	err = links_add_file(a->links, number, fd, s, when);
	if (err) {
		count_sites(a->c.probes, s, -1);
		close(fd);
	}
	return err;
}

/* Steps first: probes attached after them are seen within one. */
static int attach_add_sites(struct attach *a, int file, struct attach_collect *c)
{
	static const enum link_when order[LINK_WHENS] = {
		LINK_WHEN_ALWAYS, LINK_WHEN_RECORDING, LINK_WHEN_BARRIERS, LINK_WHEN_OPERATORS
	};
	int err = 0;

	for (int i = 0; i < LINK_WHENS; i++) {
		for (int k = 0; k < LINK_WHENS; k++)
			file_sites_share(&c->sites[i], &c->sites[k]);
	}
	for (int i = 0; i < LINK_WHENS && !err; i++)
		err = add_sites(a, c->number, file, &c->sites[order[i]], order[i]);
	return err;
}

/*
 * fd refers to the same file even if it is deleted or replaced meanwhile. shown: the path as the
 * target sees it, to which the globs apply. number, only: as in struct attach_collect. Returns the number of sites or an error.
 */
static int attach_file_as(struct attach *a, int fd, pid_t pid, const char *shown, uint32_t number, const struct engine *only)
{
	char build_id[ELF_BUILD_ID_MAX] = "";
	struct attach_collect c = { .a = a, .number = number, .only = only };
	size_t links = 0, left_out = a->c.probes->left_out;
	uint64_t begun = clock_boot_ns(), left = budget_left(a, pid, begun) / NSEC_PER_MSEC;
	int err = -EDQUOT, n = 0;

	if (left)
		err = inspector_sites(a->c.inspector, fd, shown, a->c.states_only,
			left < INSPECT_MS_MAX ? (unsigned int)left : INSPECT_MS_MAX, build_id, collect_site, &c);
	budget_spend(a, pid, clock_boot_ns() - begun);
	if (a->c.probes->left_out > left_out)
		log_warn("%s: %zu functions left out, there is room for %d probes; give one preset (--engine), or "
			 "narrower globs",
			shown, a->c.probes->left_out - left_out, SPECS_MAX);
	if (c.refused)
		log_warn("%s: %zu functions left out: a target has a shadow stack, and this kernel (before 6.11) "
			 "would end it at a return probe",
			shown, c.refused);
	if (c.nop5s_refused)
		log_warn("%s: %zu probes left out, %s the last: they are on 5-byte nops, where a probe makes this kernel overwrite the "
			 "stack of the traced program (inftrace doctor)",
			shown, c.nop5s_refused, c.nop5_refused);
	for (int i = 0; i < LINK_WHENS && !err; i++) {
		n += (int)sites_placed(&c.sites[i]);
		links += file_sites_count(&c.sites[i]);
	}
	if (n)
		err = attach_add_sites(a, fd, &c);
	if (!err)
		a->parts |= c.parts;
	if (n && !err)
		log_debug("%d probes in %s, build-id %s", n, shown, *build_id ? build_id : "none");
	else if (err && err != -EDQUOT && probe_table_claims(a->c.probes, shown))
		warn_file(shown, err, links);
	for (int i = 0; i < LINK_WHENS; i++)
		file_sites_free(&c.sites[i]);
	return err ? err : n;
}

/* Tells the programs the arguments of Python functions again, once more is known of them. */
static void renew_values(const struct attach_config *c)
{
	unsigned int at = 0;

	for (size_t i = 0; i < c->probes->n; i++) {
		const struct probe_spec *s = &c->probes->specs[i];

		if (s->values && s->attached)
			bpf_map_update_elem(c->python_values_fd, &at, s->values, BPF_ANY);
		at += s->is_python;
	}
}

static int attach_file(struct attach *a, int fd, pid_t pid, const char *shown)
{
	int n = attach_file_as(a, fd, pid, shown, ++a->number, NULL);

	if (probe_table_wants_tensors(a->c.probes, shown))
		renew_values(&a->c);

	for (size_t i = 0; n >= 0 && i < a->c.probes->n_engines; i++) {
		const struct engine *e = a->c.probes->engines[i];

		if (e->has_python && e->matched && !fnmatch(PYTHON_FILES, basename(shown), 0))
			*list_push(a->pythons, a->n_pythons, a->cap_pythons) = (struct python_placed){ a->number, e };
	}
	return n;
}

/* Whether an engine or a probe of the command line claims the file. Marks such engines as matched. */
static bool attach_wants_file(struct attach *a, const char *shown, bool *ret_of_engine)
{
	*ret_of_engine = false;
	for (size_t i = 0; i < a->c.probes->n_engines; i++) {
		if (!engine_claims(a->c.probes->engines[i], shown))
			continue;
		a->c.probes->engines[i]->matched = true;
		a->has_python |= a->c.probes->engines[i]->has_python;
		*ret_of_engine = true;
	}
	return *ret_of_engine || probe_table_claims(a->c.probes, shown) || probe_table_wants_tensors(a->c.probes, shown);
}

struct attach_scan {
	struct attach *a;
	pid_t pid;
	uint64_t now_ns;
	int sites;
};

static int attach_scan_mapping(const struct mapped_file *m, void *arg)
{
	struct attach_scan *s = arg;
	struct checked_file file = { .dev = m->dev, .ino = m->ino, .name = m->path };
	int n = 0, fd, err;
	bool claimed;

	if (checked_files_use(s->a->checked, m->dev, m->ino, m->path, s->now_ns, &claimed)) {
		if (claimed)
			probe_table_mapped(s->a->c.probes, m->dev, m->ino, (uint32_t)s->pid);
		return 0;
	}
	if (attach_wants_file(s->a, m->path, &file.claimed)) {
		err = file_open_mapped(s->pid, m, &fd);
		/* no warning if the file was replaced or its process has exited */
		if (err && err != -ENOENT && err != -ESRCH && !s->a->unopened_told) {
			log_warn("cannot open %s of process %d: %s; its functions are left out, and perhaps those of other files", m->path,
				s->pid, strerror(-err));
			s->a->unopened_told = true;
		}
		if (err) /* another process may still have it */
			return 0;
		s->a->c.probes->reading.dev = m->dev;
		s->a->c.probes->reading.ino = m->ino;
		n = attach_file(s->a, fd, s->pid, m->path);
		close(fd);
		probe_table_mapped(s->a->c.probes, m->dev, m->ino, (uint32_t)s->pid);
	}
	if (n == -EDQUOT) { /* another process may have the file, too */
		if (!s->a->budget_told)
			log_warn("cannot probe %s: reading the files of process %d has taken too much time already; "
				 "its functions are left out, and perhaps more",
				m->path, s->pid);
		s->a->budget_told = true;
		return 0;
	}
	/* a file that could not be read is not tried again under another name */
	file.number = n ? s->a->number : 0;
	checked_files_add(s->a->checked, &file, s->now_ns);
	if (n > 0)
		s->sites += n;
	if (n > 0 && s->a->placed)
		s->a->placed(m->path, s->a->placed_arg);
	return 0;
}

static bool python_is_placed(const struct attach *a, uint32_t number, const struct engine *e)
{
	for (size_t i = 0; i < a->n_pythons; i++) {
		if (a->pythons[i].number == number && a->pythons[i].engine == e)
			return true;
	}
	return false;
}

/* The file has an interpreter, and was checked before it was known that a target has the engine. */
static int attach_scan_python(const struct mapped_file *m, void *arg)
{
	struct attach_scan *s = arg;
	struct attach *a = s->a;
	struct checked_file file = { .dev = m->dev, .ino = m->ino, .name = m->path };

	if (fnmatch(PYTHON_FILES, basename(m->path), 0) || !checked_files_number(a->checked, m->dev, m->ino, m->path, &file.number))
		return 0;
	for (size_t i = 0; i < a->c.probes->n_engines; i++) {
		const struct engine *e = a->c.probes->engines[i];
		int fd, n;

		if (!e->has_python || !e->matched || (file.number && python_is_placed(a, file.number, e)) || file_open_mapped(s->pid, m, &fd))
			continue;
		if (!file.number) {
			file.number = ++a->number;
			checked_files_add(a->checked, &file, s->now_ns);
		}
		n = attach_file_as(a, fd, s->pid, m->path, file.number, e);
		close(fd);
		*list_push(a->pythons, a->n_pythons, a->cap_pythons) = (struct python_placed){ file.number, e };
		s->sites += n > 0 ? n : 0;
		if (n > 0 && a->placed)
			a->placed(m->path, a->placed_arg);
	}
	return 0;
}

void attach_everywhere(struct attach *a, const char *why)
{
	int err = links_everywhere(a->links);

	if (err > 0)
		log_debug("probes are in all processes again: %s", why);
	else if (err)
		log_warn("cannot probe: %s; functions are left out from here on", strerror(-err));
}

/* Gives the process links of its own, if links are by process. */
static void attach_follow_process(struct attach *a, pid_t pid, uint64_t since_ns)
{
	bool late = links_state(a->links) == LINKS_BY_PROCESS;
	uint64_t ns;
	int n = links_add_process(a->links, pid);

	if (n == -ESRCH) {
		a->probed_late.never += late && since_ns;
	} else if (n < 0) {
		attach_everywhere(a, n == -E2BIG ? "there are too many targets" : strerror(-n));
	} else if (n && late && since_ns) {
		ns = clock_boot_ns() - since_ns;
		a->probed_late.processes++;
		if (ns > a->probed_late.ns_max)
			a->probed_late.ns_max = ns;
	}
}

/* Targets share the probes of a file: one target that does not tolerate return probes rules them out for all. */
void attach_expect_process(struct attach *a, pid_t pid)
{
	a->no_returns = a->no_returns || (process_has_shadow_stack(pid) && !kernel_has_fix());
}

int attach_process(struct attach *a, pid_t pid, uint64_t since_ns)
{
	struct attach_scan s = { .a = a, .pid = pid, .now_ns = clock_boot_ns() };
	int err;

	if (!a->c.probes->n)
		return 0;
	attach_expect_process(a, pid);
	attach_follow_process(a, pid, since_ns);
	err = process_each_mapped(pid, attach_scan_mapping, &s);
	if (!err && a->has_python)
		err = process_each_mapped(pid, attach_scan_python, &s);
	return err ? err : s.sites;
}

/* Keeps files whose probes cannot be detached. Forgets files without probes, too: their inode numbers may be reused. */
static bool attach_release_file(uint64_t dev, uint64_t ino, uint32_t number, void *arg)
{
	struct attach *a = arg;
	int ret = number ? links_drop_file(a->links, number) : 0;

	if (ret < 0)
		return false;
	probe_table_unmapped(a->c.probes, dev, ino);
	a->given_back += (uint64_t)ret;
	if (ret)
		log_debug("no process maps inode %llu on device %llx any more: its probes are given back", (unsigned long long)ino,
			(unsigned long long)dev);
	return true;
}

bool attach_give_back(struct attach *a, uint64_t since_ns)
{
	uint64_t before = a->given_back;

	checked_files_forget_unused(a->checked, since_ns, attach_release_file, a);
	links_close_dropped(a->links);
	return a->given_back > before;
}

static void attach_add_named_file(struct attach *a, uint64_t ino, const char *path, bool claimed)
{
	const struct checked_file file = { .ino = ino, .name = path, .number = a->number, .claimed = claimed };

	checked_files_add(a->checked, &file, 0);
}

void attach_executable(struct attach *a, const char *path)
{
	char real[PATH_MAX];
	bool claimed;
	struct stat st;
	int fd, n = 0;

	if (!a->c.probes->n || !realpath(path, real) || !attach_wants_file(a, real, &claimed))
		return;
	fd = open(real, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && !checked_files_use(a->checked, 0, st.st_ino, real, 0, NULL))
		n = attach_file(a, fd, 0, real);
	if (n > 0) /* else its own mapping says the same, and more */
		attach_add_named_file(a, st.st_ino, real, claimed);
	close(fd);
}

static int check_named(struct attach *a, size_t spec, int fd)
{
	const struct probe_spec *s = &a->c.probes->specs[spec];
	char instead[256];
	int err = inspector_check(a->c.inspector, fd, spec, instead, sizeof(instead));

	if (err == -ENOENT && s->is_usdt)
		log_error("%s has no USDT probe %s; it has: %s", s->library, s->symbol + strlen(SPEC_USDT),
			*instead ? instead : "none");
	else if (err == -ENOENT)
		log_error("%s has no function %s; nearest: %s", s->library, s->symbol, *instead ? instead : "none");
	else if (err)
		log_error("cannot read %s: %s", s->library, err == -ENOEXEC ? "not an ELF file" : strerror(-err));
	return err;
}

/* Looks for a mapping of a process that matches a specification. */
struct attach_look {
	struct attach *a;
	size_t spec;
	pid_t pid;
	bool mapped;
	char instead[256];
};

static int look_inspect_mapping(const struct mapped_file *m, void *arg)
{
	struct attach_look *l = arg;
	int fd;

	if (!probe_spec_matches(&l->a->c.probes->specs[l->spec], m->path))
		return 0;
	l->mapped = true;
	if (!*l->instead && !file_open_mapped(l->pid, m, &fd)) {
		inspector_check(l->a->c.inspector, fd, l->spec, l->instead, sizeof(l->instead));
		close(fd);
	}
	return 0;
}

/* Reports a probe without a site. Returns whether its library is mapped but lacks it. */
static bool check_option(struct attach *a, size_t spec, const pid_t *pids, size_t n, bool strict)
{
	char line[768];
	const struct probe_spec *s = &a->c.probes->specs[spec];
	const char *name = s->span_name ? s->span_name : s->symbol;
	struct attach_look l = { .a = a, .spec = spec };

	for (size_t i = 0; i < n; i++) {
		l.pid = pids[i];
		process_each_mapped(l.pid, look_inspect_mapping, &l);
	}
	if (s->is_python && l.mapped) /* the reason was printed before */
		return true;
	if (s->is_python) {
		log_warn("%s %s: no target runs Python 3 so far", python_option(s->role), s->symbol);
		return false;
	}
	snprintf(line, sizeof(line), "-u: %s has no %s %.255s%s%s", s->library, s->is_usdt ? "USDT probe" : "function",
		name, *l.instead ? "; nearest: " : "", l.instead);
	if (l.mapped && strict)
		log_error("%s", line);
	else if (l.mapped)
		log_warn("%s", line);
	else
		log_warn("-u: no target has mapped %s so far: %s is probed when one does", s->library, name);
	return l.mapped;
}

unsigned int attach_check_options(struct attach *a, const pid_t *pids, size_t n, bool strict)
{
	unsigned int missing = 0;

	for (size_t i = 0; i < a->c.probes->n; i++) {
		const struct probe_spec *s = &a->c.probes->specs[i];

		if (!s->engine && !s->from && !s->attached && !s->refused && !strchr(s->library, '/'))
			missing += check_option(a, i, pids, n, strict);
	}
	return missing;
}

static int attach_named(struct attach *a, size_t spec)
{
	const struct probe_spec *s = &a->c.probes->specs[spec];
	struct stat st;
	int err = 0, fd;

	fd = open(s->library, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st)) {
		err = -errno;
		log_error("cannot read %s: %s", s->library, strerror(-err));
	}
	if (!err)
		err = check_named(a, spec, fd);
	if (!err && !checked_files_use(a->checked, 0, st.st_ino, s->library, 0, NULL)) {
		err = attach_file(a, fd, 0, s->library);
		s = &a->c.probes->specs[spec]; /* the table may have moved */
		if (err >= 0)
			attach_add_named_file(a, st.st_ino, s->library, false);
	}
	if (fd >= 0)
		close(fd);
	return err == -ECANCELED ? 0 : err;
}

int attach_named_files(struct attach *a)
{
	size_t n = a->c.probes->n; /* matches of globs are appended at the end */
	int err;

	for (size_t i = 0; i < n; i++) {
		const struct probe_spec *s = &a->c.probes->specs[i];

		if (s->engine || s->from || !strchr(s->library, '/'))
			continue;
		err = attach_named(a, i);
		if (err < 0)
			return err;
	}
	return 0;
}
