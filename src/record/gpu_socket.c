// SPDX-License-Identifier: BSD-2-Clause
#include "record/gpu_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "util/log.h"

#define AGENT_FILE "inftrace-gpu.so"
#define INJECTION "CUDA_INJECTION64_PATH" /* of the CUDA driver's: one library */
#define TOOLS "ROCP_TOOL_LIBRARIES"       /* of rocprofiler-sdk's: a list, which has colons */
#define BACKLOG 64

#ifndef AGENT_DIR
#define AGENT_DIR "/usr/local/lib/inftrace"
#endif

/* ---- what the COMMAND needs ---- */

/* Beside inftrace, or where it is installed. */
static int find_agent(char path[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - sizeof(AGENT_FILE) - 1);
	char *slash;

	if (n > 0) {
		path[n] = 0;
		slash = strrchr(path, '/');
		if (slash) {
			strcpy(slash + 1, AGENT_FILE);
			if (!access(path, R_OK))
				return 0;
		}
	}
	strcpy(path, AGENT_DIR "/" AGENT_FILE);
	if (!access(path, R_OK))
		return 0;
	log_error("--gpu: the library for the process, " AGENT_FILE ", is neither beside inftrace nor in " AGENT_DIR);
	return -EINVAL;
}

static int set_environment(struct gpu_socket *s, const char *cupti)
{
	const char *other = getenv(INJECTION), *tools = getenv(TOOLS);
	int err = find_agent(s->agent), n = 0;
	char *real = NULL;

	if (err)
		return err;
	if (other && *other) {
		log_error("--gpu: " INJECTION " is set to '%.200s': only one tool can be loaded with CUDA; unset it", other);
		return -EINVAL;
	}
	if (cupti && (access(cupti, R_OK) || !(real = realpath(cupti, NULL)))) {
		log_error("--cupti %s: %s", cupti, strerror(errno));
		return -EINVAL;
	}
	snprintf(s->injection, sizeof(s->injection), INJECTION "=%s", s->agent);
	snprintf(s->name, sizeof(s->name), GPU_ENV_SOCKET "=%s", s->socket_name);
	s->environment[n++] = s->injection;
	tools = tools ? tools : "";
	if (snprintf(s->tools, sizeof(s->tools), TOOLS "=%s%s%s", s->agent, *tools ? ":" : "", tools) < (int)sizeof(s->tools))
		s->environment[n++] = s->tools;
	else
		log_warn("--gpu: " TOOLS " is too long, so what AMD's GPUs do is not recorded");
	s->environment[n++] = s->name;
	if (real) {
		snprintf(s->cupti, sizeof(s->cupti), GPU_ENV_CUPTI "=%s", real);
		s->environment[n++] = s->cupti;
	}
	free(real);
	return 0;
}

const char *const *gpu_socket_environment(const struct gpu_socket *s)
{
	return s->environment;
}

/* ---- the socket ---- */

static int watch(const struct gpu_socket *s, int fd)
{
	struct epoll_event e = { .events = EPOLLIN };

	return epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &e) ? -errno : 0;
}

/* Abstract: there is no file that has to be removed, or that another user could replace. A name is one of a network namespace. */
static int listen_at_name(struct gpu_socket *s)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	size_t len = strlen(s->socket_name);
	int fd, err;

	if (s->n_listen == GPU_LISTEN_MAX)
		return -ENOSPC;
	memcpy(addr.sun_path + 1, s->socket_name + 1, len - 1);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&addr, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) || listen(fd, BACKLOG))
		err = -errno;
	else
		err = watch(s, fd);
	if (err)
		close(fd);
	else
		s->listen[s->n_listen++] = fd;
	return err;
}

struct visit {
	struct gpu_socket *s;
	int namespace;
	int err;
};

/* A thread of its own, which ends there. */
static void *listen_there(void *arg)
{
	struct visit *v = arg;

	v->err = setns(v->namespace, CLONE_NEWNET) ? -errno : listen_at_name(v->s);
	return NULL;
}

int gpu_socket_listen_for(struct gpu_socket *s, pid_t pid)
{
	struct visit v = { .s = s };
	struct stat st, own;
	char path[64];
	pthread_t t;

	snprintf(path, sizeof(path), "/proc/%d/ns/net", pid);
	v.namespace = open(path, O_RDONLY | O_CLOEXEC);
	if (v.namespace < 0)
		return -errno;
	if (fstat(v.namespace, &st) || stat("/proc/self/ns/net", &own)) {
		v.err = -errno;
	} else if (st.st_dev != own.st_dev || st.st_ino != own.st_ino) {
		for (unsigned int i = 0; i < s->n_namespaces; i++) {
			if (s->namespaces[i] == st.st_ino) {
				close(v.namespace);
				return 0;
			}
		}
		v.err = -pthread_create(&t, NULL, listen_there, &v);
		if (!v.err)
			pthread_join(t, NULL);
		if (!v.err)
			s->namespaces[s->n_namespaces++] = st.st_ino;
	}
	close(v.namespace);
	return v.err;
}

int gpu_socket_open(struct gpu_socket *s, const char *cupti)
{
	uint64_t secret = 0;
	int err;

	if (getrandom(&secret, sizeof(secret), 0) != sizeof(secret))
		return -errno;
	snprintf(s->socket_name, sizeof(s->socket_name), "@inftrace-gpu-%d-%016llx", getpid(), (unsigned long long)secret);
	err = set_environment(s, cupti);
	if (err)
		return err;
	s->epoll = epoll_create1(EPOLL_CLOEXEC);
	err = s->epoll < 0 ? -errno : listen_at_name(s);
	if (err)
		log_error("--gpu: cannot make a socket: %s", strerror(-err));
	return err;
}

void gpu_socket_close(struct gpu_socket *s)
{
	while (s->n_pending)
		close(s->pending[--s->n_pending].fd);
	while (s->n_listen)
		close(s->listen[--s->n_listen]);
	if (s->epoll >= 0)
		close(s->epoll);
	s->epoll = -1;
}

static void drop_pending(struct gpu_socket *s, unsigned int i)
{
	memmove(s->pending + i, s->pending + i + 1, (--s->n_pending - i) * sizeof(*s->pending));
}

static bool is_hello(const struct gpu_hello *h, ssize_t n)
{
	return n == sizeof(*h) && h->magic == GPU_HAND_OVER_MAGIC && h->version == GPU_HAND_OVER_VERSION &&
	       h->record_size == sizeof(struct gpu_record);
}

static int accept_one(const struct gpu_socket *s, struct gpu_pending *ret)
{
	struct ucred who;
	socklen_t len;
	int fd;

	for (unsigned int i = 0; i < s->n_listen; i++) {
		while ((fd = accept4(s->listen[i], NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
			len = sizeof(who);
			if (!getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) && who.pid > 0) {
				*ret = (struct gpu_pending){ .fd = fd, .pid = (uint32_t)who.pid, .uid = who.uid };
				return 0;
			}
			close(fd);
		}
	}
	return -EAGAIN;
}

/* Returns its descriptor if it has said hello. -EAGAIN: it has not yet; other -errno: it is closed. */
static int read_hello(const struct gpu_pending *p)
{
	struct gpu_hello h;
	ssize_t n = recv(p->fd, &h, sizeof(h), MSG_DONTWAIT | MSG_TRUNC);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return -EAGAIN;
	if (is_hello(&h, n))
		return p->fd;
	log_debug("--gpu: process %u said something else than an agent does", p->pid);
	close(p->fd);
	return -EPROTO;
}

static unsigned int count_of(const struct gpu_socket *s, uid_t uid)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < s->n_pending; i++)
		n += s->pending[i].uid == uid;
	return n;
}

/* Where there are too many, the oldest of the user who has most has to go. */
static void keep_pending(struct gpu_socket *s, const struct gpu_pending *p)
{
	unsigned int worst = 0;

	if (!s->is_target(p->pid, s->is_target_arg) || watch(s, p->fd)) {
		close(p->fd);
		return;
	}
	if (s->n_pending == GPU_PENDING_MAX) {
		for (unsigned int i = 1; i < s->n_pending; i++)
			worst = count_of(s, s->pending[i].uid) > count_of(s, s->pending[worst].uid) ? i : worst;
		close(s->pending[worst].fd);
		drop_pending(s, worst);
	}
	s->pending[s->n_pending++] = *p;
}

int gpu_socket_next(struct gpu_socket *s, unsigned int *left, uint32_t *ret_pid)
{
	struct gpu_pending p;
	int fd;

	for (unsigned int i = 0; i < s->n_pending; i++) {
		p = s->pending[i];
		fd = read_hello(&p);
		if (fd != -EAGAIN)
			drop_pending(s, i--);
		*ret_pid = p.pid;
		if (fd >= 0)
			return fd;
	}
	while (*left && !accept_one(s, &p)) {
		--*left;
		fd = read_hello(&p);
		*ret_pid = p.pid;
		if (fd >= 0)
			return fd;
		if (fd == -EAGAIN)
			keep_pending(s, &p);
	}
	return -EAGAIN;
}

int gpu_socket_welcome(int fd, int memfd)
{
	struct gpu_welcome w = { .magic = GPU_HAND_OVER_MAGIC, .version = GPU_HAND_OVER_VERSION };
	struct iovec iov = { .iov_base = &w, .iov_len = sizeof(w) };
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { .bytes = { 0 } };
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &memfd, sizeof(memfd));
	return sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(w) ? 0 : -errno;
}

void gpu_socket_refuse(int fd, int err)
{
	struct gpu_welcome w = { .magic = GPU_HAND_OVER_MAGIC, .version = GPU_HAND_OVER_VERSION, .error = err };

	if (send(fd, &w, sizeof(w), MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof(w))
		log_debug("--gpu: an agent was gone before it could be refused: %s", strerror(errno));
}
