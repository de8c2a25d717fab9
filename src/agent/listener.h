/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where agents connect: libraries of inftrace in traced processes (gpu/agent/, hook/agent/). inftrace listens on an abstract
 * SOCK_SEQPACKET socket, whose name the agent is told. It says hello, which is a struct gpu_hello, and SO_PEERCRED says who it is.
 */
#ifndef INFTRACE_AGENT_LISTENER_H
#define INFTRACE_AGENT_LISTENER_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "gpu/hand_over.h"

#define AGENT_PENDING_MAX 16 /* silent connections of targets */
#define AGENT_ACCEPT_MAX 64  /* per turn, since anybody may connect */
#define AGENT_LISTEN_MAX 17  /* sockets, one per network namespace */

struct agent_listener {
	const char *option;                              /* without its dashes, for messages */
	struct gpu_hello hello;                          /* what an agent must say; .attached may be anything */
	bool (*is_target)(uint32_t tgid, void *arg);     /* others may not keep a silent connection */
	void *arg;
	char socket_name[GPU_SOCKET_NAME_MAX];
	int epoll;                    /* of all sockets, to be polled */
	int listen[AGENT_LISTEN_MAX]; /* in inftrace's network namespace, and in each of `namespaces` */
	unsigned int n_listen;
	uint64_t namespaces[AGENT_LISTEN_MAX];
	unsigned int n_namespaces;
	struct agent_pending { /* a connection that has not said anything yet */
		int fd;
		uint32_t pid;
		uid_t uid;
	} pending[AGENT_PENDING_MAX];
	unsigned int n_pending;
};

/* Finds an agent's file beside inftrace, or where it is installed. Prints one line on failure. */
int agent_find_file(const char *option, const char *file, char ret_path[PATH_MAX]);

/* Chooses a name for the socket. After that, agent_listener_close() may be called at any time. */
int agent_listener_init(struct agent_listener *l, const char *option, const struct gpu_hello *hello,
	bool (*is_target)(uint32_t tgid, void *arg), void *arg);

/* Prints one line on failure. */
int agent_listener_open(struct agent_listener *l);

/* Lets agents of that process connect. Needs CAP_SYS_ADMIN if it is in another network namespace. */
int agent_listener_add_namespace(struct agent_listener *l, pid_t pid);

/* The descriptor of the next agent that has said hello, for the caller to close; -EAGAIN: none. *left: how many more may be accepted
 * now. */
int agent_listener_next(struct agent_listener *l, unsigned int *left, uint32_t *ret_pid);

void agent_listener_close(struct agent_listener *l);

#endif
