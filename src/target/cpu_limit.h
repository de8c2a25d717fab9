/* SPDX-License-Identifier: BSD-2-Clause */
/* How much CPU time the cgroups of a process allow it. */
#ifndef INFTRACE_TARGET_CPU_LIMIT_H
#define INFTRACE_TARGET_CPU_LIMIT_H

#include <stdint.h>

/*
 * In thousandths of a CPU: the smallest limit of its cgroup and of those above, in version 2 (cpu.max) or 1
 * (cpu.cfs_quota_us). 0: none, or unknown. cgroups: the text of /proc/PID/cgroup; root: where the hierarchies
 * are mounted (/sys/fs/cgroup).
 */
uint64_t cpu_limit_of(const char *cgroups, const char *root);

/* The same for a process on this machine. */
uint64_t cpu_limit_read(uint32_t tgid);

#endif
