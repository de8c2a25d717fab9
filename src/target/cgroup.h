/* SPDX-License-Identifier: BSD-2-Clause */
/* Control groups: the processes in one, and the CPU limit and the container of a process. */
#ifndef INFTRACE_TARGET_CGROUP_H
#define INFTRACE_TARGET_CGROUP_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Control groups of version 2: which processes are in one. */

/*
 * Finds the directory of a cgroup, given as a directory or by its name below the mount point of version 2, as in
 * /proc/PID/cgroup ("system.slice/llama.service"; a leading slash does not matter). -ENOENT: there is none;
 * -EMEDIUMTYPE: the directory exists, but is not of version 2; -EOPNOTSUPP: the cgroup is threaded, so its processes are
 * listed elsewhere; other -errno.
 */
int cgroup_find(const char *given, char ret_directory[PATH_MAX]);

#define CGROUP_OWNER_MAX 128

/* The first two levels of a process's cgroup, "system.slice/llama.service": its own processes may make more. "": unknown */
void cgroup_owner(pid_t pid, char ret_name[CGROUP_OWNER_MAX]);

/* Calls cb for each process in the cgroup and in those below; the first non-zero return ends the walk and is returned.
 * -ENOENT: the cgroup is gone; other -errno. Processes without a number in this PID namespace are left out. */
int cgroup_each_process(const char *directory, int (*cb)(pid_t pid, void *arg), void *arg);

/*
 * Returns the smallest limit, in thousandths of a CPU, of the cgroup and those above it, in version 2 (cpu.max) or 1
 * (cpu.cfs_quota_us). 0: none, or unknown. cgroups: the text of /proc/PID/cgroup; root: where the hierarchies
 * are mounted (/sys/fs/cgroup).
 */
uint64_t cpu_limit_of(const char *cgroups, const char *root);

/* The same for a process on this machine. */
uint64_t cpu_limit_read(uint32_t tgid);

/* The container and pod of a process, as far as its cgroup tells. Only the runtime knows the names of containers. */

#define CONTAINER_ID_MAX 65
#define CONTAINER_POD_MAX 37
#define CONTAINER_HOST_MAX 64
#define CONTAINER_TEXT_MAX 192

struct container {
	char id[CONTAINER_ID_MAX]; /* 64 hexadecimal digits; "": unknown */
	char pod[CONTAINER_POD_MAX]; /* the UID of the Kubernetes pod; "": none */
	char host[CONTAINER_HOST_MAX]; /* HOSTNAME in the process's environment, so its own choice; "": no host name */
};

/* cgroups: the text of /proc/PID/cgroup, for a recorder in the cgroup namespace of the host or in another. false: in none. */
bool container_of_cgroups(const char *cgroups, struct container *ret);

/* Whether the text is a host name: letters, digits, '-' and '.', at most 63. */
bool container_host_ok(const char *text);

/* container_of_cgroups() for a process, with its `host`. false: in none, or it is gone. */
bool container_read(pid_t pid, struct container *ret);

/* "container 0123456789ab, pod UID, host NAME". Returns buf. */
const char *container_text(const struct container *c, char buf[CONTAINER_TEXT_MAX]);

#endif
