// SPDX-License-Identifier: BSD-2-Clause
/*
 * storm: threads on one CPU that do nothing but take page faults, STORM_FAULTS of them. Where the kernel can be preempted they interrupt each other
 * in the middle of one.
 */
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#include "checks.h"

static void *take_faults(void *arg)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = STORM_PAGES * page;
	char *area = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (area == MAP_FAILED || madvise(area, bytes, MADV_NOHUGEPAGE))
		return NULL;
	for (int round = 0; round < STORM_ROUNDS; round++) {
		for (size_t at = 0; at < bytes; at += page)
			((volatile char *)area)[at] = 1;
		if (madvise(area, bytes, MADV_DONTNEED))
			return NULL;
	}
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t threads[STORM_THREADS];
	cpu_set_t first;
	void *ok;
	int failed = 0;

	(void)argc;
	CPU_ZERO(&first);
	CPU_SET(0, &first);
	if (sched_setaffinity(0, sizeof(first), &first))
		return 1;
	for (int i = 0; i < STORM_THREADS; i++) {
		if (pthread_create(&threads[i], NULL, take_faults, argv))
			return 1;
	}
	for (int i = 0; i < STORM_THREADS; i++) {
		pthread_join(threads[i], &ok);
		failed |= !ok;
	}
	return failed;
}
