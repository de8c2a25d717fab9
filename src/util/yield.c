// SPDX-License-Identifier: BSD-2-Clause
#include "util/yield.h"

#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <unistd.h>

#include "util/confine.h"

#define NICE_LIMIT 40 /* in units of RLIMIT_NICE: any priority */

static struct {
	pthread_mutex_t lock;
	pid_t tids[YIELD_THREADS_MAX];
	size_t n;
	bool allowed, yields;
} yield = { .lock = PTHREAD_MUTEX_INITIALIZER }; /* lock: until yield_allow() */

/* A thread that has just become idle may not get to run any more while it still holds the lock. A waiter in a real-time
 * class lends it that class. */
void yield_lock_init(pthread_mutex_t *lock)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(lock, &attr);
	pthread_mutexattr_destroy(&attr);
}

static void init(void)
{
	yield_lock_init(&yield.lock);
}

/* A thread keeps its nice value while it is idle. Threads that the first one makes do not inherit
 * its nice value. */
static bool set_class(pid_t tid, bool idle)
{
	struct sched_param none = {};

	return !sched_setscheduler(tid, (idle ? SCHED_IDLE : SCHED_OTHER) | SCHED_RESET_ON_FORK, &none);
}

/* To leave SCHED_IDLE a thread needs the right to its nice value. A COMMAND was forked before and keeps its own
 * limit. */
enum yield_right yield_allow(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct rlimit limit = { NICE_LIMIT, NICE_LIMIT }, first = { 1, 1 }, before;
	enum yield_right right = YIELD_NEVER;

	pthread_once(&once, init);
	if ((sched_getscheduler(0) & ~SCHED_RESET_ON_FORK) != SCHED_OTHER) /* somebody has chosen another class for us */
		return YIELD_NEVER;
	if (!getrlimit(RLIMIT_NICE, &before) &&
		(before.rlim_cur >= NICE_LIMIT || !setrlimit(RLIMIT_NICE, &limit)))
		right = YIELD_BY_LIMIT;
	if (right == YIELD_BY_LIMIT)
		setrlimit(RLIMIT_RTPRIO, &first); /* for the thread that watches the others */
	else if (confine_has(CONFINE_CAP(CAP_SYS_NICE)))
		right = YIELD_BY_CAPABILITY;
	pthread_mutex_lock(&yield.lock);
	yield.allowed = right != YIELD_NEVER;
	pthread_mutex_unlock(&yield.lock);
	return right;
}

void yield_join(void)
{
	pid_t tid = gettid();

	pthread_mutex_lock(&yield.lock);
	if (yield.allowed && yield.n < YIELD_THREADS_MAX) {
		yield.tids[yield.n++] = tid;
		set_class(tid, yield.yields);
	}
	pthread_mutex_unlock(&yield.lock);
}

void yield_leave(void)
{
	pid_t tid = gettid();

	pthread_mutex_lock(&yield.lock);
	for (size_t i = 0; i < yield.n; i++) {
		if (yield.tids[i] != tid)
			continue;
		yield.tids[i] = yield.tids[--yield.n];
		set_class(tid, false);
		break;
	}
	pthread_mutex_unlock(&yield.lock);
}

void yield_set(bool yields)
{
	pthread_mutex_lock(&yield.lock);
	if (yields != yield.yields) {
		yield.yields = yields;
		for (size_t i = 0; i < yield.n; i++)
			set_class(yield.tids[i], yields);
	}
	pthread_mutex_unlock(&yield.lock);
}

bool yield_is_set(void)
{
	bool is;

	pthread_mutex_lock(&yield.lock);
	is = yield.yields;
	pthread_mutex_unlock(&yield.lock);
	return is;
}
