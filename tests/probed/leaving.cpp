// SPDX-License-Identifier: BSD-2-Clause
/*
 * Functions that are entered and left in other ways than by call and return.
 *
 *	leaving recursion DEPTH ROUNDS | tail ROUNDS | mutual DEPTH ROUNDS | longjmp ROUNDS |
 *exception ROUNDS
 *
 * It prints "ready" and begins at the next line of input. Every function is given the round, n,
 *from 1.
 */
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#define PROBED extern "C" __attribute__((noipa))

/* What follows a call: it is none in tail position. */
#define STAYS(x) asm volatile("" : "+r"(x))

static jmp_buf back;

PROBED uint64_t plain(uint64_t n)
{
	return n * 2;
}

PROBED uint64_t recurse(uint64_t n, uint64_t depth)
{
	uint64_t sum = depth > 1 ? recurse(n, depth - 1) : plain(n);

	STAYS(sum);
	return sum + 1;
}

PROBED uint64_t third(uint64_t n)
{
	return plain(n) + 1;
}

PROBED uint64_t second(uint64_t n)
{
	return third(n);
}

PROBED uint64_t first(uint64_t n)
{
	return second(n);
}

PROBED uint64_t odd(uint64_t n, uint64_t depth);

PROBED uint64_t even(uint64_t n, uint64_t depth)
{
	return depth ? odd(n, depth - 1) : n;
}

PROBED uint64_t odd(uint64_t n, uint64_t depth)
{
	return depth ? even(n, depth - 1) : n;
}

PROBED uint64_t leaves(uint64_t n)
{
	if (n)
		longjmp(back, 1);
	return n;
}

PROBED uint64_t left(uint64_t n)
{
	uint64_t x = leaves(n);

	STAYS(x);
	return x;
}

PROBED uint64_t stays(uint64_t n)
{
	uint64_t x = 0;

	if (!setjmp(back))
		x = left(n);
	x += plain(n);
	STAYS(x);
	return x;
}

PROBED uint64_t throws(uint64_t n)
{
	if (n)
		throw std::runtime_error("thrown");
	return n;
}

PROBED uint64_t catches(uint64_t n)
{
	uint64_t x = 0;

	try {
		x = throws(n);
	} catch (const std::exception &e) {
		x = strlen(e.what());
	}
	x += plain(n);
	STAYS(x);
	return x;
}

static uint64_t run(const char *how, uint64_t n, uint64_t depth)
{
	if (!strcmp(how, "recursion"))
		return recurse(n, depth) - depth - n * 2;
	if (!strcmp(how, "tail"))
		return first(n) - n * 2 - 1;
	if (!strcmp(how, "mutual"))
		return even(n, depth) - n;
	if (!strcmp(how, "longjmp"))
		return stays(n) - n * 2;
	if (!strcmp(how, "exception"))
		return catches(n) - n * 2 - 6;
	return 1;
}

int main(int argc, char **argv)
{
	uint64_t depth = argc > 3 ? strtoul(argv[2], NULL, 10) : 0;
	uint64_t rounds = argc > 2 ? strtoul(argv[argc - 1], NULL, 10) : 0, wrong = 0;

	if (!rounds)
		return 2;
	puts("ready");
	fflush(stdout);
	if (getchar() == EOF)
		return 1;
	for (uint64_t n = 1; n <= rounds; n++)
		wrong += run(argv[1], n, depth) != 0;
	return wrong ? 1 : 0;
}
