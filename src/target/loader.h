/* SPDX-License-Identifier: BSD-2-Clause */
/* Dynamic loaders, which map the libraries of a program. */
#ifndef INFTRACE_TARGET_LOADER_H
#define INFTRACE_TARGET_LOADER_H

#define LOADER_PATH_MAX 256

/* The loader that an executable asks for (PT_INTERP). -ENOENT: none; -ENOEXEC: not a 64-bit executable;
 * else an error of open(2). */
int loader_of(const char *path, char ret_loader[LOADER_PATH_MAX]);

#endif
