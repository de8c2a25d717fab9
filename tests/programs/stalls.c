// SPDX-License-Identifier: BSD-2-Clause
/*
 * An engine that does what its arguments say. Each is one of
 *
 *	decode=MS	a step of one token that computes for MS, in CPU time
 *	prefill=MS	the same with 512 tokens
 *	stall=MS	a step of one token that sleeps for MS
 *	pause=MS	nothing, between steps
 *	repeat=N	the arguments after it, N times
 *	exit=CODE	ends the program; the last argument
 *	kill=SIGNAL
 */
#include "../program.h"

#include "section.h"

void step(int n_tokens, uint64_t compute_ms, uint64_t sleep_ms);

__attribute__((noipa)) void step(int n_tokens, uint64_t compute_ms, uint64_t sleep_ms)
{
	(void)n_tokens;
	if (compute_ms)
		spin_for(CLOCK_THREAD_CPUTIME_ID, compute_ms * MS);
	if (sleep_ms)
		sleep_for(sleep_ms * MS);
}

static void act(const char *what, uint64_t n)
{
	if (!strcmp(what, "decode"))
		step(1, n, 0);
	else if (!strcmp(what, "prefill"))
		step(512, n, 0);
	else if (!strcmp(what, "stall"))
		step(1, 0, n);
	else if (!strcmp(what, "pause"))
		sleep_for(n * MS);
	else if (!strcmp(what, "kill"))
		kill(getpid(), (int)n);
	else if (!strcmp(what, "exit"))
		exit((int)n);
}

static void act_all(char **args)
{
	for (; *args; args++) {
		char *value = strchr(*args, '='), what[16];
		uint64_t n = value ? strtoull(value + 1, NULL, 10) : 0;

		snprintf(what, sizeof(what), "%.*s", value ? (int)(value - *args) : 0, *args);
		if (!strcmp(what, "repeat")) {
			while (n--)
				act_all(args + 1);
			return;
		}
		act(what, n);
	}
}

int main(int argc, char **argv)
{
	(void)argc;
	act_all(argv + 1);
	return 0;
}
