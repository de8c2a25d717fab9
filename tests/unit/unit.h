/* SPDX-License-Identifier: BSD-2-Clause */
/* What nearly every unit test includes: cmocka with its headers, and the usual ones of libc. */
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

/*
 * TEST(test_name) { ... } defines a test with the state `state`. RUN_TESTS(NULL, NULL) at the end of the file runs all of
 * its tests in order, and calls its arguments before the first and after the last. TEST_WITH: with functions to call before
 * and after this test.
 */
#define TEST_WITH(name, set_up, tear_down)                                                                         \
	static void name(void **state);                                                                            \
	static const struct CMUnitTest name##_entry = { #name, name, set_up, tear_down, NULL };                     \
	static const struct CMUnitTest *const name##_place __attribute__((section("unit_tests"), used)) = &name##_entry; \
	static void name(void **state)
#define TEST(name) TEST_WITH(name, NULL, NULL)
#define RUN_TESTS(set_up, tear_down)                   \
	int main(void)                                 \
	{                                              \
		return unit_tests_run(set_up, tear_down); \
	}

extern const struct CMUnitTest *const __start_unit_tests[], *const __stop_unit_tests[];

static inline int unit_tests_run(CMFixtureFunction set_up, CMFixtureFunction tear_down)
{
	size_t n = (size_t)(__stop_unit_tests - __start_unit_tests);
	struct CMUnitTest *tests = calloc(n, sizeof(*tests));
	int ret;

	for (size_t i = 0; tests && i < n; i++)
		tests[i] = *__start_unit_tests[i];
	ret = tests ? _cmocka_run_group_tests("tests", tests, n, set_up, tear_down) : 1;
	free(tests);
	return ret;
}

/* xorshift64 (Marsaglia, 2003): the same on every machine, so that failures repeat. */
static inline uint64_t next_random(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

#endif
