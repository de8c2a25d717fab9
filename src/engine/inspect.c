// SPDX-License-Identifier: BSD-2-Clause
/* The process that reads ELF files, and its workers. Nothing here may trust what a file says. */
#include "engine/inspect.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/inspector.h"
#include "engine/sites.h"
#include "engine/spec.h"
#include "target/elf.h"
#include "target/usdt.h"
#include "util/confine.h"

#define MEMORY_MAX (UINT64_C(768) << 20) /* bytes of a worker's data */
#define NEAR_MAX 3

/* What a worker may do: read its file, use memory, answer, end. */
#define WORKER_CALLS                                                                                                         \
	SYS_read, SYS_pread64, SYS_fstat, SYS_newfstatat, SYS_lseek, SYS_fcntl, SYS_close, SYS_sendto, SYS_mmap, SYS_munmap, \
		SYS_mremap, SYS_mprotect, SYS_madvise, SYS_brk, SYS_futex, SYS_getrandom, SYS_clock_gettime, SYS_sysinfo,    \
		SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_restart_syscall, SYS_getpid, SYS_gettid, SYS_exit,                 \
		SYS_exit_group

static const int worker_calls[] = { WORKER_CALLS };

/* and the process that forks the workers. */
static const int server_calls[] = {
	WORKER_CALLS,
	SYS_recvmsg,
	SYS_clone,
	SYS_rt_sigaction,
	SYS_set_robust_list,
	SYS_rseq,
	SYS_prlimit64,
	SYS_setitimer,
	SYS_prctl,
	SYS_seccomp,
};

struct worker {
	const struct probe_table *pt;
	struct elf_file *elf;
	int out;
	struct inspect_answer answer;
};

static int send_answer(struct worker *w)
{
	size_t len = offsetof(struct inspect_answer, text) + w->answer.text_len;

	/* whoever asked may have lost interest */
	return send(w->out, &w->answer, len, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static struct inspect_answer *new_answer(struct worker *w, enum inspect_kind kind)
{
	memset(&w->answer, 0, offsetof(struct inspect_answer, text));
	w->answer.kind = kind;
	return &w->answer;
}

static int add_text(struct inspect_answer *a, const char *text)
{
	size_t len = strlen(text) + 1;

	if (len > sizeof(a->text) - a->text_len)
		return -ENAMETOOLONG;
	memcpy(a->text + a->text_len, text, len);
	a->text_len += (uint32_t)len;
	return 0;
}

static int answer_found(const struct found *f, void *arg)
{
	struct worker *w = arg;
	struct inspect_answer *a = new_answer(w, ANSWER_SITE);

	a->found = f->kind;
	a->spec = (uint32_t)f->spec;
	a->arg = f->arg;
	a->vaddr = f->symbol->vaddr;
	a->offset = f->symbol->offset;
	a->size = f->symbol->size;
	a->site = f->site.offset;
	a->cheap = f->site.cheap;
	a->nop5 = f->kind == FOUND_SITE && site_is_nop5(w->elf, f->site.offset);
	a->arrival = f->site.arrival;
	a->exit = f->site.exit;
	a->exit_bp = f->site.exit_bp;
	a->exit_units = f->site.exit_units;
	a->no_exits = f->site.no_exits;
	a->no_yields = f->site.no_yields;
	a->reg = f->site.reg;
	a->python = f->site.python;
	a->semaphore = f->semaphore;
	a->has_fetch = f->fetch != NULL;
	if (f->fetch)
		memcpy(a->fetch, f->fetch, sizeof(a->fetch));
	a->has_row = f->row != NULL;
	if (f->row)
		memcpy(a->row, f->row, sizeof(a->row));
	if (add_text(a, f->symbol->name) || add_text(a, f->why ? f->why : f->declared ? f->declared : ""))
		return 0; /* too long to have been asked for */
	return send_answer(w);
}

static int answer_enum(struct worker *w, size_t engine, size_t e, char *const *names, size_t n)
{
	int err = 0;

	for (size_t i = 0; i <= n && !err; i++) {
		struct inspect_answer *a = new_answer(w, i < n ? ANSWER_ENUM : ANSWER_ENUM_END);

		a->spec = (uint32_t)engine;
		a->arg = (uint32_t)e;
		a->offset = i;
		if (i < n && (!names[i] || add_text(a, names[i])))
			continue;
		err = send_answer(w);
	}
	return err;
}

static int answer_enums(struct worker *w, const char *shown)
{
	int err = 0;

	for (size_t i = 0; i < w->pt->n_engines; i++) {
		const struct engine *e = w->pt->engines[i];

		if (!engine_claims(e, shown))
			continue;
		for (size_t k = 0; k < e->n_enums && !err; k++) {
			char **names;
			size_t n;

			if (!e->enums[k].object || elf_strings_read(w->elf, e->enums[k].object, &names, &n))
				continue;
			err = answer_enum(w, i, k, names, n);
			elf_strings_free(names, n);
		}
	}
	return err;
}

static int answer_sites(struct worker *w, const struct inspect_request *rq)
{
	char build_id[ELF_BUILD_ID_MAX];
	int err = 0;

	if (!elf_build_id(w->elf, build_id, sizeof(build_id))) {
		add_text(new_answer(w, ANSWER_BUILD_ID), build_id);
		err = send_answer(w);
	}
	if (!err)
		err = answer_enums(w, rq->shown);
	return err ? err : sites_find(w->pt, w->elf, rq->shown, rq->states_only, answer_found, w);
}

static int answer_instead(struct worker *w, const char *name)
{
	if (add_text(new_answer(w, ANSWER_INSTEAD), name))
		return 0;
	return send_answer(w);
}

static int list_note(const struct usdt_note *note, void *arg)
{
	return answer_instead(arg, note->name);
}

static int stop_at_note(const struct usdt_note *note, void *arg)
{
	(void)note;
	(void)arg;
	return 1;
}

static int check_usdt(struct worker *w, const char *name)
{
	int n = usdt_each(w->elf, name, stop_at_note, NULL);

	if (n == 1)
		return 0;
	usdt_each(w->elf, "*", list_note, w);
	return -ENOENT;
}

static int check_symbol(struct worker *w, const char *symbol)
{
	const char *near[NEAR_MAX];
	struct elf_symbol sym;
	int n, err;

	err = strpbrk(symbol, "*?[") ? 0 : elf_find_symbol(w->elf, symbol, &sym);
	if (err != -ENOENT)
		return err;
	n = elf_nearest_symbols(w->elf, symbol, near, NEAR_MAX);
	for (int i = 0; i < n; i++)
		answer_instead(w, near[i]);
	return err;
}

/* Whole words of a C name. */
#define STEP_LIKE "?(*_)@(decode|encode|eval|forward|generate|process|run|step)?(_*)"
#define STEPS_NAMED 2

struct like {
	const struct probe_table *pt;
	const struct probe_spec *step;
	struct {
		const char *name;
		size_t rank;
	} best[STEPS_NAMED];
};

/* The more its name is like that of the step the less; words before length. */
static size_t rank_of(const char *name, const char *step)
{
	size_t own = strcspn(step, "_") + 1, words = 1;

	for (const char *p = name; *p; p++)
		words += *p == '_';
	return (strncmp(name, step, own) ? 1 << 20 : 0) + words * (SPEC_STRING_MAX + 1) + strlen(name);
}

static int keep_like(const struct elf_symbol *sym, void *arg)
{
	struct like *l = arg;
	size_t rank = rank_of(sym->name, l->step->symbol), i = STEPS_NAMED;

	if (!strncmp(sym->name, "_Z", 2) || !spec_text_ok(sym->name, SPEC_NAME_MAX))
		return 0;
	for (size_t k = 0; k < l->pt->n; k++) {
		if (l->pt->specs[k].engine == l->step->engine && !strcmp(l->pt->specs[k].symbol, sym->name))
			return 0;
	}
	for (; i && (!l->best[i - 1].name || rank < l->best[i - 1].rank); i--) {
		if (i < STEPS_NAMED)
			l->best[i] = l->best[i - 1];
		l->best[i - 1].name = sym->name;
		l->best[i - 1].rank = rank;
	}
	return 0;
}

static int answer_steps(struct worker *w, const struct probe_spec *step)
{
	struct like l = { .pt = w->pt, .step = step };
	int err = elf_match_symbols(w->elf, STEP_LIKE, keep_like, &l);

	for (size_t i = 0; i < STEPS_NAMED && err >= 0 && l.best[i].name; i++)
		err = answer_instead(w, l.best[i].name);
	return err < 0 ? err : 0;
}

static int answer_code(struct worker *w)
{
	Elf64_Ehdr h;
	Elf64_Phdr p;
	int n = 0, err;

	err = elf_read_at_offset(w->elf, 0, &h, sizeof(h));
	if (!err && h.e_phentsize != sizeof(p))
		err = -EBADMSG;
	for (int i = 0; !err && i < h.e_phnum && n < INSPECT_CODE_MAX; i++) {
		struct inspect_answer *a;

		err = elf_read_at_offset(w->elf, h.e_phoff + (uint64_t)i * sizeof(p), &p, sizeof(p));
		if (err || p.p_type != PT_LOAD || !(p.p_flags & PF_X) || p.p_flags & PF_W || p.p_filesz != p.p_memsz)
			continue;
		a = new_answer(w, ANSWER_CODE);
		a->offset = p.p_offset;
		a->size = p.p_filesz;
		err = send_answer(w);
		n++;
	}
	return err;
}

static int answer_loaded(struct worker *w)
{
	static const char *const names[INSPECT_FUNCTIONS] = {
		[INSPECT_DLOPEN] = "dlopen",
		[INSPECT_DLSYM] = "dlsym",
		[INSPECT_ERRNO] = "__errno_location",
	};
	struct elf_symbol s;
	int err;

	new_answer(w, ANSWER_MACHINE)->found = (uint32_t)elf_machine(w->elf);
	err = send_answer(w);
	for (uint32_t i = 0; !err && i < INSPECT_FUNCTIONS; i++) {
		struct inspect_answer *a;

		if (elf_find_symbol(w->elf, names[i], &s))
			continue;
		a = new_answer(w, ANSWER_FUNCTION);
		a->arg = i;
		a->offset = s.offset;
		err = send_answer(w);
	}
	return err ? err : answer_code(w);
}

static int answer(struct worker *w, const struct inspect_request *rq)
{
	const struct probe_spec *s;

	if (rq->what == INSPECT_SITES)
		return answer_sites(w, rq);
	if (rq->what == INSPECT_LOADED)
		return answer_loaded(w);
	s = &w->pt->specs[rq->spec];
	if (rq->what == INSPECT_STEPS)
		return answer_steps(w, s);
	return s->is_usdt ? check_usdt(w, s->symbol + strlen(SPEC_USDT)) : check_symbol(w, s->symbol);
}

static _Noreturn void work(const struct probe_table *pt, const struct inspect_request *rq, int fd, int out)
{
	static struct worker w;
	int err = 0;

	w.pt = pt;
	w.out = out;
	if (confine_is_full()) {
		confine_limit(RLIMIT_DATA, MEMORY_MAX);
		confine_limit(RLIMIT_CPU, INSPECT_CPU_SECONDS);
		confine_time(rq->ms);
		err = confine_to_calls(worker_calls, sizeof(worker_calls) / sizeof(worker_calls[0]));
	}
	if (!err)
		err = elf_open_fd(fd, &w.elf);
	if (!err)
		err = answer(&w, rq);
	new_answer(&w, ANSWER_END)->err = err;
	send_answer(&w);
	_exit(0);
}

/* 1: a request; 0: there will be no more; or an error of this request. */
static int read_request(int from, struct inspect_request *rq, int fds[2])
{
	union {
		char buf[CMSG_SPACE(2 * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = { rq, sizeof(*rq) };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.buf, .msg_controllen = sizeof(control.buf)
	};
	struct cmsghdr *c;
	ssize_t n = recvmsg(from, &msg, MSG_CMSG_CLOEXEC);

	if (n < 0)
		return errno == EINTR ? -EINTR : 0;
	c = CMSG_FIRSTHDR(&msg);
	if (!n || !c || c->cmsg_type != SCM_RIGHTS || c->cmsg_len != CMSG_LEN(2 * sizeof(int)))
		return 0;
	memcpy(fds, CMSG_DATA(c), 2 * sizeof(int));
	return n == sizeof(*rq) ? 1 : -EPROTO;
}

void inspect_serve(const struct probe_table *pt, int fd)
{
	static struct inspect_request rq;
	int fds[2], more;

	signal(SIGCHLD, SIG_IGN); /* no need to wait for workers */
	fd = confine_reader(fd, "inftrace-elf");
	if (fd < 0)
		_exit(1);
	if (confine_is_full() && confine_to_calls(server_calls, sizeof(server_calls) / sizeof(server_calls[0])))
		_exit(1);
	while ((more = read_request(fd, &rq, fds))) {
		if (more < 0)
			continue;
		if (!fork()) {
			close(fd);
			work(pt, &rq, fds[0], fds[1]);
		}
		close(fds[0]);
		close(fds[1]);
	}
	_exit(0);
}
