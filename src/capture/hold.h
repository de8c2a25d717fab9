/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Targets wait in their dynamic loader until the probes of what they have mapped are in: a program
 * sits on _dl_debug_state() of each loader, and waits there until user space has said so, for
 * HOLD_NS at most (see bpf/hold.bpf.c).
 */
#ifndef INFTRACE_CAPTURE_HOLD_H
#define INFTRACE_CAPTURE_HOLD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct bpf_program;
struct hold;

struct hold_config {
	struct bpf_program *prog;
	bool multi;            /* it was loaded for uprobe_multi links */
	pid_t pid;             /* the only process that is held; 0: all targets */
	int holds_fd, done_fd; /* the maps holds and holds_done */
};

/* -ENOMEM. */
int hold_new(const struct hold_config *c, struct hold **ret_hold);

/* Detaches. h may be NULL, also below: nothing is held. */
void hold_free(struct hold *h);

/* Attaches to the loaders in the usual places, and to the one that this executable or script asks
 * for, if any. Returns to how many, or the first error if it is none. */
int hold_loaders(struct hold *h, const char *command);

/* The calling thread runs before others from here on, as somebody may wait for it; threads that it
 * makes do not. Without the privilege nothing changes. */
void hold_hurry(const struct hold *h);

/* Before a look at what the process has mapped, and when the probes of that are in. */
uint64_t hold_begin(struct hold *h, pid_t pid);
void hold_end(struct hold *h, pid_t pid, uint64_t mapped);

/* Whether a thread of it waits now. */
bool hold_waits(struct hold *h, pid_t pid);

/* Whether the process could not call what it had mapped at mapped_ns (CLOCK_BOOTTIME) before
 * hold_end(). */
bool hold_covers(struct hold *h, pid_t pid, uint64_t mapped, uint64_t mapped_ns);

void hold_forget(struct hold *h, pid_t pid);

#endif
