// SPDX-License-Identifier: BSD-2-Clause
/* What counters counted, in steps, operators and slices: where it is known, and only there. */
#include "format/derive.h"
#include "profile_lines.h"

static const uint64_t some[PMU_MAX] = { 3000, 2000, 7 };

static int setup_counters(void **state)
{
	rec.counters = (struct counters){ COUNTERS_HARDWARE, 7 };
	return setup(state);
}

static int teardown_counters(void **state)
{
	rec.counters = (struct counters){ 0 };
	probes.op_detail = false;
	return teardown(state);
}

/* A call with or without counts, which follow the values and both strings if the probe fetches any. */
static void emit_call(struct out *o, uint32_t id, uint32_t step, const uint64_t *counts)
{
	const struct probe_spec *s = &probes.specs[id];
	struct {
		struct rec_function f;
		struct rec_counts room;
	} r = { .f = { .h = hdr(REC_FUNCTION, id), .step = step } };
	size_t words = s->nargs + (s->nstrs ? FUNC_STRS_MAX * FUNC_STR_LEN / 8 : 0);

	if (s->nstrs)
		strcpy((char *)&r.f.vals[s->nargs], "text");
	if (counts) {
		r.f.h.flags |= FUNCTION_F_COUNTED;
		memcpy((uint64_t *)(void *)r.f.vals + words, counts, sizeof(struct rec_counts));
		words += PMU_MAX;
	}
	sink_record(o->s, &r.f.h, REC_FUNCTION_SIZE(words));
}

static void emit_step(struct out *o, uint32_t id, enum counted counted)
{
	struct rec_step r = { .h = hdr(REC_STEP, id), .counted = counted, .counts = { 3000, 2000, 7 } };

	r.ns[ST_CPU] = r.h.dur_ns;
	EMIT(o, &r);
}

TEST(test_ipc)
{
	struct counters c = { COUNTERS_HARDWARE, 7 };
	uint64_t n[PMU_MAX] = { 1, 3, 0 }, ipc = 0;

	assert_true(counts_ipc(&c, n, &ipc));
	assert_int_equal(ipc, 333);
	n[0] = UINT64_MAX;
	n[1] = UINT64_MAX / 2 + 1;
	assert_true(counts_ipc(&c, n, &ipc));
	assert_int_equal(ipc, 1999);
	n[1] = 0;
	assert_false(counts_ipc(&c, n, &ipc));
	c.mask = 1;
	n[1] = 1;
	assert_false(counts_ipc(&c, n, &ipc));
	c = (struct counters){ COUNTERS_SOFTWARE, 3 };
	assert_false(counts_ipc(&c, n, &ipc));
}

TEST(test_sets)
{
	assert_int_equal(counter_set_parse("hardware"), COUNTERS_HARDWARE);
	assert_int_equal(counter_set_parse("software"), COUNTERS_SOFTWARE);
	assert_int_equal(counter_set_parse("hard"), COUNTERS_NONE);
	assert_int_equal(counter_set_parse(""), COUNTERS_NONE);
	assert_string_equal(counter_name(COUNTERS_HARDWARE, COUNTER_LLC_MISSES), "llc_misses");
	assert_null(counter_name(COUNTERS_SOFTWARE, 2));
	assert_null(counter_name(COUNTERS_HARDWARE, PMU_MAX));
	assert_null(counter_name(COUNTERS_NONE, 0));
}

TEST_WITH(test_steps, setup_counters, teardown_counters)
{
	struct out o;
	char *line;

	add_probe("step", ROLE_STEP, PROBE_F_SPAN, NULL, "");
	profile_open(&o, &plain);
	emit_step(&o, 0, COUNTED);
	emit_step(&o, 0, COUNTED_NOT);
	emit_step(&o, 0, COUNTED_SHARED);
	assert_int_equal(o.s->ops->close(o.s, &totals), 0);
	read_text(&o);
	line = strtok(o.text, "\n");
	assert_non_null(strstr(line, "\"instructions\":3000,\"cycles\":2000,\"llc_misses\":7,\"ipc\":1.500}"));
	line = strtok(NULL, "\n");
	assert_non_null(strstr(line, "token_prof"));
	assert_null(strstr(line, "cycles"));
	assert_null(strstr(line, "counters_shared"));
	line = strtok(NULL, "\n");
	assert_null(strstr(line, "cycles"));
	assert_non_null(strstr(line, "\"counters_shared\":true"));
	profile_done(&o);
}

/* A counter that the machine lacks is in no line. */
TEST_WITH(test_operators, setup_counters, teardown_counters)
{
	struct out o;

	rec.counters.mask = 3;
	add_probe("f", ROLE_OP, PROBE_F_SPAN, NULL, "u32 arg1,str arg2");
	add_probe("g", ROLE_OP, PROBE_F_SPAN, NULL, "");
	add_probe("h", ROLE_OP, PROBE_F_SPAN, NULL, "");
	profile_open(&o, &plain);
	emit_call(&o, 0, 0, some);
	emit_call(&o, 1, 0, some);
	emit_call(&o, 1, 0, NULL);
	emit_call(&o, 1, 0, some);
	emit_call(&o, 2, 0, NULL);
	profile_close(&o);
	assert_body(&o, 0, "op_prof",
		"{\"window\":0,\"pid\":5000000,\"comm\":\"server\",\"ops\":5,\"n_f\":1,\"n_g\":3,\"n_h\":1,\"instructions_f\":3000,\"cycles_f\":2000,"
		"\"instructions_g\":6000,\"cycles_g\":4000,\"counted_g\":2} {\"total\":6.170,\"f\":1.234,\"g\":3.702,\"h\":1.234}");
	profile_done(&o);
}

/* All operators of a step with counts: those without room are added to "other", and nothing is lost. */
TEST_WITH(test_many_names, setup_counters, teardown_counters)
{
	const uint32_t n = 1000;
	uint64_t cycles = 0;
	char symbol[64];
	struct out o;

	for (uint32_t i = 0; i < n; i++) {
		snprintf(symbol, sizeof(symbol), "%04u%*s", i, 50, "x");
		add_probe(symbol, ROLE_OP, PROBE_F_SPAN, NULL, "");
	}
	profile_open(&o, &plain);
	for (uint32_t i = 0; i < n; i++)
		emit_call(&o, i, 0, some);
	profile_close(&o);
	json_object_object_foreach(json_object_object_get(json_object_array_get_idx(o.events, 0), "shape"), key, v)
	{
		cycles += strncmp(key, "cycles_", 7) ? 0 : json_object_get_uint64(v);
	}
	assert_int_equal(cycles, n * some[COUNTER_CYCLES]);
	assert_true(atoi(shape(&o, 0, "n_other")) > 0);
	profile_done(&o);
}

TEST_WITH(test_slices, setup_counters, teardown_counters)
{
	struct out o;

	add_probe("f", ROLE_OP, PROBE_F_SPAN, NULL, "u32 arg1,str arg2");
	add_probe("g", ROLE_OP, PROBE_F_SPAN, NULL, "");
	add_probe("step", ROLE_STEP, PROBE_F_SPAN, NULL, "");
	chrome_open(&o);
	emit_call(&o, 0, 0, some);
	emit_call(&o, 1, 0, some);
	emit_step(&o, 2, COUNTED);
	chrome_read(&o);
	assert_string_equal(arg(get(&o, "X", "f"), "cycles"), "2000");
	assert_string_equal(arg(get(&o, "X", "f"), "b"), "text");
	assert_string_equal(arg(get(&o, "X", "g"), "instructions"), "3000");
	assert_string_equal(arg(get(&o, "X", "g"), "ipc"), "1.500");
	assert_non_null(strstr(o.text, "\"breakdown_us\":{\"cpu\":1.234},\"instructions\":3000,\"cycles\":2000,\"llc_misses\":7,\"ipc\":1.500"));
	chrome_done(&o);
}

RUN_TESTS(NULL, NULL)
