// SPDX-License-Identifier: BSD-2-Clause
#include "util/passing.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

union control {
	char buf[CMSG_SPACE(PASSED_MAX * sizeof(int))];
	struct cmsghdr align;
};

int passing_send(int to, const void *data, size_t size, const int *fds, size_t n, int flags)
{
	union control control = {};
	struct iovec iov = { (void *)data, size };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (n) {
		m.msg_control = &control;
		m.msg_controllen = CMSG_SPACE(n * sizeof(int));
		*CMSG_FIRSTHDR(&m) = (struct cmsghdr){ CMSG_LEN(n * sizeof(int)), SOL_SOCKET, SCM_RIGHTS };
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)), fds, n * sizeof(int));
	}
	return sendmsg(to, &m, MSG_NOSIGNAL | flags) < 0 ? -errno : 0;
}

ssize_t passing_receive(int from, void *data, size_t size, int *ret_fds, size_t n, int flags, int *ret_flags)
{
	union control control;
	struct iovec iov = { data, size };
	/* not the whole buffer: its padding would leave room for one more */
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = CMSG_LEN(n * sizeof(int)) };
	ssize_t got = recvmsg(from, &m, MSG_CMSG_CLOEXEC | flags);
	const struct cmsghdr *c = got >= 0 ? CMSG_FIRSTHDR(&m) : NULL;

	memset(ret_fds, 0xff, n * sizeof(int));
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		memcpy(ret_fds, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
	if (ret_flags)
		*ret_flags = m.msg_flags;
	return got < 0 ? -errno : got;
}
