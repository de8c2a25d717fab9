// SPDX-License-Identifier: BSD-2-Clause
/* The files that were looked at. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "capture/seen.h"

#define MANY 200000 /* more than are kept */

static void test_names(void **state)
{
	struct seen *s = seen_new();
	const char *build_id;

	(void)state;
	assert_non_null(s);
	assert_false(seen_has(s, 1, 10, "/a", NULL));
	seen_add(s, 1, 10, "/a", false, NULL);
	assert_true(seen_has(s, 1, 10, "/a", NULL));
	assert_false(seen_has(s, 1, 10, "/b", NULL));
	assert_false(seen_has(s, 2, 10, "/a", NULL));
	seen_add(s, 1, 10, "/a", true, NULL);
	assert_true(seen_has(s, 1, 10, "/b", NULL));
	assert_false(seen_has(s, 2, 10, "/b", NULL));
	seen_add(s, 0, 11, "/n", true, NULL); /* of any device */
	assert_true(seen_has(s, 5, 11, "/x", NULL));
	seen_add(s, 1, 0, "/a", true, NULL);
	assert_false(seen_has(s, 1, 0, "/a", NULL));
	seen_add(s, 1, 12, "/lib", true, "ab12");
	assert_true(seen_has(s, 1, 12, "/lib", &build_id));
	assert_string_equal(build_id, "ab12");
	seen_free(s);
}

/* Full, it forgets those without probes; and one inode under many names is found as fast. */
static void test_many(void **state)
{
	struct seen *s = seen_new();
	char name[32];
	size_t kept = 0;

	(void)state;
	assert_non_null(s);
	seen_add(s, 1, 7, "/probed", true, NULL);
	for (unsigned int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "/%u", i);
		seen_add(s, 1, i % 2 ? 8 : 1000 + i, name, false, NULL);
		assert_true(seen_has(s, 1, i % 2 ? 8 : 1000 + i, name, NULL));
	}
	assert_true(seen_has(s, 1, 7, "/other", NULL));
	for (unsigned int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "/%u", i);
		kept += seen_has(s, 1, i % 2 ? 8 : 1000 + i, name, NULL);
	}
	assert_in_range(kept, 1, MANY - 1);
	seen_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_many),
	};

	return cmocka_run_group_tests_name("seen", tests, NULL, NULL);
}
