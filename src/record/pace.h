/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keeps the recording out of the way of what it records. The thread of the loop and those that write files yield to
 * all others (util/yield.h) while nothing is urgent, so on a CPU with something else to do they may not run for long.
 * A small thread, which goes before all others, wakes up when the loop has not come back for a while, and makes them
 * run like others when
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
	const struct pollfd *fds; /* that the loop waits for; read by pace_new() only */
	nfds_t n_fds;
	unsigned int (*fill)(void *arg); /* of the fullest ring, in percent; from another thread */
	void *arg;
};

struct pace;

/* In the thread of the loop. -errno: there is nobody to watch, and nothing yields. */
int pace_new(const struct pace_config *c, struct pace **ret_pace);

/* From here on nothing yields. */
void pace_free(struct pace *p);

/*
 * poll(2) of the loop on the same descriptors. calm: nothing that it knows of is urgent. due_ns: when it has something
 * to do by the clock (CLOCK_BOOTTIME); it is late then, and also some time after it should have come back. p may be NULL.
 */
int pace_poll(struct pace *p, struct pollfd *fds, nfds_t n_fds, int timeout_ms, bool calm, uint64_t due_ns);

#endif
