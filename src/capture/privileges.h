/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef INFTRACE_PRIVILEGES_H
#define INFTRACE_PRIVILEGES_H

#include <stdbool.h>

/*
 * Gives up what a running recording does not need any more, for this thread and those that it makes:
 * capabilities (SECURITY.md lists them, with reasons), and the system calls to run programs, to change the user
 * and the like. Call it when the process of COMMAND has been forked and the targets are attached, before other
 * threads exist. single_links: files that are mapped later will get them, too, for each of which the kernel
 * wants CAP_SYS_ADMIN (6.16, and stable releases of 6.1 and others). nice: threads will change their class by
 * CAP_SYS_NICE. Negative errno.
 */
int privileges_drop(bool single_links, bool nice);

#endif
