// SPDX-License-Identifier: BSD-2-Clause
/*
 * storm: threads on one CPU that do nothing but take page faults, STORM_FAULTS of them. Where the kernel can be preempted they
 * interrupt each other in the middle of one.
 */
#include "../program.h"

#include <stddef.h>

#include "checks.h"

static void *take_faults(void *arg)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = STORM_PAGES * page;
	char *area = pages_map(bytes, MAP_PRIVATE);

	must(!madvise(area, bytes, MADV_NOHUGEPAGE), "madvise");
	for (int round = 0; round < STORM_ROUNDS; round++) {
		for (size_t at = 0; at < bytes; at += page)
			((volatile char *)area)[at] = 1;
		must(!madvise(area, bytes, MADV_DONTNEED), "madvise");
	}
	return arg;
}

int main(void)
{
	pthread_t threads[STORM_THREADS];

	pin_to(0);
	for (int i = 0; i < STORM_THREADS; i++)
		threads[i] = thread_start(take_faults, NULL);
	threads_join(threads, STORM_THREADS);
	return 0;
}
