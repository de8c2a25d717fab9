// SPDX-License-Identifier: BSD-2-Clause
/*
 * Uses a known amount of CPU time, and waits a known number of times.
 *
 *	samples THREADS STACK-KB CPU-MS WAITS
 *
 * Prints "ready" and waits for a line. Then each thread computes for CPU-MS of CPU time, below STACK-KB of stack, and
 * waits WAITS times for 3 ms, in three ways, and as often for a moment. The last line has the process's CPU time since
 * then, and the number of waits that were long for certain: until one began, its thread stayed on its CPU.
 */
#include "../program.h"

#include "section.h"

#include <poll.h>

#define WAIT_NS 3000000
#define MOMENT_NS 20000

static uint64_t cpu_ns;
static int waits;
static atomic_int long_waits;

void work(uint64_t end);
void below(int kb, uint64_t end);

__attribute__((noipa)) void work(uint64_t end)
{
	/* reading this clock is a system call, so it is read rarely */
	while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < end) {
		for (volatile int i = 0; i < 100000; i++)
			;
	}
}

__attribute__((noipa)) void below(int kb, uint64_t end)
{
	volatile char room[1024];

	memset((char *)room, kb, sizeof(room));
	if (kb > 0)
		below(kb - 1, end);
	else
		work(end);
	room[0] = 0; /* no tail call */
}

static void wait_once(int way)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
	struct timespec t;

	if (way == 0) {
		sleep_for(WAIT_NS);
	} else if (way == 1) {
		poll(NULL, 0, WAIT_NS / 1000000);
	} else {
		clock_gettime(CLOCK_REALTIME, &t);
		t.tv_nsec += WAIT_NS;
		if (t.tv_nsec >= 1000000000) {
			t.tv_nsec -= 1000000000;
			t.tv_sec++;
		}
		pthread_mutex_lock(&lock);
		while (!pthread_cond_timedwait(&never, &lock, &t))
			;
		pthread_mutex_unlock(&lock);
	}
}

/* How often the thread lost its CPU although it was not done. */
static long preempted(void)
{
	struct rusage u;

	must(!getrusage(RUSAGE_THREAD, &u), "getrusage");
	return u.ru_nivcsw;
}

static void *run(void *arg)
{
	char **argv = arg;
	long before;

	below(atoi(argv[2]), clock_ns(CLOCK_THREAD_CPUTIME_ID) + cpu_ns);
	for (int i = 0; i < waits; i++) {
		before = preempted();
		wait_once(i % 3);
		long_waits += preempted() == before;
		sleep_for(MOMENT_NS);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[64];
	uint64_t before;
	int n;

	if (argc != 5 || (n = atoi(argv[1])) < 1 || n > 64)
		return 2;
	cpu_ns = (uint64_t)atoi(argv[3]) * MS;
	waits = atoi(argv[4]);
	line_wait();
	before = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	for (int i = 0; i < n; i++)
		threads[i] = thread_start(run, argv);
	threads_join(threads, (size_t)n);
	printf("{\"cpu_ns\": %llu, \"waits\": %d}\n",
		(unsigned long long)(clock_ns(CLOCK_PROCESS_CPUTIME_ID) - before), long_waits);
	return 0;
}
