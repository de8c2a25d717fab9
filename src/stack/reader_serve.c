// SPDX-License-Identifier: BSD-2-Clause
/* The process that reads ELF files, and the one that forks it. Nothing here may trust what a file says. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stack/lookup.h"
#include "stack/reader.h"
#include "util/confine.h"

#define MEMORY_MAX (UINT64_C(1) << 30) /* bytes of data */

/* What the one that reads may do: take requests, read files, use memory, answer, end. */
#define CALLS                                                                                                  \
	SYS_read, SYS_pread64, SYS_fstat, SYS_newfstatat, SYS_lseek, SYS_fcntl, SYS_close, SYS_recvmsg, SYS_sendto,    \
		SYS_mmap, SYS_munmap, SYS_mremap, SYS_mprotect, SYS_madvise, SYS_brk, SYS_futex, SYS_getrandom,       \
		SYS_clock_gettime, SYS_sysinfo, SYS_setitimer, SYS_rt_sigprocmask, SYS_rt_sigreturn,                  \
		SYS_restart_syscall, SYS_getpid, SYS_gettid, SYS_exit, SYS_exit_group

static const int calls[] = { CALLS };

/* and the one that forks it. */
static const int server_calls[] = {
	CALLS, SYS_clone, SYS_set_robust_list, SYS_rseq, SYS_prlimit64, SYS_prctl, SYS_seccomp, SYS_kill, SYS_wait4
};

static int confine(const int *list, size_t n)
{
	return confine_is_full() ? confine_to_calls(list, n) : 0;
}

/* Returns the number of descriptors, or -1: there will be no more messages. */
static int receive(int from, void *data, size_t size, int fds[2])
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

static void answer(struct lookup **files, const struct reader_request *rq, const int fds[2], struct reader_answer *a)
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

static _Noreturn void work(int fd)
{
	static struct lookup *files[READER_FILES_MAX];
	static struct reader_answer a;
	struct reader_request rq;
	int fds[2];

	if (confine_is_full())
		confine_limit(RLIMIT_DATA, MEMORY_MAX);
	if (confine(calls, sizeof(calls) / sizeof(calls[0])))
		_exit(1);
	while (receive(fd, &rq, sizeof(rq), fds) >= 0) {
		/* as long as it is asked for in vain, a file that takes too long ends this process */
		confine_time(READER_MS_MAX);
		memset(&a, 0, sizeof(a));
		answer(files, &rq, fds, &a);
		confine_time(0);
		if (send(fd, &a, sizeof(a), MSG_NOSIGNAL) < 0)
			break;
	}
	_exit(0);
}

void reader_serve(int fd)
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
	while (receive(fd, &byte, sizeof(byte), fds) == 1) {
		if (child > 0) {
			kill(child, SIGKILL);
			waitpid(child, NULL, 0);
		}
		child = fork();
		if (!child) {
			close(fd);
			work(fds[0]);
		}
		close(fds[0]);
	}
	if (child > 0)
		kill(child, SIGKILL);
	_exit(0);
}
