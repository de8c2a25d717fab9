/* SPDX-License-Identifier: BSD-2-Clause */
/* Takes the messages of a worker that may be hostile, for a limited time. */
#ifndef INFTRACE_ANSWERS_H
#define INFTRACE_ANSWERS_H

#include <stddef.h>
#include <stdint.h>

struct inspect_answer;

struct answers {
	/* Returns 1 for the last message, 0, or an error, which ends it. */
	int (*take)(struct inspect_answer *a, size_t size, void *arg);
	void *arg;
	/* Called every few ms; a non-zero result ends it. May be NULL. */
	int (*wait)(void *arg);
	void *wait_arg;
};

/*
 * fd: of a SOCK_SEQPACKET, which may be shut down. What has come by end_ns (clock_mono_ns()) counts, however late this
 * process looks; nothing that is sent after that does. -ETIMEDOUT: the last message is missing; -EPROTO: the sender
 * has ended without it; or an error of the functions.
 */
int answers_read(int fd, uint64_t end_ns, const struct answers *as);

#endif
