/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef INFTRACE_PRIVILEGES_H
#define INFTRACE_PRIVILEGES_H

#include <stdbool.h>

/*
 * Gives up what a recording that has begun does not need any more, for this thread and those that it
 * makes: capabilities (docs and reasons are in SECURITY.md), and with them the system calls to run
 * programs, to become somebody else and the like. To be called when COMMAND's process was forked and the
 * targets are attached, before there are other threads. single_links: of files that are mapped from here
 * on, too; the kernel wants CAP_SYS_ADMIN for each (6.16, and stable releases of 6.1 and others). nice: threads
 * will change their class by CAP_SYS_NICE. Negative errno.
 */
int privileges_drop(bool single_links, bool nice);

#endif
