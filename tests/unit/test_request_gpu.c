/* SPDX-License-Identifier: BSD-2-Clause */
/* What GPUs did for requests. */
#include "format/request_gpu.h"
#include "gpu_info.h"
#include "profile_lines.h"
#include "request_steps.h"

static int set_up(void **state)
{
	if (set_up_info(state))
		return -1;
	add_rows_probe();
	gpu_info_expect(info, PID, true);
	return 0;
}

/* A tenth of the step copies, three tenths wait, the rest is busy; a quarter of that for the time before it. s: in a list of
 * steps. */
static void emit_gpu(struct out *o, const struct rows_step *s, uint8_t flags)
{
	struct rec_gpu_step r = { .h = hdr(REC_GPU_STEP, 0), .step = s->number };
	uint64_t before = s->number ? s->start - s[-1].end : 0;

	r.h.start_ns = START + s->start;
	r.h.dur_ns = s->end - s->start;
	r.h.flags = flags;
	if (!flags) {
		r.ns[GPU_PART_COPY] = r.h.dur_ns / 10;
		r.ns[GPU_PART_IDLE_WAIT] = r.h.dur_ns * 3 / 10;
		r.ns[GPU_PART_BUSY] = r.h.dur_ns - r.ns[GPU_PART_COPY] - r.ns[GPU_PART_IDLE_WAIT];
		r.before_ns[GPU_PART_IDLE_LAUNCH] = before * 3 / 4;
		r.before_ns[GPU_PART_BUSY] = before - before * 3 / 4;
	}
	EMIT(o, &r);
}

static const char *shape_of(struct out *o, const char *number, const char *key)
{
	for (size_t i = 0; i < count(o); i++) {
		const char *is = shape(o, i, "number");

		if (is && !strcmp(is, number))
			return shape(o, i, key);
	}
	fail();
	return NULL;
}

static void check_gpu(struct out *o, const char *number, const char *own, const char *busy, const char *copy, const char *wait)
{
	static const char *const parts[] = { "gpu_busy_us", "gpu_copy_us", "gpu_idle_wait_us" };
	const char *const want[] = { busy, copy, wait };
	char key[64];

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		const char *text;

		snprintf(key, sizeof(key), "%s_%s", own, parts[i]);
		text = shape_of(o, number, key);
		if (want[i])
			assert_string_equal(text, want[i]);
		else
			assert_null(text);
	}
}

enum order {
	BEFORE,  /* a step's GPU before its rows are looked at */
	AT_ONCE, /* after that */
	AT_END,
	ORDERS,
};

/* The second request's prompt has 7 of 8 and 4 of 5 rows of two steps in which the first request decodes. */
TEST_WITH(test_shares, set_up, tear_down)
{
	struct out o;

	for (int order = 0; order < ORDERS; order++) {
		profile_open(&o, &plain);
		for (size_t i = 0; i < ARRAY_SIZE(together); i++) {
			emit_rows(o.s, &together[i]);
			if (order == AT_ONCE)
				settle(&o, 5);
			if (order != AT_END)
				emit_gpu(&o, &together[i], 0);
			settle(&o, 5);
		}
		if (order == AT_END) { /* no line is written earlier */
			profile_read(&o);
			assert_int_equal(count(&o), 0);
		}
		for (size_t i = 0; i < ARRAY_SIZE(together) && order == AT_END; i++)
			emit_gpu(&o, &together[ARRAY_SIZE(together) - 1 - i], 0);
		profile_close(&o);
		assert_int_equal(count(&o), 3);
		check_gpu(&o, "1", "own_prefill", "2.400", "0.400", "1.200");
		check_gpu(&o, "1", "own_decode", "1.950", "0.325", "0.975"); /* of 1250 and 2000 ns */
		check_gpu(&o, "2", "own_prefill", "12.000", "2.000", "6.000");
		check_gpu(&o, "2", "own_decode", "1.800", "0.300", "0.900"); /* of 2000 and 1000 ns */
		/* of 8750 and 8000 ns */
		check_gpu(&o, "1", "others", "10.050", "1.675", "5.025");
		check_gpu(&o, "1", "between", "0.250", NULL, NULL);
		assert_string_equal(shape_of(&o, "1", "between_gpu_idle_launch_us"), "0.750");
		read_text(&o);
		validate(&o, true);
		profile_done(&o);
	}
}

/* Requests in turns: each has what the GPU did in the steps of others and between steps. */
TEST_WITH(test_turns, set_up, tear_down)
{
	struct out o;

	profile_open(&o, &plain);
	for (size_t i = 0; i < ARRAY_SIZE(turns); i++) {
		emit_rows(o.s, &turns[i]);
		settle(&o, 5);
		emit_gpu(&o, &turns[i], 0);
	}
	profile_close(&o);
	assert_int_equal(count(&o), 3);
	check_gpu(&o, "1", "others", "3.601", "0.600", "1.800"); /* of 3000 and 3001 ns */
	check_gpu(&o, "1", "between", "0.750", NULL, NULL);
	assert_string_equal(shape_of(&o, "1", "between_gpu_idle_launch_us"), "2.249"); /* of 1000, 1000 and 999 ns */
	check_gpu(&o, "2", "others", "1.200", "0.200", "0.600");                       /* of 1000 and 1000 ns */
	check_gpu(&o, "3", "others", NULL, NULL, NULL);
	check_gpu(&o, "3", "own_prefill", "1.800", "0.300", "0.900");
	read_text(&o);
	validate(&o, true);
	profile_done(&o);
}

/* Where the GPU of one step is unknown, the span that it belongs to has none; a line that waits for nothing is not held. */
TEST_WITH(test_unknown, set_up, tear_down)
{
	struct out o;

	profile_open(&o, &plain);
	for (size_t i = 0; i < ARRAY_SIZE(together); i++) {
		emit_rows(o.s, &together[i]);
		settle(&o, 5);
		if (i != 3) /* this one never comes */
			emit_gpu(&o, &together[i], i == 1 ? 0x04 : 0);
	}
	profile_close(&o);
	assert_int_equal(count(&o), 3);
	check_gpu(&o, "1", "own_prefill", "2.400", "0.400", "1.200");
	check_gpu(&o, "1", "own_decode", NULL, NULL, NULL);
	check_gpu(&o, "2", "own_prefill", NULL, NULL, NULL);
	check_gpu(&o, "2", "own_decode", NULL, NULL, NULL);
	check_gpu(&o, "1", "others", NULL, NULL, NULL);
	check_gpu(&o, "1", "between", NULL, NULL, NULL);
	assert_null(shape_of(&o, "1", "between_gpu_idle_launch_us"));
	read_text(&o);
	validate(&o, true);
	profile_done(&o);

	gpu_info_expect(info, PID, false);
	profile_open(&o, &plain);
	for (size_t i = 0; i < ARRAY_SIZE(turns); i++)
		emit_rows(o.s, &turns[i]);
	settle(&o, 5);
	profile_read(&o);
	assert_int_equal(count(&o), 1);
	check_gpu(&o, "1", "own_prefill", NULL, NULL, NULL);
	profile_close(&o);
	profile_done(&o);
}

/* Of more steps than are kept, the oldest are dropped, and nothing waits for them. */
TEST(test_bound)
{
	struct step_request first = { .serial = 1, .by_parts = true }, second = { .serial = 2, .by_parts = true };
	const struct request_part part = { .own_ns = 10 };
	struct rec_gpu_step gpu = { .h = { .dur_ns = 10 } };
	struct step_seen s = { .end = 10 };
	struct request_gpu *g;
	char text[256];

	g = request_gpu_new();
	request_gpu_expect(g, s.number);
	request_gpu_part(g, &first, &s, &part);
	request_gpu_told(g, &s);
	assert_true(request_gpu_waits(g, 1));
	for (s.number = 1; s.number <= REQUEST_GPU_STEPS_MAX; s.number++) {
		s.start += 10;
		s.end += 10;
		request_gpu_expect(g, s.number);
		request_gpu_part(g, &second, &s, &part);
		request_gpu_told(g, &s);
	}
	assert_false(request_gpu_waits(g, 1));
	request_gpu_over(g, &first);
	assert_ptr_equal(request_gpu_end(g, text, 1, true), text);
	gpu.ns[GPU_PART_BUSY] = 10;
	for (gpu.step = REQUEST_GPU_STEPS_MAX; gpu.step > 0; gpu.step--) {
		assert_true(request_gpu_waits(g, 2));
		request_gpu_step(g, &gpu);
	}
	assert_false(request_gpu_waits(g, 2));
	second.spans[SPAN_OWN_DECODE] = 10 * (uint64_t)REQUEST_GPU_STEPS_MAX;
	request_gpu_over(g, &second);
	*request_gpu_end(g, text, 2, true) = 0;
	assert_string_equal(text, ",\"own_decode_gpu_busy_us\":40.960");
	assert_false(request_gpu_waits(g, 2));
	request_gpu_free(g);
}

/* Where the concurrency is not given, it is the highest number of sequences in a step so far. */
TEST_WITH(test_concurrency, set_up, tear_down)
{
	static const struct profile_meta metas[] = { { .model = "m", .runtime_flags = "{}" },
		{ .model = "m", .runtime_flags = "{}", .concurrency = 4, .configured = true } };
	struct out o;

	for (size_t i = 0; i < 2; i++) {
		profile_open(&o, &metas[i]);
		for (size_t k = 0; k < ARRAY_SIZE(together); k++)
			emit_rows(o.s, &together[k]);
		assert_int_equal(o.s->ops->close(o.s, &totals), 0);
		read_text(&o);
		assert_non_null(strstr(o.text, i ? "\"concurrency\":4," : "\"concurrency\":2,"));
		assert_non_null(strstr(strstr(o.text, "window_prof"), i ? "\"concurrency_from\":\"configured\"" : "\"concurrency_from\":\"seen\""));
		profile_done(&o);
	}
}

RUN_TESTS(NULL, NULL)
