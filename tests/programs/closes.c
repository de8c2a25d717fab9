// SPDX-License-Identifier: BSD-2-Clause
/*
 * Threads that make numbered system calls: close() of a descriptor that is not open, whose number the
 * trace shows.
 *
 *	closes COUNTS THREADS [CALLS]
 *
 * Thread i calls close(100000 + i * 200000000 + n) with n = 0, 1, ..., until it is killed; with
 * CALLS, that many per millisecond. The file COUNTS has 8 bytes per thread: how many of its calls have
 * returned. Prints ready.
 */
#include "../program.h"

#define FIRST 100000
#define STRIDE 200000000 /* for ten threads: descriptors are int */
#define THREADS_MAX 10

static _Atomic uint64_t *counts;
static uint64_t calls;

static void *work(void *arg)
{
	uint64_t thread = (uintptr_t)arg;

	for (uint64_t n = 0; n < STRIDE; n++) {
		syscall(SYS_close, (int)(FIRST + thread * STRIDE + n));
		atomic_store_explicit(&counts[thread], n + 1, memory_order_relaxed);
		if (calls && !((n + 1) % calls))
			sleep_for(MS);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	unsigned long threads = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
	int fd;

	if (threads < 1 || threads > THREADS_MAX)
		return 2;
	calls = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
	fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0666);
	if (fd < 0 || ftruncate(fd, THREADS_MAX * sizeof(*counts)))
		return 1;
	counts = mmap(NULL, THREADS_MAX * sizeof(*counts), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (counts == MAP_FAILED)
		return 1;
	say("ready");
	for (unsigned long i = 1; i < threads; i++)
		thread_start(work, (void *)i);
	work(NULL);
	return 0;
}
