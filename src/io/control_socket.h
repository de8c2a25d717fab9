/* SPDX-License-Identifier: BSD-2-Clause */
/* The listening socket of a recording and the directory that it is in. See control.h. */
#ifndef INFTRACE_CONTROL_SOCKET_H
#define INFTRACE_CONTROL_SOCKET_H

#include "io/control.h"

struct control_socket {
	int fd; /* listening, non-blocking */
	int dir_fd;
	char name[32]; /* within the directory */
};

/*
 * Creates DIRECTORY with mode 0700, or checks that nobody else can write there; removes the sockets
 * of recorders that are gone; and listens on DIRECTORY/<our pid>.sock. -errno with a reason of one
 * line in msg.
 */
int control_socket_open(const char *directory, struct control_socket *ret, char msg[CONTROL_MSG_MAX]);

/* Removes the socket. */
void control_socket_close(struct control_socket *s);

#endif
