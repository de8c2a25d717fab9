// SPDX-License-Identifier: BSD-2-Clause
/* The library of hold.c: its constructor makes the first call. */

extern int hold_calls;
int hold_calls;

__attribute__((noinline)) int hold_step(int n);

__attribute__((noinline)) int hold_step(int n)
{
	__asm__ volatile("" ::: "memory");
	return ++hold_calls + n;
}

__attribute__((constructor)) static void first(void)
{
	hold_step(0);
}
