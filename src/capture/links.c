// SPDX-License-Identifier: BSD-2-Clause
#include "capture/links.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/thread.h"

/* include/uapi/linux/bpf.h of 6.6; Debian 12's libbpf 1.1 does not know them yet */
#define ATTACH_UPROBE_MULTI 48
#define UPROBE_MULTI_RETURN 1

/* Closing a uprobe_multi link waits for grace periods, too, 40 ms, but many can do so at once. */
#define CLOSE_THREADS 8
#define CLOSE_STACK (64u << 10)

struct link {
	int fd;
	uint32_t file;
};

struct link_list {
	struct link *list;
	size_t n;
};

struct file {
	uint32_t number; /* as the caller gave it: several entries may have the same */
	int fd;
	enum link_when when;
	struct file_sites sites;
};

struct process {
	pid_t pid;
	struct link_list links[LINK_WHENS];
};

/* Links that are being closed. */
struct closing {
	struct closing *next;
	bool dropped; /* with their file, which may be attached to again */
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
	struct file *files;
	size_t n_files;
	struct link_list everywhere[LINK_WHENS];
	struct process processes[LINKS_PROCESSES_MAX];
	size_t n_processes;
	struct link_list dropped; /* not closed yet */
	struct closing *closings;
};

int link_sites_add(struct link_sites *s, uint64_t offset, uint32_t cookie, uint64_t semaphore)
{
	unsigned long *offsets = realloc(s->offsets, (s->n + 1) * sizeof(*offsets)), *semaphores;
	uint64_t *cookies;

	if (!offsets)
		return -ENOMEM;
	s->offsets = offsets;
	cookies = realloc(s->cookies, (s->n + 1) * sizeof(*cookies));
	if (!cookies)
		return -ENOMEM;
	s->cookies = cookies;
	semaphores = realloc(s->semaphores, (s->n + 1) * sizeof(*semaphores));
	if (!semaphores)
		return -ENOMEM;
	s->semaphores = semaphores;
	offsets[s->n] = offset;
	semaphores[s->n] = semaphore;
	cookies[s->n++] = cookie;
	return 0;
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

int links_new(struct bpf_program *const programs[LINK_KINDS], bool multi, volatile uint32_t *gens,
	struct links **ret_links)
{
	struct links *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	memcpy(l->programs, programs, sizeof(l->programs));
	l->multi = multi;
	l->gens = gens;
	*ret_links = l;
	return 0;
}

/* ---- closing ---- */

static void *close_some(void *arg)
{
	struct closing *c = arg;
	size_t i;

	while ((i = __atomic_fetch_add(&c->turn, 1, __ATOMIC_RELAXED)) < c->links.n)
		close(c->links.list[i].fd);
	__atomic_fetch_sub(&c->running, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void closing_free(struct closing *c)
{
	for (unsigned int i = 0; i < c->n_threads; i++)
		thread_join(&c->threads[i]);
	free(c->links.list);
	free(c);
}

enum reap {
	REAP_FINISHED,
	REAP_DROPPED, /* waits for those of files that were dropped */
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
		closing_free(c);
	}
}

/* Closes the links in the background and empties the list. */
static void close_links(struct links *l, struct link_list *links, bool dropped)
{
	struct closing *c = links->n ? calloc(1, sizeof(*c)) : NULL;

	closings_reap(l, REAP_FINISHED);
	if (!c) {
		for (size_t i = 0; i < links->n; i++)
			close(links->list[i].fd);
		free(links->list);
		*links = (struct link_list){ 0 };
		return;
	}
	c->dropped = dropped;
	c->links = *links;
	*links = (struct link_list){ 0 };
	c->running = CLOSE_THREADS + 1;
	while (c->n_threads < CLOSE_THREADS && c->n_threads < c->links.n) {
		if (thread_start(&c->threads[c->n_threads], "inftrace-close", CLOSE_STACK, close_some, c))
			break;
		c->n_threads++;
	}
	__atomic_fetch_sub(&c->running, CLOSE_THREADS - c->n_threads, __ATOMIC_RELAXED);
	if (!c->n_threads)
		close_some(c);
	else
		__atomic_fetch_sub(&c->running, 1, __ATOMIC_RELEASE);
	c->next = l->closings;
	l->closings = c;
}

static void close_all(struct links *l, struct link_list links[LINK_WHENS])
{
	for (int i = 0; i < LINK_WHENS; i++)
		close_links(l, &links[i], false);
}

static void file_free(struct file *f)
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
	close_all(l, l->everywhere);
	for (size_t i = 0; i < l->n_processes; i++)
		close_all(l, l->processes[i].links);
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

/* pid 0: in every process. */
static int attach_multi(
	struct links *l, enum link_kind kind, const struct file *f, uint16_t gen, pid_t pid, struct link_list *to)
{
	const struct link_sites *s = &f->sites.of[kind];
	struct link *list;
	int fd;

	if (!s->n)
		return 0;
	list = realloc(to->list, (to->n + 1) * sizeof(*list));
	if (!list)
		return -ENOMEM;
	to->list = list;
	for (size_t i = 0; i < s->n; i++)
		s->cookies[i] = (uint32_t)s->cookies[i] | (uint64_t)gen << 32;
	fd = links_create_multi(bpf_program__fd(l->programs[kind]), kind == LINK_RETURN, f->fd, s, pid);
	if (fd < 0)
		return fd;
	list[to->n++] = (struct link){ fd, f->number };
	return 0;
}

static int attach_all(
	struct links *l, const struct file *f, uint16_t gen, pid_t pid, struct link_list to[LINK_WHENS])
{
	int err = 0;

	if (l->shed[f->when] || (l->idle && f->when != LINK_WHEN_ALWAYS))
		return 0;
	for (int kind = 0; kind < LINK_KINDS && !err; kind++)
		err = attach_multi(l, kind, f, gen, pid, &to[f->when]);
	return err;
}

static int attach_single(struct links *l, enum link_kind kind, const struct file *f)
{
	const struct link_sites *s = &f->sites.of[kind];
	struct bpf_link **single = realloc(l->single, (l->n_single + s->n) * sizeof(*single));
	char path[32];

	if (!s->n)
		return 0;
	if (!single)
		return -ENOMEM;
	l->single = single;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", f->fd);
	for (size_t i = 0; i < s->n; i++) {
		LIBBPF_OPTS(bpf_uprobe_opts, opts, .retprobe = kind == LINK_RETURN, .bpf_cookie = s->cookies[i],
			.ref_ctr_offset = s->semaphores[i]);
		struct bpf_link *link =
			bpf_program__attach_uprobe_opts(l->programs[kind], -1, path, s->offsets[i], &opts);

		if (!link)
			return -errno;
		single[l->n_single++] = link;
	}
	return 0;
}

static int add_single(struct links *l, const struct file *f)
{
	int err = 0;

	if (file_sites_count(&f->sites) > LINKS_SINGLE_MAX)
		return -EFBIG;
	for (int kind = 0; kind < LINK_KINDS && !err; kind++)
		err = attach_single(l, kind, f);
	return err;
}

static int add_multi(struct links *l, const struct file *f)
{
	struct file *files = realloc(l->files, (l->n_files + 1) * sizeof(*files));
	int err = 0;

	if (!files)
		return -ENOMEM;
	l->files = files;
	/* it may be one of them, and each call would be seen twice */
	closings_reap(l, REAP_DROPPED);
	if (l->state != LINKS_BY_PROCESS)
		err = attach_all(l, f, l->live, 0, l->everywhere);
	for (size_t i = 0; i < l->n_processes && !err; i++) {
		struct process *p = &l->processes[i];

		err = attach_all(l, f, l->newest, p->pid, p->links);
		if (err == -ESRCH) /* the process has just gone */
			err = 0;
	}
	if (!err)
		files[l->n_files++] = *f;
	return err;
}

static void link_sites_share(const struct link_sites *from, struct link_sites *to)
{
	for (size_t i = 0; i < from->n; i++) {
		for (size_t k = 0; from->semaphores[i] && k < to->n; k++) {
			if (to->offsets[k] == from->offsets[i])
				to->semaphores[k] = from->semaphores[i];
		}
	}
}

void file_sites_share(const struct file_sites *from, struct file_sites *to)
{
	for (int kind = 0; kind < LINK_KINDS; kind++)
		link_sites_share(&from->of[LINK_ENTRY], &to->of[kind]);
}

int links_add_file(struct links *l, uint32_t number, int fd, struct file_sites *sites, enum link_when when)
{
	struct file f = { .number = number, .fd = fd, .when = when, .sites = *sites };
	int err;

	file_sites_share(&f.sites, &f.sites);
	err = l->multi ? add_multi(l, &f) : add_single(l, &f);
	if (err)
		return err;
	*sites = (struct file_sites){ 0 };
	if (!l->multi)
		file_free(&f);
	return 0;
}

/* ---- dropping ---- */

static size_t count_of(const struct link_list *links, uint32_t number)
{
	size_t n = 0;

	for (size_t i = 0; i < links->n; i++)
		n += links->list[i].file == number;
	return n;
}

/* `to` has room for them. */
static void move_of(struct link_list *from, uint32_t number, struct link_list *to)
{
	size_t kept = 0;

	for (size_t i = 0; i < from->n; i++) {
		if (from->list[i].file == number)
			to->list[to->n++] = from->list[i];
		else
			from->list[kept++] = from->list[i];
	}
	from->n = kept;
}

/* The lists of links one after another; NULL: there are no more. */
static struct link_list *nth_list(struct links *l, size_t i)
{
	if (i < LINK_WHENS)
		return &l->everywhere[i];
	i -= LINK_WHENS;
	return i < l->n_processes * LINK_WHENS ? &l->processes[i / LINK_WHENS].links[i % LINK_WHENS] : NULL;
}

int links_drop_file(struct links *l, uint32_t number)
{
	size_t n = l->dropped.n, kept = 0, before = l->n_files;
	struct link_list *list;
	struct link *more;

	if (!l->multi)
		return -EOPNOTSUPP;
	for (size_t i = 0; (list = nth_list(l, i)); i++)
		n += count_of(list, number);
	more = realloc(l->dropped.list, (n + 1) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	l->dropped.list = more;
	for (size_t i = 0; (list = nth_list(l, i)); i++)
		move_of(list, number, &l->dropped);
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
	close_links(l, &l->dropped, true);
}

size_t links_files(const struct links *l)
{
	size_t n = 0;

	for (size_t i = 0; i < l->n_files; i++)
		n += !i || l->files[i].number != l->files[i - 1].number;
	return n;
}

/* ---- by process ---- */

/* One word, so that the programs see both values at once. */
static void publish(const struct links *l)
{
	__atomic_store_n(l->gens, (uint32_t)l->newest << 16 | l->live, __ATOMIC_RELEASE);
}

int links_begin(struct links *l)
{
	struct rlimit rl;

	if (!l->gens || !l->multi || l->newest)
		return -EOPNOTSUPP;
	/* two for each file and process */
	if (!getrlimit(RLIMIT_NOFILE, &rl)) {
		rl.rlim_cur = rl.rlim_max;
		setrlimit(RLIMIT_NOFILE, &rl);
	}
	l->newest++;
	publish(l);
	l->state = LINKS_SWITCHING;
	return 0;
}

int links_add_process(struct links *l, pid_t pid)
{
	struct process *p = &l->processes[l->n_processes];
	int err = 0;

	if (l->state == LINKS_EVERYWHERE)
		return 0;
	for (size_t i = 0; i < l->n_processes; i++) {
		if (l->processes[i].pid == pid)
			return 0;
	}
	if (l->n_processes == LINKS_PROCESSES_MAX)
		return -E2BIG;
	*p = (struct process){ .pid = pid };
	l->n_processes++;
	for (size_t i = 0; i < l->n_files && !err; i++)
		err = attach_all(l, &l->files[i], l->newest, pid, p->links);
	if (!err)
		return 1;
	links_drop_process(l, pid);
	return err == -ESRCH ? 0 : err;
}

void links_commit(struct links *l)
{
	if (l->state != LINKS_SWITCHING)
		return;
	l->live = l->newest;
	publish(l);
	l->state = LINKS_BY_PROCESS;
	close_all(l, l->everywhere);
}

void links_drop_process(struct links *l, pid_t pid)
{
	for (size_t i = 0; i < l->n_processes; i++) {
		struct process *p = &l->processes[i];

		if (p->pid != pid)
			continue;
		close_all(l, p->links);
		*p = l->processes[--l->n_processes];
		return;
	}
}

int links_everywhere(struct links *l)
{
	int err = 0;

	if (l->state == LINKS_EVERYWHERE)
		return 0;
	if (l->state == LINKS_BY_PROCESS) {
		l->newest++;
		publish(l);
		for (size_t i = 0; i < l->n_files && !err; i++)
			err = attach_all(l, &l->files[i], l->newest, 0, l->everywhere);
		l->live = l->newest;
	} else {
		l->newest = l->live;
	}
	publish(l);
	l->state = LINKS_EVERYWHERE;
	l->gens = NULL;
	while (l->n_processes)
		links_drop_process(l, l->processes[0].pid);
	return err ? err : 1;
}

/* ---- detaching for a while ---- */

static void detach(struct links *l, enum link_when when)
{
	close_links(l, &l->everywhere[when], false);
	for (size_t i = 0; i < l->n_processes; i++)
		close_links(l, &l->processes[i].links[when], false);
}

static int attach_again(struct links *l, enum link_when when)
{
	int err = 0;

	for (size_t i = 0; i < l->n_files; i++) {
		const struct file *f = &l->files[i];
		int e = 0;

		if (f->when != when)
			continue;
		if (l->state != LINKS_BY_PROCESS)
			e = attach_all(l, f, l->live, 0, l->everywhere);
		err = err ? err : e;
		for (size_t k = 0; k < l->n_processes; k++) {
			e = attach_all(l, f, l->newest, l->processes[k].pid, l->processes[k].links);
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
			detach(l, when);
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
	detach(l, when);
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
