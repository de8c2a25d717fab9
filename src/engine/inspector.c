// SPDX-License-Identifier: BSD-2-Clause
/* The recorder's side: asks, and checks the answers. */
#include "engine/inspector.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/inspect.h"
#include "engine/spec.h"
#include "target/elf.h"
#include "util/clock.h"
#include "util/confine.h"

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
		/* the socket keeps what it has, and takes no more */
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
	struct inspector *ins = calloc(1, sizeof(*ins));
	int fds[2], err;

	if (!ins)
		return -ENOMEM;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds)) {
		err = -errno;
		goto out;
	}
	ins->pt = pt;
	ins->fd = fds[0];
	ins->pid = fork();
	if (!ins->pid) {
		close(fds[0]);
		inspect_serve(pt, fds[1]);
	}
	err = ins->pid < 0 ? -errno : 0;
	close(fds[1]);
	if (err) {
		close(fds[0]);
		goto out;
	}
	*ret_inspector = ins;
	return 0;
out:
	free(ins);
	return err;
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
	char *names[ELF_STRINGS_MAX]; /* of the enum whose names are arriving */
};

/* Passes the descriptor on. Returns the socket for the answer. */
static int ask(struct inspector *ins, const struct inspect_request *rq, int fd)
{
	union {
		char buf[CMSG_SPACE(2 * sizeof(int))];
		struct cmsghdr align;
	} control = {};
	struct iovec iov = { (void *)rq, sizeof(*rq) };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.buf, .msg_controllen = sizeof(control.buf)
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	int fds[2], pass[2], err;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds))
		return -errno;
	pass[0] = fd;
	pass[1] = fds[1];
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(pass));
	memcpy(CMSG_DATA(c), pass, sizeof(pass));
	err = sendmsg(ins->fd, &msg, MSG_NOSIGNAL) < 0 ? -errno : 0;
	close(fds[1]);
	if (!err)
		return fds[0];
	close(fds[0]);
	return err;
}

/* The numbers of registers are checked by the program that reads the registers. */
static bool is_fetch(const struct fetch *f)
{
	return f->derefs <= FETCH_DEREFS_MAX && f->shift < 64 &&
	       (!f->size || f->size == 1 || f->size == 2 || f->size == 4 || f->size == 8);
}

static bool are_rows(const struct probe_spec *s, const struct row_fetch *row)
{
	for (int i = 0; i < ROW_COLUMNS; i++) {
		if (!is_fetch(&row[i].array) || row[i].array.reg >= REG_MAX || row[i].loads > s->row[i].loads ||
			row[i].size > 8 || row[i].stride > ROW_STRUCT_MAX)
			return false;
	}
	return s->row_struct;
}

static int take_site(struct reply *r, const struct inspect_answer *a)
{
	const struct probe_table *pt = r->ins->pt;
	struct elf_symbol symbol = { .name = a->text, .vaddr = a->vaddr, .offset = a->offset, .size = a->size };
	struct found f = {
		.kind = (enum found_kind)a->found,
		.spec = a->spec,
		.symbol = &symbol,
		.site = {
			.offset = a->site,
			.cheap = a->cheap,
			.nop5 = a->nop5,
			.arrival = a->arrival,
			.exit = a->exit,
			.exit_bp = a->exit_bp,
			.exit_units = a->exit_units,
			.no_exits = a->no_exits,
			.no_yields = a->no_yields,
			.reg = a->reg,
			.python = a->python < PYTHON_LAYOUTS ? a->python : 0,
		},
		.semaphore = a->semaphore,
		.fetch = a->has_fetch ? a->fetch : NULL,
		.row = a->has_row ? a->row : NULL,
		.arg = a->arg,
	};
	size_t len = strlen(a->text) + 1;

	if (a->found >= FOUND_MAX || a->spec >= pt->n || pt->specs[a->spec].from || len >= a->text_len)
		return -EPROTO;
	if (f.kind == FOUND_SITE && a->text[len] && spec_text_ok(a->text + len, SPEC_STRING_MAX))
		f.declared = a->text + len;
	else if (f.kind != FOUND_SITE)
		f.why = a->text + len;
	if (f.kind == FOUND_NO_ARG && a->arg >= pt->specs[a->spec].nargs)
		return -EPROTO;
	if ((f.kind == FOUND_NO_PYTHON && !pt->specs[a->spec].is_python) ||
		((a->exit || a->no_exits) && !pt->specs[a->spec].is_python && !pt->specs[a->spec].exits))
		return -EPROTO;
	if (f.kind == FOUND_SITE && (pt->specs[a->spec].is_usdt || f.row) != (f.fetch != NULL))
		return -EPROTO;
	if (f.row && !are_rows(&pt->specs[a->spec], f.row))
		return -EPROTO;
	for (size_t i = 0; f.fetch && i < FUNC_VALS_MAX; i++) {
		if (!is_fetch(&f.fetch[i]))
			return -EPROTO;
	}
	return sites_take(r->ins->pt, r->shown, &f, &r->last_told, r->cb, r->arg);
}

static void drop_names(struct reply *r)
{
	for (size_t i = 0; i < ELF_STRINGS_MAX; i++) {
		free(r->names[i]);
		r->names[i] = NULL;
	}
}

static int take_enum(struct reply *r, const struct inspect_answer *a)
{
	struct probe_table *pt = r->ins->pt;
	char **names;

	if (a->spec >= pt->n_engines || a->arg >= pt->engines[a->spec]->n_enums || a->offset > ELF_STRINGS_MAX)
		return -EPROTO;
	if (a->kind == ANSWER_ENUM) {
		if (a->offset == ELF_STRINGS_MAX || !a->text_len || strlen(a->text) > ELF_STRINGS_LEN_MAX)
			return -EPROTO;
		free(r->names[a->offset]);
		r->names[a->offset] = strdup(a->text);
		return r->names[a->offset] ? 0 : -ENOMEM;
	}
	names = calloc(a->offset + 1, sizeof(*names));
	if (!names)
		return -ENOMEM;
	memcpy(names, r->names, a->offset * sizeof(*names));
	memset(r->names, 0, a->offset * sizeof(*names));
	drop_names(r);
	engine_set_names(pt, pt->engines[a->spec], a->arg, names, a->offset);
	return 0;
}

static void take_instead(struct reply *r, const char *name)
{
	size_t len = r->instead ? strlen(r->instead) : 0;
	const char *last = len ? strrchr(r->instead, ' ') : NULL;

	/* a USDT probe may have several places */
	if (!r->instead || (len && !strcmp(last ? last + 1 : r->instead, name)))
		return;
	snprintf(r->instead + len, r->instead_size - len, "%s%.70s", len ? ", " : "", name);
}

static int take_loaded(struct inspect_loaded *l, const struct inspect_answer *a)
{
	if (a->kind == ANSWER_MACHINE) {
		l->machine = (int)a->found;
		return 0;
	}
	if (a->kind == ANSWER_FUNCTION) {
		if (a->arg >= INSPECT_FUNCTIONS)
			return -EPROTO;
		l->functions[a->arg] = a->offset;
		return 0;
	}
	if (l->n_code == INSPECT_CODE_MAX || a->offset > UINT64_MAX - a->size)
		return -EPROTO;
	l->code[l->n_code].offset = a->offset;
	l->code[l->n_code++].size = a->size;
	return 0;
}

/* 1: it was the last message. */
static int take(struct inspect_answer *a, size_t n, void *arg)
{
	struct reply *r = arg;

	if (n < offsetof(struct inspect_answer, text) || a->text_len > n - offsetof(struct inspect_answer, text))
		return -EPROTO;
	if (a->text_len && a->text[a->text_len - 1])
		return -EPROTO;
	switch (a->kind) {
	case ANSWER_SITE:
		return a->text_len && r->cb ? take_site(r, a) : -EPROTO;
	case ANSWER_ENUM:
	case ANSWER_ENUM_END:
		return take_enum(r, a);
	case ANSWER_BUILD_ID:
		if (r->build_id && a->text_len <= ELF_BUILD_ID_MAX && a->text_len &&
			strspn(a->text, "0123456789abcdef") == a->text_len - 1)
			memcpy(r->build_id, a->text, a->text_len);
		return 0;
	case ANSWER_INSTEAD:
		if (a->text_len)
			take_instead(r, a->text);
		return 0;
	case ANSWER_MACHINE:
	case ANSWER_FUNCTION:
	case ANSWER_CODE:
		return r->loaded ? take_loaded(r->loaded, a) : -EPROTO;
	case ANSWER_END:
		return a->err < 0 ? (a->err > -4096 ? a->err : -EPROTO) : 1;
	default:
		return -EPROTO;
	}
}

static int inspect(struct reply *r, const struct inspect_request *rq, int fd)
{
	const struct answers as = { .take = take, .arg = r, .wait = r->ins->wait, .wait_arg = r->ins->wait_arg };
	uint64_t end_ns = clock_mono_ns() + rq->ms * NSEC_PER_MSEC;
	int answers, err;

	answers = ask(r->ins, rq, fd);
	if (answers < 0)
		return answers;
	err = answers_read(answers, end_ns, &as);
	close(answers);
	drop_names(r);
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
	return inspect(&r, &rq, fd);
}

int inspector_check(struct inspector *ins, int fd, size_t spec, char *instead, size_t size)
{
	struct inspect_request rq = { .what = INSPECT_CHECK, .spec = (uint32_t)spec, .ms = INSPECT_MS_MAX };
	struct reply r = { .ins = ins, .instead = instead, .instead_size = size };

	*instead = '\0';
	return inspect(&r, &rq, fd);
}

int inspector_steps(struct inspector *ins, int fd, size_t spec, char *names, size_t size)
{
	struct inspect_request rq = { .what = INSPECT_STEPS, .spec = (uint32_t)spec, .ms = INSPECT_MS_MAX };
	struct reply r = { .ins = ins, .instead = names, .instead_size = size };

	*names = '\0';
	return inspect(&r, &rq, fd);
}

int inspector_loaded(struct inspector *ins, int fd, struct inspect_loaded *ret_loaded)
{
	struct inspect_request rq = { .what = INSPECT_LOADED, .ms = INSPECT_MS_MAX };
	struct inspect_loaded loaded = { 0 };
	struct reply r = { .ins = ins, .loaded = &loaded };
	int err = inspect(&r, &rq, fd);

	if (!err)
		*ret_loaded = loaded;
	return err;
}
