/* SPDX-License-Identifier: BSD-2-Clause */
/* The resident set of a process in bytes, from /proc. */
#ifndef INFTRACE_RSS_H
#define INFTRACE_RSS_H

#include <stdint.h>
#include <sys/types.h>

/* The current size. -ESRCH when the process has exited (or is a zombie). */
int rss_read(pid_t tgid, uint64_t *ret_bytes);

/* The highest since the last exec of the process (VmHWM). */
int rss_peak_read(pid_t tgid, uint64_t *ret_bytes);

#endif
