/* SPDX-License-Identifier: BSD-2-Clause */
/* The task iterators of bpf/snapshot.bpf.c. */
#ifndef INFTRACE_SNAPSHOT_H
#define INFTRACE_SNAPSHOT_H

#include "capture/ring.h"

struct bpf_program;

/* Runs one once over all tasks. -errno. */
int snapshot_run(struct bpf_program *prog);

/*
 * Hands over what every thread has in flight now, as records marked REC_F_OPEN_END, and behind the records of each
 * thread the instant as of which they are. By then the records of what the thread has ended before are in their
 * rings. A thread that was never seen at rest in a few tries is left out. -errno.
 */
typedef void (*peek_cb)(uint32_t tid, uint64_t at_ns, void *arg);
int snapshot_peek(struct bpf_program *prog, record_cb cb, peek_cb thread_cb, void *arg);

#endif
