/* SPDX-License-Identifier: BSD-2-Clause */
/* Control groups: which processes are in one, what limits a process has there, and which container it is. */
#ifndef INFTRACE_TARGET_CGROUP_H
#define INFTRACE_TARGET_CGROUP_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Control groups of version 2: which processes are in one. */

/*
 * The directory of a cgroup that is given as one, or by its name below the mount point of version 2, as in
 * /proc/PID/cgroup ("system.slice/llama.service"; a leading slash does not matter). -ENOENT: there is none;
 * -EMEDIUMTYPE: the directory is there and is none of version 2; -EOPNOTSUPP: its processes are counted elsewhere, since
 * it is threaded; other -errno.
 */
int cgroup_find(const char *given, char ret_directory[PATH_MAX]);

#define CGROUP_OWNER_MAX 128

/* The first two levels of the cgroup of a process, "system.slice/llama.service": further ones may be made by its own processes. "": unknown */
void cgroup_owner(pid_t pid, char ret_name[CGROUP_OWNER_MAX]);

/* Calls cb for each process in the cgroup and in those below; the first non-zero return ends the walk and is returned.
 * -ENOENT: the cgroup is gone; other -errno. Processes of which this PID namespace has no number are left out. */
int cgroup_each_process(const char *directory, int (*cb)(pid_t pid, void *arg), void *arg);

/*
 * In thousandths of a CPU: the smallest limit of its cgroup and of those above, in version 2 (cpu.max) or 1
 * (cpu.cfs_quota_us). 0: none, or unknown. cgroups: the text of /proc/PID/cgroup; root: where the hierarchies
 * are mounted (/sys/fs/cgroup).
 */
uint64_t cpu_limit_of(const char *cgroups, const char *root);

/* The same for a process on this machine. */
uint64_t cpu_limit_read(uint32_t tgid);

/* Which container and pod a process is in, as far as its cgroup tells. The names of containers are known to their runtime only. */

#define CONTAINER_ID_MAX 65
#define CONTAINER_POD_MAX 37
#define CONTAINER_HOST_MAX 64
#define CONTAINER_TEXT_MAX 192

struct container {
	char id[CONTAINER_ID_MAX]; /* 64 hexadecimal digits; "": unknown */
	char pod[CONTAINER_POD_MAX]; /* the UID of the Kubernetes pod; "": none */
	char host[CONTAINER_HOST_MAX]; /* HOSTNAME in the process's environment, which it chose itself; "": none that is a host name */
};

/* cgroups: the text of /proc/PID/cgroup, for a recorder in the cgroup namespace of the host or in another. false: in none. */
bool container_of_cgroups(const char *cgroups, struct container *ret);

/* Whether the text is a host name: letters, digits, '-' and '.', at most 63. */
bool container_host_ok(const char *text);

/* The same for a process. false: in none, or it is gone. */
bool container_read(pid_t pid, struct container *ret);

/* "container 0123456789ab, pod UID, host NAME". Returns buf. */
const char *container_text(const struct container *c, char buf[CONTAINER_TEXT_MAX]);

#endif
