// SPDX-License-Identifier: BSD-2-Clause
/* op_prof, graph_prof and sample_prof, from records in the orders in which rings deliver them. */
#include "cases.h"
#include "profile_lines.h"

static void emit_op(struct out *o, uint32_t id, uint32_t step, uint64_t val, uint64_t ns)
{
	struct rec_function r = { .h = hdr(REC_FUNCTION, id), .step = step, .vals = { val } };

	r.h.dur_ns = ns;
	EMIT(o, &r);
}

static void emit_step(struct out *o, uint32_t id, uint32_t number)
{
	struct rec_step r = { .h = hdr(REC_STEP, id), .number = number };

	r.ns[ST_CPU] = r.h.dur_ns;
	r.n.graphs = number == 7;
	EMIT(o, &r);
}

TEST_WITH(test_window, setup, teardown)
{
	struct out o;

	add_probe("a", ROLE_OP, PROBE_F_BEGIN, "$a", "op arg1");
	add_probe("mul_mat", ROLE_OP, PROBE_F_SPAN, NULL, "");
	add_probe("total", ROLE_OP, PROBE_F_SPAN, NULL, "");
	add_probe("seen", ROLE_OP, PROBE_F_INSTANT, NULL, "");
	profile_open(&o, &plain);
	emit_op(&o, 0, 0, 1, 1000); /* mul_mat */
	emit_op(&o, 0, 4, 1, 2001); /* steps are distinguished only with --op-detail */
	emit_op(&o, 1, 0, 0, 5);
	emit_op(&o, 2, 0, 0, 3);
	emit_op(&o, 3, 0, 0, 0);
	emit_op(&o, 0, 0, 0, 7);  /* none */
	emit_op(&o, 0, 0, 99, 1); /* without a name: the function's */
	settle(&o, 1000);
	profile_close(&o);
	assert_int_equal(count(&o), 1);
	assert_body(&o, 0, "op_prof",
		"{\"window\":0,\"pid\":5000000,\"comm\":\"server\",\"ops\":7,\"n_mul_mat\":3,\"n_"
		"total_\":1,"
		"\"n_seen\":1,\"n_none\":1,\"n_a\":1} "
		"{\"total\":3.017,\"mul_mat\":3.006,\"total_\":0.003,\"seen\":0.000,\"none\":0.007,"
		"\"a\":0.001}");
	profile_done(&o);
}

/* A line for each process that ran any operator. */
TEST_WITH(test_processes, setup, teardown)
{
	struct rec_function r = { .h = hdr(REC_FUNCTION, 0) };
	struct out o;

	add_probe("f", ROLE_OP, PROBE_F_SPAN, NULL, "");
	profile_open(&o, &plain);
	for (uint32_t i = 0; i < 1000; i++) {
		r.h.tgid = i % 10;
		r.h.dur_ns = i % 10;
		EMIT(&o, &r);
	}
	profile_close(&o);
	assert_int_equal(count(&o), 10);
	for (size_t i = 0; i < 10; i++) {
		assert_int_equal(atoi(shape(&o, i, "pid")), i);
		assert_string_equal(shape(&o, i, "n_f"), "100");
		assert_int_equal(stage(&o, i, "total"), 100 * i);
	}
	profile_done(&o);
}

/* When a process has ended, its line is written and its place is free: any number may come, one after another. */
TEST_WITH(test_many_processes, setup, teardown)
{
	const uint32_t n = 10000;
	struct rec_function r = { .h = hdr(REC_FUNCTION, 0) };
	struct out o;

	add_probe("f", ROLE_OP, PROBE_F_SPAN, NULL, "");
	profile_open(&o, &plain);
	for (uint32_t i = 0; i < n; i++) {
		r.h.tgid = 5000001 + i;
		r.h.dur_ns = i;
		EMIT(&o, &r);
	}
	profile_close(&o);
	assert_int_equal(count(&o), n);
	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(atoi(shape(&o, i, "pid")), 5000001 + i);
		assert_int_equal(stage(&o, i, "total"), i);
	}
	profile_done(&o);
}

/* More names than there is room for, including unreadable ones. */
TEST_WITH(test_names, setup, teardown)
{
	const uint32_t n = 3000;
	uint64_t calls = 0, ns = 0;
	char symbol[256];
	struct out o;

	for (uint32_t i = 0; i < n; i++) {
		snprintf(symbol, sizeof(symbol), "%04u\"\\\xff%*s", i, i % 2 ? 200 : 20, "x");
		add_probe(symbol, ROLE_OP, PROBE_F_SPAN, NULL, "");
	}
	profile_open(&o, &plain);
	for (uint32_t i = 0; i < 2 * n; i++)
		emit_op(&o, i % n, 0, 0, i);
	profile_close(&o);
	assert_int_equal(count(&o), 1);
	json_object_object_foreach(
		json_object_object_get(json_object_array_get_idx(o.events, 0), "shape"), key, v)
	{
		calls += strncmp(key, "n_", 2) ? 0 : json_object_get_uint64(v);
	}
	assert_int_equal(calls, 2 * n);
	json_object_object_foreach(
		json_object_object_get(json_object_array_get_idx(o.events, 0), "stage_us"), name, t)
	{
		ns += strcmp(name, "total") ? (uint64_t)ns_of(t) : 0;
	}
	assert_int_equal(ns, n * (2 * n - 1));
	assert_true(atoi(shape(&o, 0, "n_other")) > 0);
	assert_string_equal(shape(&o, 0, "ops"), "6000");
	profile_done(&o);
}

static void open_detail(struct out *o)
{
	probes.op_detail = true;
	add_probe("step", ROLE_STEP, PROBE_F_SPAN, NULL, "");
	add_probe("f", ROLE_OP, PROBE_F_SPAN, NULL, "");
	add_probe("g", ROLE_OP, PROBE_F_SPAN, NULL, "");
	profile_open(o, &plain);
}

TEST_WITH(test_steps, setup, teardown)
{
	struct out o;

	open_detail(&o);
	emit_op(&o, 1, 8, 0, 10);
	emit_op(&o, 2, 8, 0, 20);
	emit_step(&o, 0, 7);
	emit_op(&o, 1, 8, 0, 5); /* from another ring */
	emit_op(&o, 1, 9, 0, 1);
	emit_op(&o, 2, 0, 0, 3); /* in no step */
	emit_step(&o, 0, 6);     /* nothing to report */
	settle(&o, 2);
	profile_read(&o);
	assert_int_equal(count(&o), 0);
	emit_op(&o, 1, 8, 0, 100); /* a worker works on it until the next step */
	settle(&o, 100);
	profile_read(&o);
	assert_int_equal(count(&o), 1);
	assert_body(&o, 0, "op_prof",
		"{\"step\":7,\"pid\":5000000,\"ops\":4,\"n_f\":3,\"n_g\":1} "
		"{\"total\":0.135,\"f\":0.115,\"g\":0.020}");
	assert_string_equal(field(json_object_array_get_idx(o.events, 0), "graph_enabled"), "true");
	emit_op(&o, 2, 8, 0, 4); /* or until much later */
	settle(&o, 100);
	profile_read(&o);
	assert_int_equal(count(&o), 2);
	assert_body(&o, 1, "op_prof",
		"{\"step\":7,\"pid\":5000000,\"ops\":1,\"n_g\":1} {\"total\":0.004,\"g\":0.004}");
	profile_close(&o);
	assert_int_equal(count(&o), 4);
	assert_body(&o, 2, "op_prof",
		"{\"step\":8,\"pid\":5000000,\"ops\":1,\"n_f\":1} {\"total\":0.001,\"f\":0.001}");
	assert_body(&o, 3, "op_prof",
		"{\"window\":0,\"pid\":5000000,\"comm\":\"server\",\"ops\":1,\"n_g\":1} "
		"{\"total\":0.003,\"g\":0.003}");
	profile_done(&o);
}

/* In any order, the lines of a step add up to its operators. */
TEST_WITH(test_order, setup, teardown)
{
	enum { STEPS = 4000, OPS = 40000 };
	static uint64_t calls[STEPS], ns[STEPS];
	struct out o;

	open_detail(&o);
	memset(calls, 0, sizeof(calls));
	memset(ns, 0, sizeof(ns));
	for (uint32_t i = 0; i < cases(OPS, OPS / 10); i++) {
		uint32_t now = i / (OPS / STEPS);
		/* most in the current step, some in earlier ones, one that runs all the time, any */
		uint32_t step = draw() % 4   ? now
				: draw() % 3 ? now - draw() % (now + 1 < 9 ? now + 1 : 9)
				: draw() % 2 ? 0
					     : draw() % STEPS;
		uint64_t dur = draw() % 1000;

		emit_op(&o, 1 + draw() % 2, step + 1, 0, dur);
		calls[step]++;
		ns[step] += dur;
		if (now && i % (OPS / STEPS) == 0)
			emit_step(&o, 0, now - 1);
		if (draw() % 20 == 0)
			settle(&o, 1 + draw() % 20);
	}
	assert_int_equal(o.s->ops->close(o.s, &totals), 0);
	read_text(&o);
	validate(&o, true);
	profile_read(&o);
	for (size_t i = 0; i < count(&o); i++) {
		uint32_t step = (uint32_t)atoi(shape(&o, i, "step"));

		assert_true(step < STEPS);
		calls[step] -= (uint64_t)atoi(shape(&o, i, "ops"));
		ns[step] -= (uint64_t)stage(&o, i, "total");
	}
	for (uint32_t i = 0; i < STEPS; i++) {
		assert_int_equal(calls[i], 0);
		assert_int_equal(ns[i], 0);
	}
	profile_done(&o);
}

TEST_WITH(test_calls, setup, teardown)
{
	struct rec_function r = { .h = hdr(REC_FUNCTION, 0),
		.step = 18,
		.vals = { (uint64_t)-3, 4711, 0x4009000000000000 } };
	struct out o;

	add_probe(
		"compute", ROLE_GRAPH, PROBE_F_SPAN, "$d", "s32 arg1,str arg2,f64 *(arg3),op arg4");
	add_probe("pick", ROLE_SAMPLE, PROBE_F_SPAN, NULL, "");
	add_probe("seen", ROLE_SAMPLE, PROBE_F_INSTANT, NULL, "");
	add_probe("other", ROLE_OTHER, PROBE_F_SPAN, NULL, "");
	profile_open(&o, &plain);
	r.vals[3] = 1;
	memcpy(&r.vals[4], "a \"b\"\n", 7);
	EMIT(&o, &r);
	r = (struct rec_function){ .h = hdr(REC_FUNCTION, 1) };
	r.h.flags = REC_F_OPEN_END;
	r.h.start_ns = START - 1;
	EMIT(&o, &r);
	r.h.id = 2;
	EMIT(&o, &r);
	r.h.id = 3;
	EMIT(&o, &r);
	r.h.id = 4;
	EMIT(&o, &r);
	profile_close(&o);
	assert_int_equal(count(&o), 2);
	assert_body(&o, 0, "graph_prof",
		"{\"call\":\"mul_mat\",\"step\":17,\"pid\":5000000,\"tid\":5000001,\"ts_us\":10."
		"000,\"a\":-3,"
		"\"b\":\"a \\\"b\\\"\\n\",\"c\":3.125,\"d\":1} {\"total\":1.234}");
	assert_body(&o, 1, "sample_prof",
		"{\"call\":\"pick\",\"pid\":5000000,\"tid\":5000001,\"ts_us\":0.000,\"unfinished\":"
		"true} "
		"{\"total\":1.234}");
	profile_done(&o);
}

RUN_TESTS(NULL, NULL)
