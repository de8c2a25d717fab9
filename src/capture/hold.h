/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes targets wait in their dynamic loader until the files that they have mapped are probed: a BPF program on
 * _dl_debug_state() of each loader waits until user space says so, for at most cfg.hold ms (see bpf/hold.bpf.c).
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
	bool multi;            /* the program was loaded for uprobe_multi links */
	pid_t pid;             /* the only process that is held; 0: all targets */
	int holds_fd, done_fd; /* the maps holds and holds_done */
};

struct hold *hold_new(const struct hold_config *c);

/* Detaches. h may be NULL here and below: then nothing is held. */
void hold_free(struct hold *h);

/* Attaches to the loaders in the usual places, and to the loader of `command`, an executable or script; NULL: none. Returns
 * how many it attached to, or the first error. */
int hold_loaders(struct hold *h, const char *command);

/* Raises the priority of the calling thread, for which held threads may be waiting, but not of threads that it creates.
 * Does nothing without the privilege. */
void hold_hurry(const struct hold *h);

/* Call hold_begin() before scanning the mappings of the process, and hold_end() with its result once their probes are in. */
uint64_t hold_begin(struct hold *h, pid_t tgid);
void hold_end(struct hold *h, pid_t tgid, uint64_t mapped);

/* Whether a thread of the process is waiting now. */
bool hold_waits(struct hold *h, pid_t tgid);

/* Whether the process could not have called anything that it mapped at mapped_ns (CLOCK_BOOTTIME)
 * before hold_end(). */
bool hold_covers(struct hold *h, pid_t tgid, uint64_t mapped, uint64_t mapped_ns);

void hold_forget(struct hold *h, pid_t tgid);

#endif
