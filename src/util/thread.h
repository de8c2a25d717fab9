/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that come and go, with a small stack that is unmapped at their end: the C library keeps those of its own, up to
 * 40 MB, as many as there ever were at the same time. They get no signals.
 */
#ifndef INFTRACE_UTIL_THREAD_H
#define INFTRACE_UTIL_THREAD_H

#include <pthread.h>
#include <stdbool.h>
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

/* Blocks the signals that end a program. Returns a descriptor that can be read when one has come; negative errno with a line printed. */
int thread_stop_signals(void);

/*
 * Threads of our own that yield to all others: they run where a CPU has nothing else to do (SCHED_IDLE), until
 * their work is urgent. All change class together, and a thread that joins takes the current one. Without the
 * right to leave that class again they stay as they are.
 *
 * The kernel divides the CPUs among groups first (cgroups with a CPU controller, sessions with autogroup), so they
 * yield to threads of another group only at wake-ups.
 */

#define YIELD_THREADS_MAX 64 /* further ones stay as they are */

enum yield_right {
	YIELD_NEVER,
	YIELD_BY_LIMIT,      /* RLIMIT_NICE, which this process has raised for itself */
	YIELD_BY_CAPABILITY, /* CAP_SYS_NICE, which it has to keep */
};

/* Call before privileges are dropped. Returns what allows this process to leave that class again, at any priority. */
enum yield_right yield_allow(void);

/* Initialises a lock whose owner may become idle while others wait for it. */
void yield_lock_init(pthread_mutex_t *lock);

/* The calling thread belongs to them until it leaves, which it must do before it ends. */
void yield_join(void);
void yield_leave(void);

/* Changes the class of all of them, from any thread. */
void yield_set(bool yields);
bool yield_is_set(void);

#endif
