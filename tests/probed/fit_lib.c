// SPDX-License-Identifier: BSD-2-Clause
/* An engine with a step that its preset knows, fit_decode() (unless NO_DECODE), and one that it does not, fit_process(). */
#include "fit.h"

#define STEP __attribute__((noinline, noclone))

static volatile int work;

STEP void fit_op(void)
{
	work++;
}

STEP void fit_graph(int n)
{
	for (int i = 0; i < 1000; i++)
		work += n;
	fit_op();
	work++; /* no jump instead of the call, here and below */
}

#ifndef NO_DECODE
STEP void fit_decode(int (*next)(void), int n)
{
	for (; n >= 0; n = next())
		fit_graph(n);
	work++;
}
#endif

STEP void fit_process(int (*next)(void), int n)
{
	for (; n >= 0; n = next())
		fit_graph(n);
	work++;
}
