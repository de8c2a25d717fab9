// SPDX-License-Identifier: BSD-2-Clause
/* The files that were looked at. */
#include "capture/checked_files.h"
#include "unit.h"

#define MANY 200000 /* more than are kept */

static void add(struct checked_files *s, uint64_t dev, uint64_t ino, const char *name, uint32_t number, uint64_t now_ns)
{
	checked_files_add(s, &(struct checked_file){ .dev = dev, .ino = ino, .name = name, .number = number }, now_ns);
}

static bool knows(struct checked_files *s, uint64_t dev, uint64_t ino, const char *name)
{
	return checked_files_use(s, dev, ino, name, 0, NULL);
}

TEST(test_names)
{
	struct checked_files *s = checked_files_new();
	bool claimed;

	assert_non_null(s);
	assert_false(knows(s, 1, 10, "/a"));
	add(s, 1, 10, "/a", 0, 0);
	assert_true(knows(s, 1, 10, "/a"));
	assert_false(knows(s, 1, 10, "/b"));
	assert_false(knows(s, 2, 10, "/a"));
	add(s, 1, 10, "/a", 1, 0);
	assert_true(knows(s, 1, 10, "/b"));
	assert_false(knows(s, 2, 10, "/b"));
	add(s, 0, 11, "/n", 2, 0); /* of any device */
	assert_true(knows(s, 5, 11, "/x"));
	add(s, 1, 0, "/a", 3, 0);
	assert_false(knows(s, 1, 0, "/a"));
	checked_files_add(s, &(struct checked_file){ .dev = 1, .ino = 12, .name = "/lib", .number = 4, .claimed = true }, 0);
	assert_true(checked_files_use(s, 1, 12, "/lib", 0, &claimed));
	assert_true(claimed);
	checked_files_free(s);
}

/* When full, it forgets files without probes; and one inode with many names is found as fast. */
TEST(test_many)
{
	struct checked_files *s = checked_files_new();
	char name[32];
	size_t kept = 0;

	assert_non_null(s);
	add(s, 1, 7, "/probed", 1, 0);
	for (unsigned int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "/%u", i);
		add(s, 1, i % 2 ? 8 : 1000 + i, name, 0, 0);
		assert_true(knows(s, 1, i % 2 ? 8 : 1000 + i, name));
	}
	assert_true(knows(s, 1, 7, "/other"));
	for (unsigned int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "/%u", i);
		kept += knows(s, 1, i % 2 ? 8 : 1000 + i, name);
	}
	assert_in_range(kept, 1, MANY - 1);
	checked_files_free(s);
}

struct given {
	uint64_t ino;
	uint32_t number;
	unsigned int n;
	bool refuses;
};

static bool note_given(uint64_t dev, uint64_t ino, uint32_t number, void *arg)
{
	struct given *g = arg;

	assert_int_equal(dev, 1);
	g->ino = ino;
	g->number = number;
	g->n++;
	return !g->refuses;
}

/* Unused files are forgotten, unless they were named by path or cannot be given back. */
TEST(test_unused)
{
	struct checked_files *s = checked_files_new();
	struct given g = { .refuses = true };

	assert_non_null(s);
	add(s, 0, 7, "/named", 9, 0);
	add(s, 1, 8, "/used", 5, 10);
	add(s, 1, 9, "/unused", 6, 10);
	assert_true(checked_files_use(s, 1, 8, "/used", 20, NULL));
	checked_files_forget_unused(s, 10, note_given, &g);
	assert_int_equal(g.n, 0);
	checked_files_forget_unused(s, 20, note_given, &g);
	assert_int_equal(g.n, 1);
	assert_int_equal(g.ino, 9);
	assert_int_equal(g.number, 6);
	g = (struct given){ 0 };
	checked_files_forget_unused(s, 20, note_given, &g);
	assert_int_equal(g.n, 1); /* it was kept */
	assert_false(knows(s, 1, 9, "/unused"));
	assert_true(checked_files_use(s, 1, 8, "/used", 20, NULL));
	assert_true(knows(s, 1, 7, "/named"));
	add(s, 1, 9, "/unused", 7, 30); /* again */
	assert_true(knows(s, 1, 9, "/unused"));
	checked_files_free(s);
}

RUN_TESTS(NULL, NULL)
