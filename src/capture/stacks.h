/* SPDX-License-Identifier: BSD-2-Clause */
/* The programs that take stacks. */
#ifndef INFTRACE_CAPTURE_STACKS_H
#define INFTRACE_CAPTURE_STACKS_H

struct inftrace_bpf;
struct session_config;

/* Before they are loaded, and after those of the scheduler have been configured: chooses the ones that are needed. */
void stacks_configure(struct inftrace_bpf *k, const struct session_config *c);

#endif
