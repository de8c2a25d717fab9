// SPDX-License-Identifier: BSD-2-Clause
/*
 *	steps [OPERATORS [MS]]
 *
 * A step after the other, each of 50 operators and MS of sleep (0), until SIGTERM. From SIGUSR1 on a step takes 0.3 s besides.
 */
#include "../program.h"

static int operators = 50, sleep_ms;

static volatile sig_atomic_t slow, over;

static void on_signal(int signo)
{
	if (signo == SIGUSR1)
		slow = true;
	else
		over = true;
}

/* The kernel emulates its first instruction, so that a probe of it is cheap. */
__attribute__((noinline, noipa)) void steps_op(void)
{
	__asm__ volatile("nop" ::: "memory");
}

/* This has none that it emulates. */
__attribute__((noinline, noipa)) long steps_dear(long x)
{
	return x * 5 + 3;
}

__attribute__((noinline, noipa)) void steps_step(void)
{
	struct timespec t = { .tv_nsec = 300000000 };

	for (int i = 0; i < operators; i++)
		steps_op(), steps_dear(i);
	if (sleep_ms)
		sleep_for((uint64_t)sleep_ms * MS);
	while (slow && nanosleep(&t, &t))
		;
}

int main(int argc, char **argv)
{
	struct sigaction act = { .sa_handler = on_signal };

	if (argc > 1)
		operators = atoi(argv[1]);
	if (argc > 2)
		sleep_ms = atoi(argv[2]);
	sigaction(SIGUSR1, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	while (!over)
		steps_step();
	return 0;
}
