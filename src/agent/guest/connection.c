// SPDX-License-Identifier: BSD-2-Clause
#include "agent/guest/connection.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define PATIENCE_S 5

/* Receives a message of inftrace with at most one descriptor. ret_fd: -1: none. */
static int welcome_receive(int fd, const struct gpu_hello *hello, struct gpu_welcome *ret_w, int *ret_fd)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int))];
	} control;
	struct gpu_welcome w;
	struct iovec iov = { &w, sizeof(w) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control) };
	struct cmsghdr *c;
	ssize_t n;
	int got = -1;

	do
		n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	c = CMSG_FIRSTHDR(&m);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(&got, CMSG_DATA(c), sizeof(got));
	if (n != sizeof(w) || w.magic != hello->magic || w.version != hello->version) {
		if (got >= 0)
			close(got);
		return -EPROTO;
	}
	*ret_w = w;
	*ret_fd = got;
	return 0;
}

int connection_open(const char *name, const struct gpu_hello *hello, struct connection *ret_c, int *ret_fd)
{
	const struct timeval patience = { .tv_sec = PATIENCE_S };
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	size_t length = strnlen(name, GPU_SOCKET_NAME_MAX + 1);
	struct gpu_welcome w = { 0 };
	struct stat st;
	int fd, ring = -1, err;

	/* abstract names only: there is no file that another user could plant */
	if (length < 2 || length > GPU_SOCKET_NAME_MAX || *name != '@')
		return -EINVAL;
	memcpy(to.sun_path + 1, name + 1, length - 1);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	err = -EIO;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) ||
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) || fstat(fd, &st))
		goto out;
	if (connect(fd, (struct sockaddr *)&to, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)) ||
		send(fd, hello, sizeof(*hello), MSG_NOSIGNAL) != sizeof(*hello)) {
		err = -errno;
		goto out;
	}
	err = welcome_receive(fd, hello, &w, &ring);
	if (!err && (w.error || ring < 0))
		err = w.error < 0 ? w.error : -EPROTO;
	if (err)
		goto out;
	*ret_c = (struct connection){ .fd = fd, .dev = st.st_dev, .ino = st.st_ino };
	*ret_fd = ring;
	return 0;
out:
	if (ring >= 0)
		close(ring);
	close(fd);
	return err;
}

bool connection_is_ours(const struct connection *c)
{
	struct stat st;

	return c->fd >= 0 && !fstat(c->fd, &st) && S_ISSOCK(st.st_mode) && st.st_dev == c->dev && st.st_ino == c->ino;
}

bool connection_alive(const struct connection *c)
{
	struct pollfd p = { .fd = c->fd, .events = POLLRDHUP };

	return connection_is_ours(c) && poll(&p, 1, 0) == 0;
}

void connection_close(struct connection *c)
{
	if (connection_is_ours(c))
		close(c->fd);
	c->fd = -1;
}

int guest_thread_make(void *(*run)(void *))
{
	pthread_attr_t attr;
	pthread_t t;
	int err = pthread_attr_init(&attr);

	if (err)
		return -err;
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	err = pthread_create(&t, &attr, run, NULL);
	pthread_attr_destroy(&attr);
	return -err;
}
