// SPDX-License-Identifier: BSD-2-Clause
#include "capture/links.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/alloc.h"
#include "util/thread.h"

#define UPROBE_MULTI_RETURN 1 /* BPF_F_UPROBE_MULTI_RETURN */

/* Closing a uprobe_multi link waits for grace periods, too, 40 ms, but many can be closed at once. */
#define CLOSE_THREADS 8
#define CLOSE_STACK (64u << 10)

struct link_link {
	int fd;
	uint32_t file;
	enum link_kind kind;
};

struct link_list {
	struct link_link *list;
	size_t n;
};

struct linked_file {
	uint32_t number; /* the caller's; several entries may have the same */
	int fd;
	enum link_when when;
	struct file_sites sites;
};

struct link_process {
	pid_t tgid;
	bool watched; /* it has no links at Python functions */
	struct link_list links[LINK_WHENS];
};

/* Links that are being closed. */
struct closing {
	struct closing *next;
	bool dropped; /* their file was dropped, and may be attached to again */
	struct link_list links;
	size_t turn;
	unsigned int running;
	struct thread threads[CLOSE_THREADS];
	unsigned int n_threads;
};

struct links {
	struct bpf_program *programs[LINK_KINDS];
	bool multi, idle;
	bool shed[LINK_WHENS];
	struct bpf_link **single;
	size_t n_single;
	/* the following is only for uprobe_multi links */
	volatile uint32_t *gens;
	uint16_t live, newest; /* generations: the one whose calls count; the last one made */
	enum links_state state;
	struct linked_file *files;
	size_t n_files;
	struct link_list everywhere[LINK_WHENS];
	struct link_process processes[LINKS_PROCESSES_MAX];
	size_t n_processes;
	struct link_list dropped; /* not closed yet */
	struct closing *closings;
};

void link_sites_add(struct link_sites *s, uint64_t offset, uint32_t cookie, uint64_t semaphore)
{
	s->offsets = xreallocarray(s->offsets, s->n + 1, sizeof(*s->offsets));
	s->cookies = xreallocarray(s->cookies, s->n + 1, sizeof(*s->cookies));
	s->semaphores = xreallocarray(s->semaphores, s->n + 1, sizeof(*s->semaphores));
	s->offsets[s->n] = offset;
	s->semaphores[s->n] = semaphore;
	s->cookies[s->n++] = cookie;
}

void link_sites_free(struct link_sites *s)
{
	free(s->offsets);
	free(s->cookies);
	free(s->semaphores);
	*s = (struct link_sites){ 0 };
}

size_t file_sites_count(const struct file_sites *s)
{
	size_t n = 0;

	for (int kind = 0; kind < LINK_KINDS; kind++)
		n += s->of[kind].n;
	return n;
}

void file_sites_free(struct file_sites *s)
{
	for (int kind = 0; kind < LINK_KINDS; kind++)
		link_sites_free(&s->of[kind]);
}

struct links *links_new(struct bpf_program *const programs[LINK_KINDS], bool multi, volatile uint32_t *gens)
{
	struct links *l = xcalloc(1, sizeof(*l));

	memcpy(l->programs, programs, sizeof(l->programs));
	l->multi = multi;
	l->gens = gens;
	return l;
}

/* ---- closing ---- */

static void *closing_close_links(void *arg)
{
	struct closing *c = arg;
	size_t i;

	while ((i = __atomic_fetch_add(&c->turn, 1, __ATOMIC_RELAXED)) < c->links.n)
		close(c->links.list[i].fd);
	__atomic_fetch_sub(&c->running, 1, __ATOMIC_RELEASE);
	return NULL;
}

enum reap {
	REAP_FINISHED,
	REAP_DROPPED, /* waits for links of files that were dropped */
	REAP_ALL,
};

static void closings_reap(struct links *l, enum reap which)
{
	struct closing **at = &l->closings;

	while (*at) {
		struct closing *c = *at;
		bool wait = which == REAP_ALL || (which == REAP_DROPPED && c->dropped);

		if (!wait && __atomic_load_n(&c->running, __ATOMIC_ACQUIRE)) {
			at = &c->next;
			continue;
		}
		*at = c->next;
		for (unsigned int i = 0; i < c->n_threads; i++)
			thread_join(&c->threads[i]);
		free(c->links.list);
		free(c);
	}
}

/* Closes the links in the background and empties the list. */
static void links_close_list(struct links *l, struct link_list *links, bool dropped)
{
	struct closing *c;

	closings_reap(l, REAP_FINISHED);
	if (!links->n) {
		free(links->list);
		links->list = NULL;
		return;
	}
	c = xcalloc(1, sizeof(*c));
	c->dropped = dropped;
	c->links = *links;
	*links = (struct link_list){ 0 };
	c->running = CLOSE_THREADS + 1;
	while (c->n_threads < CLOSE_THREADS && c->n_threads < c->links.n) {
		if (thread_start(&c->threads[c->n_threads], "inftrace-close", CLOSE_STACK, closing_close_links, c))
			break;
		c->n_threads++;
	}
	__atomic_fetch_sub(&c->running, CLOSE_THREADS - c->n_threads, __ATOMIC_RELAXED);
	if (!c->n_threads)
		closing_close_links(c);
	else
		__atomic_fetch_sub(&c->running, 1, __ATOMIC_RELEASE);
	c->next = l->closings;
	l->closings = c;
}

static void links_close_lists(struct links *l, struct link_list links[LINK_WHENS])
{
	for (int i = 0; i < LINK_WHENS; i++)
		links_close_list(l, &links[i], false);
}

/* Returns the i-th list of links; NULL: there are no more. */
static struct link_list *nth_list(struct links *l, size_t i)
{
	if (i < LINK_WHENS)
		return &l->everywhere[i];
	i -= LINK_WHENS;
	return i < l->n_processes * LINK_WHENS ? &l->processes[i / LINK_WHENS].links[i % LINK_WHENS] : NULL;
}

static void links_detach_when(struct links *l, enum link_when when)
{
	struct link_list *list;

	for (size_t i = when; (list = nth_list(l, i)); i += LINK_WHENS)
		links_close_list(l, list, false);
}

static void file_free(struct linked_file *f)
{
	close(f->fd);
	file_sites_free(&f->sites);
}

void links_free(struct links *l)
{
	if (!l)
		return;
	for (size_t i = 0; i < l->n_single; i++)
		bpf_link__destroy(l->single[i]);
	free(l->single);
	links_close_dropped(l);
	for (enum link_when when = 0; when < LINK_WHENS; when++)
		links_detach_when(l, when);
	closings_reap(l, REAP_ALL);
	for (size_t i = 0; i < l->n_files; i++)
		file_free(&l->files[i]);
	free(l->files);
	free(l);
}

/* ---- attaching ---- */

int links_create_multi(int prog_fd, bool ret, int file, const struct link_sites *s, pid_t pid)
{
	struct {
		uint32_t prog_fd, target_fd, attach_type, flags;
		uint64_t path, offsets, ref_ctr_offsets, cookies;
		uint32_t cnt, multi_flags, pid;
		uint32_t pad;
	} attr = {
		.prog_fd = (uint32_t)prog_fd,
		.attach_type = ATTACH_UPROBE_MULTI,
		.offsets = (uintptr_t)s->offsets,
		.ref_ctr_offsets = (uintptr_t)s->semaphores,
		.cookies = (uintptr_t)s->cookies,
		.cnt = (uint32_t)s->n,
		.multi_flags = ret ? UPROBE_MULTI_RETURN : 0,
		.pid = (uint32_t)pid,
	};
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	attr.path = (uintptr_t)path;
	fd = (int)syscall(SYS_bpf, BPF_LINK_CREATE, &attr, sizeof(attr));
	return fd < 0 ? -errno : fd;
}

int links_create_multi_at(int prog_fd, bool ret, int file, unsigned long offset, pid_t pid)
{
	uint64_t cookie = 0;
	unsigned long semaphore = 0;
	const struct link_sites site = { &offset, &cookie, &semaphore, 1 };

	return links_create_multi(prog_fd, ret, file, &site, pid);
}

int links_create_own(int prog_fd, bool ret, unsigned long offset)
{
	int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), fd;

	if (file < 0)
		return -errno;
	fd = links_create_multi_at(prog_fd, ret, file, offset, getpid());
	close(file);
	return fd;
}

/* pid 0: in every process. */
static int links_attach_multi(
	struct links *l, enum link_kind kind, const struct linked_file *f, uint16_t gen, pid_t pid, struct link_list *to)
{
	const struct link_sites *s = &f->sites.of[kind];
	int fd;

	if (!s->n)
		return 0;
	for (size_t i = 0; i < s->n; i++)
		s->cookies[i] = (uint32_t)s->cookies[i] | (uint64_t)gen << 32;
	fd = links_create_multi(bpf_program__fd(l->programs[kind]), kind == LINK_RETURN, f->fd, s, pid);
	if (fd < 0)
		return fd;
	to->list = xreallocarray(to->list, to->n + 1, sizeof(*to->list));
	to->list[to->n++] = (struct link_link){ fd, f->number, kind };
	return 0;
}

static bool is_of_python(enum link_kind kind)
{
	return kind == LINK_PYTHON_ENTRY || kind == LINK_PYTHON_EXIT;
}

/* watched: all but those at Python functions. */
static int attach_all(
	struct links *l, const struct linked_file *f, uint16_t gen, pid_t pid, bool watched, struct link_list to[LINK_WHENS])
{
	int err = 0;

	if (l->shed[f->when] || (l->idle && f->when != LINK_WHEN_ALWAYS))
		return 0;
	for (int kind = 0; kind < LINK_KINDS && !err; kind++) {
		if (!watched || !is_of_python(kind))
			err = links_attach_multi(l, kind, f, gen, pid, &to[f->when]);
	}
	return err;
}

static int links_attach_single(struct links *l, enum link_kind kind, const struct linked_file *f)
{
	const struct link_sites *s = &f->sites.of[kind];
	char path[32];

	if (!s->n)
		return 0;
	l->single = xreallocarray(l->single, l->n_single + s->n, sizeof(*l->single));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", f->fd);
	for (size_t i = 0; i < s->n; i++) {
		LIBBPF_OPTS(bpf_uprobe_opts, opts, .retprobe = kind == LINK_RETURN, .bpf_cookie = s->cookies[i],
			.ref_ctr_offset = s->semaphores[i]);
		struct bpf_link *link =
			bpf_program__attach_uprobe_opts(l->programs[kind], -1, path, s->offsets[i], &opts);

		if (!link)
			return -errno;
		l->single[l->n_single++] = link;
	}
	return 0;
}

static int add_multi(struct links *l, const struct linked_file *f)
{
	int err = 0;

	/* the file may be one that was dropped, and each call would be seen twice */
	closings_reap(l, REAP_DROPPED);
	if (l->state != LINKS_BY_PROCESS)
		err = attach_all(l, f, l->live, 0, false, l->everywhere);
	for (size_t i = 0; i < l->n_processes && !err; i++) {
		struct link_process *p = &l->processes[i];

		err = attach_all(l, f, l->newest, p->tgid, p->watched, p->links);
		if (err == -ESRCH) /* the process has just gone */
			err = 0;
	}
	if (err)
		return err;
	l->files = xreallocarray(l->files, l->n_files + 1, sizeof(*l->files));
	l->files[l->n_files++] = *f;
	return 0;
}

void file_sites_share(const struct file_sites *from, struct file_sites *to)
{
	const struct link_sites *entries = &from->of[LINK_ENTRY];

	for (size_t i = 0; i < entries->n; i++) {
		for (int kind = 0; entries->semaphores[i] && kind < LINK_KINDS; kind++) {
			struct link_sites *s = &to->of[kind];

			for (size_t k = 0; k < s->n; k++) {
				if (s->offsets[k] == entries->offsets[i])
					s->semaphores[k] = entries->semaphores[i];
			}
		}
	}
}

int links_add_file(struct links *l, uint32_t number, int fd, struct file_sites *sites, enum link_when when)
{
	struct linked_file f = { .number = number, .fd = fd, .when = when, .sites = *sites };
	int err = 0;

	if (!l->multi && file_sites_count(&f.sites) > LINKS_SINGLE_MAX)
		return -EFBIG;
	file_sites_share(&f.sites, &f.sites);
	if (l->multi)
		err = add_multi(l, &f);
	for (int kind = 0; kind < LINK_KINDS && !l->multi && !err; kind++)
		err = links_attach_single(l, kind, &f);
	if (err)
		return err;
	*sites = (struct file_sites){ 0 };
	if (!l->multi)
		file_free(&f);
	return 0;
}

/* ---- dropping ---- */

/* Moves the links of a file; number 0: those of all files at Python functions. */
static void link_list_move(struct link_list *from, uint32_t number, struct link_list *to)
{
	size_t kept = 0;

	if (from->n)
		to->list = xreallocarray(to->list, to->n + from->n, sizeof(*to->list));
	for (size_t i = 0; i < from->n; i++) {
		if (number ? from->list[i].file == number : is_of_python(from->list[i].kind))
			to->list[to->n++] = from->list[i];
		else
			from->list[kept++] = from->list[i];
	}
	from->n = kept;
}

int links_drop_file(struct links *l, uint32_t number)
{
	size_t kept = 0, before = l->n_files;
	struct link_list *list;

	if (!l->multi)
		return -EOPNOTSUPP;
	for (size_t i = 0; (list = nth_list(l, i)); i++)
		link_list_move(list, number, &l->dropped);
	for (size_t i = 0; i < l->n_files; i++) {
		if (l->files[i].number == number)
			file_free(&l->files[i]);
		else
			l->files[kept++] = l->files[i];
	}
	l->n_files = kept;
	return before > kept;
}

void links_close_dropped(struct links *l)
{
	links_close_list(l, &l->dropped, true);
}

size_t links_files(const struct links *l)
{
	size_t n = 0;

	for (size_t i = 0; i < l->n_files; i++)
		n += !i || l->files[i].number != l->files[i - 1].number;
	return n;
}

/* ---- by process ---- */

/* Stores one word, so that the programs see both generations change at once. */
static void links_publish_gens(const struct links *l)
{
	__atomic_store_n(l->gens, (uint32_t)l->newest << 16 | l->live, __ATOMIC_RELEASE);
}

static struct link_process *link_process_find(struct links *l, pid_t tgid)
{
	for (size_t i = 0; i < l->n_processes; i++) {
		if (l->processes[i].tgid == tgid)
			return &l->processes[i];
	}
	return NULL;
}

int links_begin(struct links *l)
{
	struct rlimit rl;

	if (!l->gens || !l->multi || l->newest)
		return -EOPNOTSUPP;
	/* each file and process takes two */
	if (!getrlimit(RLIMIT_NOFILE, &rl)) {
		rl.rlim_cur = rl.rlim_max;
		setrlimit(RLIMIT_NOFILE, &rl);
	}
	l->newest++;
	links_publish_gens(l);
	l->state = LINKS_SWITCHING;
	return 0;
}

int links_add_process(struct links *l, pid_t tgid)
{
	struct link_process *p = &l->processes[l->n_processes];
	int err = 0;

	if (l->state == LINKS_EVERYWHERE)
		return 0;
	if (link_process_find(l, tgid))
		return 0;
	if (l->n_processes == LINKS_PROCESSES_MAX)
		return -E2BIG;
	*p = (struct link_process){ .tgid = tgid };
	l->n_processes++;
	for (size_t i = 0; i < l->n_files && !err; i++)
		err = attach_all(l, &l->files[i], l->newest, tgid, false, p->links);
	if (!err)
		return 1;
	links_drop_process(l, tgid);
	return err;
}

void links_commit(struct links *l)
{
	if (l->state != LINKS_SWITCHING)
		return;
	l->live = l->newest;
	links_publish_gens(l);
	l->state = LINKS_BY_PROCESS;
	links_close_lists(l, l->everywhere);
}

void links_drop_process(struct links *l, pid_t tgid)
{
	struct link_process *p = link_process_find(l, tgid);

	if (!p)
		return;
	links_close_lists(l, p->links);
	*p = l->processes[--l->n_processes];
}

bool links_may_watch(const struct links *l)
{
	return l->multi && l->gens && (!l->newest || l->state == LINKS_BY_PROCESS);
}

bool links_watch_process(struct links *l, pid_t tgid)
{
	struct link_process *p = link_process_find(l, tgid);
	struct link_list python = { 0 };
	bool any;

	if (!p || l->state != LINKS_BY_PROCESS)
		return false;
	p->watched = true;
	for (int when = 0; when < LINK_WHENS; when++)
		link_list_move(&p->links[when], 0, &python);
	any = python.n;
	links_close_list(l, &python, false);
	return any;
}

bool links_watches(struct links *l, pid_t tgid)
{
	const struct link_process *p = link_process_find(l, tgid);

	return p && p->watched;
}

int links_everywhere(struct links *l)
{
	int err = 0;

	if (l->state == LINKS_EVERYWHERE)
		return 0;
	if (l->state == LINKS_BY_PROCESS) {
		l->newest++;
		links_publish_gens(l);
		for (size_t i = 0; i < l->n_files && !err; i++)
			err = attach_all(l, &l->files[i], l->newest, 0, false, l->everywhere);
		l->live = l->newest;
	} else {
		l->newest = l->live;
	}
	links_publish_gens(l);
	l->state = LINKS_EVERYWHERE;
	l->gens = NULL;
	while (l->n_processes)
		links_drop_process(l, l->processes[0].tgid);
	return err ? err : 1;
}

/* ---- detaching for a while ---- */

static int attach_again(struct links *l, enum link_when when)
{
	int err = 0;

	for (size_t i = 0; i < l->n_files; i++) {
		const struct linked_file *f = &l->files[i];
		int e = 0;

		if (f->when != when)
			continue;
		if (l->state != LINKS_BY_PROCESS)
			e = attach_all(l, f, l->live, 0, false, l->everywhere);
		err = err ? err : e;
		for (size_t k = 0; k < l->n_processes; k++) {
			e = attach_all(l, f, l->newest, l->processes[k].tgid, l->processes[k].watched, l->processes[k].links);
			if (!err && e != -ESRCH)
				err = e;
		}
	}
	return err;
}

void links_idle(struct links *l)
{
	if (!l->multi || l->idle)
		return;
	l->idle = true;
	for (enum link_when when = 0; when < LINK_WHENS; when++) {
		if (when != LINK_WHEN_ALWAYS)
			links_detach_when(l, when);
	}
}

int links_wake(struct links *l)
{
	int err = 0;

	if (!l->idle)
		return 0;
	l->idle = false;
	for (enum link_when when = 0; when < LINK_WHENS; when++) {
		int e = when != LINK_WHEN_ALWAYS ? attach_again(l, when) : 0;

		err = err ? err : e;
	}
	return err;
}

int links_shed(struct links *l, enum link_when when, bool off)
{
	if (!l->multi || l->shed[when] == off)
		return 0;
	l->shed[when] = off;
	if (!off)
		return attach_again(l, when);
	links_detach_when(l, when);
	return 0;
}

bool links_closing(struct links *l)
{
	closings_reap(l, REAP_FINISHED);
	return l->closings;
}

enum links_state links_state(const struct links *l)
{
	return l->state;
}
