// SPDX-License-Identifier: BSD-2-Clause
#include "stack/stack.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "record.h"
#include "stack/intern.h"
#include "stack/kernel_symbols.h"
#include "stack/lookup.h"
#include "stack/python_name.h"
#include "stack/unwind.h"
#include "util/clock.h"
#include "util/list.h"
#include "util/map.h"

#define PROCESSES_MAX 256
#define PERF_MAPS_MAX 8 /* processes that have one */
#define MAPS_MAX 16384
#define READ_AGAIN_NS (250 * NSEC_PER_MSEC) /* between reads of the mappings, for code in no known one */
#define REMAP_NS (10 * NSEC_PER_MSEC)       /* the same for a process that has mapped a file */
#define LOOK_AGAIN_NS NSEC_PER_SEC          /* between searches for a perf map */

struct stack_mapping {
	struct mapped_file file; /* path: interned */
	struct module *module;   /* set by the first frame in it */
	bool tried;
	bool is_vdso;
};

struct stack_process {
	UT_hash_handle hh;
	uint32_t tgid;
	struct stack_mapping *maps; /* sorted */
	size_t n_maps;
	uint64_t read_ns; /* when the mappings were read; 0: never */
	bool stale;
	unsigned int faults; /* files that ended the reader */
	struct perf_map *names;
	uint64_t names_ns; /* when the perf map was looked for */
};

#define MEMORY_DEFAULT ((size_t)24 << 20)
#define NATIVE_MAX STACK_FRAMES_MAX

_Static_assert(ROW_REGS == SAMPLE_REGS && ROW_SP == SAMPLE_REG_SP && ROW_PC == SAMPLE_REG_PC,
	"a sample's registers are numbered as DWARF does");

struct native_frame {
	uint32_t frame;
	bool evaluates;
};

/* A stack in the making, innermost first. */
struct chain {
	struct native_frame native[NATIVE_MAX];
	unsigned int n_native;
	uint32_t python[SAMPLE_PYTHON_MAX + 1]; /* and "[cut]" */
	bool entry[SAMPLE_PYTHON_MAX + 1];
	unsigned int n_python;
	unsigned int in_task; /* Python frames within the task */
	uint32_t task;        /* a frame; INTERN_NONE: none */
	uint32_t frames[SAMPLE_KERNEL_MAX + NATIVE_MAX + SAMPLE_PYTHON_MAX + 3];
	unsigned int n;
	bool complete; /* the native part reaches the start of the thread */
	bool no_memory;
};

/* A sample's parts. */
struct parts {
	const struct rec_sample *r;
	const uint8_t *kernel, *python, *task, *stack;
};

struct stacks {
	struct stacks_config config;
	struct intern *in;
	struct modules *modules;
	struct stack_process *by_tgid; /* in the order of use, the newest last */
	unsigned int n_perf_maps;
	struct kernel_symbols *kernel;
	uint32_t unknown, cut; /* frames */
	struct chain chain;
	struct stacks_stats stats;
	_Alignas(struct rec_sample) uint8_t waiting[REC_SENT_MAX]; /* a SAMPLE_F_WAITS sample, completed */
};

/* ---- processes ---- */

static void stacks_drop_process(struct stacks *s, struct stack_process *p)
{
	HASH_DEL(s->by_tgid, p);
	s->n_perf_maps -= p->names != NULL;
	perf_map_free(p->names);
	free(p->maps);
	free(p);
}

/* NULL: not known. */
static struct stack_process *stacks_find_process(struct stacks *s, uint32_t tgid)
{
	struct stack_process *p;

	HASH_FIND(hh, s->by_tgid, &tgid, sizeof(tgid), p);
	return p;
}

/* Above PROCESSES_MAX the least recently used one is forgotten. */
static struct stack_process *stacks_get_process(struct stacks *s, uint32_t tgid)
{
	struct stack_process *p = stacks_find_process(s, tgid);

	if (p && !p->hh.next)
		return p;
	if (p) {
		HASH_DEL(s->by_tgid, p);
	} else {
		if (HASH_COUNT(s->by_tgid) >= PROCESSES_MAX)
			stacks_drop_process(s, s->by_tgid);
		p = xcalloc(1, sizeof(*p));
		p->tgid = tgid;
	}
	HASH_ADD(hh, s->by_tgid, tgid, sizeof(p->tgid), p);
	return p;
}

/* ---- mappings ---- */

struct stack_reading {
	struct intern *in;
	struct stack_mapping *maps;
	size_t n, cap;
};

static int add_mapping(const struct mapped_file *file, void *arg)
{
	struct stack_reading *r = arg;
	struct stack_mapping *m;

	if (r->n == MAPS_MAX)
		return 1;
	/* the kernel's list is sorted; if it changes while it is read, a mapping out of order is skipped */
	if (r->n && file->start < r->maps[r->n - 1].file.end)
		return 0;
	m = list_push(r->maps, r->n, r->cap);
	*m = (struct stack_mapping){ .file = *file, .is_vdso = !file->ino && !strcmp(file->path, "[vdso]") };
	m->file.path = (file->ino ? intern_text(r->in, file->path) : NULL) ?: "";
	return 0;
}

/* A mapping that has not changed keeps its file. */
static void keep_modules(const struct stack_process *p, struct stack_reading *r)
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

static void read_mappings(struct stacks *s, struct stack_process *p)
{
	struct stack_reading r = { .in = s->in };

	p->read_ns = clock_mono_ns();
	p->stale = false;
	/* a process that has ended keeps its known mappings */
	if (process_each_executable((pid_t)p->tgid, add_mapping, &r) < 0 || !r.n) {
		free(r.maps);
		return;
	}
	keep_modules(p, &r);
	free(p->maps);
	p->maps = r.maps;
	p->n_maps = r.n;
}

static struct stack_mapping *find_mapping(const struct stack_process *p, uint64_t addr)
{
	size_t i = bisect(p->n_maps, k, p->maps[k].file.end <= addr);

	return i < p->n_maps && p->maps[i].file.start <= addr ? &p->maps[i] : NULL;
}

/* Returns the executable mapping of the address, or NULL. If none is known, the mappings are read again, at most every
 * READ_AGAIN_NS, or REMAP_NS if they are stale. */
static struct stack_mapping *get_mapping(struct stacks *s, struct stack_process *p, uint64_t addr)
{
	struct stack_mapping *m = NULL;

	if (!p->stale && p->read_ns)
		m = find_mapping(p, addr);
	if (!m && (!p->read_ns || clock_mono_ns() - p->read_ns >= (p->stale ? REMAP_NS : READ_AGAIN_NS)))
		read_mappings(s, p);
	return m ? m : find_mapping(p, addr);
}

/* ---- samples of threads that wait ---- */

/* Whether the thread is still off-CPU with these registers: /proc/PID/syscall ends with stack pointer and program counter, proc(5). */
static bool thread_is_still_off_cpu(const struct rec_sample *r)
{
	char path[64], text[256], *sp, *pc;
	bool same = false;
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%u/task/%u/syscall", r->h.tgid, r->h.tid);
	f = fopen(path, "re");
	if (!f)
		return false;
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = 0;
	pc = strrchr(text, ' ');
	if (pc) {
		*pc++ = 0;
		sp = strrchr(text, ' ');
		same = sp && strtoull(sp, NULL, 16) == r->regs[SAMPLE_REG_SP] && strtoull(pc, NULL, 16) == r->regs[SAMPLE_REG_PC];
	}
	return same;
}

static size_t sample_read_stack(const struct rec_sample *r, uint8_t *buf)
{
	char path[64];
	ssize_t n;
	int fd;

	if (r->regs[SAMPLE_REG_SP] > INT64_MAX)
		return 0;
	snprintf(path, sizeof(path), "/proc/%u/mem", r->h.tgid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = pread(fd, buf, SAMPLE_STACK_MAX, (off_t)r->regs[SAMPLE_REG_SP]);
	close(fd);
	return n > 0 ? (size_t)n & ~(size_t)7 : 0;
}

/*
 * Completes a SAMPLE_F_WAITS sample of `size` bytes into `room` (REC_SENT_MAX bytes). Returns the new size, or 0 if the sample
 * is malformed. If the thread has moved on, the sample gets no user space part.
 */
static size_t sample_complete(const struct stacks_config *c, const struct rec_sample *r, size_t size, struct rec_sample *room)
{
	struct python_found found = { 0 };
	struct python_frame pointer;
	size_t head, n;

	if (size < sizeof(*r) || r->kernel_n > SAMPLE_KERNEL_MAX || r->python_n != 1 || r->stack_bytes ||
		size < REC_SAMPLE_SIZE(r->kernel_n, 1, 0))
		return 0;
	head = REC_SAMPLE_SIZE(r->kernel_n, 0, 0);
	memcpy(room, r, head);
	memcpy(&pointer, (const uint8_t *)r + head, sizeof(pointer));
	room->flags &= (u8)~SAMPLE_F_WAITS;
	room->python_n = 0;
	room->task = 0;
	if (thread_is_still_off_cpu(r)) {
		if (c->python_frames)
			c->python_frames(c->python_arg, r->h.tgid, pointer.code, &found);
		memcpy((uint8_t *)room + head, found.frames, found.n * sizeof(found.frames[0]));
		room->python_n = (u16)found.n;
		room->task = found.has_task;
		head = REC_SAMPLE_SIZE(r->kernel_n, room->python_n, 0);
		if (room->task)
			memcpy((uint8_t *)room + head, &found.task, sizeof(found.task));
		head += SAMPLE_TASK_SIZE(room);
		n = sample_read_stack(r, (uint8_t *)room + head);
		/* the thread has not moved, so all reads show the same instant */
		if (thread_is_still_off_cpu(r)) {
			room->stack_bytes = (u32)n;
			room->flags |= SAMPLE_F_TRUNCATED | (found.cut ? SAMPLE_F_PYTHON_CUT : 0);
			return head + n;
		}
	}
	room->python_n = room->task = 0;
	room->flags |= SAMPLE_F_NO_USER;
	return REC_SAMPLE_SIZE(r->kernel_n, 0, 0);
}

static uint32_t add_unknown(struct intern *in, const char *name)
{
	return intern_frame(in, &(struct frame){ .name = intern_text(in, name), .kind = FRAME_UNKNOWN });
}

int stacks_new(const struct stacks_config *c, struct stacks **ret_stacks)
{
	struct stacks *s = xcalloc(1, sizeof(*s));
	int err;

	s->config = *c;
	s->in = intern_new(c->memory_max ? c->memory_max : MEMORY_DEFAULT);
	err = modules_new(s->in, &s->modules);
	if (err) {
		stacks_free(s);
		return err;
	}
	/* without it the kernel's frames have no names */
	if (kernel_symbols_new(NULL, &s->kernel))
		s->kernel = NULL;
	s->unknown = add_unknown(s->in, "[unknown]");
	s->cut = add_unknown(s->in, "[cut]");
	*ret_stacks = s;
	return 0;
}

void stacks_free(struct stacks *s)
{
	struct stack_process *p, *next;

	if (!s)
		return;
	kernel_symbols_free(s->kernel);
	HASH_ITER(hh, s->by_tgid, p, next)
	stacks_drop_process(s, p);
	modules_free(s->modules);
	intern_free(s->in);
	free(s);
}

/* ---- the parts of a stack ---- */

static void chain_add_frame(struct chain *c, uint32_t frame)
{
	if (frame == INTERN_NONE)
		c->no_memory = true;
	c->frames[c->n++] = frame;
}

static bool has_prefix(const char *name, const char *const *prefixes)
{
	while (*prefixes && strncmp(name, *prefixes, strlen(*prefixes)))
		prefixes++;
	return *prefixes;
}

/*
 * Frames within a BPF program are not the target's work, and mostly inftrace's: they become one frame, "[bpf]". Stacks of waits
 * and wake-ups begin in inftrace's program, which is left out together with the frames that lead to it.
 */
static void stacks_add_kernel(struct stacks *s, const struct parts *p)
{
	static const char *const program[] = { "bpf_prog_", NULL };
	static const char *const way[] = { "bpf_prog_", "bpf_trampoline_", "bpf_trace_run", "__bpf_trace_", "__traceiter_", NULL };
	bool ours = p->r->h.id != SAMPLE_CPU, on_way = false;

	for (unsigned int i = 0; i < p->r->kernel_n; i++) {
		struct frame f = { .kind = FRAME_KERNEL };
		const char *name = NULL, *module = NULL;
		uint64_t addr;

		memcpy(&addr, p->kernel + i * sizeof(addr), sizeof(addr));
		/* a return address lies behind its call; the innermost address is exact */
		if (s->kernel && addr)
			name = kernel_symbols_find(s->kernel, addr - (i > 0), &f.rel_pc, &module);
		name = name ? name : "[unknown]";
		if (has_prefix(name, program)) {
			s->chain.n = 0;
			on_way = ours;
			name = "[bpf]";
			module = NULL;
			f.rel_pc = 0;
		}
		on_way = on_way && (*name == '[' || has_prefix(name, way));
		if (on_way)
			continue;
		f.name = intern_text(s->in, name);
		f.file = intern_text(s->in, module);
		chain_add_frame(&s->chain, intern_frame(s->in, &f));
	}
}

static void stacks_add_python(struct stacks *s, const struct parts *p)
{
	struct chain *c = &s->chain;

	for (unsigned int i = 0; i < p->r->python_n; i++) {
		struct python_name name = {};
		struct python_frame pf;
		struct frame f = { .kind = FRAME_PYTHON };

		memcpy(&pf, p->python + i * sizeof(pf), sizeof(pf));
		c->entry[i] = pf.instr & PYTHON_F_ENTRY;
		if (!s->config.python ||
			s->config.python(s->config.python_arg, p->r->h.tgid, pf.code, pf.instr & ~PYTHON_F_ENTRY, &name))
			name = (struct python_name){};
		f.name = intern_text(s->in, name.name ? name.name : "[python]");
		f.file = intern_text(s->in, name.file);
		f.line = name.line;
		c->python[c->n_python++] = intern_frame(s->in, &f);
	}
	if (p->r->flags & SAMPLE_F_PYTHON_CUT && c->n_python) {
		c->entry[c->n_python] = false;
		c->python[c->n_python++] = s->cut;
	}
}

/* asyncio's task has a frame of its own, between its coroutine and what runs it. */
static void stacks_add_task(struct stacks *s, const struct parts *p)
{
	struct frame f = { .kind = FRAME_PYTHON };
	struct chain *c = &s->chain;
	struct python_task task;
	const char *name;

	c->task = INTERN_NONE;
	if (!p->r->task || !s->config.python_task)
		return;
	memcpy(&task, p->task, sizeof(task));
	name = s->config.python_task(s->config.python_arg, p->r->h.tgid, &task);
	if (!name || !task.frames || task.frames > p->r->python_n)
		return;
	f.name = intern_text(s->in, name);
	c->task = intern_frame(s->in, &f);
	c->no_memory |= c->task == INTERN_NONE;
	c->in_task = task.frames;
}

/* ---- user space ---- */

static void chain_add_native(struct chain *c, uint32_t frame, bool evaluates)
{
	c->native[c->n_native++] = (struct native_frame){ frame, evaluates };
}

/* Names code that has no symbol in a file, by the process's perf map. INTERN_NONE: it has no name. */
static uint32_t name_by_map(struct stacks *s, struct stack_process *p, uint64_t pc)
{
	struct frame f = { .kind = FRAME_JIT };
	uint64_t now = p->names ? 0 : clock_mono_ns();

	if (!p->names && s->n_perf_maps < PERF_MAPS_MAX && (!p->names_ns || now - p->names_ns >= LOOK_AGAIN_NS)) {
		p->names_ns = now;
		p->names = perf_map_open((pid_t)p->tgid);
		s->n_perf_maps += p->names != NULL;
	}
	f.name = intern_text(s->in, p->names ? perf_map_find(p->names, pc, &f.rel_pc) : NULL);
	return intern_frame(s->in, &f);
}

/* Drops the files that no process maps. */
static void drop_modules(struct stacks *s)
{
	for (const struct stack_process *p = s->by_tgid; p; p = p->hh.next) {
		for (size_t i = 0; i < p->n_maps; i++) {
			if (p->maps[i].module)
				modules_use(p->maps[i].module);
		}
	}
	modules_drop_unused(s->modules);
}

static struct module *mapping_get_module(struct stacks *s, struct stack_process *p, struct stack_mapping *m)
{
	bool fault = false;

	if (m->tried || p->faults >= MODULE_FAILURES_MAX)
		return m->module;
	m->tried = true;
	if (modules_many(s->modules))
		drop_modules(s);
	if (m->is_vdso)
		m->module = modules_vdso(s->modules);
	else if (m->file.ino)
		m->module = modules_get(s->modules, (pid_t)p->tgid, &m->file, &fault);
	p->faults += fault;
	return m->module;
}

/* m: the mapping of pc, or NULL. */
static struct spot stacks_find_spot(struct stacks *s, struct stack_process *p, struct stack_mapping *m, uint64_t pc)
{
	struct spot spot = { .frame = INTERN_NONE };
	struct module *module = m ? mapping_get_module(s, p, m) : NULL;
	uint32_t frame = INTERN_NONE;

	if (module)
		spot = modules_spot(s->modules, module, (pid_t)p->tgid, &m->file, pc - m->file.start + m->file.offset);
	p->faults += spot.fault;
	if (m && !spot.named && !m->is_vdso)
		frame = name_by_map(s, p, pc);
	if (frame != INTERN_NONE)
		spot.frame = frame;
	else if (!module)
		spot.frame = s->unknown;
	s->stats.places++;
	s->stats.made += m && !module && frame == INTERN_NONE;
	return spot;
}

/* Returns 1 at the start of the thread, or an error of unwind_step(). */
static int stacks_unwind_user(struct stacks *s, struct stack_process *p, struct unwind *u)
{
	static const struct row nothing;
	struct chain *c = &s->chain;
	struct stack_mapping *m;
	struct spot spot;
	int err = 0;

	m = get_mapping(s, p, unwind_pc(u));
	while (!err) {
		if (c->n_native == NATIVE_MAX)
			return -ENODATA;
		spot = stacks_find_spot(s, p, m, unwind_pc(u));
		chain_add_native(c, spot.frame, spot.evaluates);
		err = unwind_step(u, spot.row ? spot.row : &nothing);
		/* sampled before its first instruction, where the call frame information does not yet mark it as the outermost */
		if (err < 0 && spot.starts)
			err = 1;
		if (err)
			break;
		m = get_mapping(s, p, unwind_pc(u));
		/* no code: the address was no return address */
		if (!m)
			err = spot.starts ? 1 : -EINVAL;
	}
	return err;
}

static void stacks_add_user(struct stacks *s, const struct parts *p)
{
	struct unwind u;
	int err;

	s->stats.user++;
	unwind_start(&u, p->r->regs, p->stack, p->r->stack_bytes);
	err = stacks_unwind_user(s, stacks_get_process(s, p->r->h.tgid), &u);
	if (err == 1) {
		s->stats.complete++;
		s->chain.complete = true;
		return;
	}
	if (err == -ENODATA)
		s->stats.cut++;
	else
		s->stats.broken++;
	if (s->chain.n_native < NATIVE_MAX)
		chain_add_native(&s->chain, s->cut, false);
}

/* ---- together ---- */

static void chain_add_python(struct chain *c, unsigned int *at)
{
	chain_add_frame(c, c->python[(*at)++]);
	if (c->task != INTERN_NONE && *at == c->in_task)
		chain_add_frame(c, c->task);
}

/*
 * Replaces each native frame of the interpreter's evaluation function by the Python frames that it evaluates: one, or
 * several from 3.11 on, where calls from Python to Python do not recurse. Frames left over by a cut native part go last.
 */
static void chain_merge(struct chain *c)
{
	unsigned int evaluations = 0, seen = 0, at = 0;
	bool marked = false;

	for (unsigned int i = 0; i < c->n_native; i++)
		evaluations += c->native[i].evaluates;
	for (unsigned int i = 0; i < c->n_python; i++)
		marked |= c->entry[i];
	for (unsigned int i = 0; i < c->n_native; i++) {
		unsigned int end = at;

		if (!c->native[i].evaluates || at == c->n_python) {
			chain_add_frame(c, c->native[i].frame);
			continue;
		}
		seen++;
		if (seen == evaluations && c->complete) {
			end = c->n_python;
		} else if (marked) {
			while (end < c->n_python && !c->entry[end++])
				;
		} else {
			/* leaves one for each evaluation further out, as far as they suffice */
			end = c->n_python - at > evaluations - seen ? c->n_python - (evaluations - seen) : at + 1;
		}
		while (at < end)
			chain_add_python(c, &at);
	}
	while (at < c->n_python)
		chain_add_python(c, &at);
}

static bool sample_split(const struct rec_sample *r, size_t size, struct parts *ret)
{
	if (size < sizeof(*r) || r->kernel_n > SAMPLE_KERNEL_MAX || r->python_n > SAMPLE_PYTHON_MAX || r->task > 1 ||
		r->stack_bytes > SAMPLE_STACK_MAX ||
		size < REC_SAMPLE_SIZE(r->kernel_n, r->python_n, r->stack_bytes) + SAMPLE_TASK_SIZE(r))
		return false;
	ret->r = r;
	ret->kernel = (const uint8_t *)(r + 1);
	ret->python = ret->kernel + r->kernel_n * sizeof(uint64_t);
	ret->task = ret->python + r->python_n * sizeof(struct python_frame);
	ret->stack = ret->task + SAMPLE_TASK_SIZE(r);
	return true;
}

static uint32_t stacks_build_stack(struct stacks *s, const struct parts *p)
{
	struct chain *c = &s->chain;
	uint32_t id;

	c->n = c->n_native = c->n_python = 0;
	c->complete = c->no_memory = false;
	stacks_add_kernel(s, p);
	stacks_add_python(s, p);
	stacks_add_task(s, p);
	if (!(p->r->flags & SAMPLE_F_NO_USER))
		stacks_add_user(s, p);
	chain_merge(c);
	if (!c->n)
		return STACK_NONE;
	/* the innermost say more */
	if (c->n > STACK_FRAMES_MAX) {
		c->n = STACK_FRAMES_MAX;
		c->frames[c->n - 1] = s->cut;
	}
	id = c->no_memory ? INTERN_NONE : intern_stack(s->in, c->frames, c->n);
	if (id == INTERN_NONE)
		s->stats.no_memory++;
	return id;
}

uint32_t stacks_take(struct stacks *s, const struct rec_sample *r, size_t size)
{
	uint64_t start = clock_mono_ns();
	uint32_t id = STACK_NONE;
	struct parts p;

	s->stats.samples++;
	if (size >= sizeof(*r) && r->flags & SAMPLE_F_WAITS) {
		size = sample_complete(&s->config, r, size, (struct rec_sample *)s->waiting);
		r = (const struct rec_sample *)s->waiting;
	}
	if (sample_split(r, size, &p))
		id = stacks_build_stack(s, &p);
	else
		s->stats.malformed++;
	s->stats.ns += clock_mono_ns() - start;
	return id;
}

unsigned int stacks_get(const struct stacks *s, uint32_t stack, const uint32_t **ret_frames)
{
	return intern_get_stack(s->in, stack, ret_frames);
}

const struct frame *stacks_frame(const struct stacks *s, uint32_t frame)
{
	return intern_get_frame(s->in, frame);
}

/* ---- what the recorder reports ---- */

void stacks_know_process(struct stacks *s, uint32_t tgid)
{
	read_mappings(s, stacks_get_process(s, tgid));
}

void stacks_remap_process(struct stacks *s, uint32_t tgid)
{
	struct stack_process *p = stacks_find_process(s, tgid);

	if (p)
		p->stale = true;
}

void stacks_forget_process(struct stacks *s, uint32_t tgid)
{
	struct stack_process *p = stacks_find_process(s, tgid);

	if (p)
		stacks_drop_process(s, p);
}

void stacks_stats(const struct stacks *s, struct stacks_stats *ret_stats)
{
	struct intern_counts counts;
	struct modules_stats ms;

	intern_counts(s->in, &counts);
	modules_stats(s->modules, &ms);
	*ret_stats = s->stats;
	ret_stats->files = ms.files;
	ret_stats->files_failed = ms.failed;
	ret_stats->lookups = ms.lookups;
	ret_stats->memory = counts.memory + ms.memory + kernel_symbols_memory(s->kernel);
	for (const struct stack_process *p = s->by_tgid; p; p = p->hh.next)
		ret_stats->memory += sizeof(*p) + p->n_maps * sizeof(*p->maps) + perf_map_memory(p->names);
	ret_stats->stacks = counts.stacks;
	ret_stats->frames = counts.frames;
	ret_stats->processes = HASH_COUNT(s->by_tgid);
}
