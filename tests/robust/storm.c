// SPDX-License-Identifier: BSD-2-Clause
/*
 * Threads that make system calls as fast as they can, in steps that a probe can see.
 *
 *   storm [-t THREADS] [-n CALLS] [-x TIMES] [-s STEPS] [-p USEC] [-w]
 *
 * Each thread calls storm_step STEPS times (0: until SIGTERM), which calls getppid CALLS times, and sleeps USEC microseconds
 * after each. Every second step makes TIMES as many calls. With -w the threads wake each other after each step: each writes
 * into the pipe of the next and reads from its own. At the end one JSON line: the threads, their steps and getppid calls.
 */
#include "../program.h"

#include <getopt.h>

#define THREADS_MAX 64

static long threads = 1, calls = 1000, times = 1, steps = 10, pause_us;
static atomic_long all_steps, all_calls;
static volatile sig_atomic_t stopped;
static bool wakes;
static int pipes[THREADS_MAX][2];

static void wake_next(long self)
{
	byte_send(pipes[(self + 1) % threads][1]);
}

static void wait_to_be_woken(long self)
{
	char c;

	if (read(pipes[self][0], &c, 1) != 1)
		stopped = 1;
}

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
		made += storm_step(i % 2 ? calls * times : calls);
		if (wakes) {
			wake_next((long)arg);
			wait_to_be_woken((long)arg);
		}
		if (pause_us)
			usleep((unsigned int)pause_us);
	}
	if (wakes)
		wake_next((long)arg); /* it may wait for ever */
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
	pthread_t ids[THREADS_MAX];
	static long *const numbers[128] = { ['t'] = &threads, ['n'] = &calls, ['x'] = &times, ['s'] = &steps, ['p'] = &pause_us };
	int c;

	while ((c = getopt(argc, argv, "t:n:x:s:p:w")) != -1) {
		if (numbers[c])
			*numbers[c] = atol(optarg);
		else if (c == 'w')
			wakes = true;
		else
			return 2;
	}
	if (threads < 1 || threads > THREADS_MAX)
		return 2;
	for (long i = 0; i < threads; i++)
		must(!pipe(pipes[i]), "pipe");
	signal(SIGTERM, on_signal);
	for (long i = 1; i < threads; i++)
		ids[i] = thread_start(work, (void *)i);
	work((void *)0);
	threads_join(ids + 1, (size_t)threads - 1);
	printf("{\"threads\":%ld,\"steps\":%ld,\"calls\":%ld}\n", threads, all_steps, all_calls);
	return 0;
}
