// SPDX-License-Identifier: BSD-2-Clause
/* A leaf function with a USDT probe on a nop of 5 bytes, and its variables below the stack pointer. */
#include "../program.h"

#include <sys/sdt.h>

__asm__(".macro nop5\n.byte 0x0f, 0x1f, 0x44, 0, 0\n.endm");
#undef _SDT_NOP
#define _SDT_NOP nop5

#define KEPT 8

static __attribute__((noinline)) bool is_damaged(long n)
{
	volatile long below[KEPT];
	bool damaged = false;

	for (int i = 0; i < KEPT; i++)
		below[i] = n + i;
	STAP_PROBE1(sdt, five, n);
	for (int i = 0; i < KEPT; i++)
		damaged |= below[i] != n + i;
	return damaged;
}

static void wait_for_go(const char *what)
{
	say(what);
	byte_receive(STDIN_FILENO);
}

int main(int argc, char **argv)
{
	long rounds = argc > 1 ? atol(argv[1]) : 1, damaged = 0;

	wait_for_go("ready");
	for (long n = 1; n <= rounds; n++)
		damaged += is_damaged(n);
	printf("damaged %ld\n", damaged);
	wait_for_go("done");
	return 0;
}
