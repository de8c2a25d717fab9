// SPDX-License-Identifier: BSD-2-Clause
/*
 * Threads that make system calls as fast as they can, in steps that a probe can see.
 *
 *   storm [-t THREADS] [-n CALLS] [-s STEPS] [-p USEC]
 *
 * Each thread calls storm_step STEPS times (0: until SIGTERM), which calls getppid CALLS times, and
 * sleeps USEC microseconds after each. At the end one JSON line: the threads, their steps and
 * getppid calls.
 */
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static long threads = 1, calls = 1000, steps = 10, pause_us;
static atomic_long all_steps, all_calls;
static volatile sig_atomic_t stopped;

static __attribute__((noinline, noipa)) long storm_step(long n)
{
	long i;

	for (i = 0; i < n && !stopped; i++)
		syscall(SYS_getppid);
	return i;
}

static void *work(void *arg)
{
	long i, made = 0;

	for (i = 0; (!steps || i < steps) && !stopped; i++) {
		made += storm_step(calls);
		if (pause_us)
			usleep((unsigned int)pause_us);
	}
	all_steps += i;
	all_calls += made;
	return arg;
}

static void on_signal(int sig)
{
	(void)sig;
	stopped = 1;
}

int main(int argc, char **argv)
{
	pthread_t ids[256];
	int c;

	while ((c = getopt(argc, argv, "t:n:s:p:")) != -1) {
		long v = atol(optarg ? optarg : "");

		if (c == 't')
			threads = v;
		else if (c == 'n')
			calls = v;
		else if (c == 's')
			steps = v;
		else if (c == 'p')
			pause_us = v;
		else
			return 2;
	}
	if (threads < 1 || threads > 256)
		return 2;
	signal(SIGTERM, on_signal);
	for (long i = 1; i < threads; i++) {
		if (pthread_create(&ids[i], NULL, work, NULL))
			return 1;
	}
	work(NULL);
	for (long i = 1; i < threads; i++)
		pthread_join(ids[i], NULL);
	printf("{\"threads\":%ld,\"steps\":%ld,\"calls\":%ld}\n", threads, all_steps, all_calls);
	return 0;
}
