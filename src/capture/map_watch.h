/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which processes map executable files, of all that run: the kernel's own events (PERF_RECORD_MMAP of
 * perf_event_open(2)), one small ring for each CPU. An event costs the process about a microsecond for each
 * file that it maps; what it does otherwise costs it nothing. No BPF program is involved.
 */
#ifndef INFTRACE_CAPTURE_MAP_WATCH_H
#define INFTRACE_CAPTURE_MAP_WATCH_H

#include <stdint.h>
#include <sys/types.h>

struct map_watch;

/* pid: as this process's PID namespace numbers it. path: as the process sees it, hostile, valid during the call. */
typedef void (*map_watch_cb)(pid_t pid, const char *path, void *arg);

/* -EACCES or -EPERM: it takes CAP_PERFMON; other -errno. */
int map_watch_new(struct map_watch **ret_watch);
void map_watch_free(struct map_watch *w);

/* Passes on what has happened since the last call. Call often: a ring holds some hundred events. */
void map_watch_drain(struct map_watch *w, map_watch_cb cb, void *arg);

/* Events that did not fit so far. */
uint64_t map_watch_lost(const struct map_watch *w);

#endif
