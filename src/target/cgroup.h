/* SPDX-License-Identifier: BSD-2-Clause */
/* Control groups of version 2: which processes are in one. */
#ifndef INFTRACE_TARGET_CGROUP_H
#define INFTRACE_TARGET_CGROUP_H

#include <limits.h>
#include <sys/types.h>

/*
 * The directory of a cgroup that is given as one, or by its name below the mount point of version 2, as in
 * /proc/PID/cgroup ("system.slice/llama.service"; a leading slash does not matter). -ENOENT: there is none;
 * -EMEDIUMTYPE: the directory is there and is none of version 2; -EOPNOTSUPP: its processes are counted elsewhere, since
 * it is threaded; other -errno.
 */
int cgroup_find(const char *given, char ret_directory[PATH_MAX]);

/* Calls cb for each process in the cgroup and in those below; the first non-zero return ends the walk and is returned.
 * -ENOENT: the cgroup is gone; other -errno. Processes of which this PID namespace has no number are left out. */
int cgroup_each_process(const char *directory, int (*cb)(pid_t pid, void *arg), void *arg);

#endif
