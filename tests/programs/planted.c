// SPDX-License-Identifier: BSD-2-Clause
/*
 * Steps of an engine, some of which are slow for a known reason.
 *
 *	planted CAUSE TIMES
 *
 * TIMES times: twenty steps of a millisecond on the CPU, and one whose thread is also held up for
 * 200 ms by CAUSE:
 *
 *	lock	it waits for a mutex that the thread "planted_holder" holds
 *	hog	the process "planted_hog", in a real-time class, has its CPU
 *	pipe	it reads a pipe that the process "planted_writer" writes late
 *
 * Prints ready, and waits for a line on stdin.
 */
#include "section.h"

#define HELD_NS (200 * MS)
#define QUICK_STEPS 20

void step(int n_tokens, int slow);

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int ask[2], answer[2]; /* pipes to and from whoever holds it up */
static void (*held_up)(void);

static void ask_for_it(void)
{
	byte_send(ask[1]);
}

static void wait_for_it(void)
{
	byte_receive(answer[0]);
}

__attribute__((noipa)) void step(int n_tokens, int slow)
{
	(void)n_tokens;
	spin_for(CLOCK_MONOTONIC, MS / 2);
	if (slow)
		held_up();
	spin_for(CLOCK_MONOTONIC, MS / 2);
}

/* ---- what holds it up ---- */

/* Reports once it holds the mutex. */
static void *hold_lock(void *arg)
{
	char c;

	while (read(ask[0], &c, 1) == 1) {
		pthread_mutex_lock(&mutex);
		byte_send(answer[1]);
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
	spin_for(CLOCK_MONOTONIC, HELD_NS);
}

static void write_late(void)
{
	sleep_for(HELD_NS);
	byte_send(answer[1]);
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
	must(!sched_setscheduler(0, policy, &p), "sched_setscheduler");
	while (read(ask[0], &c, 1) == 1)
		act();
	exit(0);
}

static void prepare(const char *cause)
{
	if (!strcmp(cause, "lock")) {
		pthread_setname_np(thread_start(hold_lock, NULL), "planted_holder");
		held_up = wait_for_lock;
	} else if (!strcmp(cause, "hog")) {
		pin_to(0);
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
	line_wait();
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
		sleep_for(50 * MS);
	}
	return 0;
}
