// SPDX-License-Identifier: BSD-2-Clause
#include "util/thread.h"

#include <errno.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/types.h>
#include <unistd.h>

#include "util/confine.h"
#include "util/log.h"

int thread_start(struct thread *t, const char *name, size_t stack_bytes, void *(*run)(void *arg), void *arg)
{
	size_t guard = (size_t)sysconf(_SC_PAGESIZE), least = (size_t)sysconf(_SC_THREAD_STACK_MIN);
	sigset_t all, before;
	pthread_attr_t attr;
	int err;

	if (stack_bytes < least)
		stack_bytes = least;
	t->bytes = guard + stack_bytes;
	t->stack = mmap(NULL, t->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
	if (t->stack == MAP_FAILED)
		return -errno;
	err = mprotect((char *)t->stack + guard, stack_bytes, PROT_READ | PROT_WRITE) ? errno : 0;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_init(&attr);
	if (!err)
		err = pthread_attr_setstack(&attr, (char *)t->stack + guard, stack_bytes);
	if (!err)
		err = pthread_create(&t->id, &attr, run, arg);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err)
		munmap(t->stack, t->bytes);
	else
		pthread_setname_np(t->id, name);
	return -err;
}

void thread_join(struct thread *t)
{
	pthread_join(t->id, NULL);
	munmap(t->stack, t->bytes);
}

void thread_detach(struct thread *t)
{
	pthread_detach(t->id);
}

int thread_stop_signals(void)
{
	sigset_t set;
	int fd = -1;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	if (!sigprocmask(SIG_BLOCK, &set, NULL))
		fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd >= 0)
		return fd;
	return log_fail(-errno, "cannot take signals: %s", strerror(errno));
}

/* ---- yielding ---- */

#define NICE_LIMIT 40 /* in units of RLIMIT_NICE: any priority */

static struct {
	pthread_mutex_t lock;
	pid_t tids[YIELD_THREADS_MAX];
	size_t n;
	bool allowed, yields;
} yield = { .lock = PTHREAD_MUTEX_INITIALIZER }; /* lock: until yield_allow() */

/* A thread that has just become idle may not get to run again while it holds the lock, so a waiter in a real-time class
 * lends it that class. */
void yield_lock_init(pthread_mutex_t *lock)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(lock, &attr);
	pthread_mutexattr_destroy(&attr);
}

static void yield_init(void)
{
	yield_lock_init(&yield.lock);
}

/* A thread keeps its nice value while it is idle. Threads that it makes do not inherit the value. */
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

	pthread_once(&once, yield_init);
	if ((sched_getscheduler(0) & ~SCHED_RESET_ON_FORK) != SCHED_OTHER) /* someone chose another class for this process */
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

void yield_not(void)
{
	set_class(gettid(), false);
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
