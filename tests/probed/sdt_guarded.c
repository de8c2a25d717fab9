// SPDX-License-Identifier: BSD-2-Clause
#define _SDT_HAS_SEMAPHORES 1
#include "sdt.h"

#include <sys/sdt.h>

__extension__ unsigned short sdt_guarded_semaphore __attribute__((unused, section(".probes")));

static volatile int sdt_twice;

bool sdt_is_guarded_on(void)
{
	sdt_twice++;
	return *(volatile unsigned short *)&sdt_guarded_semaphore;
}

/* Begins with the probe: one for the function is at the same place. */
__attribute__((noinline)) void sdt_fire_guarded(int64_t n)
{
	STAP_PROBE1(sdt, guarded, n);
}

__attribute__((noinline)) double sdt_take_numbers(
	const struct sdt_numbers *s, struct sdt_pair pair, struct sdt_numbers copy)
{
	return (double)s->pair.f + copy.d + pair.n;
}
