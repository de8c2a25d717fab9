/* SPDX-License-Identifier: BSD-2-Clause */
/* record --hooks: barriers of the processes of -p are seen by hooks in them (hook_slot.h) instead of probes. */
#ifndef INFTRACE_RECORD_HOOKS_H
#define INFTRACE_RECORD_HOOKS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "record/capture.h"

struct hooks;

/*
 * Brings the agent into the processes, and has it place hooks. Call it before probes are attached; it waits for up to some seconds.
 * What cannot be done is said, and probes are used. Prints one line on failure; -EINVAL: inftrace's library is missing.
 */
int hooks_new(struct capture *c, const pid_t *pids, size_t n, struct hooks **ret_hooks);

/* Removes the hooks, or has the agents do so. NULL: nothing. */
void hooks_free(struct hooks *h);

/* To be called often, at least ten times a second. NULL: does nothing. */
void hooks_turn(struct hooks *h);

/* A step of a process: says once if its barriers are seen by nothing. */
void hooks_step(struct hooks *h, uint32_t tgid);

/* Prints what they saw. */
void hooks_summary(struct hooks *h);

#endif
