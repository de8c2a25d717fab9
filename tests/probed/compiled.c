// SPDX-License-Identifier: BSD-2-Clause
/* A function as a compiler makes it, with the name and the options of the Makefile. */
#include <stdint.h>

#ifndef ALIGNMENT
#define ALIGNMENT 8
#endif

uint64_t NAME(
	uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t *cell, uint64_t g);

uint64_t NAME(
	uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t *cell, uint64_t g)
{
	volatile uint64_t local[8] __attribute__((aligned(ALIGNMENT)));

	for (int i = 0; i < 8; i++)
		local[i] = d + e + g;
	local[c & 7] = a;
	*cell = 0;
	return local[c & 7] + b;
}
