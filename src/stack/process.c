// SPDX-License-Identifier: BSD-2-Clause
#include "stack/process.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/bisect.h"
#include "util/clock.h"

#define MAPS_MAX 16384
#define READ_AGAIN_NS (250 * NSEC_PER_MSEC) /* for code in no mapping that is known */
#define REMAP_NS (10 * NSEC_PER_MSEC)	    /* for a process that has mapped something */
#define LOOK_AGAIN_NS NSEC_PER_SEC /* for a perf map */

struct processes {
	struct intern *in;
	struct stack_process *by_tgid; /* in the order of use, the newest last */
	unsigned int n_perf_maps;
};

int processes_new(struct intern *in, struct processes **ret_processes)
{
	struct processes *ps = calloc(1, sizeof(*ps));

	if (!ps)
		return -ENOMEM;
	ps->in = in;
	*ret_processes = ps;
	return 0;
}

static void free_process(struct processes *ps, struct stack_process *p)
{
	ps->n_perf_maps -= p->names != NULL;
	perf_map_free(p->names);
	free(p->maps);
	free(p);
}

static void drop(struct processes *ps, struct stack_process *p)
{
	HASH_DEL(ps->by_tgid, p);
	free_process(ps, p);
}

void processes_free(struct processes *ps)
{
	struct stack_process *p, *next;

	if (!ps)
		return;
	HASH_ITER(hh, ps->by_tgid, p, next)
		drop(ps, p);
	free(ps);
}

struct stack_process *processes_find(struct processes *ps, uint32_t tgid)
{
	struct stack_process *p;

	HASH_FIND(hh, ps->by_tgid, &tgid, sizeof(tgid), p);
	return p;
}

struct stack_process *processes_get(struct processes *ps, uint32_t tgid)
{
	struct stack_process *p = processes_find(ps, tgid);

	if (p && !p->hh.next)
		return p;
	if (p) {
		HASH_DEL(ps->by_tgid, p);
	} else {
		if (HASH_COUNT(ps->by_tgid) >= PROCESSES_MAX)
			drop(ps, ps->by_tgid);
		p = calloc(1, sizeof(*p));
		if (!p)
			return NULL;
		p->tgid = tgid;
	}
	HASH_ADD(hh, ps->by_tgid, tgid, sizeof(p->tgid), p);
	if (p->hh.tbl)
		return p;
	free_process(ps, p);
	return NULL;
}

void processes_forget(struct processes *ps, uint32_t tgid)
{
	struct stack_process *p = processes_find(ps, tgid);

	if (p)
		drop(ps, p);
}

unsigned int processes_count(const struct processes *ps)
{
	return HASH_COUNT(ps->by_tgid);
}

/* ---- mappings ---- */

struct reading {
	struct processes *ps;
	struct mapping *maps;
	size_t n, cap;
};

static int add_mapping(const struct mapped_file *m, void *arg)
{
	struct reading *r = arg;
	const char *path;

	if (r->n == MAPS_MAX)
		return 1;
	if (r->n == r->cap) {
		size_t cap = r->cap ? 2 * r->cap : 64;
		struct mapping *maps = realloc(r->maps, cap * sizeof(*maps));

		if (!maps)
			return -ENOMEM;
		r->maps = maps;
		r->cap = cap;
	}
	/* the kernel's list is sorted; a list that changes meanwhile still is */
	if (r->n && m->start < r->maps[r->n - 1].file.end)
		return 0;
	path = m->ino ? intern_text(r->ps->in, m->path) : "";
	r->maps[r->n] = (struct mapping){ .file = *m, .is_vdso = !m->ino && !strcmp(m->path, "[vdso]") };
	r->maps[r->n++].file.path = path ? path : "";
	return 0;
}

/* What is still mapped as it was keeps its file. */
static void keep_modules(const struct stack_process *p, struct reading *r)
{
	size_t at = 0;

	for (size_t i = 0; i < r->n; i++) {
		const struct mapped_file *f = &r->maps[i].file;

		while (at < p->n_maps && p->maps[at].file.start < f->start)
			at++;
		if (at < p->n_maps && p->maps[at].file.start == f->start && p->maps[at].file.ino == f->ino &&
			p->maps[at].file.dev == f->dev && p->maps[at].file.offset == f->offset && f->ino) {
			r->maps[i].module = p->maps[at].module;
			r->maps[i].tried = p->maps[at].module != NULL;
		}
	}
}

void process_read(struct processes *ps, struct stack_process *p)
{
	struct reading r = { .ps = ps };

	p->read_ns = clock_mono_ns();
	p->stale = false;
	/* of a process that has ended, what is known stays */
	if (process_each_executable((pid_t)p->tgid, add_mapping, &r) < 0 || !r.n) {
		free(r.maps);
		return;
	}
	keep_modules(p, &r);
	free(p->maps);
	p->maps = r.maps;
	p->n_maps = r.n;
}

void processes_use_modules(const struct processes *ps)
{
	for (const struct stack_process *p = ps->by_tgid; p; p = p->hh.next) {
		for (size_t i = 0; i < p->n_maps; i++) {
			if (p->maps[i].module)
				modules_use(p->maps[i].module);
		}
	}
}

static struct mapping *find(const struct stack_process *p, uint64_t addr)
{
	size_t i = bisect(p->n_maps, k, p->maps[k].file.end <= addr);

	return i < p->n_maps && p->maps[i].file.start <= addr ? &p->maps[i] : NULL;
}

struct mapping *process_mapping(struct processes *ps, struct stack_process *p, uint64_t addr)
{
	struct mapping *m = NULL;

	if (!p->stale && p->read_ns)
		m = find(p, addr);
	if (!m && (!p->read_ns || clock_mono_ns() - p->read_ns >= (p->stale ? REMAP_NS : READ_AGAIN_NS)))
		process_read(ps, p);
	return m ? m : find(p, addr);
}

const char *process_code_name(struct processes *ps, struct stack_process *p, uint64_t addr, uint64_t *ret_start)
{
	uint64_t now = p->names ? 0 : clock_mono_ns();

	if (!p->names && ps->n_perf_maps < PERF_MAPS_MAX && (!p->names_ns || now - p->names_ns >= LOOK_AGAIN_NS)) {
		p->names_ns = now;
		if (!perf_map_open((pid_t)p->tgid, &p->names))
			ps->n_perf_maps++;
	}
	return p->names ? perf_map_find(p->names, addr, ret_start) : NULL;
}

size_t processes_memory(const struct processes *ps)
{
	size_t sum = 0;

	for (const struct stack_process *p = ps->by_tgid; p; p = p->hh.next)
		sum += sizeof(*p) + p->n_maps * sizeof(*p->maps) + perf_map_memory(p->names);
	return sum;
}
