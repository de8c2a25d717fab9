/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that come and go, with a small stack that is unmapped at their end: the C library would keep the stacks of as many
 * threads as ever ran at the same time, up to 40 MB. They get no signals.
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

/* stack_bytes: whole pages; raised to the machine's minimum (128 KB on arm64). name: as for
 * pthread_setname_np(). Negative errno; after 0 call thread_join() or thread_detach(). */
int thread_start(struct thread *t, const char *name, size_t stack_bytes, void *(*run)(void *arg), void *arg);

void thread_join(struct thread *t);
/* For a thread that is never joined; its stack stays. */
void thread_detach(struct thread *t);

/* Blocks SIGINT, SIGTERM and SIGHUP. Returns a signalfd for them, or negative errno with a line printed. */
int thread_stop_signals(void);

/*
 * Threads of inftrace that yield to all others: they run where a CPU has nothing else to do (SCHED_IDLE), until
 * their work is urgent. All change class together, and a thread that joins takes the current class. Without the
 * right to leave SCHED_IDLE again they stay as they are.
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

/* Call before privileges are dropped. Returns what allows this process to leave SCHED_IDLE again, at any priority. */
enum yield_right yield_allow(void);

/* Initialises a lock whose owner may become idle while others wait for it. */
void yield_lock_init(pthread_mutex_t *lock);

/* Adds the calling thread to them until it leaves, which it must do before it ends. */
void yield_join(void);
void yield_leave(void);

/* Gives the calling thread the usual class, if it is none of them: one that an idle thread has started is idle, too. */
void yield_not(void);

/* Changes the class of all these threads; may be called from any thread. */
void yield_set(bool yields);
bool yield_is_set(void);

#endif
