// SPDX-License-Identifier: BSD-2-Clause
/*
 * Calls steps of fit_lib.c as the lines of its input say, and numbers their graphs:
 *
 *   process N | decode N    N steps
 *   process | decode        a step each millisecond, up to the next line
 *   long                    one decode, with graphs up to the next line
 *
 * Before the first line it prints "ready", for each second of a command without N "second K", and after each command
 * "done COMMAND FROM TO", the numbers of its graphs.
 */
#include "../program.h"

#include <poll.h>

#include "fit.h"

static int number;
static double begun, told;

static double now(void)
{
	return (double)clock_ns(CLOCK_MONOTONIC) / 1e9;
}

/* Whether a line waits; tells how long it was waited for. */
static int is_over(void)
{
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };

	if (now() - begun >= told + 1)
		printf("second %.0f\n", ++told);
	return poll(&p, 1, 1) > 0;
}

static int one(void)
{
	return -1;
}

static int more(void)
{
	return is_over() ? -1 : number++;
}

int main(void)
{
	void (*step)(int (*)(void), int);
	char name[32], line[64];
	int from, n;

	setvbuf(stdin, NULL, _IONBF, 0); /* what was read ahead would not be polled */
	setvbuf(stdout, NULL, _IOLBF, 0);
	puts("ready");
	while (fgets(line, sizeof(line), stdin)) {
		n = -1;
		if (sscanf(line, "%31s %d", name, &n) < 1)
			continue;
		step = strcmp(name, "process") ? fit_decode : fit_process;
		from = number;
		begun = now();
		told = 0;
		if (!strcmp(name, "long"))
			step(more, number++);
		else if (n >= 0)
			while (n--)
				step(one, number++);
		else
			do
				step(one, number++);
			while (!is_over());
		printf("done %s %d %d\n", name, from, number - 1);
	}
	return 0;
}
