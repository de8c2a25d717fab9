// SPDX-License-Identifier: BSD-2-Clause
/*
 * A program into which the agent is injected: its main thread waits in one kind of system call again and again, and
 * checks that each returns what it should, with errno and vector registers as they were; a second one counts. What
 * they find is in the shared memory of descriptor 3 (struct target_page).
 *
 *   inject_target read|nanosleep|futex|poll|epoll|spin [exec|exit|fork N]
 */
#define _GNU_SOURCE
#include "inject_target.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WAIT_NS 3000000

#ifdef __x86_64__
#define IN_VECTOR(v) __asm__ volatile("" : "+x"(v))
#define MAY_INTERRUPT false
#else
/* epoll_wait() ends with EINTR after any stop (signal(7)): here it is begun again only if it is sure to be the same call */
#define MAY_INTERRUPT true
#define IN_VECTOR(v) __asm__ volatile("" : "+w"(v))
#endif

static struct target_page *page;
static int pipe_fds[2], epoll_fd;
static bool forks;

static void harmed(const char *what)
{
	if (!__atomic_fetch_add(&page->harm, 1, __ATOMIC_RELAXED))
		snprintf(page->what, sizeof(page->what), "%s: errno %d", what, errno);
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* A child, which ends at once. */
static void fork_once(void)
{
	int status = -1;
	pid_t child = fork();

	if (!child)
		_exit(5);
	if (child < 0 || waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 5)
		harmed("a child");
	__atomic_fetch_add(&page->forks, 1, __ATOMIC_RELAXED);
}

/* Writes into the pipe that the main thread reads, and works out a sum that is known. */
static void *work(void *unused)
{
	volatile double sum;

	for (;;) {
		sum = 0;
		for (int i = 1; i <= 1000; i++)
			sum += i * 0.5;
		if (sum != 250250.0)
			harmed("a sum");
		__atomic_fetch_add(&page->work, 1, __ATOMIC_RELAXED);
		if (write(pipe_fds[1], "x", 1) != 1)
			harmed("write");
		if (forks)
			fork_once();
		/* no call that an injection may choose */
		for (uint64_t until = now_ns() + WAIT_NS / 3; now_ns() < until;)
			sched_yield();
	}
	return NULL;
}

static void wait_once(const char *kind, uint64_t i)
{
	struct timespec ts = { .tv_nsec = WAIT_NS };
	static uint32_t word;
	uint64_t before = now_ns();
	char c;

	if (!strcmp(kind, "read")) {
		if (read(pipe_fds[0], &c, 1) != 1 || c != 'x')
			harmed("read");
		return;
	}
	if (!strcmp(kind, "spin")) {
		sched_yield();
		return;
	}
	if (!strcmp(kind, "nanosleep")) {
		if (i % 2 ? syscall(SYS_nanosleep, &ts, NULL) : nanosleep(&ts, NULL))
			harmed("nanosleep");
	} else if (!strcmp(kind, "futex")) {
		if (syscall(SYS_futex, &word, FUTEX_WAIT, 0, &ts, NULL, 0) != -1 || errno != ETIMEDOUT)
			harmed("futex");
	} else if (!strcmp(kind, "poll")) {
		if (poll(&(struct pollfd){ .fd = epoll_fd, .events = POLLIN }, 1, WAIT_NS / 1000000))
			harmed("poll");
	} else if (!strcmp(kind, "epoll")) {
		struct epoll_event e;

		if (epoll_wait(epoll_fd, &e, 1, WAIT_NS / 1000000)) {
			if (!MAY_INTERRUPT || errno != EINTR)
				harmed("epoll_wait");
			__atomic_fetch_add(&page->interrupted, 1, __ATOMIC_RELAXED);
			errno = 77;
			return;
		}
	}
	if (now_ns() - before < WAIT_NS)
		harmed("came back too early");
}

int main(int argc, char **argv)
{
	const char *kind = argc > 1 ? argv[1] : "read", *end = argc > 3 ? argv[2] : "";
	uint64_t rounds = *end ? strtoull(argv[3], NULL, 10) : UINT64_MAX;
	char left[32];
	pthread_t t;

	forks = !strcmp(end, "fork");
	page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, TARGET_FD, 0);
	if (page == MAP_FAILED || pipe(pipe_fds) || (epoll_fd = epoll_create1(0)) < 0 || pthread_create(&t, NULL, work, NULL))
		return 1;
	for (uint64_t i = 0; i < rounds && !__atomic_load_n(&page->stop, __ATOMIC_RELAXED); i++) {
		double x = (double)i * 1.5, y = x;
		bool timeout = !strcmp(kind, "futex");

		IN_VECTOR(y);
		errno = 77;
		wait_once(kind, i);
		if (errno != 77 && !timeout)
			harmed("errno");
		IN_VECTOR(y);
		if (x != y)
			harmed("a register");
		__atomic_fetch_add(&page->rounds, 1, __ATOMIC_RELAXED);
	}
	if (!strcmp(end, "exec") && !page->stop) {
		__atomic_fetch_add(&page->execs, 1, __ATOMIC_RELAXED);
		snprintf(left, sizeof(left), "%s", argv[3]);
		execl("/proc/self/exe", argv[0], kind, "exec", left, NULL);
	}
	return 0;
}
