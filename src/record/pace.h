/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keeps the recording out of the way of what it records. The thread of the loop and those that write files yield to
 * all others (util/yield.h) while nothing is urgent, so on a CPU with something else to do they may not run for long.
 * A small thread, which goes before all others, wakes up when the loop has not come back for a while, and makes them
 * run normally when
 *
 *   - a ring is more than half full,
 *   - something has happened that the loop waits for: a signal, a new process, input,
 *   - the loop is late.
 *
 * They yield again when the rings are empty and the files' writers have caught up.
 */
#ifndef INFTRACE_RECORD_PACE_H
#define INFTRACE_RECORD_PACE_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

struct pace_config {
	const struct pollfd *fds; /* what the loop waits for; only pace_new() reads it */
	nfds_t n_fds;
	unsigned int (*fill)(void *arg); /* fill level of the fullest ring in percent; called from another thread */
	void *arg;
};

struct pace;

/* Call in the thread of the loop. -errno: no thread can watch, and nothing yields. */
int pace_new(const struct pace_config *c, struct pace **ret_pace);

/* From now on nothing yields. */
void pace_free(struct pace *p);

/*
 * Like poll(2) on the same descriptors. calm: the loop knows of nothing urgent. due_ns: when it next has something to
 * do (CLOCK_BOOTTIME); it is late after that, and some time after it should have come back. p may be NULL.
 */
int pace_poll(struct pace *p, struct pollfd *fds, nfds_t n_fds, int timeout_ms, bool calm, uint64_t due_ns);

#endif
