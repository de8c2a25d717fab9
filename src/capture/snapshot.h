/* SPDX-License-Identifier: BSD-2-Clause */
/* The task iterators of bpf/snapshot.bpf.c. */
#ifndef INFTRACE_SNAPSHOT_H
#define INFTRACE_SNAPSHOT_H

#include "capture/ring.h"

struct bpf_program;

/* Runs an iterator once over all tasks. -errno. */
int snapshot_run(struct bpf_program *prog);

/* Sends the stacks of threads that still wait, as of that instant, if the program is loaded. until: of the program. */
int snapshot_waiting(struct bpf_program *prog, volatile uint64_t *until, uint64_t boot_ns);

/*
 * Passes on what every thread has in flight now, as records marked REC_F_OPEN_END, and after the records of each
 * thread the instant at which they were taken. By then the records of everything that the thread ended before are
 * in their rings. A thread that was not seen at rest in a few tries is left out. -errno.
 */
typedef void (*peek_cb)(uint32_t tid, uint64_t at_ns, void *arg);
int snapshot_peek(struct bpf_program *prog, record_cb cb, peek_cb thread_cb, void *arg);

#endif
