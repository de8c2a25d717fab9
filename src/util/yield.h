/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads of our own that yield to all others: they run where a CPU has nothing else to do (SCHED_IDLE), until
 * somebody needs them. All change their class together, and each as it joins. Without the right to come back from
 * that class they stay as they are.
 *
 * The kernel divides the CPUs among groups first (cgroups with a CPU controller, sessions with autogroup), so that
 * threads of another group are yielded to only where one of ours is woken.
 */
#ifndef INFTRACE_UTIL_YIELD_H
#define INFTRACE_UTIL_YIELD_H

#include <pthread.h>
#include <stdbool.h>

#define YIELD_THREADS_MAX 64 /* those beyond stay as they are */

enum yield_right {
	YIELD_NEVER,
	YIELD_BY_LIMIT,      /* RLIMIT_NICE, which this process has raised for itself */
	YIELD_BY_CAPABILITY, /* CAP_SYS_NICE, which it has to keep */
};

/* Before privileges are dropped: what allows this process to come back from that class, whatever its priority. */
enum yield_right yield_allow(void);

/* A lock that others must not wait for because its owner does not run. */
void yield_lock_init(pthread_mutex_t *lock);

/* The calling thread is one of them from here on, until it leaves, which it does before it ends. */
void yield_join(void);
void yield_leave(void);

/* All of them, from any thread. */
void yield_set(bool yields);
bool yield_is_set(void);

#endif
