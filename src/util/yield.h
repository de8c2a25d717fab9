/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads of our own that yield to all others: they run where a CPU has nothing else to do (SCHED_IDLE), until
 * their work is urgent. All change class together, and a thread that joins takes the current one. Without the
 * right to leave that class again they stay as they are.
 *
 * The kernel divides the CPUs among groups first (cgroups with a CPU controller, sessions with autogroup), so they
 * yield to threads of another group only at wake-ups.
 */
#ifndef INFTRACE_UTIL_YIELD_H
#define INFTRACE_UTIL_YIELD_H

#include <pthread.h>
#include <stdbool.h>

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
