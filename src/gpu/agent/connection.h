/* SPDX-License-Identifier: BSD-2-Clause */
/* The agent's connection to inftrace. The process may close any descriptor, and use its number for something else. */
#ifndef INFTRACE_GPU_AGENT_CONNECTION_H
#define INFTRACE_GPU_AGENT_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct connection {
	int fd;		/* -1: none */
	dev_t dev;	/* which file it was */
	ino_t ino;
};



/* Says hello, and waits for the ring for a few seconds at most. 0 or a negative errno. */
int connection_open(const char *name, bool attached, struct connection *ret_c, int *ret_ring_fd);

/* Whether inftrace still has its end of it. */
bool connection_alive(const struct connection *c);

void connection_close(struct connection *c);

#endif
