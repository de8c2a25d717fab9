/* SPDX-License-Identifier: BSD-2-Clause */
/* What bpf/requests.bpf.c needs from user space. */
#ifndef INFTRACE_REQUESTS_H
#define INFTRACE_REQUESTS_H

#include "capture/ring.h"

/* For how many connections the map needs room on a machine with this many CPUs. */
uint32_t requests_connections(unsigned int cpus);

/* Which system calls move data through sockets, by number. */
void requests_calls(uint8_t ret_calls[512]);

/* Passes the requests in progress to the callback, once nothing adds to the map any more. -errno. */
int requests_left(int connections_fd, record_cb cb, void *arg);

#endif
