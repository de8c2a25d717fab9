// SPDX-License-Identifier: BSD-2-Clause
/*
 * Steps with known counts for the counters of their thread.
 *
 *	counted STEPS PAGES [alone]
 *
 * Prints "ready" and waits for a line. Each step touches PAGES new pages, plus one more than the step before, computes for
 * a moment before and after that, sleeps, and continues on another CPU, if there is one. Meanwhile a second thread, outside
 * of any step, touches pages on the same CPUs. "alone": it does not, and the thread always computes the same. The last line
 * has for each step: the pages; the thread's page faults from before the call to after it; the CPU time within it; the wall
 * time around it.
 */
#include "../program.h"

#include "section.h"

#define PAGE 4096
#define MOMENT_NS 300000
#define SLEEP_US 500

struct seen {
	long pages, faults;
	uint64_t cpu_ns, wall_ns;
};

static atomic_bool over;
static bool alone;

long touch(long pages);
void compute(uint64_t ns);
void step(long pages, cpu_set_t *cpus, int *cpu, struct seen *ret);

static inline __attribute__((always_inline)) void touch_new(long pages)
{
	char *p = pages_map((size_t)pages * PAGE, MAP_PRIVATE);

	must(!madvise(p, (size_t)pages * PAGE, MADV_NOHUGEPAGE), "madvise");
	for (long i = 0; i < pages; i++)
		*(volatile char *)(p + i * PAGE) = 1;
	munmap(p, (size_t)pages * PAGE);
}

__attribute__((noipa)) long touch(long pages)
{
	touch_new(pages);
	return pages;
}

__attribute__((noipa)) void compute(uint64_t ns)
{
	uint64_t end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + ns;

	do {
		for (volatile int i = 0; i < (alone ? 1000000 : 10000); i++)
			;
	} while (!alone && clock_ns(CLOCK_THREAD_CPUTIME_ID) < end);
}

static void move(const cpu_set_t *cpus, int *cpu)
{
	do {
		*cpu = (*cpu + 1) % CPU_SETSIZE;
	} while (!CPU_ISSET(*cpu, cpus));
	pin_to(*cpu);
}

__attribute__((noipa)) void step(long pages, cpu_set_t *cpus, int *cpu, struct seen *ret)
{
	uint64_t begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);

	compute(MOMENT_NS);
	ret->pages = touch(pages);
	usleep(SLEEP_US);
	move(cpus, cpu);
	compute(MOMENT_NS);
	ret->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
}

static long faults(void)
{
	struct rusage u;

	getrusage(RUSAGE_THREAD, &u);
	return u.ru_minflt + u.ru_majflt;
}

static void *rival(void *arg)
{
	(void)arg;
	while (!over)
		touch_new(10);
	return NULL;
}

int main(int argc, char **argv)
{
	long n = argc > 2 ? atol(argv[1]) : 0, pages = argc > 2 ? atol(argv[2]) : 0;
	struct seen *seen = calloc((size_t)n + 1, sizeof(*seen));
	cpu_set_t cpus;
	pthread_t thread;
	int cpu = 0;

	if (!n || !seen || sched_getaffinity(0, sizeof(cpus), &cpus)) {
		fprintf(stderr, "usage: counted STEPS PAGES\n");
		return 2;
	}
	line_wait();
	over = alone = argc > 3;
	thread = thread_start(rival, NULL);
	for (long i = 0; i < n; i++) {
		uint64_t begin = clock_ns(CLOCK_MONOTONIC);
		long before = faults();

		step(pages + i, &cpus, &cpu, &seen[i]);
		seen[i].faults = faults() - before;
		seen[i].wall_ns = clock_ns(CLOCK_MONOTONIC) - begin;
	}
	over = true;
	pthread_join(thread, NULL);
	printf("{\"steps\":[");
	for (long i = 0; i < n; i++)
		printf("%s{\"pages\":%ld,\"faults\":%ld,\"cpu_ns\":%llu,\"wall_ns\":%llu}", i ? "," : "", seen[i].pages, seen[i].faults,
			(unsigned long long)seen[i].cpu_ns, (unsigned long long)seen[i].wall_ns);
	printf("]}\n");
	free(seen);
	return 0;
}
