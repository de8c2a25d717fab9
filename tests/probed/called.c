// SPDX-License-Identifier: BSD-2-Clause
/*
 * The library of call.c. NAME (-D) tells two builds of it apart; each has a function for a probe,
 * called(), that does not begin with a nop, so that its breakpoint is one.
 */
#include <stdint.h>

int called(uint64_t n);
int untouched(int n);

int untouched(int n)
{
	__asm__ volatile("" : "+r"(n));
	return n + 1;
}

int called(uint64_t n)
{
	int a = untouched((int)n), b = untouched(a);

	return a + b + BUILD;
}
