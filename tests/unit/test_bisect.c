/* SPDX-License-Identifier: BSD-2-Clause */
/* Places in sorted lists, of all small lengths, against a linear search. */
#include "unit.h"
#include "util/list.h"

#define MAX 40

TEST(test_places)
{
	int list[MAX];

	for (int i = 0; i < MAX; i++)
		list[i] = i / 3 * 2; /* each three times, with gaps */
	for (size_t n = 0; n <= MAX; n++) {
		for (int wanted = -1; wanted <= MAX; wanted++) {
			size_t below = 0, until = 0;

			while (below < n && list[below] < wanted)
				below++;
			while (until < n && list[until] <= wanted)
				until++;
			assert_int_equal(bisect(n, i, list[i] < wanted), below);
			assert_int_equal(bisect(n, i, list[i] <= wanted), until);
		}
	}
}

/* The length is evaluated once, and may be an expression. */
TEST(test_length)
{
	size_t n = 3, calls = 0;

	assert_int_equal(bisect((calls++, n + 1), i, i < 4), 4);
	assert_int_equal(calls, 1);
}

RUN_TESTS(NULL, NULL)
