/* SPDX-License-Identifier: BSD-2-Clause */
/* record --hooks: barriers are seen by hooks in them (hook_slot.h) instead of probes. */
#ifndef INFTRACE_RECORD_HOOKS_H
#define INFTRACE_RECORD_HOOKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "record/capture.h"

struct hooks;
struct window_totals;

/* Prepares what a COMMAND needs. is_target: whether a process is recorded, even one born just now. take: gets a REC_FUNCTION of each call;
 * NULL: they are not wanted. Prints one line on failure; -EINVAL: inftrace's library is missing. */
int hooks_new(struct capture *c, bool (*is_target)(uint32_t tgid, void *arg), void (*take)(const struct rec_hdr *h, size_t size, void *arg),
	void *arg, struct hooks **ret_hooks);

/* NAME=VALUE for the environment of the COMMAND; ends with NULL. */
const char *const *hooks_environment(const struct hooks *h);

/*
 * Brings the agent into running processes, and has it place hooks. Call it once the session is open, and before probes are attached; it
 * waits for up to some seconds, in which it calls keep_up(), which ends that if it returns an error. What cannot be done is said, and
 * all processes have probes. Prints one line on failure.
 */
int hooks_attach(struct hooks *h, const pid_t *pids, size_t n, int (*keep_up)(void *arg), void *arg);

/* Removes the hooks, or has the agents do so. NULL: nothing. */
void hooks_free(struct hooks *h);

/* Takes agents that have connected. To be called often: their clock is exact to some us if that is twice a second. NULL: does nothing. */
void hooks_turn(struct hooks *h);

/* From now on calls are taken that begin in this window; NULL: none. */
void hooks_window(struct hooks *h, const struct window_totals *window);

/* Passes on the calls that were over by now; over: at the window's end, whose close_ns is known, also those in flight. What was overwritten
 * meanwhile is counted as lost. */
void hooks_drain(struct hooks *h, bool over);

/* A thread's time off the CPU whose end no program has seen: when the thread's hooks saw that it ran; 0: not before the record says. */
uint64_t hooks_ran_ns(const struct hooks *h, const struct rec_off_cpu *r);

/* Calls that were overwritten before they were read. */
uint64_t hooks_lost(const struct hooks *h);

/* A step of a process: says once if its barriers are seen by nothing. */
void hooks_step(struct hooks *h, uint32_t tgid);

/* Prints what they saw, and removes them. NULL: nothing. */
void hooks_summary(struct hooks *h);

#endif
