// SPDX-License-Identifier: BSD-2-Clause
/*
 * What the formats show of stacks: the .pftrace is read back by the reader of `inftrace export` and by these tests' own,
 * which knows nothing of stacks.
 */
#include "cases.h"
#include "export/samples.h"
#include "format/path_code.h"
#include "format/stack_text.h"
#include "pftrace.h"
#include "profile_lines.h"
#include "stack/stack.h"

#define BUILD_ID "00ff10e2"
#define DEEP 200

static char long_name[2 * STACK_NAME_MAX];

static const struct frame frames[] = {
	{ .name = "_start", .file = "/usr/bin/python3", .build_id = BUILD_ID, .rel_pc = 0x1000, .kind = FRAME_NATIVE },
	{ .name = "sched.run", .file = "/srv/app/sched.py", .line = 212, .kind = FRAME_PYTHON },
	{ .name = "std::map<int, int>::at(int)", .file = "/lib/libx.so", .rel_pc = 0x2000, .kind = FRAME_NATIVE },
	{ .name = "pthread_cond_wait", .file = "/lib/libc.so.6", .rel_pc = 0x3000, .kind = FRAME_NATIVE },
	{ .name = "futex_wait", .kind = FRAME_KERNEL },
	{ .name = "nf_hook", .file = "nf_tables", .kind = FRAME_KERNEL },
	{ .name = "[unknown]", .file = "/lib/libx.so", .rel_pc = 0x4000, .kind = FRAME_NATIVE },
	{ .name = "~handler \"a\\b\"", .kind = FRAME_JIT },
	{ .name = "[unknown]", .kind = FRAME_UNKNOWN },
	{ .name = long_name, .file = "/lib/libx.so", .kind = FRAME_NATIVE },
	{ .name = "loads", .file = "/usr/lib/python3.11/json/__init__.py", .line = 3, .kind = FRAME_PYTHON },
	{ .name = "[task loader]", .kind = FRAME_PYTHON },
	{ .name = "[task other]", .kind = FRAME_PYTHON },
};

/* Innermost first, as from stacks_get(). */
static const uint32_t stack_frames[][8] = {
	{ 2, 1, 0 },
	{ 4, 3, 1, 0 },
	{ 4, 3, 6, 0 },
	{ 5, 7, 8, 0 },
	{ 2, 10, 1, 0 },
	{ 2, 1, 11, 0 },
	{ 2, 1, 12, 0 },
};
static const unsigned int stack_len[] = { 3, 4, 4, 4, 4, 4, 4 };
static uint32_t deep[DEEP];

unsigned int __wrap_stacks_get(const struct stacks *s, uint32_t stack, const uint32_t **ret_frames);
const struct frame *__wrap_stacks_frame(const struct stacks *s, uint32_t frame);

unsigned int __wrap_stacks_get(const struct stacks *s, uint32_t stack, const uint32_t **ret_frames)
{
	if (stack == 77) {
		*ret_frames = deep;
		return DEEP;
	}
	if (stack >= ARRAY_SIZE(stack_len))
		return 0;
	*ret_frames = stack_frames[stack];
	return stack_len[stack];
}

const struct frame *__wrap_stacks_frame(const struct stacks *s, uint32_t frame)
{
	return frame < ARRAY_SIZE(frames) ? &frames[frame] : NULL;
}

static int setup_stacks(void **state)
{
	memset(long_name, 'x', sizeof(long_name) - 1);
	for (size_t i = 0; i < DEEP; i++)
		deep[i] = 9;
	rec.stacks = (const struct stacks *)&deep; /* only passed on */
	return setup(state);
}

static struct rec_stack sample(uint64_t at_ns, uint32_t tid, uint32_t stack, uint64_t weight_ns)
{
	struct rec_stack r = { .h = hdr(REC_STACK, SAMPLE_CPU), .stack = stack, .weight_ns = weight_ns };

	r.h.tid = tid;
	r.h.start_ns = START + at_ns;
	r.h.dur_ns = 0;
	return r;
}

static struct rec_stack wait_of(uint64_t at_ns, uint64_t dur_ns, uint32_t tid, uint32_t stack)
{
	struct rec_stack r = sample(at_ns, tid, stack, dur_ns);

	r.h.id = SAMPLE_OFF_CPU;
	r.waker_stack = STACK_NONE;
	r.h.dur_ns = dur_ns;
	r.state = ST_BLOCKED_FUTEX;
	return r;
}

/* ---- .pftrace ---- */

static void no_problem(void *arg, uint64_t offset, const char *why)
{
	fail_msg("byte %llu: %s", (unsigned long long)offset, why);
}

/* The file as `inftrace export --collapsed` shows it; the caller frees it. */
static char *exported(struct out *o, bool off_cpu)
{
	struct json_source source;
	struct samples s = { 0 };
	char *text = NULL;
	bool torn;
	size_t len;
	FILE *f;

	read_text(o);
	assert_int_equal(json_source_open_mem(&source, o->text, o->len), 0);
	assert_int_equal(samples_read(&s, &source, no_problem, NULL, &torn), 0);
	assert_false(torn);
	json_source_close(&source);
	f = open_memstream(&text, &len);
	assert_int_equal(collapsed_write(&s, off_cpu, f), 0);
	fclose(f);
	samples_clear(&s);
	return text;
}

static void assert_exported(struct out *o, bool off_cpu, const char *expected)
{
	char *text = exported(o, off_cpu);

	assert_string_equal(text, expected);
	free(text);
}

static void emit_some(struct out *o)
{
	const struct rec_stack list[] = {
		sample(1000, TID, 0, 10000000),
		sample(2000, PID, 0, 20000000),
		sample(3000, TID, 0, 10000000),
		sample(4000, TID, STACK_NONE, 10000000),
		sample(5000, TID, 3, 10000000),
		wait_of(100000, 2000000, TID, 1),
		wait_of(3000000, 1500000, TID, 2),
		wait_of(5000000, 7, PID, 1),
	};

	for (size_t i = 0; i < ARRAY_SIZE(list); i++)
		EMIT(o, &list[i]);
}

static const char samples_text_of[] = "worker;_start;sched.run (sched.py:212);std::map<int, int>::at(int) 2\n"
				      "server;_start;sched.run (sched.py:212);std::map<int, int>::at(int) 1\n"
				      "worker;[no stack] 1\n"
				      "worker;_start;[unknown];~handler \"a\\b\";nf_hook_[k] 1\n";
static const char waits_text_of[] = "worker;_start;sched.run (sched.py:212);pthread_cond_wait;futex_wait_[k] 2000\n"
				    "worker;_start;[libx.so];pthread_cond_wait;futex_wait_[k] 1500\n"
				    "server;_start;sched.run (sched.py:212);pthread_cond_wait;futex_wait_[k] 1\n";

TEST_WITH(test_pftrace, setup_stacks, teardown)
{
	struct reader *r;
	struct out o;
	size_t n = 0;

	perfetto_open(&o);
	emit_some(&o);
	flush(&o);
	assert_exported(&o, false, samples_text_of);
	assert_exported(&o, true, waits_text_of);
	r = perfetto_read(&o);
	/* each wait is a slice of its own length, named after what waited */
	for (size_t i = 0; i < r->n; i++) {
		if (strcmp(r->events[i].category_text, "stack"))
			continue;
		assert_string_equal(r->events[i].text, n == 1 ? "pthread_cond_wait" : "sched.run (sched.py:212)");
		tid_of(r, r->events[i].track, "waiting in");
		n++;
	}
	assert_int_equal(n, 3);
	reader_free(r);
}

/* The weight of a sample varies, as when some are left out, and nothing is lost. */
TEST_WITH(test_weights, setup_stacks, teardown)
{
	struct json_source source;
	struct samples s = { 0 };
	uint64_t sum = 0;
	struct out o;
	bool torn;

	perfetto_open(&o);
	for (uint64_t i = 0; i < 1000; i++) {
		struct rec_stack r = i % 3 ? sample(i * 1000, TID, (uint32_t)i % 4, i * 12345) : wait_of(i, 1 + i * i, TID, 1);

		sum += r.weight_ns;
		EMIT(&o, &r);
	}
	flush(&o);
	read_text(&o);
	json_source_open_mem(&source, o.text, o.len);
	assert_int_equal(samples_read(&s, &source, no_problem, NULL, &torn), 0);
	json_source_close(&source);
	assert_int_equal(s.n[0] + s.n[1], 1000);
	assert_int_equal(s.ns[0] + s.ns[1], sum);
	samples_clear(&s);
	reader_free(perfetto_read(&o));
}

/* Each of the files of --max-size is complete by itself. */
TEST_WITH(test_rotated, setup_stacks, teardown)
{
	struct out o, first;

	perfetto_open(&o);
	emit_some(&o);
	first = out_rotate(&o, WRITER_PACKETS);
	emit_some(&o);
	flush(&o);
	assert_exported(&first, false, samples_text_of);
	assert_exported(&o, false, samples_text_of);
	assert_exported(&o, true, waits_text_of);
	free(first.text);
	close(first.fd);
	reader_free(perfetto_read(&o));
}

/* Names of any length and deep stacks fit into packets and lines. */
TEST_WITH(test_large, setup_stacks, teardown)
{
	struct rec_stack r = wait_of(1000, 1000000, TID, 77);
	struct json_object *e;
	struct out o;
	char *text;

	perfetto_open(&o);
	EMIT(&o, &r);
	flush(&o);
	text = exported(&o, true);
	assert_true(strlen(text) > DEEP * 500);
	free(text);
	reader_free(perfetto_read(&o));

	chrome_open(&o);
	EMIT(&o, &r);
	flush(&o);
	chrome_read(&o);
	chrome_done(&o);

	profile_open(&o, &plain);
	EMIT(&o, &r);
	profile_close(&o);
	e = json_object_object_get(json_object_array_get_idx(o.events, 0), "frames");
	assert_in_range(json_object_array_length(e), 20, DEEP);
	profile_done(&o);
}

/* ---- Chrome JSON ---- */

TEST_WITH(test_chrome, setup_stacks, teardown)
{
	struct json_object *e, *list;
	struct out o;

	chrome_open(&o);
	emit_some(&o);
	flush(&o);
	chrome_read(&o);
	e = find(&o, "i", "sched.run (sched.py:212)", 0);
	assert_non_null(e);
	assert_track(e, PID, TID);
	assert_text(field(e, "cat"), "stack");
	assert_text(field(e, "ts"), "100.000");
	assert_text(arg(e, "state"), "blocked_futex");
	assert_text(arg(e, "wait_us"), "2000.000");
	list = json_object_object_get(json_object_object_get(e, "args"), "stack");
	assert_int_equal(json_object_array_length(list), 4);
	assert_string_equal(json_object_get_string(json_object_array_get_idx(list, 0)), "futex_wait [kernel]");
	assert_string_equal(json_object_get_string(json_object_array_get_idx(list, 1)), "pthread_cond_wait [libc.so.6]");
	assert_string_equal(json_object_get_string(json_object_array_get_idx(list, 2)), "sched.run (sched.py:212)");
	assert_string_equal(json_object_get_string(json_object_array_get_idx(list, 3)), "_start [python3]");
	assert_non_null(find(&o, "i", "pthread_cond_wait", 0));
	chrome_done(&o);
}

/* ---- profile ---- */

static struct json_object *frames_of(const struct out *o, size_t line)
{
	return json_object_object_get(json_object_array_get_idx(o->events, line), "frames");
}

static void emit_step(struct out *o, uint32_t number)
{
	struct rec_step r = { .h = hdr(REC_STEP, 0), .number = number };

	r.ns[ST_CPU] = r.h.dur_ns;
	EMIT(o, &r);
}

static int setup_probe(void **state)
{
	int err = setup_stacks(state);

	add_probe("llama_decode", ROLE_STEP, 0, "step", "");
	add_probe("mul", ROLE_OP, PROBE_F_SPAN, NULL, "");
	add_probe("add", ROLE_OP, PROBE_F_SPAN, NULL, "");
	return err;
}

TEST_WITH(test_profile, setup_probe, teardown)
{
	struct rec_stack in_step = sample(1000, TID, 0, 10000000), outside = sample(1000, TID, 0, 10000000);
	struct out o;

	in_step.step = 6;
	profile_open(&o, &plain);
	EMIT(&o, &in_step);
	EMIT(&o, &outside);
	EMIT(&o, &in_step);
	settle(&o, 200);
	profile_read(&o);
	assert_int_equal(count(&o), 1); /* the step is not over */
	assert_body(&o, 0, "stack_prof",
		"{\"pid\":5000000,\"tid\":5000001,\"state\":\"cpu\",\"kind\":\"sample\",\"samples\":1,\"stack\":0} "
		"{\"total\":10000.000}");
	assert_int_equal(json_object_array_length(frames_of(&o, 0)), 3);
	emit_step(&o, 5);
	EMIT(&o, &in_step); /* it arrives after its step */
	settle(&o, 50);
	profile_read(&o);
	assert_int_equal(count(&o), 1);
	settle(&o, 100);
	profile_read(&o);
	assert_int_equal(count(&o), 2);
	assert_body(&o, 1, "stack_prof",
		"{\"pid\":5000000,\"tid\":5000001,\"step\":5,\"phase\":\"step\",\"state\":\"cpu\",\"kind\":\"sample\",\"samples\":3,"
		"\"stack\":0} {\"total\":30000.000}");
	assert_null(frames_of(&o, 1)); /* they are in this file */
	EMIT(&o, &in_step);
	profile_close(&o);
	assert_int_equal(count(&o), 3);
	assert_int_equal(stage(&o, 2, "total"), 10000000);
	profile_done(&o);
}

static void emit_op(struct out *o, uint64_t start, uint64_t ns, uint32_t probe, uint8_t flags)
{
	struct rec_function r = { .h = hdr(REC_FUNCTION, probe) };

	r.h.tid = TID;
	r.h.start_ns = START + start;
	r.h.dur_ns = ns;
	r.h.flags = flags;
	EMIT(o, &r);
}

static void emit_in_op(struct out *o, uint64_t at, uint64_t op, uint32_t stack)
{
	struct rec_stack r = sample(at, TID, stack, 1000);

	r.ref = START + op;
	EMIT(o, &r);
}

/* The operator of each stack: "" if none, "?" if no line has the stack. */
static const char *op_of(struct out *o, uint32_t stack)
{
	for (size_t i = 0; i < count(o); i++) {
		const char *number = shape(o, i, "stack"), *op = shape(o, i, "op");

		if (number && strtoul(number, NULL, 10) == stack)
			return op ? op : "";
	}
	return "?";
}

/* A sample has the operator that its thread was in, whichever record comes first. */
TEST_WITH(test_profile_ops, setup_probe, teardown)
{
	struct rec_stack wait = wait_of(1000, 1000, TID, 3);
	struct out o;

	profile_open(&o, &plain);
	emit_op(&o, 1000, 500, 1, FUNCTION_F_SAMPLED);
	emit_in_op(&o, 1400, 1000, 0); /* after its operator */
	emit_in_op(&o, 2400, 2000, 1); /* before it */
	emit_op(&o, 2000, 500, 2, FUNCTION_F_SAMPLED);
	emit_in_op(&o, 3600, 3000, 2); /* it had ended at the last end that was seen */
	emit_op(&o, 3000, 500, 2, FUNCTION_F_SAMPLED);
	EMIT(&o, &wait);
	settle(&o, 200);
	profile_read(&o);
	assert_string_equal(op_of(&o, 0), "mul");
	assert_string_equal(op_of(&o, 1), "add");
	assert_string_equal(op_of(&o, 2), "");
	assert_string_equal(op_of(&o, 3), "");
	profile_close(&o);
	profile_done(&o);

	/* without the operator's record it has none, and nothing is lost */
	profile_open(&o, &plain);
	emit_op(&o, 1000, 500, 1, 0);
	emit_in_op(&o, 1400, 1000, 0);
	settle(&o, 1300);
	profile_read(&o);
	assert_string_equal(op_of(&o, 0), "");
	emit_in_op(&o, 2400, 2000, 1);
	profile_close(&o);
	assert_string_equal(op_of(&o, 1), "");
	profile_done(&o);
}

static const char *op_key(struct out *o, size_t line, const char *key)
{
	const char *text = shape(o, line, key);

	return text ? text : "";
}

/* The index of the first line of this kind. */
static size_t find_line(struct out *o, const char *event)
{
	for (size_t i = 0; i < count(o); i++) {
		if (!strcmp(field(json_object_array_get_idx(o->events, i), "event"), event))
			return i;
	}
	fail();
	return 0;
}

static void emit_hot(struct out *o, unsigned int n, uint32_t stack)
{
	while (n--)
		emit_in_op(o, 1400, 1000, stack);
}

/* The function in which an operator was sampled most, if it is clear. */
TEST_WITH(test_hottest, setup_probe, teardown)
{
	struct rec_stack barrier = sample(1400, TID, 1, 1000);
	struct out o;
	size_t line;

	profile_open(&o, &plain);
	emit_op(&o, 1000, 500, 1, FUNCTION_F_SAMPLED);
	emit_hot(&o, 5, 0);
	profile_close(&o);
	line = find_line(&o, "op_prof");
	assert_string_equal(op_key(&o, line, "n_mul"), "1");
	assert_string_equal(op_key(&o, line, "f_mul"), ""); /* five of five may be chance */
	profile_done(&o);

	profile_open(&o, &plain);
	emit_op(&o, 1000, 500, 1, FUNCTION_F_SAMPLED);
	emit_op(&o, 3000, 500, 2, FUNCTION_F_SAMPLED);
	emit_hot(&o, 12, 0);
	emit_hot(&o, 2, 1);
	emit_hot(&o, 1, 2);
	emit_hot(&o, 1, 3);
	barrier.state = ST_BARRIER;
	barrier.ref = START + 1000;
	for (int i = 0; i < 100; i++)
		EMIT(&o, &barrier);
	emit_step(&o, 5);
	profile_close(&o);
	line = find_line(&o, "op_prof");
	assert_string_equal(op_key(&o, line, "f_mul"), "std::map<int, int>::at(int) [libx.so]");
	assert_string_equal(op_key(&o, line, "s_mul"), "16");
	assert_string_equal(op_key(&o, line, "fs_mul"), "0.750000");
	assert_string_equal(op_key(&o, line, "f_add"), "");
	read_text(&o);
	validate(&o, true);
	profile_done(&o);
}

/* Samples of a step count in its line if they come before it is written. */
TEST_WITH(test_hottest_of_step, setup_probe, teardown)
{
	struct rec_function r = { .h = hdr(REC_FUNCTION, 1), .step = 6 };
	struct rec_stack s = sample(1400, TID, 3, 1000);
	struct out o;

	probes.op_detail = true;
	profile_open(&o, &plain);
	r.h.tid = TID;
	r.h.start_ns = START + 1000;
	r.h.dur_ns = 500;
	r.h.flags = FUNCTION_F_SAMPLED;
	EMIT(&o, &r);
	s.step = 6;
	s.ref = START + 1000;
	for (int i = 0; i < 6; i++)
		EMIT(&o, &s);
	emit_step(&o, 5);
	settle(&o, 99);
	for (int i = 0; i < 2; i++)
		EMIT(&o, &s);
	settle(&o, 100);
	for (int i = 0; i < 20; i++)
		EMIT(&o, &s); /* late */
	profile_close(&o);
	assert_string_equal(op_key(&o, find_line(&o, "op_prof"), "f_mul"), "nf_hook [kernel]");
	assert_string_equal(op_key(&o, find_line(&o, "op_prof"), "s_mul"), "8");
	assert_string_equal(op_key(&o, find_line(&o, "op_prof"), "fs_mul"), "1.000000");
	profile_done(&o);
	probes.op_detail = false;
}

/* Who ended a wait: by its stack, or an interrupt. */
TEST_WITH(test_wakers, setup_probe, teardown)
{
	struct rec_stack by_thread = wait_of(1000, 1000000, TID, 1), by_irq = wait_of(2000, 1000000, TID, 1), of_waker;
	struct json_object *e;
	struct out o;

	by_thread.waker_tid = PID;
	by_thread.waker_stack = 0;
	by_irq.flags = SAMPLE_F_WOKEN_IRQ;
	of_waker = sample(900, PID, 0, 0);
	of_waker.h.id = SAMPLE_WAKER;
	profile_open(&o, &plain);
	EMIT(&o, &of_waker);
	EMIT(&o, &by_thread);
	settle(&o, 200);
	EMIT(&o, &by_irq);
	profile_close(&o);
	assert_int_equal(count(&o), 2); /* the waker has no time */
	assert_string_equal(shape(&o, 0, "waker_tid"), "5000000");
	assert_string_equal(shape(&o, 0, "waker"), "server");
	assert_string_equal(shape(&o, 0, "woken_by"), "sched.run (sched.py:212)");
	assert_string_equal(shape(&o, 1, "waker"), "interrupt");
	assert_null(shape(&o, 1, "woken_by"));
	profile_done(&o);

	chrome_open(&o);
	EMIT(&o, &by_thread);
	flush(&o);
	chrome_read(&o);
	e = find(&o, "i", "sched.run (sched.py:212)", 0);
	assert_text(arg(e, "woken_by"), "sched.run (sched.py:212)");
	chrome_done(&o);
}

TEST_WITH(test_wakers_pftrace, setup_stacks, teardown)
{
	struct rec_stack wait = wait_of(1000, 1000000, TID, 2), of_waker = sample(900, PID, 0, 0);
	bool instant = false;
	struct reader *r;
	struct out o;

	wait.waker_tid = PID;
	wait.waker_stack = 0;
	of_waker.h.id = SAMPLE_WAKER;
	perfetto_open(&o);
	EMIT(&o, &of_waker);
	EMIT(&o, &wait);
	flush(&o);
	assert_exported(&o, false, ""); /* no sample */
	assert_non_null(memmem(o.text, o.len, "woken_by", 8));
	r = perfetto_read(&o);
	for (size_t i = 0; i < r->n; i++)
		instant |= !strcmp(r->events[i].text, "wakes: sched.run (sched.py:212)");
	assert_true(instant);
	reader_free(r);
}

/* Whatever comes in any order: all sums are exact, and no step needs to end. */
TEST_WITH(test_profile_sums, setup_probe, teardown)
{
	static const uint32_t stacks[] = { 0, 1, 2, 3, STACK_NONE };
	uint64_t n = 0, ns = 0, seen_n = 0, seen_ns = 0;
	bool told[4] = { false };
	struct out o;

	srandom(3);
	profile_open(&o, &plain);
	for (unsigned int i = 0; i < cases(60000, 20000); i++) {
		struct rec_stack r = sample(i, 1 + TID + (uint32_t)random() % 8, stacks[random() % 5], (uint64_t)(random() % 100000));

		r.step = (uint32_t)random() % 700;
		r.state = (uint8_t)(random() % ST_MAX);
		if (random() % 2)
			r.ref = START + i / 8;
		if (random() % 4 == 0) {
			r.h.id = SAMPLE_OFF_CPU;
			r.waker_stack = STACK_NONE;
		}
		if (random() % 8 == 0)
			emit_op(&o, i / 8, 3, 1, FUNCTION_F_SAMPLED);
		EMIT(&o, &r);
		n++;
		ns += r.weight_ns;
		if (random() % 50 == 0)
			emit_step(&o, (uint32_t)random() % 700);
		if (random() % 20 == 0)
			sink_settled(o.s);
	}
	profile_close(&o);
	for (size_t i = 0; i < count(&o); i++) {
		const char *stack = shape(&o, i, "stack");

		if (strcmp(field(json_object_array_get_idx(o.events, i), "event"), "stack_prof"))
			continue;
		seen_n += strtoull(shape(&o, i, "samples"), NULL, 10);
		seen_ns += (uint64_t)stage(&o, i, "total");
		if (!stack)
			continue;
		/* only the first line of a stack has its frames */
		assert_int_equal(!frames_of(&o, i), told[strtoul(stack, NULL, 10)]);
		told[strtoul(stack, NULL, 10)] = true;
	}
	assert_int_equal(seen_n, n);
	assert_int_equal(seen_ns, ns);
	profile_done(&o);
}

/* Python files are shown with their directories inside the installed packages, and no others. */
TEST(test_python_places)
{
	static const struct {
		const char *file, *text;
	} cases[] = {
		{ "/srv/app/sched.py", "f (sched.py:7)" },
		{ "sched.py", "f (sched.py:7)" },
		{ "<string>", "f (<string>:7)" },
		{ "/", "f (/:7)" },
		{ "/usr/lib/python3.11/threading.py", "f (python3.11/threading.py:7)" },
		{ "/opt/python-3.12.1/lib/python3.12/re/__init__.py", "f (python3.12/re/__init__.py:7)" },
		{ "/usr/lib/python3/dist-packages/torch/nn/modules/linear.py", "f (torch/nn/modules/linear.py:7)" },
		{ "/srv/lib/python3.11/site-packages/vllm/worker.py", "f (vllm/worker.py:7)" },
		{ "/home/me/python3.11/x.py", "f (x.py:7)" },
		{ "/srv/library/python3.x/x.py", "f (x.py:7)" },
	};
	char text[STACK_TEXT_MAX], path[1200];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct frame f = { .name = "f", .file = cases[i].file, .line = 7, .kind = FRAME_PYTHON };

		assert_int_equal(stack_text(&f, text), strlen(cases[i].text));
		assert_string_equal(text, cases[i].text);
	}
	/* directories without end, and a name of that length */
	strcpy(path, "/lib/site-packages/");
	for (size_t i = strlen(path); i < sizeof(path) - 1; i++)
		path[i] = i % 2 && i < 600 ? 'd' : i < 600 ? '/'
							   : 'n';
	path[sizeof(path) - 1] = 0;
	stack_text(&(struct frame){ .name = "f", .file = path, .line = 7, .kind = FRAME_PYTHON }, text);
	assert_memory_equal(text, "f (dnn", 6);
	assert_true(strlen(text) < 300);
}

/* ---- which code a thread was in for most of an interval ---- */

#define IN_MAP "std::map<int, int>::at(int) [libx.so] from sched.run (sched.py:212)"
#define IN_FUTEX "futex_wait [kernel] from sched.run (sched.py:212)"

TEST_WITH(test_path_code, setup_stacks, teardown)
{
	static const struct {
		uint32_t stacks[6];
		size_t n;
		const char *in; /* NULL: not known */
	} cases[] = {
		{ { 0 }, 1, NULL },
		{ { 0, 0 }, 2, IN_MAP },
		{ { 4, 4 }, 2, IN_MAP }, /* called by the standard library */
		{ { 5, 5 }, 2, IN_MAP " in [task loader]" },
		{ { 5, 6, 5, 6 }, 4, IN_MAP }, /* of two tasks */
		{ { 1, 0, 1, 0, 1 }, 5, IN_FUTEX },
		{ { 0, 1, 4 }, 3, "sched.run (sched.py:212)" },
		{ { 3, 3, 3, 0 }, 4, "nf_hook [kernel]" },
		{ { 2, 2 }, 2, "futex_wait [kernel]" },
		{ { 99, 99, 99 }, 3, NULL },
		{ { 77, 77 }, 2, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" },
	};
	struct path_code *c = path_code_new(rec.stacks);
	char text[PATH_CODE_MAX];
	struct rec_stack r;

	assert_false(path_code_find(c, TID, ST_CPU, 0, UINT64_MAX, text));
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t at = 1000 * (1 + i);

		for (size_t k = 0; k < cases[i].n; k++) {
			r = sample(at + 10 * k, TID, cases[i].stacks[k], 10);
			path_code_add(c, &r);
			r.h.tid = TID + 1;
			r.stack = 3;
			path_code_add(c, &r);
			r.h.tid = TID;
			r.step = 5; /* a step's own */
			path_code_add(c, &r);
		}
		assert_int_equal(path_code_find(c, TID, ST_CPU, START + at, START + at + 999, text), cases[i].in != NULL);
		if (cases[i].in)
			assert_text(text, cases[i].in);
	}
	/* the earlier ones are there, too */
	assert_true(path_code_find(c, TID, ST_CPU, START + 2000, START + 2999, text));
	assert_text(text, IN_MAP);
	/* a wait: by its state and its end */
	r = wait_of(50000, 1000, TID, 1);
	path_code_add(c, &r);
	assert_true(path_code_find(c, TID, ST_BLOCKED_FUTEX, START + 50500, START + 51000, text));
	assert_text(text, IN_FUTEX);
	assert_false(path_code_find(c, TID, ST_BLOCKED_IO, START + 50500, START + 51000, text));
	assert_false(path_code_find(c, TID, ST_BLOCKED_FUTEX, START + 49000, START + 50999, text));
	/* the oldest make room */
	for (uint64_t i = 0; i < 70000; i++) {
		r = sample(60000 + i, TID, 0, 1);
		path_code_add(c, &r);
	}
	assert_true(path_code_find(c, TID, ST_CPU, START, UINT64_MAX, text));
	assert_true(path_code_find(c, TID, ST_CPU, START + 60000 + 69000, START + 60000 + 69100, text));
	assert_false(path_code_find(c, TID, ST_CPU, START + 2000, START + 2999, text));
	path_code_free(c);
}

RUN_TESTS(NULL, NULL)
