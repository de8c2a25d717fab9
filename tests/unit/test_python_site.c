// SPDX-License-Identifier: BSD-2-Clause
/*
 * Where interpreters begin and end running Python functions: in the installed ones, with and without symbol tables, and in
 * damaged ones. How good the places are is tested in tests/integration/py-steps.sh.
 */
#include <fcntl.h>
#include <glob.h>

#include "target/python.h"
#include "unit.h"

#define DAMAGED 6 /* copies of each */

static char copy[] = "/tmp/test_python_site.XXXXXX";
static glob_t files; /* with an interpreter of a supported version */

static int find(const char *path, struct python_sites *ret_sites)
{
	struct elf_file *elf = NULL;
	int fd = open(path, O_RDONLY | O_CLOEXEC), err = -errno;
	const char *why = NULL;

	if (fd < 0)
		return err;
	err = elf_open_fd(fd, &elf);
	if (!err) {
		err = python_sites_find(elf, ret_sites, &why);
		if (err == -ENOTSUP)
			assert_non_null(why);
		elf_close(elf);
	}
	return err;
}

static void assert_places(const struct python_sites *s)
{
	unsigned int entries = 0, exits = 0;

	for (unsigned int i = 0; i < s->n; i++) {
		assert_true(s->sites[i].cheap);
		assert_int_equal(s->sites[i].python, s->layout);
		(*(s->sites[i].exit ? &exits : &entries))++;
	}
	assert_true(entries > 0 && exits > 0);
	assert_true(s->minor >= 8 && s->minor <= 14);
}

/* Copies a file with random byte changes in one part. */
static void damage(const char *path, unsigned int seed, size_t at, size_t len, unsigned int one_of)
{
	FILE *from = fopen(path, "r"), *to = fopen(copy, "w");
	size_t i = 0;
	int c;

	assert_non_null(from);
	assert_non_null(to);
	while ((c = getc_unlocked(from)) != EOF) {
		if (i - at < len && !(rand_r(&seed) % one_of))
			c = rand_r(&seed) & 0xff;
		putc_unlocked(c, to);
		i++;
	}
	fclose(from);
	assert_int_equal(fclose(to), 0);
}

TEST(test_installed)
{
	unsigned int found = 0;

	for (size_t i = 0; i < files.gl_pathc; i++) {
		struct python_sites whole, stripped;
		char command[1024];

		if (find(files.gl_pathv[i], &whole))
			continue;
		assert_places(&whole);
		print_message("%s: 3.%u, %u places\n", files.gl_pathv[i], whole.minor, whole.n);
		snprintf(command, sizeof(command), "strip --strip-all -o %s %s", copy, files.gl_pathv[i]);
		assert_int_equal(system(command), 0);
		assert_int_equal(find(copy, &stripped), 0);
		assert_int_equal(stripped.n, whole.n);
		for (unsigned int k = 0; k < whole.n; k++) {
			assert_int_equal(stripped.sites[k].reg, whole.sites[k].reg);
			assert_int_equal(stripped.sites[k].exit_units, whole.sites[k].exit_units);
		}
		found++;
	}
	if (!found)
		skip();
}

/* Places are found, or the reason why not; whatever the bytes are. */
TEST(test_damaged)
{
	struct python_sites s;
	uint32_t layouts = 0;

	for (size_t i = 0; i < files.gl_pathc; i++) {
		const char *path = files.gl_pathv[i];

		if (find(path, &s) || layouts & 1u << s.layout)
			continue;
		layouts |= 1u << s.layout;
		for (unsigned int seed = 0; seed < DAMAGED; seed++) {
			/* code, symbols and notes; with a damaged header nothing would be read */
			damage(path, seed, 64u << seed, SIZE_MAX, 400);
			if (!find(copy, &s))
				assert_places(&s);
		}
	}
	if (!layouts)
		skip();
}

static int setup(void **state)
{
	char pattern[512];
	const char *home = getenv("HOME");
	int fd = mkstemp(copy);

	glob("/usr/bin/python3.[0-9]*[0-9]", 0, NULL, &files);
	glob("/usr/lib/*-linux-gnu/libpython3.*.so.1.0", GLOB_APPEND, NULL, &files);
	snprintf(pattern, sizeof(pattern), "%s/.pyenv/versions/3.*/lib/libpython3.*.so.1.0", home ? home : "");
	glob(pattern, GLOB_APPEND, NULL, &files);
	return fd < 0 ? -1 : close(fd);
}

static int teardown(void **state)
{
	globfree(&files);
	return unlink(copy);
}

RUN_TESTS(setup, teardown)
