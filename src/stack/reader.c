// SPDX-License-Identifier: BSD-2-Clause
#include "stack/reader.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stack/lookup.h"
#include "util/clock.h"
#include "util/confine.h"

/* ---- between the two processes ---- */

struct reader_request {
	uint32_t file;
	uint16_t open; /* with one or two descriptors; the answer has the link as its name */
	uint16_t linked;
	uint64_t offset;
	uint64_t close; /* nothing else */
};

struct reader_answer {
	int32_t err;
	uint32_t pad;
	struct place place;
};

/* ---- the process that reads ELF files, and the one that forks it: nothing here may trust what a file says ---- */

#define MEMORY_MAX (UINT64_C(1) << 30) /* bytes of data */

/* What the one that reads may do: take requests, read files, use memory, answer, end. */
#define CALLS                                                                                                  \
	SYS_read, SYS_pread64, SYS_fstat, SYS_newfstatat, SYS_lseek, SYS_fcntl, SYS_close, SYS_recvmsg, SYS_sendto,    \
		SYS_mmap, SYS_munmap, SYS_mremap, SYS_mprotect, SYS_madvise, SYS_brk, SYS_futex, SYS_getrandom,       \
		SYS_clock_gettime, SYS_sysinfo, SYS_setitimer, SYS_rt_sigprocmask, SYS_rt_sigreturn,                  \
		SYS_restart_syscall, SYS_getpid, SYS_gettid, SYS_exit, SYS_exit_group

static const int reader_calls[] = { CALLS };

/* and the one that forks it. */
static const int server_calls[] = {
	CALLS, SYS_clone, SYS_set_robust_list, SYS_rseq, SYS_prlimit64, SYS_prctl, SYS_seccomp, SYS_kill, SYS_wait4
};

static int confine(const int *list, size_t n)
{
	return confine_is_full() ? confine_to_calls(list, n) : 0;
}

/* Returns the number of descriptors, or -1: there will be no more messages. */
static int receive_from(int from, void *data, size_t size, int fds[2])
{
	union {
		char buf[CMSG_SPACE(2 * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = { data, size };
	struct msghdr msg;
	struct cmsghdr *c;
	ssize_t n;

	do {
		msg = (struct msghdr){
			.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.buf, .msg_controllen = sizeof(control.buf)
		};
		n = recvmsg(from, &msg, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n != (ssize_t)size)
		return -1;
	c = CMSG_FIRSTHDR(&msg);
	fds[0] = fds[1] = -1;
	if (!c || c->cmsg_type != SCM_RIGHTS || c->cmsg_len > CMSG_LEN(2 * sizeof(int)))
		return 0;
	memcpy(fds, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
	return (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
}

static void answer_request(struct lookup **files, const struct reader_request *rq, const int fds[2], struct reader_answer *a)
{
	a->err = -EINVAL;
	if (rq->file >= READER_FILES_MAX)
		return;
	if (!rq->open && !rq->close) {
		a->err = files[rq->file] ? lookup_place(files[rq->file], rq->offset, &a->place) : -EBADF;
		return;
	}
	lookup_close(files[rq->file]);
	files[rq->file] = NULL;
	a->err = 0;
	if (rq->close)
		return;
	a->err = lookup_open(fds[0], fds[1], rq->linked, &files[rq->file]);
	if (!a->err)
		lookup_link(files[rq->file], a->place.name, READER_LINK_MAX);
}

static _Noreturn void read_work(int fd)
{
	static struct lookup *files[READER_FILES_MAX];
	static struct reader_answer a;
	struct reader_request rq;
	int fds[2];

	if (confine_is_full())
		confine_limit(RLIMIT_DATA, MEMORY_MAX);
	if (confine(reader_calls, sizeof(reader_calls) / sizeof(reader_calls[0])))
		_exit(1);
	while (receive_from(fd, &rq, sizeof(rq), fds) >= 0) {
		/* as long as it is asked for in vain, a file that takes too long ends this process */
		confine_time(READER_MS_MAX);
		memset(&a, 0, sizeof(a));
		answer_request(files, &rq, fds, &a);
		confine_time(0);
		if (send(fd, &a, sizeof(a), MSG_NOSIGNAL) < 0)
			break;
	}
	_exit(0);
}

/* The process that forks the one that reads: for each message with a descriptor a new one, which answers requests that
 * come from there. Does not return. */
static _Noreturn void reader_serve(int fd)
{
	struct rlimit files;
	pid_t child = 0;
	char byte;
	int fds[2];

	/* libdw keeps files open */
	if (!getrlimit(RLIMIT_NOFILE, &files))
		confine_limit(RLIMIT_NOFILE, files.rlim_max);
	fd = confine_reader(fd, "inftrace-stack");
	if (fd < 0)
		_exit(1);
	if (confine(server_calls, sizeof(server_calls) / sizeof(server_calls[0])))
		_exit(1);
	while (receive_from(fd, &byte, sizeof(byte), fds) == 1) {
		if (child > 0) {
			kill(child, SIGKILL);
			waitpid(child, NULL, 0);
		}
		child = fork();
		if (!child) {
			close(fd);
			read_work(fds[0]);
		}
		close(fds[0]);
	}
	if (child > 0)
		kill(child, SIGKILL);
	_exit(0);
}

/* ---- the recorder's side: whatever the answers contain is safe to use, see unwind.c ---- */

struct reader {
	struct lookup **files; /* in this process; NULL: they are read in another one */
	pid_t pid;
	int server; /* to the process that forks those that read */
	int fd;	    /* to the one that reads; -1: none */
	unsigned int generation;
	struct reader_answer answer;
};

int reader_new(bool in_process, struct reader **ret_reader)
{
	struct reader *r = calloc(1, sizeof(*r));
	int fds[2], err;

	if (!r)
		return -ENOMEM;
	r->fd = r->server = -1;
	if (in_process) {
		r->files = calloc(READER_FILES_MAX, sizeof(*r->files));
		if (!r->files)
			goto no_memory;
		*ret_reader = r;
		return 0;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds)) {
		err = -errno;
		goto out;
	}
	r->server = fds[0];
	r->pid = fork();
	if (!r->pid) {
		close(fds[0]);
		reader_serve(fds[1]);
	}
	err = r->pid < 0 ? -errno : 0;
	close(fds[1]);
	if (err) {
		close(fds[0]);
		goto out;
	}
	*ret_reader = r;
	return 0;
no_memory:
	err = -ENOMEM;
out:
	free(r);
	return err;
}

void reader_free(struct reader *r)
{
	if (!r)
		return;
	if (r->files) {
		for (uint32_t i = 0; i < READER_FILES_MAX; i++)
			lookup_close(r->files[i]);
		free(r->files);
		free(r);
		return;
	}
	if (r->fd >= 0)
		close(r->fd);
	close(r->server);
	/* its process group, which includes the one that reads */
	kill(-r->pid, SIGKILL);
	kill(r->pid, SIGKILL);
	while (waitpid(r->pid, NULL, 0) < 0 && errno == EINTR)
		;
	free(r);
}

unsigned int reader_generation(const struct reader *r)
{
	return r->generation;
}

static int send_with(int to, const void *data, size_t size, const int *fds, size_t n)
{
	union {
		char buf[CMSG_SPACE(2 * sizeof(int))];
		struct cmsghdr align;
	} control = {};
	struct iovec iov = { (void *)data, size };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (n) {
		struct cmsghdr *c;

		msg.msg_control = control.buf;
		msg.msg_controllen = CMSG_SPACE(n * sizeof(int));
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n * sizeof(int));
	}
	return sendmsg(to, &msg, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* A process that reads, with no file open. */
static int start(struct reader *r)
{
	int fds[2], err;

	if (r->generation > READER_REPLACED_MAX)
		return -EPROTO;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds))
		return -errno;
	err = send_with(r->server, "", 1, &fds[1], 1);
	close(fds[1]);
	if (err) {
		close(fds[0]);
		return err;
	}
	r->fd = fds[0];
	return 0;
}

/* Leaves the process that reads to be killed when the next one is started. */
static void stop(struct reader *r)
{
	close(r->fd);
	r->fd = -1;
	r->generation++;
}

static int read_answer(struct reader *r)
{
	uint64_t end = clock_mono_ns() + READER_MS_MAX * NSEC_PER_MSEC;

	for (;;) {
		struct pollfd p = { .fd = r->fd, .events = POLLIN };
		uint64_t now = clock_mono_ns();
		ssize_t n;

		if (now >= end)
			return -EPROTO;
		if (poll(&p, 1, (int)((end - now) / NSEC_PER_MSEC) + 1) <= 0)
			continue;
		n = recv(r->fd, &r->answer, sizeof(r->answer), MSG_DONTWAIT);
		if (n == sizeof(r->answer))
			return 0;
		if (n >= 0 || (errno != EINTR && errno != EAGAIN))
			return -EPROTO;
	}
}

static int ask(struct reader *r, const struct reader_request *rq, const int *fds, size_t n)
{
	int err = r->fd < 0 ? start(r) : 0;

	if (err)
		return err;
	err = send_with(r->fd, rq, sizeof(*rq), fds, n);
	if (!err)
		err = read_answer(r);
	if (err) {
		stop(r);
		return -EPROTO;
	}
	err = r->answer.err;
	return err > 0 || err < -4095 ? -EPROTO : err;
}

static int open_file(struct reader *r, uint32_t file, int fd, int debug_fd, bool linked)
{
	const struct reader_request rq = { .file = file, .open = 1, .linked = linked };
	const int fds[2] = { fd, debug_fd };
	int err;

	r->answer.place.name[0] = '\0';
	if (r->files) {
		lookup_close(r->files[file]);
		r->files[file] = NULL;
		return lookup_open(fd, debug_fd, linked, &r->files[file]);
	}
	err = ask(r, &rq, fds, debug_fd < 0 ? 1 : 2);
	close(fd);
	if (debug_fd >= 0)
		close(debug_fd);
	return err;
}

int reader_open(struct reader *r, uint32_t file, int fd, int debug_fd)
{
	return open_file(r, file, fd, debug_fd, false);
}

int reader_open_linked(struct reader *r, uint32_t file, int fd, int debug_fd)
{
	return open_file(r, file, fd, debug_fd, true);
}

void reader_close(struct reader *r, uint32_t file)
{
	const struct reader_request rq = { .file = file, .close = 1 };

	if (r->files) {
		lookup_close(r->files[file]);
		r->files[file] = NULL;
	} else if (r->fd >= 0) {
		ask(r, &rq, NULL, 0);
	}
}

void reader_link(const struct reader *r, uint32_t file, char to[READER_LINK_MAX])
{
	const char *name = r->answer.place.name;
	size_t len = strnlen(name, READER_LINK_MAX);

	*to = '\0';
	if (r->files)
		lookup_link(r->files[file], to, READER_LINK_MAX);
	else if (len < READER_LINK_MAX && !memchr(name, '/', len)) /* whoever has taken over its reader says anything */
		memcpy(to, name, len + 1);
}

int reader_place(struct reader *r, uint32_t file, uint64_t offset, struct place *ret_place)
{
	const struct reader_request rq = { .file = file, .offset = offset };
	int err;

	if (r->files)
		return r->files[file] ? lookup_place(r->files[file], offset, ret_place) : -EBADF;
	if (r->fd < 0)
		return -EBADF;
	err = ask(r, &rq, NULL, 0);
	if (err)
		return err;
	*ret_place = r->answer.place;
	ret_place->name[sizeof(ret_place->name) - 1] = '\0';
	return 0;
}
