// SPDX-License-Identifier: BSD-2-Clause
/* The files of one output: their names, which ones are left alone, and which are deleted. */
#include "sinks.h"

#include <fcntl.h>

#include "record/output.h"

static char directory[] = "/tmp/test_rotation.XXXXXX";

static void touch(const char *name)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	close(fd);
}

static int enter(void **state)
{
	strcpy(directory + sizeof(directory) - 7, "XXXXXX");
	if (setup(state) || !mkdtemp(directory))
		return -1;
	return chdir(directory);
}

static int leave(void **state)
{
	return leave_directory(directory) || teardown(state);
}

/* The names of the second file and, since a part of the third is there, of the fourth. */
TEST_WITH(test_names, enter, leave)
{
	static const char *const names[][3] = {
		{ "t.json", "t.2.json", "t.4.json" },
		{ "t.json.gz", "t.2.json.gz", "t.4.json.gz" },
		{ "t.pftrace.gz", "t.2.pftrace.gz", "t.4.pftrace.gz" },
		{ "./a.b.json", "./a.b.2.json", "./a.b.4.json" },
		{ ".json", ".2.json", ".4.json" },
		{ "profile", "profile.2", "profile.4" },
		{ "x.gz", "x.2.gz", "x.4.gz" },
		{ "%s%n", "%s%n.2", "%s%n.4" },
	};
	struct record_options o = { .max_size = 1 };
	char part[PATH_MAX];
	struct rotation *r;
	struct out_file out;
	int fd;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		r = rotation_new(&o, names[i][0], WRITER_PLAIN, false);
		for (unsigned int k = 1; k < 3; k++) {
			fd = rotation_create(r, &out);
			assert_true(fd >= 0);
			close(fd);
			assert_string_equal(out.name, names[i][k]);
			assert_int_equal(unlink(out_file_part_name(&out, part)), 0);
			snprintf(part, sizeof(part), "%s", out.name);
			if (k == 1)
				*strrchr(part, '2') = '3';
			touch(strcat(part, k == 1 ? ".part" : ""));
			free(out.name);
		}
		unlink(names[i][2]);
		rotation_free(r);
	}
}

struct one {
	struct sink *format;
	struct out_file file;
	struct rotation *rotation;
};

static void emit(struct one *o, unsigned int n)
{
	struct rec_fault f = { .h = hdr(REC_FAULT, 0) };

	for (unsigned int i = 0; i < n; i++) {
		sink_record(o->format, &f.h, sizeof(f));
		assert_int_equal(rotation_turn(o->rotation, &o->file, o->format, false), 0);
	}
}

static bool is_there(const char *name)
{
	return !access(name, F_OK);
}

static bool is_closed(const struct one *o)
{
	return !rotation_pending(o->rotation) && !writer_pending(o->file.w);
}

/* Of five files the newest two stay, and what another run has left. */
TEST_WITH(test_newest, enter, leave)
{
	struct record_options opt = { .max_size = 20000, .max_files = 2 };
	struct one o = { .file = { .name = strdup("t.json"), .created = true } };
	int fd = open("t.json", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	unsigned int turns = 0;

	touch("t.3.json");
	assert_int_equal(writer_new(fd, "t.json", WRITER_PLAIN, &o.file.w), 0);
	assert_int_equal(chrome_sink_new(o.file.w, &rec, &o.format), 0);
	o.rotation = rotation_new(&opt, "t.json", WRITER_PLAIN, false);
	while (strcmp(o.file.name, "t.6.json")) {
		emit(&o, 64);
		assert_true(turns++ < 100000);
		assert_int_equal(writer_flush(o.file.w), 0);
		while (!is_closed(&o))
			usleep(100);
		assert_int_equal(rotation_turn(o.rotation, &o.file, o.format, true), 0);
	}
	assert_int_equal(rotation_close(o.rotation), 0);
	assert_int_equal(sink_close(o.format, NULL), 0);
	assert_int_equal(rotation_end(o.rotation, &o.file), 0);
	assert_false(is_there("t.json") || is_there("t.2.json") || is_there("t.4.json"));
	assert_true(is_there("t.3.json") && is_there("t.5.json") && is_there("t.6.json"));
	assert_false(is_there("t.6.json.part"));
	rotation_free(o.rotation);
	free(o.file.name);
}

RUN_TESTS(NULL, NULL)
