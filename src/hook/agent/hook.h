/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files of the agent for hooks: the hooks, and the slots into which they write. */
#ifndef INFTRACE_HOOK_AGENT_HOOK_H
#define INFTRACE_HOOK_AGENT_HOOK_H

#include <stdint.h>

#include "hook/hand_over.h"

/* The hook for a function, from 0 on, which is that of the order; -ENOSPC: there are too many. It is never removed, since a thread may be
 * within it. */
int hook_of(void *original, const struct hook_order *o, uint32_t function);

/* The hook whose address this is; -1: none. */
int hook_in(const void *value);

void *hook_address(int hook);
void *hook_original(int hook);

/* What a hook takes, in ns. */
uint32_t hook_measure(void);

/* Once, before slots_map(). Returns 0 or a negative errno. */
int slots_init(void);

/* Makes threads use the array of BPF with this descriptor; -1: memory that nobody reads, in which hooks only pass calls on. Threads may be
 * using the slots at any time. Returns 0 or a negative errno. */
int slots_map(int fd);

/* From now on hooks only pass calls on. */
void slots_turn_off(void);

/* Has threads that come by write each call into the rings behind this descriptor; -1: into none. Before hooks are placed, or after they
 * have been removed: some threads may still be within them. Returns 0 or a negative errno. */
int rings_map(int fd);

#endif
