/* SPDX-License-Identifier: BSD-2-Clause */
/* Which container and pod a process is in, as far as its cgroup tells. The names of containers are known to their runtime only. */
#ifndef INFTRACE_TARGET_CONTAINER_H
#define INFTRACE_TARGET_CONTAINER_H

#include <stdbool.h>
#include <sys/types.h>

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
