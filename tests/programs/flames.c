// SPDX-License-Identifier: BSD-2-Clause
/*
 * Work and waits with known stacks: main() -> outer() -> inner() computes, and two threads each hold a lock that the other
 * waits for. Prints the CPU time of the computing thread and how often each thread slept.
 *
 *   flames MILLISECONDS
 */
#include "../program.h"

#define NAP_NS (4 * MS)
#define NAPS 40

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile double sum;

static double cpu_ms(void)
{
	return (double)clock_ns(CLOCK_THREAD_CPUTIME_ID) / 1e6;
}

__attribute__((noinline)) static void inner(void)
{
	for (int i = 0; i < 20000; i++)
		sum += i * 1.5;
}

__attribute__((noinline)) static void outer(double until)
{
	while (cpu_ms() < until)
		inner();
	sum += 1; /* so that the call above is no tail call */
}

__attribute__((noinline)) static void hold_lock(void)
{
	pthread_mutex_lock(&lock);
	sleep_for(NAP_NS);
	pthread_mutex_unlock(&lock);
	sum += 1;
}

static void *sleeper(void *arg)
{
	for (int i = 0; i < NAPS; i++)
		hold_lock();
	return arg;
}

int main(int argc, char **argv)
{
	double ms = argc > 1 ? atof(argv[1]) : 500;
	pthread_t thread;

	outer(ms);
	thread = thread_start(sleeper, NULL);
	sleeper(NULL);
	pthread_join(thread, NULL);
	printf("{\"cpu_ms\":%.3f,\"naps\":%d}\n", cpu_ms(), 2 * NAPS);
	return 0;
}
