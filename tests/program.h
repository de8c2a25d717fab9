/* SPDX-License-Identifier: BSD-2-Clause */
/* What the programs that the tests trace have in common. Where something fails, they say what and why, and exit with 1. */
#ifndef TEST_PROGRAM_H
#define TEST_PROGRAM_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define MS UINT64_C(1000000) /* in nanoseconds */

static inline __attribute__((noreturn)) void die(const char *what)
{
	fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, strerror(errno));
	exit(1);
}

static inline void must(bool ok, const char *what)
{
	if (!ok)
		die(what);
}

static inline uint64_t clock_ns(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Reading the clock of CPU time is a system call, so it is done rarely. */
static inline void spin_for(clockid_t clock, uint64_t ns)
{
	uint64_t end = clock_ns(clock) + ns;

	while (clock_ns(clock) < end) {
		for (volatile int i = 0; clock == CLOCK_THREAD_CPUTIME_ID && i < 100000; i++)
			;
	}
}

static inline void sleep_for(uint64_t ns)
{
	struct timespec t = { .tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000) };

	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

static inline void say(const char *line)
{
	puts(line);
	fflush(stdout);
}

/* Says that it is ready, and waits for a line on stdin. */
static inline void line_wait(void)
{
	char c;

	say("ready");
	while (read(STDIN_FILENO, &c, 1) == 1 && c != '\n')
		;
}

static inline void byte_send(int fd)
{
	must(write(fd, "x", 1) == 1, "write");
}

static inline void byte_receive(int fd)
{
	char c;

	must(read(fd, &c, 1) == 1, "read");
}

static inline pthread_t thread_start(void *(*run)(void *), void *arg)
{
	pthread_t thread;

	must(!pthread_create(&thread, NULL, run, arg), "pthread_create");
	return thread;
}

static inline void threads_join(const pthread_t *threads, size_t n)
{
	for (size_t i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
}

/* flags: MAP_PRIVATE or MAP_SHARED, and others. */
static inline void *pages_map(size_t size, int flags)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);

	must(p != MAP_FAILED, "mmap");
	return p;
}

/* Keeps the thread on that CPU. */
static inline void pin_to(int cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET((size_t)cpu, &one);
	must(!sched_setaffinity(0, sizeof(one), &one), "sched_setaffinity");
}

/* An address on the loopback interface, at a port that the kernel chooses: of a socket that is bound to it. */
static inline struct sockaddr_in loopback_bind(int fd)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(addr);

	must(!bind(fd, (struct sockaddr *)&addr, len) && !getsockname(fd, (struct sockaddr *)&addr, &len), "127.0.0.1");
	return addr;
}

/* Two ends of a TCP connection over the loopback interface. */
static inline void tcp_pair(int *ret_fds)
{
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in addr = loopback_bind(listener);

	ret_fds[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	must(!listen(listener, 1) && !connect(ret_fds[1], (struct sockaddr *)&addr, sizeof(addr)), "connect");
	ret_fds[0] = accept(listener, NULL, NULL);
	must(ret_fds[0] >= 0, "accept");
	close(listener);
}

#endif
