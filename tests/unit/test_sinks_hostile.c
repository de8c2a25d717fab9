// SPDX-License-Identifier: BSD-2-Clause
/* The sinks at their limits: the longest events, records that no kernel sends, many threads. */
#include "gpu/info.h"
#include "cases.h"
#include "sinks.h"

#include <fcntl.h>

#include "stderr.h"

/* Both sinks, fed the same records. */
struct both {
	struct out chrome, profile;
};

static void both_open(struct both *b)
{
	chrome_open(&b->chrome);
	profile_open(&b->profile, &plain);
}

static void both_emit(struct both *b, const struct rec_hdr *h)
{
	sink_record(b->chrome.s, h, REC_SIZE_MAX);
	sink_record(b->profile.s, h, REC_SIZE_MAX);
}

static void both_close(struct both *b)
{
	struct window_totals t = { .open_ns = START, .close_ns = START + 1 };

	chrome_read_any(&b->chrome);
	assert_int_equal(b->profile.s->ops->close(b->profile.s, &t), 0);
	read_text(&b->profile);
}

static void both_done(struct both *b)
{
	chrome_done(&b->chrome);
	profile_done(&b->profile);
}

/* Checks that each event is a line that fits the writer's buffer; returns the longest. */
static size_t longest_line(const struct out *o)
{
	size_t max = 0;

	for (const char *p = o->text, *end; (end = strchr(p, '\n')); p = end + 1)
		max = (size_t)(end - p) > max ? (size_t)(end - p) : max;
	return max;
}

/* ---- the longest names ---- */

/* Bytes that grow most when escaped: of an invalid sequence, or quotes. */
static const char growing[] = { '\xff', '"', '\\' };

static void make_name(char *buf, size_t len, char c)
{
	memset(buf, c, len);
	buf[len] = 0;
}

/* The maximum of arguments, all with the longest names; strings, and values with names. */
static void add_longest(char c, const struct enum_table *names, const char *symbol)
{
	struct probe_spec *s = spec_append(&probes, NULL, symbol);
	char name[SPEC_NAME_MAX + 1];
	const char *why;

	assert_non_null(s);
	s->role = ROLE_GPU_WAIT;
	s->flags = PROBE_F_SPAN;
	for (int i = 0; i < FUNC_VALS_MAX; i++) {
		make_name(name, SPEC_NAME_MAX, c);
		name[0] = (char)('a' + i);
		assert_int_equal(spec_add_arg(s, name,
					 i < FUNC_STRS_MAX ? "str arg1"
					 : names           ? "e arg1"
							   : "s64 arg1",
					 names, 1, &why),
			0);
	}
	make_name(name, SPEC_NAME_MAX, c);
	assert_int_equal(spec_add_arg(s, name, "u8 arg1", names, 1, &why), -EINVAL);
}

static void fill_record(char strs[][FUNC_STR_LEN], uint64_t *vals, bool named)
{
	memset(strs, 1,
		FUNC_STRS_MAX * FUNC_STR_LEN); /* each byte becomes six, and there is no NUL */
	for (int i = 0; i < FUNC_VALS_MAX; i++)
		vals[i] = named ? 0 : (uint64_t)INT64_MIN;
}

static void emit_longest(struct both *b, uint32_t id, bool named)
{
	struct rec_function f = { .h = hdr(REC_FUNCTION, id) };
	struct rec_step r = { .h = hdr(REC_STEP, id) };

	f.h.flags = r.h.flags = 0xff;
	f.h.start_ns = r.h.start_ns = INT64_MAX / 2; /* the largest that a reader takes */
	f.h.dur_ns = r.h.dur_ns = INT64_MAX / 2;
	fill_record(f.strs, f.vals, named);
	fill_record(r.strs, r.vals, named);
	r.number = r.lost = UINT32_MAX;
	memset(&r.n, 0xff, sizeof(r.n));
	memset(r.ns, 0xff, sizeof(r.ns));
	both_emit(b, &f.h);
	both_emit(b, &r.h);
}

/* A thread's name is 15 bytes, of any kind. */
static void rename_threads(char c)
{
	char comm[TASK_COMM_LEN];

	make_name(comm, sizeof(comm) - 1, c);
	tell_task(TASK_COMM, PID, PID, comm);
	tell_task(TASK_COMM, PID, TID, comm);
}

TEST_WITH(test_longest, setup, teardown)
{
	char symbol[SPEC_STRING_MAX + 1], value[SPEC_NAME_MAX + 1];
	char *names[] = { value };
	const struct enum_table table = { .name = "e", .names = names, .n = 1 };
	struct both b;

	for (size_t i = 0; i < sizeof(growing); i++) {
		make_name(symbol, SPEC_STRING_MAX, growing[i]);
		make_name(value, SPEC_NAME_MAX, growing[i]);
		add_longest(growing[i], &table, symbol);
		add_longest(growing[i], NULL, symbol);
		rename_threads(1);
		both_open(&b);
		/* until each of them was at the end of the writer's buffer */
		for (int k = 0; k < 300; k++)
			emit_longest(&b, (uint32_t)(2 * i + (size_t)k % 2), k % 2 == 0);
		both_close(&b);
		assert_in_range(longest_line(&b.chrome), 1000, WRITER_EVENT_MAX - 3);
		validate(&b.chrome, false);
		both_done(&b);
	}
}

/* ---- records of noise ---- */

static union {
	struct rec_hdr h;
	struct rec_syscall syscall;
	struct rec_off_cpu off_cpu;
	struct rec_on_cpu on_cpu;
	struct rec_fault fault;
	struct rec_function function;
	struct rec_step step;
	struct rec_step_parts parts;
	struct rec_request request;
	struct rec_task task;
	struct rec_gpu gpu;
	struct rec_gpu_step gpu_step;
	struct rec_gap gap;
} noise;

static void make_noise(void)
{
	unsigned char *p = (unsigned char *)&noise;
	uint8_t kind = (uint8_t)(draw() % (REC_KIND_MAX + 2));
	/* a gap is by far the largest, and takes as long as that */
	size_t size = kind == REC_GAP ? sizeof(noise.gap) : sizeof(noise.parts);

	_Static_assert(sizeof(noise.parts) >= sizeof(noise.gpu_step), "the largest of the others");
	for (size_t i = 0; i < size; i++)
		p[i] = (unsigned char)(draw() % 3 ? draw() : 0);
	noise.h.kind = kind;
	/* often an existing one */
	if (draw() % 4)
		noise.h.id %= 20;
	if (draw() % 4)
		noise.h.tgid = PID + (uint32_t)(draw() % 5);
	if (draw() % 4)
		noise.h.tid = PID + (uint32_t)(draw() % 50);
	if (draw() % 4)
		noise.h.start_ns = START + draw() % 1000000;
	if (draw() % 4)
		noise.h.dur_ns %= 1000000;
	if (noise.h.kind == REC_GPU && draw() % 4) {
		noise.gpu.track %= 10;
		noise.gpu.device = noise.gpu.track % 3;
	}
	if (noise.h.kind == REC_GPU_STEP && draw() % 4) {
		noise.gpu_step.n_devices %= 20;
		for (unsigned int i = 0; i < GPU_STEP_DEVICES; i++) {
			noise.gpu_step.devices[i].track %= 10;
			noise.gpu_step.devices[i].device = noise.gpu_step.devices[i].track % 3;
		}
	}
	if (noise.h.kind == REC_GAP && draw() % 4) {
		noise.gap.n_causes %= GAP_CAUSES_MAX + 2;
		noise.gap.n %= GAP_SEGMENTS_MAX + 2;
	}
	if (noise.h.kind == REC_STEP && draw() % 4)
		noise.step.n_parts %= STEP_PARTS_MAX + 2;
}

/* Whatever the records hold, the output is JSON, line by line, and nothing overruns (the sanitizers and valgrind check that). */
TEST_WITH(test_noise, setup, teardown)
{
	const unsigned int n = cases(20000, 4000);
	struct json_object *line;
	struct gpu_info *info;
	uint32_t track;
	struct both b;

	add_probe("span", ROLE_STEP, PROBE_F_SPAN, "a == 1 ? decode : prefill",
		"s32 arg1,ptr arg2,u64 arg3");
	add_probe("\x80\xff", ROLE_OP, PROBE_F_SPAN, "$a", "op arg1,str arg2,str arg3");
	add_probe("instant", ROLE_LAUNCH, PROBE_F_INSTANT, NULL, "u8 arg1,s8 arg2");
	info = gpu_info_new();
	rec.gpu = info;
	for (uint32_t i = 0; i < 10; i++)
		gpu_info_track(info, &(struct gpu_track){ .device = i % 3, .tgid = PID + i % 2, .stream = i }, START, START, &track);
	gpu_info_name(info, "_Z1f\x1b\xff");
	for (uint32_t i = 0; i < GPU_DEVICES_MAX; i++) {
		struct gpu_device about = { .pci = "FFFFFFFF:FF:FF.F", .uuid = { (uint8_t)i, 1 }, .uuid_kind = GPU_UUID_MIG };

		memset(about.name, i % 2 ? '\xff' : '"', sizeof(about.name) - 1);
		gpu_devices_add(gpu_info_devices(info), &about, i, false, &track);
	}
	gpu_info_expect(info, PID, true);
	both_open(&b);
	for (unsigned int i = 0; i < n; i++) {
		make_noise();
		if (noise.h.kind == REC_TASK)
			tasks_update(rec.tasks, &noise.task);
		both_emit(&b, &noise.h);
		if (i % 1000 == 0) {
			struct loss l = { .from_ns = draw(), .to_ns = draw() };

			l.count[draw() % REC_KIND_MAX] = draw();
			sink_loss(b.chrome.s, &l);
		}
	}
	both_close(&b);
	assert_true(json_object_array_length(b.chrome.events) > n / 2);
	for (char *p = b.profile.text, *end; (end = strchr(p, '\n')); p = end + 1) {
		*end = 0;
		line = json_tokener_parse(p);
		assert_true(json_object_is_type(line, json_type_object));
		json_object_put(line);
	}
	both_done(&b);
	rec.gpu = NULL;
	gpu_info_free(info);
}

/* ---- many threads ---- */

/* A thread's first record also makes its process known, for which the table may have to grow: the thread must keep its own name. */
TEST_WITH(test_growing_table, setup, teardown)
{
	const uint32_t n = 3000;
	unsigned int found = 0;
	char name[TASK_COMM_LEN];
	struct out o;

	chrome_open(&o);
	for (uint32_t i = 0; i < n; i++) {
		struct rec_syscall r = { .h = hdr(REC_SYSCALL, 0) };

		r.h.tgid = PID + 10000 + 2 * i;
		r.h.tid = r.h.tgid + 1;
		snprintf(name, sizeof(name), "thread-%u", i);
		tell_task(TASK_COMM, r.h.tgid, r.h.tid, name);
		/* an odd number, so that the table fills up before a process, and before a thread */
		if (i == 1000)
			tell_task(TASK_COMM, PID, PID + 9000, "odd");
		EMIT(&o, &r);
	}
	chrome_read(&o);
	for (size_t i = 0; i < json_object_array_length(o.events); i++) {
		struct json_object *e = json_object_array_get_idx(o.events, i);

		if (strcmp(field(e, "name"), "thread_name"))
			continue;
		snprintf(name, sizeof(name), "thread-%u", found);
		assert_string_equal(arg(e, "name"), name);
		assert_track(e, PID + 10000 + 2 * found, PID + 10001 + 2 * found);
		found++;
	}
	assert_int_equal(found, n);
	chrome_done(&o);
}

/* A number taken over by another process's thread gets a new name. */
TEST_WITH(test_reused_thread, setup, teardown)
{
	struct rec_syscall r = { .h = hdr(REC_SYSCALL, 0) };
	struct json_object *e;
	struct out o;

	chrome_open(&o);
	EMIT(&o, &r);
	tell_task(TASK_EXIT, PID, TID, "worker");
	tell_task(TASK_FORK, TID, TID, "other");
	r.h.tgid = TID;
	r.h.start_ns += 10000;
	EMIT(&o, &r);
	chrome_read(&o);
	e = find(&o, "M", "thread_name", 0);
	assert_track(e, PID, TID);
	assert_text(arg(e, "name"), "worker");
	e = find(&o, "M", "thread_name", 1);
	assert_track(e, TID, TID);
	assert_text(arg(e, "name"), "other");
	e = find(&o, "M", "process_name", 2);
	assert_track(e, TID, TID);
	assert_text(arg(e, "name"), "other");
	chrome_done(&o);
}

/* ---- outputs that fail ---- */

/* A full disk is reported once and is no crash; the sinks continue, and closing them returns that error. */
TEST_WITH(test_full, setup, teardown)
{
	struct rec_step r = { .h = hdr(REC_STEP, 0) };
	struct window_totals t = { .open_ns = START, .close_ns = START + 1 };
	static struct stderr_grab said;

	add_probe("step", ROLE_STEP, PROBE_F_SPAN, NULL, "");
	for (int i = 0; i < 2; i++) {
		int fd = open("/dev/full", O_WRONLY | O_CLOEXEC), flushed, closed;
		struct writer *w;
		struct sink *s;

		assert_true(fd >= 0);
		w = writer_new(fd, "full", i ? WRITER_LINES : WRITER_GZIP);
		rec.meta = &plain;
		s = (i ? profile_sink_new : chrome_sink_new)(w, &rec);
		stderr_grab_begin(&said);
		for (int k = 0; k < 10000; k++)
			sink_record(s, &r.h, sizeof(r));
		sink_flush(s);
		writer_sync(w);
		flushed = sink_flush(s);
		closed = s->ops->close(s, &t);
		stderr_grab_end(&said);
		assert_int_equal(flushed, -ENOSPC);
		assert_int_equal(closed, -ENOSPC);
		assert_string_equal(said.text,
			"inftrace: cannot write full: No space left on device; the file is "
			"valid up to here\n");
	}
}

RUN_TESTS(NULL, NULL)
