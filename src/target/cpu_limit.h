/* SPDX-License-Identifier: BSD-2-Clause */
/* How much of the CPUs the cgroups of a process allow it. */
#ifndef INFTRACE_TARGET_CPU_LIMIT_H
#define INFTRACE_TARGET_CPU_LIMIT_H

#include <stdint.h>

/*
 * In thousandths of a CPU: the smallest limit of its cgroup and of those above, of version 2 (cpu.max) or 1
 * (cpu.cfs_quota_us). 0: none, or not known. cgroups: the text of /proc/PID/cgroup; root: where the hierarchies
 * are mounted (/sys/fs/cgroup).
 */
uint64_t cpu_limit_of(const char *cgroups, const char *root);

/* The same of a process that runs on this machine. */
uint64_t cpu_limit_read(uint32_t tgid);

#endif
