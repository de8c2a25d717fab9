// SPDX-License-Identifier: BSD-2-Clause
/*
 * Threads that never rest, deep in functions: in pairs, each wakes the other through a pipe and waits for it, within
 * inner(), within outer(), within step(). In between they make system calls that do not wait.
 *
 *	relay PAIRS
 *
 * Prints ready, and runs until it is killed.
 */
#include "../program.h"

#define PAIRS_MAX 64

void step(int n_tokens, int from, int to);
void outer(int from, int to);
void inner(int from, int to);

struct end {
	int from, to;
};

static struct end ends[PAIRS_MAX][2];

__attribute__((noipa)) void inner(int from, int to)
{
	byte_send(to);
	getppid();
	byte_receive(from);
}

__attribute__((noipa)) void outer(int from, int to)
{
	inner(from, to);
	getppid();
}

__attribute__((noipa)) void step(int n_tokens, int from, int to)
{
	(void)n_tokens;
	outer(from, to);
	getppid();
}

static void *run(void *arg)
{
	const struct end *e = arg;

	for (;;)
		step(1, e->from, e->to);
	return NULL;
}

int main(int argc, char **argv)
{
	int pairs = argc > 1 ? atoi(argv[1]) : 1, pipes[2][2];

	if (pairs < 1 || pairs > PAIRS_MAX)
		return 2;
	for (int i = 0; i < pairs; i++) {
		must(!pipe(pipes[0]) && !pipe(pipes[1]), "pipe");
		ends[i][0] = (struct end){ pipes[0][0], pipes[1][1] };
		ends[i][1] = (struct end){ pipes[1][0], pipes[0][1] };
		for (int k = 0; k < 2; k++)
			thread_start(run, &ends[i][k]);
	}
	say("ready");
	pause();
	return 0;
}
