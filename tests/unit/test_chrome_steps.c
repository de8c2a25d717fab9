// SPDX-License-Identifier: BSD-2-Clause
/* The Chrome trace: steps, on their threads and on tracks of their own. */
#include "sinks.h"

#define CPUS 4194305 /* the pseudo process of the CPU tracks */

TEST_WITH(test_chrome_steps, setup, teardown)
{
	struct rec_step r = { .h = hdr(REC_STEP, 0), .vals = { 1 }, .number = 7 };
	struct json_object *e, *parts;
	int64_t sum = 0;
	struct out o;

	add_probe("llama_decode", ROLE_STEP, PROBE_F_SPAN, "a == 1 ? decode : prefill",
		"s32 *(sp+8)");
	chrome_open(&o);
	share_out(&r, 123456789);
	EMIT(&o, &r);
	r.vals[0] = (uint64_t)-3;
	r.lost = 4;
	r.h.flags = REC_F_OPEN_END;
	r.h.start_ns += 200000000;
	EMIT(&o, &r);
	r.h.id = 1; /* no such probe */
	EMIT(&o, &r);
	chrome_read(&o);

	e = find(&o, "X", "decode", 0);
	assert_span(e, "step", "10.000", "123456.789");
	assert_track(e, PID, TID);
	assert_text(arg(e, "a"), "1");
	assert_text(arg(e, "step"), "7");
	assert_text(arg(e, "lost_records"), NULL);
	parts = json_object_object_get(json_object_object_get(e, "args"), "breakdown_us");
	json_object_object_foreach(parts, key, v)
	{
		(void)key;
		assert_true(ns_of(v) > 0);
		sum += ns_of(v);
	}
	assert_int_equal(sum, 123456789);
	e = find(&o, "X", "decode", 1); /* the same step on the steps track */
	assert_span(e, "steps", "10.000", "123456.789");
	assert_text(arg(e, "thread"), "5000001");
	e = find(&o, "X", "prefill", 0);
	assert_text(arg(e, "a"), "-3");
	assert_text(arg(e, "lost_records"), "4");
	assert_text(arg(e, "unfinished"), "true");
	assert_null(find(&o, "X", "prefill", 2));
	chrome_done(&o);
}

/* Two steps touch, two others overlap by a nanosecond. */
TEST_WITH(test_chrome_two_lanes, setup, teardown)
{
	static const uint64_t starts[] = { 0, 1000, 5000, 5999 };
	struct out o;
	int64_t tids[4];

	add_probe("step", ROLE_STEP, PROBE_F_SPAN, NULL, "");
	chrome_open(&o);
	for (size_t i = 0; i < 4; i++) {
		struct rec_step r = { .h = hdr(REC_STEP, 0) };

		r.h.tid += (uint32_t)i;
		r.h.start_ns = START + starts[i];
		share_out(&r, 1000);
		EMIT(&o, &r);
	}
	chrome_read(&o);
	for (unsigned int i = 0; i < 4; i++)
		tids[i] = json_object_get_int64(
			json_object_object_get(find(&o, "X", "step", 2 * i + 1), "tid"));
	assert_true(tids[0] > CPUS); /* no thread's */
	assert_int_equal(tids[1], tids[0]);
	assert_int_equal(tids[2], tids[0]);
	assert_int_equal(tids[3], tids[0] + 1);
	chrome_done(&o);
}

struct lane {
	int64_t start, end;
	int64_t pid, tid;
};

static int compare_lanes(const void *a, const void *b)
{
	const struct lane *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	return x->start < y->start ? -1 : x->start > y->start;
}

/* Steps of many threads at once, in any order: on the steps tracks none touch. */
TEST_WITH(test_chrome_lanes, setup, teardown)
{
	static struct lane lanes[4000];
	size_t n = 0, steps = 2000, on_threads = 0;
	struct out o;

	add_probe("step", ROLE_STEP, PROBE_F_SPAN, NULL, "");
	chrome_open(&o);
	for (size_t i = 0; i < steps; i++) {
		/* up to about 20 at once, 16 of which have a lane; not in order of end */
		struct rec_step r = { .h = hdr(REC_STEP, 0) };

		r.h.tgid = PID + (uint32_t)(i % 2) * 100000;
		r.h.tid = PID + 1000 + (uint32_t)i;
		r.h.start_ns = START + i * 1000 + draw() % 3000;
		share_out(&r, draw() % 8 ? draw() % 10000 : draw() % 30000);
		EMIT(&o, &r);
	}
	chrome_read(&o);
	for (size_t i = 0; i < json_object_array_length(o.events); i++) {
		struct json_object *e = json_object_array_get_idx(o.events, i);
		const char *cat = field(e, "cat");

		on_threads += cat && !strcmp(cat, "step");
		if (!cat || strcmp(cat, "steps"))
			continue;
		lanes[n].start = ns_field(e, "ts");
		lanes[n].end = lanes[n].start + ns_field(e, "dur");
		lanes[n].pid = json_object_get_int64(json_object_object_get(e, "pid"));
		lanes[n++].tid = json_object_get_int64(json_object_object_get(e, "tid"));
	}
	assert_int_equal(on_threads, steps);
	assert_true(n > steps / 2 && n <= steps);
	qsort(lanes, n, sizeof(lanes[0]), compare_lanes);
	for (size_t i = 1; i < n; i++) {
		if (lanes[i].pid == lanes[i - 1].pid && lanes[i].tid == lanes[i - 1].tid)
			assert_true(lanes[i].start >= lanes[i - 1].end);
	}
	chrome_done(&o);
}

RUN_TESTS(NULL, NULL)
