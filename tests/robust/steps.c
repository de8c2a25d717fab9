// SPDX-License-Identifier: BSD-2-Clause
/*
 * steps: a step after the other, each of so many operators, until SIGTERM. From SIGUSR1 on a step takes 0.3 s besides.
 */
#include "../program.h"

#define OPERATORS 50

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

__attribute__((noinline, noipa)) void steps_step(void)
{
	struct timespec t = { .tv_nsec = 300000000 };

	for (int i = 0; i < OPERATORS; i++)
		steps_op();
	while (slow && nanosleep(&t, &t))
		;
}

int main(void)
{
	struct sigaction act = { .sa_handler = on_signal };

	sigaction(SIGUSR1, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	while (!over)
		steps_step();
	return 0;
}
