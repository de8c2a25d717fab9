/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that come and go, with a small stack that is unmapped at their end: the C library keeps those of its own, up to
 * 40 MB, as many as there ever were at the same time. They get no signals.
 */
#ifndef INFTRACE_UTIL_THREAD_H
#define INFTRACE_UTIL_THREAD_H

#include <pthread.h>
#include <stddef.h>

struct thread {
	pthread_t id;
	void *stack;
	size_t bytes; /* with its guard page */
};

/* stack_bytes: whole pages; the machine may need more (128 KB on arm64), which it gets then. name: as
 * pthread_setname_np() takes it. Negative errno; after 0 call one of the others. */
int thread_start(struct thread *t, const char *name, size_t stack_bytes, void *(*run)(void *arg), void *arg);

/* Waits for its end. */
void thread_join(struct thread *t);
/* Nobody will: its stack stays. */
void thread_detach(struct thread *t);

#endif
