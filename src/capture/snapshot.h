/* SPDX-License-Identifier: BSD-2-Clause */
/* The task iterators of bpf/snapshot.bpf.c. */
#ifndef INFTRACE_SNAPSHOT_H
#define INFTRACE_SNAPSHOT_H

#include "capture/ring.h"

struct bpf_program;

/* Runs one once over all tasks. -errno. */
int snapshot_run(struct bpf_program *prog);

/*
 * Hands over what every thread has in flight now, as records marked REC_F_OPEN_END. A thread that
 * was never seen at rest in a few tries is left out: what it has in flight changes too fast. -errno.
 */
int snapshot_peek(struct bpf_program *prog, record_cb cb, void *arg);

#endif
