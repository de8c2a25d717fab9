// SPDX-License-Identifier: BSD-2-Clause
/* The recorder's side. Whatever the answers contain is safe to use: see unwind.c. */
#include "stack/reader.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stack/lookup.h"
#include "util/clock.h"

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
