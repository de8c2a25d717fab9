/* SPDX-License-Identifier: BSD-2-Clause */
/* An agent's connection to inftrace (agent/listener.h). Shared by the agents, each of which is a library in a traced process. */
#ifndef INFTRACE_AGENT_GUEST_CONNECTION_H
#define INFTRACE_AGENT_GUEST_CONNECTION_H

#include <stdbool.h>
#include <sys/types.h>

#include "gpu/hand_over.h"

/* The process may close any descriptor and reuse its number. */
struct connection {
	int fd;    /* -1: none */
	dev_t dev; /* identify the socket */
	ino_t ino;
};

/* Connects, says hello, and waits up to five seconds for what is handed over. Returns 0 or a negative errno. */
int connection_open(const char *name, const struct gpu_hello *hello, struct connection *ret_c, int *ret_fd);

/* Whether the descriptor is still the connection. */
bool connection_is_ours(const struct connection *c);

/* Whether inftrace still has its end open. */
bool connection_alive(const struct connection *c);

void connection_close(struct connection *c);

/* Makes the agent's thread, detached. Call it with all signals blocked: then the thread takes none of the process's, nor do threads that
 * a library makes for it. Returns 0 or a negative errno. */
int guest_thread_make(void *(*run)(void *));

#endif
