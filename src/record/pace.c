// SPDX-License-Identifier: BSD-2-Clause
#include "record/pace.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "util/clock.h"
#include "util/thread.h"
#include "util/yield.h"

#define FILL_PERCENT 50
#define LATE_NS (50 * NSEC_PER_MSEC)
#define LOOK_MS 10 /* later than that, the free part of the rings may be full */
#define THREAD_STACK (64u << 10)

struct pace {
	struct pace_config c;
	int epoll; /* what the loop waits for, and the next two */
	int wake;  /* wakes the watching thread so that it ends */
	int timer; /* for a look at the rings */
	pid_t loop;
	struct thread thread;
	pthread_mutex_t lock;
	pthread_cond_t yielded;
	bool yields; /* the loop yields */
	bool looks;  /* the watching thread waits for something urgent, and not for the loop to yield */
	bool ends;
	int look_ms; /* after the last turn of the loop */
	uint64_t due_ns;
};

/* Arms the timer for a look at the rings, unless the loop comes back before and puts it off. */
static void arm(const struct pace *p)
{
	struct itimerspec at = {
		.it_value = { p->look_ms / 1000, p->look_ms % 1000 * (long)NSEC_PER_MSEC },
	};

	timerfd_settime(p->timer, 0, &at, NULL);
}

/* Called with the lock, which it releases while waiting. Returns true when something is urgent. */
static bool look(struct pace *p)
{
	struct epoll_event event = {};
	int n;

	p->looks = true;
	pthread_mutex_unlock(&p->lock);
	n = epoll_wait(p->epoll, &event, 1, -1);
	pthread_mutex_lock(&p->lock);
	p->looks = false;
	if (n > 0 && event.data.fd == p->wake)
		return false;
	if (n <= 0 || event.data.fd != p->timer)
		return n > 0 || errno != EINTR;
	if (clock_boot_ns() >= p->due_ns || p->c.fill(p->c.arg) >= FILL_PERCENT)
		return true;
	arm(p);
	return false;
}

static void *watch(void *arg)
{
	struct pace *p = arg;

	pthread_mutex_lock(&p->lock);
	while (!p->ends) {
		if (!p->yields) {
			pthread_cond_wait(&p->yielded, &p->lock);
		} else if (!yield_is_set()) {
			yield_set(true); /* not in the loop, which might not run any more before it has announced that */
		} else if (look(p) && p->yields && !p->ends) {
			p->yields = false;
			yield_set(false);
		}
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

/* Tells the watching thread that something has changed. Called with the lock. */
static void wake(struct pace *p)
{
	uint64_t one = 1;

	if (!p->looks)
		pthread_cond_signal(&p->yielded);
	while (p->looks && write(p->wake, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

static void end_thread(struct pace *p)
{
	pthread_mutex_lock(&p->lock);
	p->ends = true;
	p->yields = false;
	yield_set(false);
	wake(p);
	pthread_mutex_unlock(&p->lock);
	thread_join(&p->thread);
}

/* A thread that has to wait for a CPU itself cannot see that others wait too long, so this one precedes all others,
 * for some microseconds. */
static int start_thread(struct pace *p)
{
	const struct sched_param first = { .sched_priority = 1 };
	int err = thread_start(&p->thread, "inftrace-watch", THREAD_STACK, watch, p);

	if (err)
		return err;
	err = pthread_setschedparam(p->thread.id, SCHED_FIFO, &first);
	if (err)
		end_thread(p);
	return -err;
}

static int add_fd(const struct pace *p, int fd)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET, .data.fd = fd };

	return epoll_ctl(p->epoll, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

/*
 * Edge-triggered: the control ring is readable whenever a thread was born or has exited, but its reader is woken only
 * for what is urgent.
 */
static int open_epoll(struct pace *p)
{
	int err;

	p->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	p->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	p->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (p->wake < 0 || p->timer < 0 || p->epoll < 0)
		return -errno;
	err = add_fd(p, p->wake) ?: add_fd(p, p->timer);
	for (nfds_t i = 0; i < p->c.n_fds && !err; i++) {
		err = p->c.fds[i].fd < 0 ? 0 : add_fd(p, p->c.fds[i].fd);
		err = err == -EPERM ? 0 : err; /* a regular file as input, which is always readable */
	}
	return err;
}

static void pace_close(struct pace *p)
{
	pthread_cond_destroy(&p->yielded);
	pthread_mutex_destroy(&p->lock);
	if (p->wake >= 0)
		close(p->wake);
	if (p->timer >= 0)
		close(p->timer);
	if (p->epoll >= 0)
		close(p->epoll);
	free(p);
}

int pace_new(const struct pace_config *c, struct pace **ret_pace)
{
	struct pace *p;
	int err;

	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->c = *c;
	p->loop = gettid();
	yield_lock_init(&p->lock);
	pthread_cond_init(&p->yielded, NULL);
	err = open_epoll(p) ?: start_thread(p);
	if (err) {
		pace_close(p);
		return err;
	}
	yield_join();
	*ret_pace = p;
	return 0;
}

void pace_free(struct pace *p)
{
	if (!p)
		return;
	end_thread(p);
	yield_leave();
	pace_close(p);
}

static void set(struct pace *p, bool yields, int timeout_ms, uint64_t due_ns)
{
	uint64_t late_ns = clock_boot_ns() + (uint64_t)timeout_ms * NSEC_PER_MSEC + LATE_NS;
	pthread_mutex_lock(&p->lock);
	p->due_ns = due_ns < late_ns ? due_ns : late_ns;
	p->look_ms = timeout_ms + LOOK_MS;
	if (yields != p->yields) {
		p->yields = yields;
		/* the watching thread may still look, if the loop itself ended the last time it yielded */
		if (yields)
			wake(p);
		else
			yield_set(false);
	}
	if (yields)
		arm(p);
	pthread_mutex_unlock(&p->lock);
}

int pace_poll(struct pace *p, struct pollfd *fds, nfds_t n_fds, int timeout_ms, bool calm, uint64_t due_ns)
{
	int n;

	if (!p)
		return poll(fds, n_fds, timeout_ms);
	set(p, calm && timeout_ms > 0, timeout_ms, due_ns);
	n = poll(fds, n_fds, timeout_ms);
	if (n > 0 || clock_boot_ns() >= due_ns)
		set(p, false, 0, due_ns);
	return n;
}
