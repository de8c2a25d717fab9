/* SPDX-License-Identifier: BSD-2-Clause */
/* What nearly every unit test includes: cmocka with the headers it needs, and the usual ones of libc. */
#ifndef INFTRACE_TEST_UNIT_H
#define INFTRACE_TEST_UNIT_H

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* xorshift64 (Marsaglia, 2003): the same on every machine, so that a failure can be run again. */
static inline uint64_t next_random(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

#endif
