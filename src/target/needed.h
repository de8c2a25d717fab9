/* SPDX-License-Identifier: BSD-2-Clause */
/* The libraries that a program is linked with, as its files say: known before its loader begins, and after it is gone. */
#ifndef INFTRACE_TARGET_NEEDED_H
#define INFTRACE_TARGET_NEEDED_H

#include <sys/types.h>

/*
 * Calls cb with each library that the program needs, directly or not, by the name that the linker recorded; fd -1: it
 * was not found. It is searched where glibc's loader would, without hardware capabilities, in the root of the process. exe: path
 * of the program, for $ORIGIN; exe_fd: open on it; library_path: its LD_LIBRARY_PATH, or NULL. The first non-zero return ends the
 * walk and is returned. The files may be hostile: the work is bounded.
 */
typedef int (*needed_cb)(const char *name, int fd, void *arg);
int needed_each(pid_t pid, const char *exe, int exe_fd, const char *library_path, needed_cb cb, void *arg);

#endif
