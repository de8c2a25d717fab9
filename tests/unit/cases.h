/* SPDX-License-Identifier: BSD-2-Clause */
/* How many cases a test tries, and why it tries none. */
#ifndef INFTRACE_TEST_CASES_H
#define INFTRACE_TEST_CASES_H

#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#else
#define RUNNING_ON_VALGRIND 0
#endif

/* Says why, for scripts/test to show: cmocka has no way to. */
#define SKIP(why)                                      \
	do {                                           \
		print_message("# skipped: " why "\n"); \
		skip();                                \
	} while (0)

/*
 * `all`, or `few` under valgrind, which takes thirty times as long and checks each access, so a few cases of each kind
 * suffice. Without it and under the sanitizers all run.
 */
static inline unsigned int cases(unsigned int all, unsigned int few)
{
	return RUNNING_ON_VALGRIND ? few : all;
}

#endif
