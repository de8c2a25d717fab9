// SPDX-License-Identifier: BSD-2-Clause
/* Symbols read by a process without privileges: this program is the file. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/inspector.h"

int inspected_function(int n);
__attribute__((noinline)) int inspected_function(int n)
{
	return n + 1;
}

struct seen_sites {
	size_t n;
	char name[64];
	int stop;
};

static int note_site(const struct probe_site *ps, void *arg)
{
	struct seen_sites *s = arg;

	s->n++;
	snprintf(s->name, sizeof(s->name), "%s", ps->symbol->name);
	assert_true(ps->symbol->offset && ps->site.offset >= ps->symbol->offset);
	return s->stop;
}

static int give_up(void *arg)
{
	++*(int *)arg;
	return -ECANCELED;
}

/* valgrind's own calls are not among those that the reader may make. */
static bool on_valgrind(void)
{
	const char *preloaded = getenv("LD_PRELOAD");

	return preloaded && strstr(preloaded, "vgpreload");
}

static void add(struct probe_table *pt, const char *symbol)
{
	char option[256];

	snprintf(option, sizeof(option), "/x/%s:%s", "program", symbol);
	assert_int_equal(probe_table_add_option(pt, option), 0);
}

static void test_sites(void **state)
{
	struct probe_table pt = {};
	struct seen_sites seen = {};
	struct inspector *ins;
	char build_id[ELF_BUILD_ID_MAX], instead[256];
	int fd, null, waits = 0, err;

	(void)state;
	if (on_valgrind())
		skip();
	add(&pt, "inspected_function");
	add(&pt, "inspected_functoin");
	assert_int_equal(inspector_new(&pt, &ins), 0);
	fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(inspector_sites(ins, fd, "/x/program", false, build_id, note_site, &seen), 0);
	assert_int_equal(seen.n, 1);
	assert_string_equal(seen.name, "inspected_function");
	/* a file of another name has none */
	assert_int_equal(inspector_sites(ins, fd, "/x/other", false, NULL, note_site, &seen), 0);
	assert_int_equal(seen.n, 1);
	seen.stop = -EIO;
	assert_int_equal(inspector_sites(ins, fd, "/x/program", false, NULL, note_site, &seen), -EIO);

	assert_int_equal(inspector_check(ins, fd, 0, instead, sizeof(instead)), 0);
	assert_int_equal(inspector_check(ins, fd, 1, instead, sizeof(instead)), -ENOENT);
	assert_non_null(strstr(instead, "inspected_function"));

	/* what is no ELF file, and one that cannot be read */
	null = memfd_create("empty", MFD_CLOEXEC);
	assert_int_equal(inspector_sites(ins, null, "/x/program", false, NULL, note_site, &seen), -ENOEXEC);
	close(null);
	null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	assert_int_equal(inspector_sites(ins, null, "/x/program", false, NULL, note_site, &seen), -ENOEXEC);
	close(null);

	/* the caller may end the wait; the next request is answered nevertheless */
	inspector_set_wait(ins, give_up, &waits);
	err = inspector_sites(ins, fd, "/x/program", false, NULL, note_site, &(struct seen_sites){});
	assert_true(waits ? err == -ECANCELED : !err);
	inspector_set_wait(ins, NULL, NULL);
	seen = (struct seen_sites){};
	assert_int_equal(inspector_sites(ins, fd, "/x/program", false, NULL, note_site, &seen), 0);
	assert_int_equal(seen.n, 1);
	close(fd);
	inspector_free(ins);
	probe_table_free(&pt);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sites),
	};

	return cmocka_run_group_tests_name("inspector", tests, NULL, NULL);
}
