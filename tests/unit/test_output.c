// SPDX-License-Identifier: BSD-2-Clause
/* Outputs of a recording as sinks: which files they create, and what happens to them. */
#include "sinks.h"

#include <fcntl.h>
#include <pthread.h>

#include "fake_sink.h"
#include "record/options.h"
#include "record/output.h"
#include "stderr.h"

static char directory[] = "/tmp/test_output.XXXXXX";
static struct fake_sink fake;
static const struct profile_meta meta = { .model = "m", .concurrency = 1, .runtime_flags = "{}" };
static char told[1024]; /* the reported files, each followed by a blank */

static void on_file(const char *name, uint64_t bytes, void *arg)
{
	strcat(strcat(told, name), " ");
}

static int enter(void **state)
{
	strcpy(directory + sizeof(directory) - 7, "XXXXXX");
	if (setup(state) || !mkdtemp(directory))
		return -1;
	told[0] = '\0';
	memset(&fake, 0, sizeof(fake));
	rec.meta = &meta;
	rec.on_file = on_file;
	rec.name_real_ns = 1763616000123000000;
	rec.tgid = 0;
	return chdir(directory);
}

static int leave(void **state)
{
	rec.on_file = NULL;
	return leave_directory(directory) || teardown(state);
}

static bool is_there(const char *name)
{
	return !access(name, F_OK);
}

static void touch(const char *name)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	close(fd);
}

static size_t n_files(void)
{
	DIR *d = opendir(".");
	struct dirent *e;
	size_t n = 0;

	while (d && (e = readdir(d)))
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

static void emit(struct sink *s, uint32_t tgid)
{
	struct rec_fault f = { .h = hdr(REC_FAULT, 0) };

	f.h.tgid = f.h.tid = tgid;
	sink_record(s, &f.h, sizeof(f));
}

static const struct window_totals totals = { .open_ns = START, .close_ns = START + 1000000 };

static struct sink *open_outputs(const struct record_options *o)
{
	struct sink *s;

	assert_int_equal(outputs_open(o, &rec, NULL, 0, &s), 0);
	return s;
}

TEST_WITH(test_named, enter, leave)
{
	const struct record_options o = {
		.outputs = { "a.json", "b.pftrace.gz" }, .n_outputs = 2, .profile = "p.jsonl" };
	struct sink *s;
	int fd;

	s = open_outputs(&o);
	assert_string_equal(outputs_name(s, 0), "a.json");
	assert_string_equal(outputs_name(s, 2), "p.jsonl");
	assert_null(outputs_name(s, 3));
	emit(s, PID);
	fd = outputs_reopen(s, 1);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(sink_flush(s), 0);
	assert_int_equal(sink_close(s, &totals), 0);
	assert_string_equal(told, "a.json b.pftrace.gz p.jsonl ");
	assert_int_equal(n_files(), 3);
}

/* Files created by the recording are removed, existing ones stay. */
TEST_WITH(test_nothing_recorded, enter, leave)
{
	const struct record_options o = { .outputs = { "new.json", "old.json" }, .n_outputs = 2 };

	touch("old.json");
	sink_close(open_outputs(&o), NULL);
	assert_true(is_there("old.json"));
	assert_int_equal(n_files(), 1);
	assert_string_equal(told, "");
}

TEST_WITH(test_written_by_another, enter, leave)
{
	const struct record_options o = { .outputs = { "a.json" }, .n_outputs = 1 };
	static struct stderr_grab g;
	struct sink *s = open_outputs(&o), *other = NULL;
	int err;

	stderr_grab_begin(&g);
	err = outputs_open(&o, &rec, NULL, 0, &other);
	assert_non_null(strstr(stderr_grab_end(&g), "another recording is writing it"));
	assert_int_equal(err, -EBUSY);
	assert_null(other);
	assert_int_equal(sink_close(s, NULL), 0);
}

static struct record_options by_time(void)
{
	return (struct record_options){
		.window_spec = "manual", .output_dir = ".", .formats = { "json" }, .n_formats = 1, .profile_format = "jsonl" };
}

/* By process, under part names until they are complete. */
TEST_WITH(test_by_time, enter, leave)
{
	const struct record_options o = by_time();
	struct sink *s = open_outputs(&o);

	emit(s, PID);
	emit(s, PID + 9);
	assert_true(is_there("trace_pid5000000_1763616000123.json.part"));
	assert_true(is_there("profile_pid5000009_1763616000123.jsonl.part"));
	assert_int_equal(sink_close(s, &totals), 0);
	assert_true(is_there("trace_pid5000000_1763616000123.json"));
	assert_true(is_there("profile_pid5000009_1763616000123.jsonl"));
	assert_int_equal(n_files(), 4);
}

/* An incomplete file keeps its part name. */
TEST_WITH(test_cut, enter, leave)
{
	const struct record_options o = by_time();
	const struct window_totals cut = { .open_ns = START, .close_ns = START + 1000000, .cut = true };
	struct sink *s = open_outputs(&o);

	emit(s, PID);
	assert_int_equal(sink_close(s, &cut), 0);
	assert_true(is_there("trace_pid5000000_1763616000123.json.part"));
	assert_false(is_there("trace_pid5000000_1763616000123.json"));
}

/* Nothing is overwritten, and the files of a process have the same time. */
TEST_WITH(test_taken, enter, leave)
{
	struct record_options o = by_time();

	o.all = true;
	touch("profile_system_1763616000123.jsonl");
	touch("trace_system_1763616000124.json.part");
	assert_int_equal(sink_close(open_outputs(&o), &totals), 0);
	assert_true(is_there("trace_system_1763616000125.json"));
	assert_true(is_there("profile_system_1763616000125.jsonl"));
	assert_int_equal(n_files(), 4);
}

static int open_view(struct view *v, const struct recording *r, struct sink **ret_sink)
{
	fake.sink.ops = &fake_ops;
	*ret_sink = &fake.sink;
	return 0;
}

/* A view gets the same events as the files. */
TEST_WITH(test_view, enter, leave)
{
	static const struct view_ops view_ops = { .open = open_view };
	struct view v = { .ops = &view_ops };
	const struct record_options o = { .outputs = { "a.json" }, .n_outputs = 1, .view = &v };
	struct sink *s = open_outputs(&o);

	emit(s, PID);
	sink_settled(s);
	assert_int_equal(sink_flush(s), 0);
	assert_int_equal(fake.records, 1);
	assert_int_equal(fake.settled, 1);
	assert_null(outputs_name(s, 1));
	assert_int_equal(outputs_reopen(s, 1), -ENOENT);
	fake.close_err = -EPIPE;
	assert_int_equal(sink_close(s, &(struct window_totals){ .open_ns = START }), -EPIPE);
	assert_true(is_there("a.json"));
}

/* Copies into read.json. */
static void *read_all(void *arg)
{
	char buf[65536];
	int fd = *(int *)arg, to = open("read.json", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	ssize_t n;

	fcntl(fd, F_SETFL, 0);
	while ((n = read(fd, buf, sizeof(buf))) > 0)
		assert_int_equal(write(to, buf, (size_t)n), n);
	close(fd);
	close(to);
	return NULL;
}

static void emit_step(struct sink *s, uint64_t from, uint64_t to)
{
	struct rec_step step = { .h = hdr(REC_STEP, 0) };

	step.h.start_ns = START + from;
	step.h.dur_ns = to - from;
	sink_record(s, &step.h, sizeof(step));
}

/* A pipe reader that stalls costs records, but neither steps nor the lifetime of tasks; lost records are counted, also in
 * the steps that lack them. */
TEST_WITH(test_slow_reader, enter, leave)
{
	const struct record_options o = { .outputs = { "pipe.json" }, .n_outputs = 1 };
	uint64_t counts[REC_KIND_MAX] = { 0 }, end;
	struct rec_hdr fault = hdr(REC_FAULT, 0);
	pthread_t reader;
	struct sink *s;
	size_t steps = 0;
	char *text = calloc(1, 64 << 20);
	int in;

	add_probe("step", ROLE_STEP, PROBE_F_SPAN, NULL, "");
	end = fault.start_ns + fault.dur_ns - START;
	assert_int_equal(mkfifo("pipe.json", 0600), 0);
	in = open("pipe.json", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	s = open_outputs(&o);
	emit_step(s, end, end + 10);
	for (unsigned int i = 0; i < 2000000 && !counts[REC_FAULT]; i++) {
		emit(s, PID);
		sink_dropped(s, counts);
	}
	assert_int_equal(counts[REC_FAULT], 1);
	emit(s, PID);
	emit_step(s, end, end + 10);
	emit_step(s, end + 100000000, end + 100000010);
	sink_dropped(s, counts);
	assert_int_equal(counts[REC_FAULT], 3);
	assert_int_equal(counts[REC_STEP], 0);
	assert_true(sink_pending(s) > 0);
	assert_int_equal(pthread_create(&reader, NULL, read_all, &in), 0);
	assert_int_equal(sink_close(s, &totals), 0);
	pthread_join(reader, NULL);
	in = open("read.json", O_RDONLY | O_CLOEXEC);
	assert_in_range(read(in, text, (64 << 20) - 1), 1, (64 << 20) - 2);
	close(in);
	for (const char *p = text; (p = strstr(p, "\"cat\":\"step\"")); p++) {
		const char *lost = strstr(p, "\"lost_records\":"), *next = strstr(p + 1, "\"cat\":\"step\"");
		bool has = lost && (!next || lost < next);

		assert_int_equal(has ? atoi(lost + strlen("\"lost_records\":")) : 0, steps == 1 ? 2 : 0);
		steps++;
	}
	assert_int_equal(steps, 3);
	free(text);
}

/* ---- --max-size ---- */

/* Emits until this file appears. */
static void emit_until(struct sink *s, const char *name)
{
	for (unsigned int i = 0; strcmp(outputs_name(s, 0), name); i++) {
		assert_true(i < 6400000);
		if (i % 64)
			emit(s, PID);
		else
			assert_int_equal(sink_flush(s), 0);
		while (!(i % 64) && sink_pending(s))
			usleep(100);
	}
}

/* The names of the second file and, since the third is still partial, of the fourth. */
TEST_WITH(test_names, enter, leave)
{
	static const char *const names[][4] = {
		{ "t.json", "t.2.json", "t.3.json.part", "t.4.json" },
		{ "t.json.gz", "t.2.json.gz", "t.3.json.gz.part", "t.4.json.gz" },
		{ "t.pftrace.gz", "t.2.pftrace.gz", "t.3.pftrace.gz.part", "t.4.pftrace.gz" },
		{ "./a.b.json", "./a.b.2.json", "./a.b.3.json.part", "./a.b.4.json" },
		{ ".json", ".2.json", ".3.json.part", ".4.json" },
		{ "profile", "profile.2", "profile.3.part", "profile.4" },
		{ "x.gz", "x.2.gz", "x.3.gz.part", "x.4.gz" },
		{ "%s%n", "%s%n.2", "%s%n.3.part", "%s%n.4" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const struct record_options o = { .outputs = { names[i][0] }, .n_outputs = 1, .max_size = 1 };
		struct sink *s = open_outputs(&o);

		emit_until(s, names[i][1]);
		touch(names[i][2]);
		emit_until(s, names[i][3]);
		assert_int_equal(sink_close(s, &totals), 0);
		for (unsigned int k = 0; k < 4; k++)
			assert_int_equal(unlink(names[i][k]), 0);
	}
	assert_int_equal(n_files(), 0);
}

/* Of five files the newest two stay, and so do another run's. */
TEST_WITH(test_newest, enter, leave)
{
	const struct record_options o = { .outputs = { "t.json" }, .n_outputs = 1, .max_size = 20000, .max_files = 2 };
	struct sink *s;

	touch("t.3.json");
	s = open_outputs(&o);
	emit_until(s, "t.6.json");
	assert_int_equal(sink_close(s, &totals), 0);
	assert_true(is_there("t.3.json") && is_there("t.5.json") && is_there("t.6.json"));
	assert_int_equal(n_files(), 3);
}

RUN_TESTS(NULL, NULL)
