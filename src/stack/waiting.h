/* SPDX-License-Identifier: BSD-2-Clause */
/* Samples of threads that still wait: their stacks are read from the process, if they are still where they were. */
#ifndef INFTRACE_STACK_WAITING_H
#define INFTRACE_STACK_WAITING_H

#include <stddef.h>

#include "record.h"
#include "stack/stack.h"

/*
 * Completes a sample with SAMPLE_F_WAITS of size bytes into room for REC_SENT_MAX bytes. Returns the size, or 0: the sample
 * is malformed. If the thread has moved on, the sample has no part in user space.
 */
size_t waiting_complete(const struct stacks_config *c, const struct rec_sample *r, size_t size, struct rec_sample *room);

#endif
