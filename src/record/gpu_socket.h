/* SPDX-License-Identifier: BSD-2-Clause */
/* The socket on which agents connect (gpu/hand_over.h), and how the COMMAND learns of it. */
#ifndef INFTRACE_RECORD_GPU_SOCKET_H
#define INFTRACE_RECORD_GPU_SOCKET_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "gpu/hand_over.h"

#define GPU_PENDING_MAX 16 /* connections of targets that have not said anything */
#define GPU_ACCEPT_MAX 64  /* at a turn: anybody may connect */
#define GPU_LISTEN_MAX 17  /* network namespaces */

struct gpu_pending {
	int fd;
	uint32_t pid;
	uid_t uid;
};

struct gpu_socket {
	int epoll;
	bool (*is_target)(uint32_t pid, void *arg);
	void *is_target_arg;
	int listen[GPU_LISTEN_MAX]; /* in our network namespace, and in each of */
	unsigned int n_listen;
	uint64_t namespaces[GPU_LISTEN_MAX];
	unsigned int n_namespaces;
	struct gpu_pending pending[GPU_PENDING_MAX];
	unsigned int n_pending;
	char agent[PATH_MAX], socket_name[GPU_SOCKET_NAME_MAX];
	char injection[PATH_MAX + 32], name[GPU_SOCKET_NAME_MAX + 32], cupti[PATH_MAX + 32];
	char tools[2 * PATH_MAX + 32];
	const char *environment[5];
};
#define GPU_SOCKET_INIT ((struct gpu_socket){ .epoll = -1 })

/* cupti: NULL: it is not given. Prints one line on failure. */
int gpu_socket_open(struct gpu_socket *s, const char *cupti);
void gpu_socket_close(struct gpu_socket *s);

/* NAME=VALUE; ends with NULL. */
const char *const *gpu_socket_environment(const struct gpu_socket *s);

/* Agents of that process can connect, too, whose network namespace may be another one. Needs CAP_SYS_ADMIN for that. */
int gpu_socket_listen_for(struct gpu_socket *s, pid_t pid);

/* The next agent that has connected, and the process that it is in; its descriptor belongs to the caller. *left: how many more are
 * accepted at this turn. -EAGAIN: none. */
int gpu_socket_next(struct gpu_socket *s, unsigned int *left, uint32_t *ret_pid);

/* Hands over a ring, or says why there is none. */
int gpu_socket_welcome(int fd, int memfd);
void gpu_socket_refuse(int fd, int err);

#endif
