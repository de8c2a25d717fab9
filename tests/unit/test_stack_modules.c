// SPDX-License-Identifier: BSD-2-Clause
/* The files that code is in: any number of them, as processes come and go. */
#include <fcntl.h>
#include <sys/mman.h>

#include "stack/lookup.h"
#include "stack/unwind.h"
#include "unit.h"

#define MANY (READER_FILES_MAX + 100)
#define OPEN_MAX_MORE 500 /* descriptors: far less than these */

struct text {
	char *data;
	size_t size;
};

/* A file of its own, mapped by this process. */
struct copy {
	char path[64];
	struct mapped_file file;
	void *map;
	size_t size;
};

/* Any ELF file. */
static struct text read_self(void)
{
	struct text t = { .size = 0 };
	FILE *f = fopen("/proc/self/exe", "re");

	assert_non_null(f);
	assert_int_equal(fseek(f, 0, SEEK_END), 0);
	t.size = (size_t)ftell(f);
	rewind(f);
	t.data = malloc(t.size);
	assert_non_null(t.data);
	assert_int_equal(fread(t.data, 1, t.size, f), t.size);
	fclose(f);
	return t;
}

static int find_copy(const struct mapped_file *m, void *arg)
{
	struct copy *c = arg;

	if (m->start != (uintptr_t)c->map)
		return 0;
	c->file = *m;
	c->file.path = c->path;
	return 1;
}

static void copy_map(struct copy *c, const struct text *t)
{
	int fd;

	snprintf(c->path, sizeof(c->path), "/tmp/test_stack_modules.XXXXXX");
	fd = mkostemp(c->path, O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, t->data, t->size), t->size);
	c->size = t->size;
	c->map = mmap(NULL, c->size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	assert_true(c->map != MAP_FAILED);
	close(fd);
	assert_int_equal(process_each_executable(getpid(), find_copy, c), 1);
}

static void copy_unmap(const struct copy *c)
{
	munmap(c->map, c->size);
	unlink(c->path);
}

static unsigned int open_files(void)
{
	unsigned int n = 0;

	for (int fd = 0; fd < 2 * MANY; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static struct module *get(struct modules *ms, const struct copy *c)
{
	bool fault = true;
	struct module *m = modules_get(ms, getpid(), &c->file, &fault);

	assert_non_null(m);
	assert_false(fault);
	return m;
}

TEST(test_many)
{
	unsigned int before = open_files(), drops = 0;
	struct modules_stats stats;
	struct text self = read_self();
	struct module *first;
	struct copy kept, c;
	struct modules *ms;
	struct intern *in = intern_new(1 << 20);

	assert_int_equal(modules_new(in, &ms), 0);
	copy_map(&kept, &self);
	first = get(ms, &kept);
	for (int i = 0; i < MANY; i++) {
		if (modules_many(ms)) {
			modules_use(first);
			modules_drop_unused(ms);
			drops++;
		}
		copy_map(&c, &self);
		get(ms, &c);
		copy_unmap(&c);
	}
	assert_true(drops > 1);
	assert_true(open_files() < before + OPEN_MAX_MORE);
	/* one that was in use is still known */
	assert_ptr_equal(get(ms, &kept), first);
	modules_stats(ms, &stats);
	assert_int_equal(stats.failed, 0);
	assert_int_equal(stats.files, MANY + 1);
	copy_unmap(&kept);
	modules_free(ms);
	intern_free(in);
	free(self.data);
}

RUN_TESTS(NULL, NULL)
