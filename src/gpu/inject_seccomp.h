/* SPDX-License-Identifier: BSD-2-Clause */
/* What the seccomp filters of a thread would say to the system calls of an injection. */
#ifndef INFTRACE_GPU_INJECT_SECCOMP_H
#define INFTRACE_GPU_INJECT_SECCOMP_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Asks the filters of a thread that is stopped by ptrace(2), without making any call in it. 0: none would end it, and what is
 * needed is allowed; else a line in ret_why. in_memory: the library comes in a memfd. same_filters: where they may not be read, they
 * are taken for those of this process.
 */
int inject_seccomp_check(pid_t tid, bool in_memory, bool same_filters, char *ret_why, size_t size);

/* What a filter says: SECCOMP_RET_*. One that is malformed would end the thread. */
uint32_t inject_seccomp_run(const struct sock_filter *filter, size_t n, const struct seccomp_data *data);

#endif
