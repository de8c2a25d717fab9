/* SPDX-License-Identifier: BSD-2-Clause */
/* The resident set of a process, as /proc has it: in bytes. */
#ifndef INFTRACE_RSS_H
#define INFTRACE_RSS_H

#include <stdint.h>
#include <sys/types.h>

/* Now. -ESRCH when the process has exited (of a zombie too). */
int rss_read(pid_t tgid, uint64_t *ret_bytes);

/* The highest since the process's last exec (VmHWM). */
int rss_peak_read(pid_t tgid, uint64_t *ret_bytes);

#endif
