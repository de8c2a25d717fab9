// SPDX-License-Identifier: BSD-2-Clause
/* The Chrome trace: the process `requests`, from steps with rows. */
#include "request_steps.h"

#include "format/request_track.h"
#include "io/writer.h"

#define SLICES "\"ph\":\"X\",\"pid\":4194600" /* of requests and of their phases */

static void feed(struct sink *s, const struct rows_step *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		emit_rows(s, &list[i]);
}

static void settle(struct sink *s)
{
	for (int i = 0; i < 3; i++)
		sink_settled(s);
}

/* The nth event of a name on a track of the process, in file order. */
static struct json_object *on_row(const struct out *o, const char *ph, const char *name, const char *row, unsigned int nth)
{
	int64_t tid = -1;

	for (size_t i = 0; i < json_object_array_length(o->events); i++) {
		struct json_object *e = json_object_array_get_idx(o->events, i);

		if (json_object_get_int64(json_object_object_get(e, "pid")) != REQUESTS_PID)
			continue;
		if (!strcmp(field(e, "name"), "thread_name") && !strcmp(arg(e, "name"), row))
			tid = json_object_get_int64(json_object_object_get(e, "tid"));
		if (!strcmp(field(e, "ph"), ph) && !strcmp(field(e, "name"), name) &&
			json_object_get_int64(json_object_object_get(e, "tid")) == tid && !nth--)
			return e;
	}
	return NULL;
}

TEST_WITH(test_slices, setup, teardown)
{
	struct json_object *e;
	struct out o;

	add_rows_probe();
	chrome_open(&o);
	feed(o.s, turns, ARRAY_SIZE(turns));
	settle(o.s);
	flush(&o);
	read_text(&o);
	validate(&o, false); /* as it is before the end */
	chrome_read(&o);

	e = find(&o, "M", "process_name", 2);
	assert_text(arg(e, "name"), "requests");
	assert_track(e, REQUESTS_PID, 0);

	assert_non_null(on_row(&o, "X", "request 1", "slot 0", 0));
	assert_non_null(on_row(&o, "X", "request 2", "slot 3", 0));
	/* the last one is a single step with its only token: no decode */
	assert_events(&o, SLICES, "{'ph':'X','pid':4194600,'tid':4194601,'ts':1.000,'dur':15.000,'name':'request 1','cat':'batch','args':{'number':1,'pid':5000000,"
				  "'sequence':0,'prompt_tokens':16,'cached_tokens':0,'output_tokens':3,'steps':3,'steps_shared':0,'first_step':0,'first_token_step':0,"
				  "'last_step':4,'ttft_us':4.000,'ttft_others_us':0.000,'ttft_between_us':0.000,'own_prefill_us':4.000,'own_decode_us':2.000,"
				  "'others_us':6.001,'between_us':2.999,'waited1_for':2,'waited1_us':6.001}}\n"
				  "{'ph':'X','pid':4194600,'tid':4194601,'ts':1.000,'dur':4.000,'name':'prefill','cat':'batch','args':{'tokens':16,'steps':1}}\n"
				  "{'ph':'X','pid':4194600,'tid':4194601,'ts':5.000,'dur':11.000,'name':'decode','cat':'batch','args':{'tokens':2,'steps':2}}\n"
				  "{'ph':'X','pid':4194600,'tid':4194601,'ts':17.000,'dur':3.000,'name':'request 3','cat':'batch','args':{'number':3,'pid':5000000,"
				  "'sequence':0,'prompt_tokens':5,'cached_tokens':0,'output_tokens':1,'steps':1,'steps_shared':0,'first_step':6,'first_token_step':6,"
				  "'last_step':6,'ttft_us':3.000,'ttft_others_us':0.000,'ttft_between_us':0.000,'own_prefill_us':3.000,'end_not_seen':true}}\n"
				  "{'ph':'X','pid':4194600,'tid':4194601,'ts':17.000,'dur':3.000,'name':'prefill','cat':'batch','args':{'tokens':5,'steps':1}}\n"
				  "{'ph':'X','pid':4194600,'tid':4194602,'ts':6.000,'dur':11.000,'name':'request 2','cat':'batch','args':{'number':2,'pid':5000000,"
				  "'sequence':3,'prompt_tokens':12,'cached_tokens':0,'output_tokens':2,'steps':3,'steps_shared':0,'first_step':1,'first_token_step':3,"
				  "'last_step':5,'ttft_us':8.001,'ttft_others_us':1.000,'ttft_between_us':1.000,'own_prefill_us':6.001,'own_decode_us':1.000,"
				  "'others_us':2.000,'between_us':1.999,'waited1_for':1,'waited1_us':2.000,'end_not_seen':true}}\n"
				  "{'ph':'X','pid':4194600,'tid':4194602,'ts':6.000,'dur':8.001,'name':'prefill','cat':'batch','args':{'tokens':12,'steps':2}}\n"
				  "{'ph':'X','pid':4194600,'tid':4194602,'ts':14.001,'dur':2.999,'name':'decode','cat':'batch','args':{'tokens':1,'steps':1}}\n");
	chrome_done(&o);
}

/* From the slices of steps, numbered in args, to those of requests. */
TEST_WITH(test_flows, setup, teardown)
{
	static const struct {
		const char *name, *from, *to;
	} want[] = {
		{ "first step", "1.000", "1.000" },
		{ "first token", "4.999", "5.000" },
		{ "last step", "15.999", "15.999" },
		{ "first step", "17.000", "17.000" },
		{ "first token", "19.999", "19.999" },
		{ "first step", "6.000", "6.000" },
		{ "first token", "14.000", "14.001" },
		{ "last step", "16.999", "16.999" },
	};
	unsigned int n[2] = { 0 }, flows = 0;
	struct out o;

	add_rows_probe();
	chrome_open(&o);
	feed(o.s, turns, ARRAY_SIZE(turns));
	chrome_read(&o);
	for (size_t i = 0; i < json_object_array_length(o.events); i++) {
		struct json_object *e = json_object_array_get_idx(o.events, i);
		bool end = !strcmp(field(e, "ph"), "f");

		if (!end && strcmp(field(e, "ph"), "s"))
			continue;
		assert_text(field(e, "cat"), "batch");
		assert_text(field(e, "name"), want[n[end]].name);
		assert_text(field(e, "ts"), end ? want[n[end]].to : want[n[end]].from);
		assert_int_equal(json_object_get_int64(json_object_object_get(e, "pid")), end ? REQUESTS_PID : PID);
		n[end]++;
		flows += end;
	}
	assert_int_equal(flows, ARRAY_SIZE(want));
	chrome_done(&o);
}

static void assert_counter(const struct out *o, const char *name, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct json_object *e = find(o, "C", name, (unsigned int)i);
		char text[64] = "missing";

		if (e)
			snprintf(text, sizeof(text), "%s %s%s", field(e, "ts"), arg(e, "rows") ? arg(e, "rows") : "",
				arg(e, "requests") ? arg(e, "requests") : arg(e, "tokens") ? arg(e, "tokens")
											   : "");
		assert_string_equal(text, list[i]);
	}
	assert_null(find(o, "C", name, (unsigned int)n));
}

#define ASSERT_COUNTER(o, name, ...)                               \
	do {                                                       \
		static const char *const list[] = { __VA_ARGS__ }; \
		assert_counter(o, name, list, ARRAY_SIZE(list));   \
	} while (0)

TEST_WITH(test_counters, setup, teardown)
{
	struct out o;

	add_rows_probe();
	chrome_open(&o);
	feed(o.s, turns, ARRAY_SIZE(turns));
	chrome_read(&o);
	ASSERT_COUNTER(&o, "batch size", "1.000 16", "5.000 0", "6.000 8", "9.000 0", "9.000 1", "10.000 0", "11.000 4",
		"14.001 0", "15.000 1", "16.000 0", "16.000 1", "17.000 0", "17.000 5", "20.000 0");
	ASSERT_COUNTER(&o, "tokens per step", "1.000 1", "5.000 0", "6.000 0", "9.000 0", "9.000 1", "10.000 0", "11.000 1",
		"14.001 0", "15.000 1", "16.000 0", "16.000 1", "17.000 0", "17.000 1", "20.000 0");
	ASSERT_COUNTER(&o, "active requests", "1.000 1", "6.000 2", "16.000 1", "20.000 0");
	/* in turns, while the other's step runs */
	ASSERT_COUNTER(&o, "waiting requests", "6.000 1", "10.000 0", "11.000 1", "14.001 0", "15.000 1", "16.000 0");
	chrome_done(&o);
}

TEST_WITH(test_together, setup, teardown)
{
	struct out o;

	add_rows_probe();
	chrome_open(&o);
	feed(o.s, together, ARRAY_SIZE(together));
	chrome_read(&o);
	/* 7 of 8 rows, and 4 of 5, were of the other's prompt */
	assert_events(&o, SLICES, "{'ph':'X','pid':4194600,'tid':4194601,'ts':1.000,'dur':25.000,'name':'request 1','cat':'batch','args':{'number':1,'pid':5000000,"
				  "'context':'0x8','sequence':0,'prompt_tokens':16,'cached_tokens':0,'output_tokens':3,'steps':3,'steps_shared':2,'first_step':0,"
				  "'first_token_step':0,'last_step':2,'ttft_us':4.000,'ttft_others_us':0.000,'ttft_between_us':0.000,'own_prefill_us':4.000,"
				  "'own_decode_us':3.250,'others_us':16.750,'between_us':1.000,'waited1_for':2,'waited1_us':16.750}}\n"
				  "{'ph':'X','pid':4194600,'tid':4194601,'ts':1.000,'dur':4.000,'name':'prefill','cat':'batch','args':{'tokens':16,'steps':1}}\n"
				  "{'ph':'X','pid':4194600,'tid':4194601,'ts':5.000,'dur':21.000,'name':'decode','cat':'batch','args':{'tokens':2,'steps':2}}\n"
				  "{'ph':'X','pid':4194600,'tid':4194601,'ts':30.000,'dur':2.000,'name':'request 3','cat':'batch','args':{'number':3,'pid':5000000,"
				  "'context':'0x8','sequence':0,'prompt_tokens':1,'cached_tokens':0,'output_tokens':1,'steps':1,'steps_shared':1,'first_step':4,"
				  "'first_token_step':4,'last_step':4,'ttft_us':2.000,'ttft_others_us':0.000,'ttft_between_us':0.000,'own_prefill_us':2.000,"
				  "'end_not_seen':true}}\n"
				  "{'ph':'X','pid':4194600,'tid':4194601,'ts':30.000,'dur':2.000,'name':'prefill','cat':'batch','args':{'tokens':1,'steps':1}}\n"
				  "{'ph':'X','pid':4194600,'tid':4194602,'ts':6.000,'dur':26.000,'name':'request 2','cat':'batch','args':{'number':2,'pid':5000000,"
				  "'context':'0x8','sequence':5,'prompt_tokens':11,'cached_tokens':0,'output_tokens':3,'steps':4,'steps_shared':3,'first_step':1,"
				  "'first_token_step':2,'last_step':4,'ttft_us':20.000,'ttft_others_us':0.000,'ttft_between_us':0.000,'own_prefill_us':20.000,"
				  "'own_decode_us':3.000,'others_us':1.000,'between_us':2.000,'waited1_for':3,'waited1_us':1.000,'end_not_seen':true}}\n"
				  "{'ph':'X','pid':4194600,'tid':4194602,'ts':6.000,'dur':20.000,'name':'prefill','cat':'batch','args':{'tokens':11,'steps':2}}\n"
				  "{'ph':'X','pid':4194600,'tid':4194602,'ts':26.000,'dur':6.000,'name':'decode','cat':'batch','args':{'tokens':2,'steps':2}}\n");
	ASSERT_COUNTER(&o, "batch size", "1.000 16", "5.000 0", "6.000 8", "16.000 0", "16.000 5", "26.000 0", "27.000 1",
		"29.000 0", "30.000 2", "32.000 0");
	ASSERT_COUNTER(&o, "tokens per step", "1.000 1", "5.000 0", "6.000 1", "16.000 0", "16.000 2", "26.000 0",
		"27.000 1", "29.000 0", "30.000 2", "32.000 0");
	ASSERT_COUNTER(&o, "active requests", "1.000 1", "6.000 2", "26.000 1", "30.000 2", "32.000 0");
	assert_null(find(&o, "C", "waiting requests", 0));
	chrome_done(&o);
}

/* Nothing of this without rows. */
TEST_WITH(test_none, setup, teardown)
{
	struct out o;

	add_probe("step", ROLE_STEP, PROBE_F_SPAN, NULL, "");
	add_probe("other", ROLE_STEP, PROBE_F_SPAN, "a == 1 ? decode : prefill", "s32 arg1");
	chrome_open(&o);
	for (uint32_t i = 0; i < 10; i++) {
		struct rec_step r = { .h = hdr(REC_STEP, i % 2), .number = i, .vals = { i / 4 } };

		r.h.start_ns += 10000 * i;
		share_out(&r, 1000);
		EMIT(&o, &r);
	}
	chrome_read(&o);
	assert_null(strstr(o.text, "4194600"));
	assert_null(find(&o, "C", "batch size", 0));
	chrome_done(&o);
}

/* Contexts and processes have distinct names, from the second on. */
TEST_WITH(test_groups, setup, teardown)
{
	static const struct rows_step list[] = {
		{ .number = 0, .start = 1000, .end = 2000, .context = 16, .n = 1, .parts = { { 0, 0, 16, 1 } } },
		{ .number = 1, .start = 3000, .end = 4000, .context = UINT64_MAX, .n = 1, .parts = { { 0, 0, 8, 1 } } },
		{ .number = 2, .start = 5000, .end = 6000, .context = 16, .n = 1, .parts = { { 7, 0, 8, 1 } } },
	};
	struct json_object *e;
	struct out o;

	add_rows_probe();
	chrome_open(&o);
	feed(o.s, list, ARRAY_SIZE(list));
	chrome_read(&o);
	e = on_row(&o, "X", "request 1", "slot 0", 0);
	assert_text(arg(e, "context"), "0x10");
	e = on_row(&o, "X", "request 2", "slot 0, context 2", 0);
	assert_text(arg(e, "context"), "0xffffffffffffffff");
	assert_span(e, "batch", "3.000", "1.000");
	assert_non_null(on_row(&o, "X", "request 3", "slot 7", 0));
	assert_non_null(find(&o, "C", "batch size", 3));
	assert_non_null(find(&o, "C", "batch size, context 2", 1));
	chrome_done(&o);
}

/* A request is in the file in which it ends; flows to steps in another file are left out. */
TEST_WITH(test_rotated, setup, teardown)
{
	struct out o, first;

	add_rows_probe();
	chrome_open(&o);
	feed(o.s, turns, 2);
	settle(o.s);
	first = out_rotate(&o, WRITER_PLAIN);
	validate(&first, false);
	assert_null(strstr(first.text, "request 1"));
	assert_non_null(strstr(first.text, "batch size"));
	feed(o.s, turns + 2, ARRAY_SIZE(turns) - 2);
	chrome_read(&o);
	assert_span(on_row(&o, "X", "request 1", "slot 0", 0), "batch", "1.000", "15.000");
	assert_span(on_row(&o, "X", "request 2", "slot 3", 0), "batch", "6.000", "11.000");
	assert_int_equal(json_object_get_int64(json_object_object_get(find(&o, "M", "process_name", 2), "pid")),
		REQUESTS_PID);
	assert_text(field(find(&o, "s", "first step", 0), "ts"), "17.000");
	assert_null(find(&o, "s", "first step", 1));
	assert_text(field(find(&o, "s", "first token", 0), "ts"), "19.999");
	assert_non_null(find(&o, "s", "last step", 1));
	chrome_done(&first);
	chrome_done(&o);
}

/* Any sequences, contexts and times: the file is valid, and has no more tracks than there is room for. */
TEST_WITH(test_hostile, setup, teardown)
{
	uint64_t now = 0;
	size_t rows = 0;
	struct out o;

	add_rows_probe();
	chrome_open(&o);
	for (uint32_t i = 0; i < 5000; i++) {
		struct rows_step s = { .number = i, .start = now, .n = 1 + (uint32_t)(draw() % 6), .context = draw() % 3 ? 1 : draw() };

		now += draw() % 10 ? draw() % 1000 : 0;
		s.end = draw() % 10 ? now : s.start;
		s.flags = (uint8_t)(draw() % 50 ? 0 : draw() % 4);
		draw_parts(&s);
		emit_rows(o.s, &s);
		if (draw() % 16 == 0)
			sink_settled(o.s);
	}
	chrome_read(&o);
	for (size_t i = 0; i < json_object_array_length(o.events); i++) {
		struct json_object *e = json_object_array_get_idx(o.events, i);

		rows += !strcmp(field(e, "name"), "thread_name") &&
			json_object_get_int64(json_object_object_get(e, "pid")) == REQUESTS_PID;
	}
	assert_in_range(rows, 10, REQUEST_ROWS);
	chrome_done(&o);
}

RUN_TESTS(NULL, NULL)
