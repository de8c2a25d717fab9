// SPDX-License-Identifier: BSD-2-Clause
/*
 * slow_code: steps of four functions that take as long as each other, one of which takes three times as long in one
 * step of 20.
 *
 * usage: slow_code SEED STEPS
 * Prints "ready", begins once there is a line on its standard input, prints the name of the function, how often it was slow and
 * the CPU time of each step by the thread's clock, negative if the function was slow, and ends with the next line.
 * The seed decides which function it is, and in which steps. A function does a fixed amount of work, which takes a
 * millisecond of CPU time on this machine when nothing else runs; each does its work in another way.
 */
#include "../program.h"

#define KEPT __attribute__((noinline, noipa, used))
#define RARE 20

static char from[65536], to[65536];
static volatile uint64_t sink;

static uint64_t rounds(uint64_t n, uint64_t v)
{
	for (uint64_t i = 0; i < n; i++)
		v = v * 6364136223846793005ULL + (v >> 17) + 1442695040888963407ULL;
	return v;
}

/* in itself */
KEPT static void plant_attend(uint64_t n)
{
	sink = rounds(n, sink);
}

/* partly in a function that it alone calls; with half of it, chance alone would name that one now and then */
KEPT static void plant_inner(uint64_t n)
{
	sink = rounds(n, sink + 1);
}

KEPT static void plant_project(uint64_t n)
{
	plant_inner(n / 3);
	sink = rounds(n - n / 3, sink);
}

/* partly in the C library */
KEPT static void plant_sample(uint64_t n)
{
	for (uint64_t done = 0; done < n; done += 4096) {
		memcpy(to, from, sizeof(to));
		sink = rounds(4096, sink + (uint64_t)to[sink % sizeof(to)]);
	}
}

/* and by way of itself */
KEPT static void plant_decode(uint64_t n)
{
	if (n > 20000) {
		plant_decode(n / 2);
		plant_decode(n - n / 2);
		return;
	}
	sink = rounds(n, sink);
}

static const struct {
	const char *name;
	void (*run)(uint64_t n);
} functions[] = {
	{ "plant_attend", plant_attend },
	{ "plant_project", plant_project },
	{ "plant_sample", plant_sample },
	{ "plant_decode", plant_decode },
};
#define FUNCTIONS LENGTH(functions)

static uint64_t per_ms[FUNCTIONS];

static double cpu_ms(void)
{
	return (double)clock_ns(CLOCK_THREAD_CPUTIME_ID) / 1e6;
}

/* The kernel emulates its first instruction, so that a probe of it is cheap. */
KEPT static void plant_step(int slow)
{
	__asm__ volatile("nop" ::: "memory");
	for (int i = 0; i < (int)FUNCTIONS; i++)
		functions[i].run(i == slow ? 3 * per_ms[i] : per_ms[i]);
}

/* The quickest of several tries. */
static uint64_t measure(void (*run)(uint64_t n))
{
	uint64_t n = 1 << 20;
	double best = 1e9;

	for (int i = 0; i < 5; i++) {
		double start = cpu_ms(), ms;

		run(n);
		ms = cpu_ms() - start;
		best = ms < best ? ms : best;
	}
	return (uint64_t)((double)n / best);
}

int main(int argc, char **argv)
{
	long seed = argc == 3 ? atol(argv[1]) : -1, steps = argc == 3 ? atol(argv[2]) : 0, planted = 0;
	int slow = (int)(seed % (long)FUNCTIONS);
	static double ms[1 << 16];

	if (seed < 0 || steps <= 0 || steps > (long)LENGTH(ms)) {
		fprintf(stderr, "usage: slow_code SEED STEPS\n");
		return 2;
	}
	srand48(seed);
	for (size_t i = 0; i < FUNCTIONS; i++)
		per_ms[i] = measure(functions[i].run);
	line_wait();
	for (long i = 0; i < steps; i++) {
		int now = lrand48() % RARE ? -1 : slow;
		double start = cpu_ms();

		planted += now >= 0;
		plant_step(now);
		ms[i] = (now >= 0 ? -1 : 1) * (cpu_ms() - start);
	}
	printf("{\"pid\": %d, \"slow\": \"%s\", \"planted\": %ld, \"cpu_ms\": [", (int)getpid(), functions[slow].name, planted);
	for (long i = 0; i < steps; i++)
		printf("%s%.3f", i ? ", " : "", ms[i]);
	printf("]}\n");
	fflush(stdout);
	getchar();
	return 0;
}
