/* SPDX-License-Identifier: BSD-2-Clause */
/* What bpf/messages.bpf.c needs from user space. */
#ifndef INFTRACE_CAPTURE_MESSAGES_H
#define INFTRACE_CAPTURE_MESSAGES_H

struct inftrace_bpf;
struct session_config;

/* Before the programs are loaded. */
void messages_configure(struct inftrace_bpf *k, const struct session_config *c);

#endif
