// SPDX-License-Identifier: BSD-2-Clause
#include "agent/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "util/log.h"

#define BACKLOG 64

#ifndef AGENT_DIR
#define AGENT_DIR "/usr/local/lib/inftrace"
#endif

int agent_find_file(const char *option, const char *file, char ret_path[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", ret_path, PATH_MAX - strlen(file) - 1);
	char *slash = n > 0 ? memrchr(ret_path, '/', (size_t)n) : NULL;

	if (slash)
		strcpy(slash + 1, file);
	if (slash && !access(ret_path, R_OK))
		return 0;
	snprintf(ret_path, PATH_MAX, AGENT_DIR "/%s", file);
	if (!access(ret_path, R_OK))
		return 0;
	return log_fail(-EINVAL, "%s: the library for the process, %s, is neither beside inftrace nor in " AGENT_DIR, option, file);
}

static int listener_watch_fd(const struct agent_listener *l, int fd)
{
	struct epoll_event e = { .events = EPOLLIN };

	return epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &e) ? -errno : 0;
}

/* The socket is abstract, per network namespace: it leaves no file to remove, or for another user to replace. */
static int listener_listen(struct agent_listener *l)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	size_t len = strlen(l->socket_name);
	int fd, err;

	if (l->n_listen == AGENT_LISTEN_MAX)
		return -ENOSPC;
	memcpy(addr.sun_path + 1, l->socket_name + 1, len - 1);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&addr, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) || listen(fd, BACKLOG))
		err = -errno;
	else
		err = listener_watch_fd(l, fd);
	if (err)
		close(fd);
	else
		l->listen[l->n_listen++] = fd;
	return err;
}

struct visit {
	struct agent_listener *l;
	int namespace;
	int err;
};

/* Runs in a thread of its own, which ends in the other namespace. */
static void *listen_in_namespace(void *arg)
{
	struct visit *v = arg;

	v->err = setns(v->namespace, CLONE_NEWNET) ? -errno : listener_listen(v->l);
	return NULL;
}

int agent_listener_add_namespace(struct agent_listener *l, pid_t pid)
{
	struct visit v = { .l = l };
	bool known = false;
	struct stat st, own;
	char path[64];
	pthread_t t;

	snprintf(path, sizeof(path), "/proc/%d/ns/net", pid);
	v.namespace = open(path, O_RDONLY | O_CLOEXEC);
	if (v.namespace < 0)
		return -errno;
	if (fstat(v.namespace, &st) || stat("/proc/self/ns/net", &own))
		v.err = -errno;
	else
		known = st.st_dev == own.st_dev && st.st_ino == own.st_ino;
	for (unsigned int i = 0; i < l->n_namespaces && !v.err; i++)
		known |= l->namespaces[i] == st.st_ino;
	if (!v.err && !known) {
		v.err = -pthread_create(&t, NULL, listen_in_namespace, &v);
		if (!v.err)
			pthread_join(t, NULL);
		if (!v.err)
			l->namespaces[l->n_namespaces++] = st.st_ino;
	}
	close(v.namespace);
	return v.err;
}

int agent_listener_init(struct agent_listener *l, const char *option, const struct gpu_hello *hello,
	bool (*is_target)(uint32_t tgid, void *arg), void *arg)
{
	uint64_t secret = 0;

	*l = (struct agent_listener){ .option = option, .hello = *hello, .is_target = is_target, .arg = arg, .epoll = -1 };
	if (getrandom(&secret, sizeof(secret), 0) != sizeof(secret))
		return -errno;
	snprintf(l->socket_name, sizeof(l->socket_name), "@inftrace-%s-%d-%016llx", option, getpid(), (unsigned long long)secret);
	return 0;
}

int agent_listener_open(struct agent_listener *l)
{
	int err;

	l->epoll = epoll_create1(EPOLL_CLOEXEC);
	err = l->epoll < 0 ? -errno : listener_listen(l);
	if (err)
		log_error("--%s: cannot make a socket: %s", l->option, strerror(-err));
	return err;
}

static void drop_pending(struct agent_listener *l, unsigned int i)
{
	memmove(l->pending + i, l->pending + i + 1, (--l->n_pending - i) * sizeof(*l->pending));
}

static int accept_one(const struct agent_listener *l, struct agent_pending *ret)
{
	struct ucred who;
	socklen_t len;
	int fd;

	for (unsigned int i = 0; i < l->n_listen; i++) {
		while ((fd = accept4(l->listen[i], NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
			len = sizeof(who);
			if (!getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) && who.pid > 0) {
				*ret = (struct agent_pending){ .fd = fd, .pid = (uint32_t)who.pid, .uid = who.uid };
				return 0;
			}
			close(fd);
		}
	}
	return -EAGAIN;
}

/* Returns the connection's descriptor once it has said hello. -EAGAIN: not yet; other -errno: it was closed. */
static int read_hello(const struct agent_listener *l, const struct agent_pending *p)
{
	struct gpu_hello h;
	ssize_t n = recv(p->fd, &h, sizeof(h), MSG_DONTWAIT | MSG_TRUNC);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return -EAGAIN;
	if (n == sizeof(h) && h.magic == l->hello.magic && h.version == l->hello.version &&
		h.record_size == l->hello.record_size)
		return p->fd;
	log_debug("--%s: process %u said something else than an agent does", l->option, p->pid);
	close(p->fd);
	return -EPROTO;
}

static unsigned int count_pending(const struct agent_listener *l, uid_t uid)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < l->n_pending; i++)
		n += l->pending[i].uid == uid;
	return n;
}

/* If there are too many, drops the oldest of the user who has the most. */
static void keep_pending(struct agent_listener *l, const struct agent_pending *p)
{
	unsigned int worst = 0;

	if (!l->is_target(p->pid, l->arg) || listener_watch_fd(l, p->fd)) {
		close(p->fd);
		return;
	}
	if (l->n_pending == AGENT_PENDING_MAX) {
		for (unsigned int i = 1; i < l->n_pending; i++)
			worst = count_pending(l, l->pending[i].uid) > count_pending(l, l->pending[worst].uid) ? i : worst;
		close(l->pending[worst].fd);
		drop_pending(l, worst);
	}
	l->pending[l->n_pending++] = *p;
}

int agent_listener_next(struct agent_listener *l, unsigned int *left, uint32_t *ret_pid)
{
	struct agent_pending p;
	int fd;

	for (unsigned int i = 0; i < l->n_pending; i++) {
		p = l->pending[i];
		fd = read_hello(l, &p);
		if (fd != -EAGAIN)
			drop_pending(l, i--);
		*ret_pid = p.pid;
		if (fd >= 0)
			return fd;
	}
	while (*left && !accept_one(l, &p)) {
		--*left;
		fd = read_hello(l, &p);
		*ret_pid = p.pid;
		if (fd >= 0)
			return fd;
		if (fd == -EAGAIN)
			keep_pending(l, &p);
	}
	return -EAGAIN;
}

void agent_listener_close(struct agent_listener *l)
{
	while (l->n_pending)
		close(l->pending[--l->n_pending].fd);
	while (l->n_listen)
		close(l->listen[--l->n_listen]);
	if (l->epoll >= 0)
		close(l->epoll);
	l->epoll = -1;
}
