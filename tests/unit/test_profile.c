// SPDX-License-Identifier: BSD-2-Clause
/* The profile from records of steps: every byte of a line, sums, and the contents of the envelope. */
#include "schema/left_out.h"
#include "sinks.h"
#include "util/program.h"

#include <fcntl.h>

static const struct window_totals totals = { .open_ns = START, .close_ns = START + 1000 };

struct asked {
	const struct profile_meta *meta;
	unsigned int n;
	uint32_t tgid;
};

static const struct profile_meta *meta_of(void *arg, uint32_t tgid)
{
	struct asked *a = arg;

	a->n++;
	a->tgid = tgid;
	return a->meta;
}

static void profile_close(struct out *o, const struct window_totals *t)
{
	assert_int_equal(o->s->ops->close(o->s, t), 0);
	read_text(o);
}

static struct json_object *line(struct out *o, unsigned int nth)
{
	const char *p = o->text;

	while (nth--)
		p = strchr(p, '\n') + 1;
	json_object_put(o->events);
	o->events = json_tokener_parse(p);
	assert_true(json_object_is_type(o->events, json_type_object));
	return o->events;
}

static const char *shape_of(struct out *o, unsigned int nth, const char *key)
{
	return field(json_object_object_get(line(o, nth), "shape"), key);
}

static unsigned int count_lines(const struct out *o)
{
	unsigned int n = 0;

	for (const char *p = o->text; (p = strchr(p, '\n')); p++)
		n++;
	return n;
}

/* One line with everything known, to the byte. */
TEST_WITH(test_line, setup, teardown)
{
	struct asked asked = {};
	struct profile_meta meta = {
		.commit_sha = "abc",
		.model = "qwen 3",
		.concurrency = 4,
		.runtime_flags = "{\"threads\":8}",
		.env_hash = "sha256:0123",
		.of = meta_of,
		.arg = &asked,
	};
	struct rec_step r = { .h = hdr(REC_STEP, 0),
		.number = 17,
		.lost = 2,
		.vals = { 1, UINT64_MAX, UINT64_MAX, 1 } };
	struct out o;

	asked.meta = &meta;
	add_probe("llama_decode", ROLE_STEP, PROBE_F_SPAN, "a == 1 ? decode : prefill",
		"s32 *(sp+8),s64 arg2,u64 arg3,op arg4");
	profile_open(&o, &meta);
	r.n = (struct step_counts){ 3, 2, 1, 5, 6, 7, 1, 4 };
	r.h.dur_ns = 1234567;
	r.ns[ST_CPU] = 1000000;
	r.ns[ST_BARRIER] = 234000;
	r.ns[ST_BLOCKED_FUTEX] = 566;
	r.ns[ST_STOPPED] = 1;
	r.h.flags = REC_F_OPEN_END;
	EMIT(&o, &r);
	profile_close(&o, NULL);
	assert_string_equal(o.text,
		"{\"event\":\"token_prof\",\"commit_sha\":\"abc\",\"env_hash\":\"sha256:0123\","
		"\"model\":\"qwen 3\",\"concurrency\":4,\"shape\":{\"step\":17,\"pid\":5000000,"
		"\"tid\":5000001,\"phase\":\"decode\",\"a\":1,\"b\":-1,\"c\":18446744073709551615,"
		"\"d\":1,"
		"\"ts_us\":10.000,\"switches\":5,\"switches_voluntary\":3,\"migrations\":1,"
		"\"faults_minor\":5,\"faults_major\":6,\"syscalls\":7,\"lost\":2,\"unfinished\":"
		"true,\"cpus_allowed\":4,\"workers\":0},"
		"\"stage_us\":{\"total\":1234.567,\"cpu\":1000.000,\"barrier\":234.000,"
		"\"blocked_futex\":0.566,\"stopped\":0.001},\"graph_enabled\":true,"
		"\"runtime_flags\":{\"threads\":8},\"source\":\"native\",\"inftrace\":1}\n");
	assert_int_equal(asked.n, 1);
	assert_int_equal(asked.tgid, PID);
	profile_done(&o);
}

/* Checks what follows "workers" and "total" in the line of a step that was held up. */
static void check_held_up(const struct rec_step *r, const char *shape, const char *stages)
{
	struct out o;
	char *p;

	profile_open(&o, &plain);
	EMIT(&o, r);
	profile_close(&o, NULL);
	p = strstr(o.text, "\"workers\"");
	assert_non_null(p);
	p[strlen(shape)] = 0;
	assert_string_equal(p, shape);
	p = strstr(p + strlen(shape) + 1, "\"total\"");
	assert_non_null(p);
	p[strlen(stages)] = 0;
	assert_string_equal(p, stages);
	profile_done(&o);
}

TEST_WITH(test_held_up, setup, teardown)
{
	struct rec_step r = { .h = hdr(REC_STEP, 0), .workers = 3, .straggler_tid = 77, .held_ns = 139000001 };

	add_probe("llama_decode", ROLE_STEP, PROBE_F_SPAN, NULL, "s32 arg1");
	r.h.dur_ns = r.ns[ST_CPU] = 1000;
	r.workers_ns[ST_CPU] = 1999;
	r.workers_ns[ST_RUNNABLE] = 2;
	check_held_up(&r, "\"workers\":3,\"straggler_tid\":77,\"straggler_held_us\":139000.001}",
		"\"total\":1.000,\"cpu\":1.000,\"workers_total\":2.001,\"workers_cpu\":1.999,"
		"\"workers_runnable\":0.002}");

	r.straggler_tid = r.workers = 0;
	check_held_up(&r, "\"workers\":0}", "\"total\":1.000,\"cpu\":1.000}");
}

static struct behind behind(uint64_t ns, uint32_t tid, uint32_t tgid, const char *comm)
{
	struct behind b = { .ns = ns, .tid = tid, .tgid = tgid };

	memcpy(b.comm, comm, strnlen(comm, sizeof(b.comm)));
	return b;
}

/* The threads it waited behind for a CPU: longest first, and with the others the full time; or none at all. */
TEST_WITH(test_behind, setup, teardown)
{
	struct rec_step r = { .h = hdr(REC_STEP, 0), .workers = 1 };

	add_probe("llama_decode", ROLE_STEP, PROBE_F_SPAN, NULL, "s32 arg1");
	r.h.dur_ns = r.ns[ST_RUNNABLE] = 1000;
	r.workers_ns[ST_RUNNABLE] = 500;
	r.behind.slots[1] = behind(100, 7, 5, "exactly16bytes\"\n");
	r.behind.slots[3] = behind(700, 990, 990, "cc1");
	r.behind.slots[4] = behind(150, BEHIND_LIMIT, 0, "");
	r.workers_behind.slots[0] = behind(500, 0, 0, "swapper/1");
	check_held_up(&r,
		"\"workers\":1,\"behind1_by\":\"cc1\",\"behind1_tid\":990,\"behind1_pid\":990,\"behind1_us\":0.700,"
		"\"behind2_by\":\"cpu.max\",\"behind2_tid\":0,\"behind2_pid\":0,\"behind2_us\":0.150,"
		"\"behind3_by\":\"exactly16bytes\\\"\\n\",\"behind3_tid\":7,\"behind3_pid\":5,\"behind3_us\":0.100,"
		"\"behind_others_us\":0.050,\"workers_behind1_by\":\"idle\",\"workers_behind1_tid\":0,"
		"\"workers_behind1_pid\":0,\"workers_behind1_us\":0.500}",
		"\"total\":1.000,\"runnable\":1.000,\"workers_total\":0.500,\"workers_runnable\":0.500}");
	/* more than possible: none of it is written */
	r.behind.slots[3].ns = 800;
	r.workers = 0;
	check_held_up(&r, "\"workers\":0}", "\"total\":1.000,\"runnable\":1.000}");
}

/* Whatever the shares of the states, they add up to the written total. */
TEST_WITH(test_sums, setup, teardown)
{
	struct asked asked = {};
	struct profile_meta meta = plain;
	const unsigned int steps = 500;
	uint64_t dur[500];
	struct out o;

	asked.meta = &plain;
	meta.of = meta_of;
	meta.arg = &asked;
	add_probe("step", ROLE_STEP, PROBE_F_SPAN, NULL, "");
	profile_open(&o, &meta);
	for (unsigned int i = 0; i < steps; i++) {
		struct rec_step r = { .h = hdr(REC_STEP, 0), .number = i };

		/* from nothing to years */
		dur[i] = draw() >> (8 + draw() % 56);
		share_out(&r, dur[i]);
		EMIT(&o, &r);
	}
	profile_close(&o, &totals);
	validate(&o, true);
	assert_int_equal(count_lines(&o), steps + 1);
	for (unsigned int i = 0; i < steps; i += 17) {
		struct json_object *stages = json_object_object_get(line(&o, i), "stage_us");
		uint64_t sum = 0;

		json_object_object_foreach(stages, key, v)
		{
			if (strcmp(key, "total")) {
				assert_true(ns_of(v) > 0);
				sum += (uint64_t)ns_of(v);
			}
		}
		assert_int_equal(ns_field(stages, "total"), dur[i]);
		assert_int_equal(sum, dur[i]);
	}
	assert_int_equal(asked.n, 2); /* once, and not for each line */ /* the process, and the window */
	profile_done(&o);
}

/* Only steps are lines, and only those of existing probes. */
TEST_WITH(test_other_records, setup, teardown)
{
	struct rec_step r = { .h = hdr(REC_STEP, 1) };
	struct loss l = { .from_ns = START, .to_ns = START + 1 };
	struct out o;

	add_probe("step", ROLE_STEP, PROBE_F_SPAN, NULL, "");
	profile_open(&o, &plain);
	EMIT(&o, &r);
	r.h.id = UINT32_MAX;
	EMIT(&o, &r);
	r.h.id = 0;
	for (unsigned int kind = 0; kind < REC_KIND_MAX; kind++) {
		r.h.kind = (uint8_t)kind;
		if (kind != REC_STEP && kind != REC_REQUEST)
			EMIT(&o, &r);
	}
	sink_loss(o.s, &l);
	profile_close(&o, NULL);
	assert_string_equal(o.text, "");
	profile_done(&o);
}

/* A step that was in flight when the recording began. */
TEST_WITH(test_early, setup, teardown)
{
	struct rec_step r = { .h = hdr(REC_STEP, 0) };
	struct out o;

	add_probe("step", ROLE_STEP, PROBE_F_SPAN, NULL, "");
	profile_open(&o, &plain);
	r.h.start_ns = START - 1;
	share_out(&r, 5);
	EMIT(&o, &r);
	profile_close(&o, NULL);
	assert_int_equal(ns_field(json_object_object_get(line(&o, 0), "shape"), "ts_us"), 0);
	profile_done(&o);
}

/* ---- the envelope ---- */

TEST_WITH(test_unknown, setup, teardown)
{
	struct json_object *commit = NULL;
	struct out o;

	profile_open(&o, &plain);
	profile_close(&o, &totals);
	assert_true(json_object_object_get_ex(line(&o, 0), "commit_sha", &commit));
	assert_null(commit);
	assert_string_equal(field(o.events, "env_hash"), "sha256:unknown");
	assert_string_equal(field(o.events, "event"), "window_prof");
	profile_done(&o);
}

/* What people write, and what a target's hostile environment holds. */
/* To each process its own metadata; what was unknown at first is asked for again. */
static const struct profile_meta *meta_of_each(void *arg, uint32_t tgid)
{
	static struct profile_meta meta;
	unsigned int *asked = arg;

	meta = plain;
	meta.model = tgid == PID ? "first" : tgid ? "second"
						  : "none";
	meta.concurrency = tgid == PID ? 3 : 4;
	meta.incomplete = tgid == PID && !(*asked)++;
	if (meta.incomplete)
		meta.model = "unknown";
	return &meta;
}

TEST_WITH(test_metadata_of_each, setup, teardown)
{
	static const struct {
		uint32_t tgid;
		const char *model;
		int concurrency;
	} lines[] = { { PID, "unknown", 3 }, { PID + 7, "second", 4 }, { PID, "first", 3 }, { PID + 7, "second", 4 },
		{ PID, "first", 3 } };
	unsigned int asked = 0;
	struct profile_meta meta = { .of = meta_of_each, .arg = &asked };
	struct out o;

	add_probe("step", ROLE_STEP, PROBE_F_SPAN, NULL, "");
	profile_open(&o, &meta);
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		struct rec_step r = { .h = hdr(REC_STEP, 0) };

		r.h.tgid = lines[i].tgid;
		EMIT(&o, &r);
	}
	profile_close(&o, &totals);
	for (unsigned int i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		assert_string_equal(field(line(&o, i), "model"), lines[i].model);
		assert_int_equal(json_object_get_int(json_object_object_get(o.events, "concurrency")),
			lines[i].concurrency);
	}
	assert_string_equal(field(line(&o, 5), "model"), "none"); /* window_prof */
	assert_int_equal(asked, 2);
	profile_done(&o);
}

TEST_WITH(test_hostile_metadata, setup, teardown)
{
	static const char text[] = "\"}\\\n\x01\x1f\x7f\xff\xed\xa0\x80\xc3\xa9\xf0\x9f\x98\x80%s";
	static const char clean[] =
		"\"}\\\n\x01\x1f\x7f\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
		"\xc3\xa9\xf0\x9f\x98\x80%s";
	struct profile_meta meta = { .commit_sha = text,
		.model = text,
		.concurrency = UINT32_MAX,
		.runtime_flags = "{\"a\":[1,{\"b\":null}]}" };
	struct json_object *v;
	struct out o;

	profile_open(&o, &meta);
	profile_close(&o, &totals);
	assert_int_equal(count_lines(&o), 1);
	assert_string_equal(field(line(&o, 0), "commit_sha"), clean);
	assert_string_equal(field(o.events, "model"), clean);
	assert_int_equal(
		json_object_get_int64(json_object_object_get(o.events, "concurrency")), UINT32_MAX);
	v = json_object_object_get(o.events, "runtime_flags");
	assert_string_equal(json_object_to_json_string_ext(v, JSON_C_TO_STRING_PLAIN),
		"{\"a\":[1,{\"b\":null}]}");
	profile_done(&o);
}

static char *fill(size_t len, char c)
{
	char *text = malloc(len + 1);

	memset(text, c, len);
	text[len] = 0;
	return text;
}

/* Nothing is cut and no buffer is too short, even if every byte becomes six. */
TEST_WITH(test_long_metadata, setup, teardown)
{
	const size_t len = 100 << 10, flags_len = 2 << 20;
	struct profile_meta meta = plain;
	char *model = fill(len, 1), *commit = fill(len, 2), *flags = fill(flags_len, 'f');
	struct rec_step r = { .h = hdr(REC_STEP, 0) };
	struct out o;

	memcpy(flags, "{\"f\":\"", 6);
	memcpy(flags + flags_len - 2, "\"}", 2);
	meta.model = model;
	meta.commit_sha = commit;
	meta.runtime_flags = flags; /* more than the writer's buffer holds */
	add_probe("step", ROLE_STEP, PROBE_F_SPAN, NULL, "");
	profile_open(&o, &meta);
	for (int i = 0; i < 3; i++) {
		share_out(&r, 1000);
		EMIT(&o, &r);
	}
	profile_close(&o, &totals);
	validate(&o, true);
	assert_int_equal(count_lines(&o), 4);
	assert_string_equal(field(line(&o, 2), "model"), model);
	assert_string_equal(field(o.events, "commit_sha"), commit);
	assert_string_equal(
		json_object_to_json_string_ext(
			json_object_object_get(o.events, "runtime_flags"), JSON_C_TO_STRING_PLAIN),
		flags);
	profile_done(&o);
	free(model);
	free(commit);
	free(flags);
}

/* A profile is appended to: what was there stays. */
TEST_WITH(test_append, setup, teardown)
{
	char path[64];
	struct writer *w;
	struct out o = { .fd = memfd_create("profile", MFD_CLOEXEC) };

	snprintf(path, sizeof(path), "/proc/self/fd/%d", o.fd);
	for (size_t i = 0, one = 0; i < 3; i++) {
		int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);

		assert_true(fd >= 0);
		w = writer_new(fd, "profile", WRITER_LINES);
		rec.meta = &plain;
		o.s = profile_sink_new(w, &rec);
		assert_int_equal(sink_bytes(o.s), 0);
		profile_close(&o, &totals);
		one = i ? one : o.len;
		assert_int_equal(o.len, (i + 1) * one);
	}
	assert_int_equal(count_lines(&o), 3);
	assert_memory_equal(o.text, o.text + o.len / 3, o.len / 3);
	profile_done(&o);
}

/* The lines continue in another file; the window's line is at the end of the last. */
TEST_WITH(test_rotate, setup, teardown)
{
	struct rec_step r = { .h = hdr(REC_STEP, 0) };
	struct out o, first;

	add_probe("step", ROLE_STEP, PROBE_F_SPAN, "decode", "u64 arg1");
	profile_open(&o, &plain);
	r.number = 1;
	EMIT(&o, &r);
	first = out_rotate(&o, WRITER_LINES);
	r.number = 2;
	EMIT(&o, &r);
	profile_close(&o, &totals);
	assert_int_equal(count_lines(&first), 1);
	assert_text(shape_of(&first, 0, "step"), "1");
	assert_text(shape_of(&o, 0, "step"), "2");
	assert_text(field(line(&first, 0), "event"), "token_prof");
	assert_text(field(line(&o, count_lines(&o) - 1), "event"), "window_prof");
	profile_done(&first);
	profile_done(&o);
}

/* ---- window_prof ---- */

TEST_WITH(test_window, setup, teardown)
{
	struct window_totals t = {
		.open_ns = START,
		.close_ns = START + 3000000001,
		.records = { [REC_SYSCALL] = 10, [REC_STEP] = 5 },
		.lost = { [REC_SYSCALL] = 2, [REC_FAULT] = 1 },
		.bytes = 123456,
		.steps = 5,
		.open_cost_ns = 1500,
		.close_cost_ns = 7,
		.lost_ns = 1000000000,
	};
	struct out o;

	profile_open(&o, &plain);
	profile_close(&o, &t);
	assert_string_equal(o.text,
		"{\"event\":\"window_prof\",\"commit_sha\":null,\"env_hash\":\"sha256:unknown\","
		"\"model\":\"m\",\"concurrency\":1,\"shape\":{\"window\":0,\"records\":15,\"lost\":"
		"3,"
		"\"lost_syscall\":2,\"lost_fault\":1,\"bytes\":123456,\"steps\":5,\"version\":\"" INFTRACE_VERSION "\",\"boottime_ns\":\"1000000000\",\"realtime_ns\":\"1763616000000000001\",\"coverage\":0."
		"666666},"
		"\"stage_us\":{\"total\":3000000.001,\"open\":1.500,\"close\":0.007},"
		"\"graph_enabled\":false,\"runtime_flags\":{},\"source\":\"native\",\"inftrace\":1}\n");
	profile_done(&o);
}

/* Page faults that the kernel does not report are not zero. */
TEST_WITH(test_without_faults, setup, teardown)
{
	const struct process_totals process = { .tgid = 1 };
	const struct window_totals t = { .open_ns = START, .close_ns = START + 1000, .processes = &process, .n_processes = 1 };
	struct out o;

	for (int lacks = 0; lacks < 2; lacks++) {
		rec.lacks_faults = lacks;
		profile_open(&o, &plain);
		profile_close(&o, &t);
		assert_int_equal(!strstr(o.text, "\"fault_prof\""), lacks);
		assert_int_equal(!!strstr(o.text, ",\"not_recorded\":\"faults\""), lacks);
		assert_non_null(strstr(o.text, "\"sched_prof\""));
		profile_done(&o);
	}
	rec.lacks_faults = false;
}

/* What --budget left out, for a step and for a window. */
TEST_WITH(test_left_out, setup, teardown)
{
	static struct left_out l = { .budget = 25000 };
	struct rec_step r = { .h = hdr(REC_STEP, 0), .left_out = 1u << SHED_BARRIERS | 1u << SHED_TIMELINE };
	struct window_totals t = {
		.open_ns = START,
		.close_ns = START + 1000000,
		.left_out_ns = { [SHED_BARRIERS] = 2500, [SHED_TIMELINE] = 1 },
	};
	struct out o;

	add_probe("llama_decode", ROLE_STEP, PROBE_F_SPAN, "decode", "");
	rec.left_out = &l;
	profile_open(&o, &plain);
	r.h.dur_ns = r.ns[ST_CPU] = 1000;
	EMIT(&o, &r);
	r.workers = 1;
	EMIT(&o, &r);
	r.left_out = 1u << SHED_OPERATORS;
	r.workers = 0;
	EMIT(&o, &r);
	profile_close(&o, &t);
	rec.left_out = NULL;
	assert_text(shape_of(&o, 0, "left_out"), "barriers,timeline");
	assert_null(shape_of(&o, 0, "workers")); /* not known, which is not zero */
	assert_non_null(shape_of(&o, 1, "workers"));
	assert_text(shape_of(&o, 2, "left_out"), "operators");
	assert_non_null(shape_of(&o, 2, "workers"));
	assert_non_null(strstr(o.text, ",\"budget\":0.025000,\"left_out\":\"barriers,timeline\",\"left_out_barriers_us\":2.500,"
				       "\"left_out_timeline_us\":0.001}"));
	profile_done(&o);
}

/* Why it was recorded, whatever the reason contains. */
TEST_WITH(test_reasons, setup, teardown)
{
	char longer[300] = "";
	struct out o;

	memset(longer, 'x', sizeof(longer) - 1);
	profile_open(&o, &plain);
	sink_mark(o.s, &(struct mark){ "trigger", START + 2500, 0, "step>150ms: \"step\" 16", 0 });
	sink_mark(o.s, &(struct mark){ "another", START, 0, "no", 0 });
	sink_mark(o.s, &(struct mark){ "misfit", START + 2500, PID, "steps are \"calls\"", PID });
	sink_mark(o.s, &(struct mark){ "window_close", START + 5000, 0, longer, 0 });
	profile_close(&o, &totals);
	assert_non_null(strstr(o.text, ",\"coverage\":1.000000,\"trigger\":\"step>150ms: \\\"step\\\" 16\","
				       "\"trigger_ts_us\":2.500,\"closed_by\":\"xxx"));
	assert_null(strstr(o.text, "no\""));
	assert_ptr_equal(strstr(o.text, "{\"event\":\"misfit_prof\","), o.text);
	assert_non_null(strstr(o.text, "\"ts_us\":2.500,\"finding\":\"steps are \\\"calls\\\"\"},\"stage_us\":{},"));
	longer[160] = 0;
	assert_null(strstr(o.text, longer));
	profile_done(&o);
}

/* With windows every line of every family begins its shape with the window number, and has it once. */
TEST_WITH(test_window_number, setup, teardown)
{
	struct syscall_total call = { .nr = 1, .sum = { 1, 100 } };
	struct process_totals process = { .tgid = PID, .calls = &call, .n_calls = 1 };
	struct window_totals t = { .open_ns = START,
		.close_ns = START + 1000,
		.processes = &process,
		.n_processes = 1 };
	struct rec_function call_of[] = { { .h = hdr(REC_FUNCTION, 1) }, { .h = hdr(REC_FUNCTION, 2) } };
	struct rec_request request = { .h = hdr(REC_REQUEST, 7), .family = 2, .read_ns = START + 10000 };
	struct rec_step step = { .h = hdr(REC_STEP, 0) };
	unsigned int lines = 0;
	struct out o;

	add_probe("step", ROLE_STEP, PROBE_F_SPAN, NULL, "");
	add_probe("op", ROLE_OP, PROBE_F_SPAN, NULL, "");
	add_probe("sample", ROLE_SAMPLE, PROBE_F_SPAN, NULL, "");
	step.ns[ST_CPU] = step.h.dur_ns;
	rec.windows = true;
	rec.window = 7;
	profile_open(&o, &plain);
	EMIT(&o, &step);
	EMIT(&o, &call_of[0]);
	EMIT(&o, &call_of[1]);
	EMIT(&o, &request);
	profile_close(&o, &t);
	rec.windows = false;
	rec.window = 0;
	validate(&o, true);
	for (const char *p = o.text; *p; p = strchr(p, '\n') + 1, lines++) {
		const char *shape = strstr(p, "\"shape\":{\"window\":7,"), *end = strchr(p, '\n');

		if (!shape || shape > end)
			fail_msg("%.*s", (int)(end - p), p);
		shape = strstr(shape + 10, "\"window\":");
		shape = shape ? strstr(shape + 1, "\"window\":") : NULL;
		assert_true(!shape || shape > end);
	}
	/* token, sample, request, op, syscall, fault, sched, memory, window */
	assert_int_equal(lines, 9);
	profile_done(&o);
}

TEST_WITH(test_coverage, setup, teardown)
{
	static const struct {
		uint64_t total, lost;
		const char *text;
	} shares[] = {
		{ 1000, 0, "\"coverage\":1.000000}" },
		{ 1000, 1, "\"coverage\":0.999000}" },
		{ 1000, 999, "\"coverage\":0.001000}" },
		{ 1000, 1000, "\"coverage\":0.000000}" },
		{ 1000, 2000, "\"coverage\":0.000000}" }, /* the last look was after the end */
		{ 3, 1, "\"coverage\":0.666666}" },
		{ 10000000, 1, "\"coverage\":0.999999}" }, /* never rounded up to 1 */
		{ 0, 0, "\"coverage\":1.000000}" },
		{ UINT64_MAX / 2, UINT64_MAX / 8, "\"coverage\":0.750000}" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(shares); i++) {
		struct window_totals t = { .open_ns = START,
			.close_ns = START + shares[i].total,
			.lost_ns = shares[i].lost };
		struct out o;

		profile_open(&o, &plain);
		profile_close(&o, &t);
		if (!strstr(o.text, shares[i].text))
			fail_msg("%s is not in %s", shares[i].text, o.text);
		profile_done(&o);
	}
}

RUN_TESTS(NULL, NULL)
