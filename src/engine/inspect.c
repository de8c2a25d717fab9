// SPDX-License-Identifier: BSD-2-Clause
/* The process that reads ELF files, and its workers. Nothing here may trust what a file says. */
#include "engine/inspect.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/sites.h"
#include "engine/spec.h"
#include "target/file.h"
#include "target/usdt.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/confine.h"
#include "util/passing.h"

#define MEMORY_MAX (UINT64_C(768) << 20) /* bytes of a worker's data */
#define NEAR_MAX 3

/* What a worker may do: read its file, use memory, answer, end. */
#define WORKER_CALLS                                                                                                         \
	SYS_read, SYS_pread64, SYS_fstat, SYS_newfstatat, SYS_lseek, SYS_fcntl, SYS_close, SYS_sendto, SYS_mmap, SYS_munmap, \
		SYS_mremap, SYS_mprotect, SYS_madvise, SYS_brk, SYS_futex, SYS_getrandom, SYS_clock_gettime, SYS_sysinfo,    \
		SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_restart_syscall, SYS_getpid, SYS_gettid, SYS_exit,                 \
		SYS_exit_group

static const int worker_calls[] = { WORKER_CALLS };

/* What the process that forks the workers may do. */
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

struct inspect_worker {
	const struct probe_table *pt;
	struct elf_file *elf;
	int fd, out;
	struct inspect_answer answer;
};

static int worker_send_answer(struct inspect_worker *w)
{
	size_t len = offsetof(struct inspect_answer, text) + w->answer.text_len;

	/* whoever asked may have lost interest */
	return send(w->out, &w->answer, len, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static struct inspect_answer *worker_new_answer(struct inspect_worker *w, enum inspect_kind kind)
{
	memset(&w->answer, 0, offsetof(struct inspect_answer, text));
	w->answer.kind = kind;
	return &w->answer;
}

static int answer_add_text(struct inspect_answer *a, const char *text)
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
	struct inspect_worker *w = arg;
	struct inspect_answer *a = worker_new_answer(w, ANSWER_SITE);
	const char *why;

	a->found = f->kind;
	a->spec = (uint32_t)f->spec;
	a->arg = f->arg;
	a->vaddr = f->symbol->vaddr;
	a->offset = f->symbol->offset;
	a->size = f->symbol->size;
	a->site = f->site;
	a->site.nop5 = f->kind == FOUND_SITE && site_is_nop5(w->elf, f->site.offset);
	a->semaphore = f->semaphore;
	a->has_fetch = f->fetch != NULL;
	if (f->fetch)
		memcpy(a->fetch, f->fetch, sizeof(a->fetch));
	a->has_row = f->row != NULL;
	if (f->row)
		memcpy(a->row, f->row, sizeof(a->row));
	a->tensors = f->tensors;
	why = f->why ?: f->declared;
	if (answer_add_text(a, f->symbol->name) || answer_add_text(a, why ?: ""))
		return 0; /* too long to have been asked for */
	return worker_send_answer(w);
}

static int answer_enum(struct inspect_worker *w, size_t engine, size_t e, char *const *names, size_t n)
{
	int err = 0;

	for (size_t i = 0; i <= n && !err; i++) {
		struct inspect_answer *a = worker_new_answer(w, i < n ? ANSWER_ENUM : ANSWER_ENUM_END);

		a->spec = (uint32_t)engine;
		a->arg = (uint32_t)e;
		a->offset = i;
		if (i < n && (!names[i] || answer_add_text(a, names[i])))
			continue;
		err = worker_send_answer(w);
	}
	return err;
}

static int answer_enums(struct inspect_worker *w, const char *shown)
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

static int answer_sites(struct inspect_worker *w, const struct inspect_request *rq)
{
	char build_id[ELF_BUILD_ID_MAX];
	int err = 0;

	if (!build_id_read(w->fd, build_id, sizeof(build_id))) {
		answer_add_text(worker_new_answer(w, ANSWER_BUILD_ID), build_id);
		err = worker_send_answer(w);
	}
	if (!err)
		err = answer_enums(w, rq->shown);
	return err ? err : sites_find(w->pt, w->elf, rq->shown, rq->states_only, answer_found, w);
}

static int answer_instead(struct inspect_worker *w, const char *name)
{
	if (answer_add_text(worker_new_answer(w, ANSWER_INSTEAD), name))
		return 0;
	return worker_send_answer(w);
}

static int answer_note(const struct usdt_note *note, void *arg)
{
	return answer_instead(arg, note->name);
}

static int stop_at_note(const struct usdt_note *note, void *arg)
{
	return 1;
}

static int check_usdt(struct inspect_worker *w, const char *name)
{
	int n = usdt_each(w->elf, name, stop_at_note, NULL);

	if (n == 1)
		return 0;
	usdt_each(w->elf, "*", answer_note, w);
	return -ENOENT;
}

static int check_symbol(struct inspect_worker *w, const char *symbol)
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

/* Whole words of the name of a C function that may be a step. */
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

/* Returns less for a name more like the step's; words count more than length. */
static size_t step_name_rank(const char *name, const char *step)
{
	size_t own = strcspn(step, "_") + 1, words = 1;

	for (const char *p = name; *p; p++)
		words += *p == '_';
	return (strncmp(name, step, own) ? 1 << 20 : 0) + words * (SPEC_STRING_MAX + 1) + strlen(name);
}

static int keep_like(const struct elf_symbol *sym, void *arg)
{
	struct like *l = arg;
	size_t rank = step_name_rank(sym->name, l->step->symbol), i = STEPS_NAMED;

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

static int worker_answer_steps(struct inspect_worker *w, const struct probe_spec *step)
{
	struct like l = { .pt = w->pt, .step = step };
	int err = elf_match_symbols(w->elf, STEP_LIKE, keep_like, &l);

	for (size_t i = 0; i < STEPS_NAMED && err >= 0 && l.best[i].name; i++)
		err = answer_instead(w, l.best[i].name);
	return err < 0 ? err : 0;
}

static int answer_code(struct inspect_worker *w)
{
	unsigned int i = 0;
	Elf64_Ehdr eh;
	Elf64_Phdr p;
	int err = elf_header_read(w->fd, &eh) ? 0 : -EBADMSG;

	for (int n = 0; !err && n < INSPECT_CODE_MAX && (err = elf_segment_next(w->fd, &eh, PT_LOAD, &i, &p)) > 0;) {
		struct inspect_answer *a;

		err = 0;
		if (!(p.p_flags & PF_X) || p.p_flags & PF_W || p.p_filesz != p.p_memsz)
			continue;
		a = worker_new_answer(w, ANSWER_CODE);
		a->offset = p.p_offset;
		a->size = p.p_filesz;
		err = worker_send_answer(w);
		n++;
	}
	return err;
}

static int answer_loaded(struct inspect_worker *w)
{
	static const char *const names[INSPECT_FUNCTIONS] = {
		[INSPECT_DLOPEN] = "dlopen",
		[INSPECT_DLSYM] = "dlsym",
		[INSPECT_ERRNO] = "__errno_location",
	};
	struct elf_symbol s;
	int err;

	worker_new_answer(w, ANSWER_MACHINE)->found = (uint32_t)elf_machine(w->elf);
	err = worker_send_answer(w);
	for (uint32_t i = 0; !err && i < INSPECT_FUNCTIONS; i++) {
		struct inspect_answer *a;

		if (elf_find_symbol(w->elf, names[i], &s))
			continue;
		a = worker_new_answer(w, ANSWER_FUNCTION);
		a->arg = i;
		a->offset = s.offset;
		err = worker_send_answer(w);
	}
	return err ? err : answer_code(w);
}

static int worker_answer(struct inspect_worker *w, const struct inspect_request *rq)
{
	const struct probe_spec *s;

	if (rq->what == INSPECT_SITES)
		return answer_sites(w, rq);
	if (rq->what == INSPECT_LOADED)
		return answer_loaded(w);
	s = &w->pt->specs[rq->spec];
	if (rq->what == INSPECT_STEPS)
		return worker_answer_steps(w, s);
	return s->is_usdt ? check_usdt(w, s->symbol + strlen(SPEC_USDT)) : check_symbol(w, s->symbol);
}

static _Noreturn void worker_run(const struct probe_table *pt, const struct inspect_request *rq, int fd, int out)
{
	static struct inspect_worker w;
	int err = 0;

	w.pt = pt;
	w.fd = fd;
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
		err = worker_answer(&w, rq);
	worker_new_answer(&w, ANSWER_END)->err = err;
	worker_send_answer(&w);
	_exit(0);
}

/* Returns 1 for a request, 0 if there will be no more, or an error of this request. */
static int inspect_read_request(int from, struct inspect_request *rq, int fds[2])
{
	ssize_t n = passing_receive(from, rq, sizeof(*rq), fds, 2, 0, NULL);

	if (n == -EINTR)
		return -EINTR;
	if (n <= 0 || fds[1] < 0)
		return 0;
	return n == sizeof(*rq) ? 1 : -EPROTO;
}

/* Runs in the process that reads, and does not return. fd: where requests arrive. */
static void inspect_serve(const struct probe_table *pt, int fd)
{
	static struct inspect_request rq;
	int fds[2], more;

	signal(SIGCHLD, SIG_IGN); /* no need to wait for workers */
	fd = confine_reader(fd, "inftrace-elf");
	if (fd < 0)
		_exit(1);
	if (confine_is_full() && confine_to_calls(server_calls, sizeof(server_calls) / sizeof(server_calls[0])))
		_exit(1);
	while ((more = inspect_read_request(fd, &rq, fds))) {
		if (more < 0)
			continue;
		if (!fork()) {
			close(fd);
			worker_run(pt, &rq, fds[0], fds[1]);
		}
		close(fds[0]);
		close(fds[1]);
	}
	_exit(0);
}

/* The recorder's side: asks, and checks the answers. */

#define WAIT_MS 10

int answers_read(int fd, uint64_t end_ns, const struct answers *as)
{
	static struct inspect_answer a;
	uint64_t now, served = clock_mono_ns();
	bool late = false;
	int err = 0;

	while (!err) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		ssize_t n;

		now = clock_mono_ns();
		if (as->wait && now - served >= WAIT_MS * NSEC_PER_MSEC) {
			served = now;
			err = as->wait(as->wait_arg);
			if (err)
				return err;
		}
		/* a socket that is shut down keeps what has come, and takes no more */
		if (!late && now >= end_ns)
			late = !shutdown(fd, SHUT_RD);
		if (!late && poll(&p, 1, WAIT_MS) <= 0)
			continue;
		n = recv(fd, &a, sizeof(a), MSG_DONTWAIT);
		if (n > 0)
			err = as->take(&a, (size_t)n, as->arg);
		else if (late && (!n || errno != EINTR))
			err = -ETIMEDOUT;
		else if (!n || (errno != EINTR && errno != EAGAIN))
			err = -EPROTO;
	}
	return err > 0 ? 0 : err;
}

struct inspector {
	struct probe_table *pt;
	pid_t pid;
	int fd;
	int (*wait)(void *arg);
	void *wait_arg;
};

int inspector_new(struct probe_table *pt, struct inspector **ret_inspector)
{
	int fds[2], fd, err = 0;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds))
		return -errno;
	fd = fds[0];
	pid = fork();
	if (!pid) {
		close(fd);
		inspect_serve(pt, fds[1]);
	}
	if (pid < 0)
		err = -errno;
	close(fds[1]);
	if (err) {
		close(fd);
		return err;
	}
	*ret_inspector = xmalloc(sizeof(**ret_inspector));
	**ret_inspector = (struct inspector){ .pt = pt, .fd = fd, .pid = pid };
	return 0;
}

void inspector_free(struct inspector *ins)
{
	if (!ins)
		return;
	close(ins->fd);
	/* its process group, which includes the workers */
	kill(-ins->pid, SIGKILL);
	kill(ins->pid, SIGKILL);
	while (waitpid(ins->pid, NULL, 0) < 0 && errno == EINTR)
		;
	free(ins);
}

void inspector_set_wait(struct inspector *ins, int (*wait)(void *arg), void *arg)
{
	ins->wait = wait;
	ins->wait_arg = arg;
}

int inspector_inherit(struct inspector *ins)
{
	int fd = confine_to_descriptor(ins->fd, !confine_is_full());

	ins->wait = NULL;
	ins->fd = fd;
	return fd < 0 ? fd : 0;
}

/* ---- one request ---- */

struct reply {
	struct inspector *ins;
	const char *shown;
	size_t last_told;
	char *build_id;
	char *instead;
	size_t instead_size;
	struct inspect_loaded *loaded;
	probe_site_cb cb;
	void *arg;
	char *names[ELF_STRINGS_MAX]; /* of the enum that is arriving */
};

/* Sends the request with the file's descriptor. Returns the socket for the answer, or an error. */
static int inspector_send_request(struct inspector *ins, const struct inspect_request *rq, int fd)
{
	int fds[2], err;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds))
		return -errno;
	err = passing_send(ins->fd, rq, sizeof(*rq), (int[]){ fd, fds[1] }, 2, 0);
	close(fds[1]);
	if (!err)
		return fds[0];
	close(fds[0]);
	return err;
}

/* The numbers of registers are checked by the program that reads the registers. */
static bool fetch_is_valid(const struct fetch *f)
{
	return f->derefs <= FETCH_DEREFS_MAX && f->shift < 64 &&
	       (!f->size || f->size == 1 || f->size == 2 || f->size == 4 || f->size == 8);
}

static bool rows_are_valid(const struct probe_spec *s, const struct row_fetch *row)
{
	for (int i = 0; i < ROW_COLUMNS; i++) {
		if (!fetch_is_valid(&row[i].array) || row[i].array.reg >= REG_MAX || row[i].loads > s->row[i].loads ||
			row[i].size > 8 || row[i].stride > ROW_STRUCT_MAX)
			return false;
	}
	return s->row_struct;
}

static bool tensors_are_valid(const struct probe_spec *s, const struct tensor_args *t)
{
	int n = __builtin_popcount(t->tensors);

	return n == __builtin_popcount(t->regs) && n <= FUNC_VALS_MAX / 2 && t->n <= 32 && (!n || (s->is_glob && !s->nargs));
}

static int reply_take_site(struct reply *r, const struct inspect_answer *a)
{
	const struct probe_table *pt = r->ins->pt;
	struct elf_symbol symbol = { .name = a->text, .vaddr = a->vaddr, .offset = a->offset, .size = a->size };
	struct found f = {
		.kind = (enum found_kind)a->found,
		.spec = a->spec,
		.symbol = &symbol,
		.site = a->site,
		.semaphore = a->semaphore,
		.fetch = a->has_fetch ? a->fetch : NULL,
		.row = a->has_row ? a->row : NULL,
		.tensors = a->tensors,
		.arg = a->arg,
	};
	const struct probe_spec *s;
	size_t len = strlen(a->text) + 1;

	if (a->found >= FOUND_MAX || a->spec >= pt->n || len >= a->text_len)
		return -EPROTO;
	s = &pt->specs[a->spec];
	if (f.site.python >= PYTHON_LAYOUTS)
		f.site.python = 0;
	if (f.kind == FOUND_SITE && a->text[len] && spec_text_ok(a->text + len, SPEC_STRING_MAX))
		f.declared = a->text + len;
	else if (f.kind != FOUND_SITE)
		f.why = a->text + len;
	if (s->from || (f.kind == FOUND_NO_ARG && a->arg >= s->nargs) || (f.kind == FOUND_NO_PYTHON && !s->is_python) ||
		(f.kind == FOUND_TENSORS && !s->values) ||
		((f.site.exit || f.site.no_exits) && !s->is_python && !s->exits) ||
		(f.kind == FOUND_SITE && (s->is_usdt || f.row) != (f.fetch != NULL)) || (f.row && !rows_are_valid(s, f.row)) ||
		!tensors_are_valid(s, &f.tensors))
		return -EPROTO;
	for (size_t i = 0; f.fetch && i < FUNC_VALS_MAX; i++) {
		if (!fetch_is_valid(&f.fetch[i]))
			return -EPROTO;
	}
	return sites_take(r->ins->pt, r->shown, &f, &r->last_told, r->cb, r->arg);
}

static void reply_drop_names(struct reply *r)
{
	for (size_t i = 0; i < ELF_STRINGS_MAX; i++) {
		free(r->names[i]);
		r->names[i] = NULL;
	}
}

static int reply_take_enum(struct reply *r, const struct inspect_answer *a)
{
	struct probe_table *pt = r->ins->pt;
	char **names;

	if (a->spec >= pt->n_engines || a->arg >= pt->engines[a->spec]->n_enums || a->offset > ELF_STRINGS_MAX)
		return -EPROTO;
	if (a->kind == ANSWER_ENUM) {
		if (a->offset == ELF_STRINGS_MAX || !a->text_len || strlen(a->text) > ELF_STRINGS_LEN_MAX)
			return -EPROTO;
		free(r->names[a->offset]);
		r->names[a->offset] = xstrdup(a->text);
		return 0;
	}
	names = xcalloc(a->offset, sizeof(*names));
	memcpy(names, r->names, a->offset * sizeof(*names));
	memset(r->names, 0, a->offset * sizeof(*names));
	reply_drop_names(r);
	engine_set_names(pt, pt->engines[a->spec], a->arg, names, a->offset);
	return 0;
}

static void reply_take_instead(struct reply *r, const char *name)
{
	size_t len = r->instead ? strlen(r->instead) : 0;
	const char *last = len ? strrchr(r->instead, ' ') : NULL;

	/* a USDT probe may have several places */
	if (!r->instead || (len && !strcmp(last ? last + 1 : r->instead, name)))
		return;
	snprintf(r->instead + len, r->instead_size - len, "%s%.70s", len ? ", " : "", name);
}

static int reply_take_loaded(struct inspect_loaded *l, const struct inspect_answer *a)
{
	if (a->kind == ANSWER_MACHINE) {
		l->machine = (int)a->found;
	} else if (a->kind == ANSWER_FUNCTION && a->arg < INSPECT_FUNCTIONS) {
		l->functions[a->arg] = a->offset;
	} else if (a->kind == ANSWER_CODE && l->n_code < INSPECT_CODE_MAX && a->offset <= UINT64_MAX - a->size) {
		l->code[l->n_code].offset = a->offset;
		l->code[l->n_code++].size = a->size;
	} else {
		return -EPROTO;
	}
	return 0;
}

/* Returns 1 for the last message, 0, or an error. */
static int reply_take_answer(struct inspect_answer *a, size_t n, void *arg)
{
	struct reply *r = arg;

	if (n < offsetof(struct inspect_answer, text) || a->text_len > n - offsetof(struct inspect_answer, text))
		return -EPROTO;
	if (a->text_len && a->text[a->text_len - 1])
		return -EPROTO;
	switch (a->kind) {
	case ANSWER_SITE:
		return a->text_len && r->cb ? reply_take_site(r, a) : -EPROTO;
	case ANSWER_ENUM:
	case ANSWER_ENUM_END:
		return reply_take_enum(r, a);
	case ANSWER_BUILD_ID:
		if (r->build_id && a->text_len <= ELF_BUILD_ID_MAX && a->text_len &&
			strspn(a->text, "0123456789abcdef") == a->text_len - 1)
			memcpy(r->build_id, a->text, a->text_len);
		return 0;
	case ANSWER_INSTEAD:
		if (a->text_len)
			reply_take_instead(r, a->text);
		return 0;
	case ANSWER_MACHINE:
	case ANSWER_FUNCTION:
	case ANSWER_CODE:
		return r->loaded ? reply_take_loaded(r->loaded, a) : -EPROTO;
	case ANSWER_END:
		return a->err < 0 ? (a->err > -4096 ? a->err : -EPROTO) : 1;
	default:
		return -EPROTO;
	}
}

static int inspect_run_request(struct reply *r, const struct inspect_request *rq, int fd)
{
	const struct answers as = { .take = reply_take_answer, .arg = r, .wait = r->ins->wait, .wait_arg = r->ins->wait_arg };
	uint64_t end_ns = clock_mono_ns() + rq->ms * NSEC_PER_MSEC;
	int answers, err;

	answers = inspector_send_request(r->ins, rq, fd);
	if (answers < 0)
		return answers;
	err = answers_read(answers, end_ns, &as);
	close(answers);
	reply_drop_names(r);
	return err;
}

int inspector_sites(struct inspector *ins, int fd, const char *shown, bool states_only, unsigned int ms, char *build_id,
	probe_site_cb cb, void *arg)
{
	struct inspect_request rq = { .what = INSPECT_SITES, .states_only = states_only, .ms = ms };
	struct reply r = {
		.ins = ins, .shown = shown, .last_told = SIZE_MAX, .build_id = build_id, .cb = cb, .arg = arg
	};

	if (build_id)
		*build_id = '\0';
	if (strlen(shown) >= sizeof(rq.shown))
		return -ENAMETOOLONG;
	strcpy(rq.shown, shown);
	return inspect_run_request(&r, &rq, fd);
}

static int inspect_names(struct inspector *ins, int fd, enum inspect_what what, size_t spec, char *names, size_t size)
{
	struct inspect_request rq = { .what = what, .spec = (uint32_t)spec, .ms = INSPECT_MS_MAX };
	struct reply r = { .ins = ins, .instead = names, .instead_size = size };

	*names = '\0';
	return inspect_run_request(&r, &rq, fd);
}

int inspector_check(struct inspector *ins, int fd, size_t spec, char *instead, size_t size)
{
	return inspect_names(ins, fd, INSPECT_CHECK, spec, instead, size);
}

int inspector_steps(struct inspector *ins, int fd, size_t spec, char *names, size_t size)
{
	return inspect_names(ins, fd, INSPECT_STEPS, spec, names, size);
}

int inspector_loaded(struct inspector *ins, int fd, struct inspect_loaded *ret_loaded)
{
	struct inspect_request rq = { .what = INSPECT_LOADED, .ms = INSPECT_MS_MAX };
	struct inspect_loaded loaded = { 0 };
	struct reply r = { .ins = ins, .loaded = &loaded };
	int err = inspect_run_request(&r, &rq, fd);

	if (!err)
		*ret_loaded = loaded;
	return err;
}
