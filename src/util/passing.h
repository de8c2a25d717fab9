/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages with descriptors over UNIX sockets. */
#ifndef INFTRACE_UTIL_PASSING_H
#define INFTRACE_UTIL_PASSING_H

#include <stddef.h>
#include <sys/types.h>

#define PASSED_MAX 2

/* Sends one message with n descriptors, PASSED_MAX at most, which stay open. flags are added to MSG_NOSIGNAL. Returns 0 or -errno. */
int passing_send(int to, const void *data, size_t size, const int *fds, size_t n, int flags);

/* Receives one message with n descriptors at most, which the caller closes; missing ones are -1. The kernel closes any more and sets
 * MSG_CTRUNC in *ret_flags (NULL: not wanted). Returns the message's length, 0 at the end, or -errno. */
ssize_t passing_receive(int from, void *data, size_t size, int *ret_fds, size_t n, int flags, int *ret_flags);

#endif
