// SPDX-License-Identifier: BSD-2-Clause
/*
 * Steps of an engine, some of which are slow for a known reason.
 *
 *	planted CAUSE TIMES
 *
 * TIMES times: twenty steps of a millisecond on the CPU, and one in which its thread is held up for
 *200 ms as well. By CAUSE:
 *
 *	lock	it waits for a mutex that the thread "planted_holder" has
 *	hog	the process "planted_hog", of a real-time class, has its CPU
 *	pipe	it reads a pipe that the process "planted_writer" writes late
 *
 * Prints ready, and waits for a line on stdin.
 */
#include "section.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define HELD_NS 200000000
#define QUICK_STEPS 20

void step(int n_tokens, int slow);

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int ask[2], answer[2]; /* pipes to and from the one that holds it up */
static void (*held_up)(void);

static void ask_for_it(void)
{
	if (write(ask[1], "", 1) != 1)
		exit(1);
}

static void wait_for_it(void)
{
	char c;

	if (read(answer[0], &c, 1) != 1)
		exit(1);
}

static void work(uint64_t ns)
{
	uint64_t end = clock_ns(CLOCK_MONOTONIC) + ns;

	while (clock_ns(CLOCK_MONOTONIC) < end)
		;
}

__attribute__((noipa)) void step(int n_tokens, int slow)
{
	(void)n_tokens;
	work(500000);
	if (slow)
		held_up();
	work(500000);
}

/* ---- what holds it up ---- */

static void sleep_for(uint64_t ns)
{
	struct timespec t = { .tv_sec = (time_t)(ns / 1000000000),
		.tv_nsec = (long)(ns % 1000000000) };

	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

/* Reports when it has the mutex. */
static void *hold_lock(void *arg)
{
	char c;

	while (read(ask[0], &c, 1) == 1) {
		pthread_mutex_lock(&mutex);
		if (write(answer[1], "", 1) != 1)
			exit(1);
		sleep_for(HELD_NS);
		pthread_mutex_unlock(&mutex);
	}
	return arg;
}

static void wait_for_lock(void)
{
	pthread_mutex_lock(&mutex);
	pthread_mutex_unlock(&mutex);
}

static void hog_cpu(void)
{
	work(HELD_NS);
}

static void write_late(void)
{
	sleep_for(HELD_NS);
	if (write(answer[1], "", 1) != 1)
		exit(1);
}

static void fork_off(const char *name, int policy, void (*act)(void))
{
	struct sched_param p = { .sched_priority = policy == SCHED_OTHER ? 0 : 1 };
	char c;

	if (fork())
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, name);
	close(ask[1]);
	if (sched_setscheduler(0, policy, &p))
		exit(1);
	while (read(ask[0], &c, 1) == 1)
		act();
	exit(0);
}

static void pin(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(0, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		exit(1);
}

static void prepare(const char *cause)
{
	pthread_t id;

	if (!strcmp(cause, "lock")) {
		if (pthread_create(&id, NULL, hold_lock, NULL))
			exit(1);
		pthread_setname_np(id, "planted_holder");
		held_up = wait_for_lock;
	} else if (!strcmp(cause, "hog")) {
		pin();
		fork_off("planted_hog", SCHED_FIFO, hog_cpu);
		held_up = ask_for_it; /* it takes the CPU as it wakes up */
	} else if (!strcmp(cause, "pipe")) {
		fork_off("planted_writer", SCHED_OTHER, write_late);
		held_up = wait_for_it;
	} else {
		exit(2);
	}
}

int main(int argc, char **argv)
{
	int times = argc > 2 ? atoi(argv[2]) : 0;

	if (!times || pipe(ask) || pipe(answer))
		return 2;
	prepare(argv[1]);
	puts("ready");
	fflush(stdout);
	getchar();
	for (int i = 0; i < times; i++) {
		for (int k = 0; k < QUICK_STEPS; k++)
			step(1, 0);
		if (held_up == wait_for_lock) {
			ask_for_it();
			wait_for_it();
		} else if (held_up == wait_for_it) {
			ask_for_it();
		}
		step(1, 1);
		sleep_for(50000000);
	}
	return 0;
}
