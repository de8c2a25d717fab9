// SPDX-License-Identifier: BSD-2-Clause
/*
 * Threads that meet at a barrier again and again, as those of a CPU backend do, and measure how long they wait there.
 *
 *	barrier THREADS WORK-NS ROUNDS
 *
 * Prints "ready", waits for a line on stdin, and makes ROUNDS rounds, a hundred in each step: every thread works for
 * WORK-NS, one of them, a different one each time, for twice as long, and then they meet. Prints a line of JSON: ns of
 * a round, how many waits there were (all but those of the last to arrive), and their sum in ns.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define THREADS_MAX 64
#define STEP_ROUNDS 100

/* Each word that is written on a cache line of its own, as in ggml. */
struct pool {
	_Alignas(64) int n_threads;
	_Alignas(64) atomic_int arrived;
	_Alignas(64) atomic_int passed;
};

static struct pool pool;
static long work_ns, rounds;
static atomic_long waits, wait_ns;
static pthread_barrier_t start;

void bench_meet(struct pool *p);
void bench_step(struct pool *p, long from, long to);

static inline void relax(void)
{
#ifdef __x86_64__
	__builtin_ia32_pause();
#else
	asm volatile("yield");
#endif
}

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

__attribute__((noipa)) void bench_meet(struct pool *p)
{
	int n = p->n_threads, passed;

	if (n == 1)
		return;
	passed = atomic_load_explicit(&p->passed, memory_order_relaxed);
	if (atomic_fetch_add(&p->arrived, 1) == n - 1) {
		atomic_store_explicit(&p->arrived, 0, memory_order_relaxed);
		atomic_fetch_add(&p->passed, 1);
		return;
	}
	while (atomic_load_explicit(&p->passed, memory_order_relaxed) == passed)
		relax();
	atomic_thread_fence(memory_order_seq_cst);
}

static void take_part(int thread, long from, long to)
{
	for (long i = from; i < to; i++) {
		bool late = i % pool.n_threads == thread;
		int64_t begun = now_ns(), until = begun + work_ns * (late ? 2 : 1);

		while (now_ns() < until)
			relax();
		begun = now_ns();
		bench_meet(&pool);
		if (late)
			continue;
		atomic_fetch_add_explicit(&wait_ns, now_ns() - begun, memory_order_relaxed);
		atomic_fetch_add_explicit(&waits, 1, memory_order_relaxed);
	}
}

__attribute__((noipa)) void bench_step(struct pool *p, long from, long to)
{
	(void)p;
	take_part(0, from, to);
}

static void *worker(void *arg)
{
	pthread_barrier_wait(&start);
	take_part((int)(intptr_t)arg, 0, rounds);
	return NULL;
}

static long number(const char *text, long max)
{
	char *end;
	long n = strtol(text, &end, 10);

	if (*end || n < 1 || n > max) {
		fprintf(stderr, "barrier: %s: give a number from 1 to %ld\n", text, max);
		exit(2);
	}
	return n;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS_MAX];
	int64_t begun;

	if (argc != 4) {
		fprintf(stderr, "usage: barrier THREADS WORK-NS ROUNDS\n");
		return 2;
	}
	pool.n_threads = (int)number(argv[1], THREADS_MAX);
	work_ns = number(argv[2], 1000000000);
	rounds = number(argv[3], 100000000) / STEP_ROUNDS * STEP_ROUNDS;
	pthread_barrier_init(&start, NULL, (unsigned int)pool.n_threads);
	for (int i = 1; i < pool.n_threads; i++) {
		errno = pthread_create(&threads[i], NULL, worker, (void *)(intptr_t)i);
		if (errno) {
			perror("barrier: pthread_create");
			return 1;
		}
	}
	puts("ready");
	fflush(stdout);
	getchar();
	pthread_barrier_wait(&start);
	begun = now_ns();
	for (long i = 0; i < rounds; i += STEP_ROUNDS)
		bench_step(&pool, i, i + STEP_ROUNDS);
	begun = now_ns() - begun;
	for (int i = 1; i < pool.n_threads; i++)
		pthread_join(threads[i], NULL);
	printf("{\"round_ns\":%.1f,\"waits\":%ld,\"wait_ns\":%ld}\n", (double)begun / (double)rounds,
		atomic_load(&waits), atomic_load(&wait_ns));
	return 0;
}
