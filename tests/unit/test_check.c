// SPDX-License-Identifier: BSD-2-Clause
/* Calls with values that do not fit the preset, conditions, arguments that only some calls have. */
#include "sinks.h"

#include "engine/calls.h"
#include "engine/check.h"
#include "stderr.h"

static struct engine engine = { .name = "lab" };
static struct stderr_grab said;

/* A call's values and strings; its messages are in said.text. */
static bool call_strings(
	struct probe_spec *s, const uint64_t *vals, const char *one, const char *two)
{
	char strs[FUNC_STRS_MAX][FUNC_STR_LEN] = {};
	bool shown;

	strncpy(strs[0], one, FUNC_STR_LEN - 1);
	strncpy(strs[1], two, FUNC_STR_LEN - 1);
	stderr_grab_begin(&said);
	shown = check_call(&probes, s, vals, strs[0]);
	stderr_grab_end(&said);
	return shown;
}

static bool call(struct probe_spec *s, uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t vals[FUNC_VALS_MAX] = { a, b, c };

	return call_strings(s, vals, "", "");
}

static struct probe_spec *add(const char *symbol, const char *args)
{
	struct probe_spec *s = add_probe(symbol, ROLE_OP, PROBE_F_SPAN, NULL, args);

	s->engine = &engine;
	return s;
}

static void add_check(struct probe_spec *s, const char *rule)
{
	const char *why;

	assert_int_equal(spec_add_check(s, rule, &why), 0);
}

static int free_probes(void **state)
{
	probe_table_free(&probes);
	return 0;
}

/* One value outside the enum: everything read through this pointer is dropped, in each probe of the function, and nothing else is. */
TEST_WITH(test_pointer, NULL, free_probes)
{
	struct probe_spec *s, *same, *other;
	uint64_t vals[FUNC_VALS_MAX] = { 2 };

	add("f", "op *(arg2+80),s64 *(arg2+16),u32 *(arg1),ptr arg2,s32 *(*(arg2+8))");
	add("f", "u32 *(arg2),u32 arg1");
	add("g", "op *(arg2+80)");
	s = &probes.specs[0], same = &probes.specs[1], other = &probes.specs[2];
	assert_true(call_strings(s, vals, "", ""));
	assert_string_equal(said.text,
		"inftrace: warning: the preset lab does not fit this engine: f: a is 2, which is "
		"no op; left "
		"out: a, b, e (give one that fits with --engine FILE: docs/engines.md)\n");
	assert_int_equal(s->misfits, 0x13);
	assert_int_equal(same->misfits, 0x01);
	assert_int_equal(other->misfits, 0);
	assert_int_equal(s->left_out, 3);
	vals[0] = 1;
	assert_string_equal(probe_spec_name(s, vals), "f");
	for (unsigned int i = 0; i < s->nargs; i++)
		assert_int_equal(check_shown(s, i, vals), i == 2 || i == 3);

	/* reported once, but still counted */
	assert_true(call_strings(s, vals, "", ""));
	assert_string_equal(said.text, "");
	assert_int_equal(s->left_out, 6);
	assert_true(call(same, 0, 0, 0));
	assert_string_equal(said.text, "");
	assert_int_equal(same->left_out, 1);
	stderr_grab_begin(&said);
	check_summary(&probes);
	assert_string_equal(stderr_grab_end(&said),
		"inftrace: f: 6 values left out that do not fit the preset lab\n"
		"inftrace: f: 1 values left out that do not fit the preset lab\n");
}

/* On the stack each slot holds a pointer of its own. */
TEST_WITH(test_stack, NULL, free_probes)
{
	struct probe_spec *s =
		add("f", "op *(*(sp+8)+4),u32 *(*(sp+16)+4),u32 *(*(sp+8)),u64 *(sp+8)");

	assert_true(call(s, 9, 0, 0));
	assert_int_equal(s->misfits, 0x05);
}

/* Where the ABI fixes the argument's place, such a value is just unknown to the preset. */
TEST_WITH(test_unknown, NULL, free_probes)
{
	uint64_t vals[FUNC_VALS_MAX] = { 2, 1, 1 };
	struct probe_spec *s = add("f", "op arg1,op *(sp+8),op arg2");

	assert_true(call_strings(s, vals, "", ""));
	assert_string_equal(said.text,
		"inftrace: warning: the preset lab does not know all of this engine: f: a is 2, "
		"which is no op; "
		"left out (give one that does with --engine FILE: docs/engines.md)\n");
	assert_int_equal(s->misfits, 0);
	assert_false(check_shown(s, 0, vals));
	assert_true(check_shown(s, 1, vals));
	vals[1] = 7;
	assert_true(call_strings(s, vals, "", ""));
	assert_non_null(strstr(said.text, "f: b is 7"));
	assert_null(strstr(said.text, "f: a is"));
	vals[0] = 1;
	assert_true(check_shown(s, 0, vals));
	assert_int_equal(s->left_out, 3);
}

/* Also after the first calls, for a probe that has fitted so far. */
TEST_WITH(test_late, NULL, free_probes)
{
	struct probe_spec *s = add("f", "op *(arg1),str arg2");
	uint64_t vals[FUNC_VALS_MAX] = { 1 };

	for (unsigned int i = 0; i < CHECK_CALLS; i++) {
		assert_true(call_strings(s, vals, "text", ""));
		assert_string_equal(said.text, "");
	}
	assert_true(call_strings(s, vals, "\x01", ""));
	assert_string_equal(said.text, "");
	vals[0] = UINT32_MAX;
	for (unsigned int i = 0; i < 3; i++) {
		assert_true(call_strings(s, vals, "text", ""));
		assert_int_equal(said.text[0] != 0, i == 0);
	}
	assert_false(check_shown(s, 0, vals));
	vals[0] = 0;
	assert_true(check_shown(s, 0, vals));
	assert_int_equal(s->left_out, 3);
}

TEST_WITH(test_text, NULL, free_probes)
{
	char full[FUNC_STR_LEN], cut[FUNC_STR_LEN];
	const struct {
		const char *text;
		bool fits;
	} texts[] = {
		{ "", true },
		{ "blk.0.attn_q.weight (view)", true },
		{ "tab\there\r\n", true },
		{ "gr\xc3\xbc\xc3\x9f", true },
		{ full, true },
		{ cut, true }, /* within a character */
		{ "gr\xc3", false },
		{ "a\x7f", false },
		{ "a\x1b[2J", false },
		{ "\xff\xff", false },
		{ "\x80", false },
	};

	memset(full, 'x', sizeof(full));
	full[FUNC_STR_LEN - 1] = 0;
	memcpy(cut, full, sizeof(cut));
	memcpy(cut + FUNC_STR_LEN - 3, "\xe2\x82", 2);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		uint64_t vals[FUNC_VALS_MAX] = {};
		struct probe_spec *s = add("f", "str *(arg1+16),u64 *(arg1),str arg2");

		assert_true(call_strings(s, vals, texts[i].text, "well"));
		if ((s->misfits == 0) != texts[i].fits || s->misfits & ~3)
			fail_msg("%zu: %s", i, said.text);
		assert_true(call_strings(s, vals, "well", texts[i].text));
		assert_int_equal(s->misfits & 4, texts[i].fits ? 0 : 4);
		probe_table_free(&probes);
	}
}

TEST_WITH(test_checks, NULL, free_probes)
{
	struct probe_spec *s = add("f", "s32 *(arg1),s64 *(arg2+8),op arg3");

	add_check(s, "a > 0");
	add_check(s, "a < 100");
	add_check(s, "b != -1");
	add_check(s, "c != none");
	assert_true(call(s, 1, 0, 1));
	assert_string_equal(said.text, "");
	/* two at once, each with its line */
	assert_true(call(s, (uint64_t)-5, UINT64_MAX, 1));
	assert_non_null(strstr(said.text, "f: a is -5; left out: a ("));
	assert_non_null(strstr(said.text, "f: b is -1; left out: a, b ("));
	assert_int_equal(s->misfits, 3);
	assert_true(call(s, 1, 1, 0));
	assert_non_null(strstr(said.text, "f: c is 0; left out: a, b, c ("));
}

/* Which calls count depends on a value that does not fit: none is shown. */
TEST_WITH(test_when, NULL, free_probes)
{
	struct probe_spec *s = add("f", "op *(arg1+8),str *(arg1+16)");
	uint64_t vals[FUNC_VALS_MAX] = { 1 };
	const char *why;

	assert_int_equal(spec_set_when(s, "a == mul_mat", &why), 0);
	assert_true(call_strings(s, vals, "fine", ""));
	assert_false(call_strings(s, vals, "\x90\x01", ""));
	assert_non_null(strstr(said.text, "b is \"\\x90\\x01\"; left out: a, b ("));
	assert_false(call_strings(s, vals, "fine", ""));
}

/* A probe given by the user shows everything. */
TEST_WITH(test_option, NULL, free_probes)
{
	struct probe_spec *s = add("f", "op *(arg1+8),str *(arg1+16)");
	uint64_t vals[FUNC_VALS_MAX] = { 1 };

	s->engine = NULL;
	assert_true(call_strings(s, vals, "\x90\x01", ""));
	assert_string_equal(said.text, "");
	assert_true(check_shown(s, 1, vals));
}

/* An argument that only some calls have is neither shown nor checked in the others. */
TEST_WITH(test_only_if, NULL, free_probes)
{
	struct probe_spec *s = add("f", "s32 arg1,op *(arg2) if a > 1,u64 arg3 if b == mul_mat");
	const struct {
		uint64_t a, b;
		unsigned int shown;
	} calls[] = { { 0, 77, 1 }, { 1, 0, 1 }, { 2, 0, 3 }, { 2, 1, 7 }, { (uint64_t)-1, 0, 1 } };

	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		uint64_t vals[FUNC_VALS_MAX] = { calls[i].a, calls[i].b };
		unsigned int shown = 0;

		assert_true(call_strings(s, vals, "", ""));
		assert_string_equal(said.text, "");
		for (unsigned int k = 0; k < s->nargs; k++)
			shown |= (unsigned int)check_shown(s, k, vals) << k;
		assert_int_equal(shown, calls[i].shown);
	}
	assert_int_equal(s->left_out, 0);
	/* nothing can depend on what is no longer known */
	assert_true(call(s, 2, 77, 0));
	assert_int_equal(s->misfits, 2);
	assert_false(check_shown(s, 2, (uint64_t[FUNC_VALS_MAX]){ 2, 1 }));
}

/* As the sinks write it. */
TEST_WITH(test_written, setup, teardown)
{
	struct probe_spec *s = add("f", "op *(arg1),str *(arg1+8),s32 arg2,s32 arg3 if c > 0");
	struct rec_function r = { .h = hdr(REC_FUNCTION, 0), .vals = { 1, 0, 0, 5 } };
	struct rec_step step = { .h = hdr(REC_STEP, 0), .vals = { 5, 0, 1, 5 } };
	struct json_object *args;
	struct out o;

	memcpy(&r.vals[4], "name", 5);
	chrome_open(&o);
	EMIT(&o, &r);
	s->misfits = 3;
	EMIT(&o, &step);
	chrome_read(&o);
	args = json_object_object_get(find(&o, "X", "f", 0), "args");
	assert_string_equal(json_object_to_json_string_ext(args, JSON_C_TO_STRING_PLAIN),
		"{\"a\":\"mul_mat\",\"b\":\"name\",\"c\":0}");
	args = json_object_object_get(find(&o, "X", "f", 1), "args");
	assert_null(json_object_object_get(args, "a"));
	assert_null(json_object_object_get(args, "b"));
	assert_int_equal(json_object_get_int(json_object_object_get(args, "d")), 5);
	chrome_done(&o);
}

/* A handle is shown with its name if it has one in this process; a value stored late is missing in a cut call. */
TEST_WITH(test_handles, setup, teardown)
{
	struct rec_function r = { .h = hdr(REC_FUNCTION, 0), .vals = { 0x77, 0x77, 1 } };
	struct handles *handles = handles_new(NULL);
	struct out o;

	add("f", "handle arg1,ptr arg2,u32 *(arg3) at return");
	handles_set(handles, PID, 0x77, "gemm");
	rec.handles = handles;
	chrome_open(&o);
	EMIT(&o, &r);
	r.h.tgid++;
	r.h.flags = REC_F_OPEN_END;
	EMIT(&o, &r);
	chrome_read(&o);
	assert_text(arg(find(&o, "X", "f", 0), "a"), "gemm");
	assert_text(arg(find(&o, "X", "f", 0), "b"), "0x77");
	assert_text(arg(find(&o, "X", "f", 0), "c"), "1");
	assert_text(arg(find(&o, "X", "f", 1), "a"), "0x77");
	assert_text(arg(find(&o, "X", "f", 1), "c"), NULL);
	chrome_done(&o);
	rec.handles = NULL;
	handles_free(handles);
}

/* A call names a handle, unless its string found no room or its end was not seen. */
TEST_WITH(test_taken_call, NULL, free_probes)
{
	struct rec_function r = { .h = hdr(REC_FUNCTION, 0), .vals = { 0x77, 0x1000 } };
	const size_t bare = REC_FUNCTION_SIZE(2), whole = bare + FUNC_STR_LEN;
	struct handles *handles = handles_new(NULL);
	struct shown_contexts drafts = {};
	const struct rec_hdr *taken;
	size_t size = bare;
	const char *why;

	add("f", "ptr arg1,str arg2");
	assert_int_equal(spec_set_names(&probes.specs[0], "a", "$b", &why), 0);
	strcpy((char *)&r.vals[2], "gemm");
	taken = calls_take(&probes, handles, &drafts, &probes.specs[0], &r.h, &size);
	assert_ptr_not_equal(taken, &r.h);
	assert_int_equal(size, whole);
	assert_memory_equal(taken, &r, bare);
	assert_string_equal((const char *)&((const struct rec_function *)taken)->vals[2], "");
	r.h.flags = REC_F_OPEN_END;
	assert_ptr_equal(calls_take(&probes, handles, &drafts, &probes.specs[0], &r.h, &size), &r.h);
	assert_null(handles_get(handles, PID, 0x77));
	r.h.flags = 0;
	assert_ptr_equal(calls_take(&probes, handles, &drafts, &probes.specs[0], &r.h, &size), &r.h);
	assert_string_equal(handles_get(handles, PID, 0x77), "gemm");
	assert_int_equal(size, whole);
	handles_free(handles);
}

/* A batch that is not laid out as the preset says has no parts. */
TEST_WITH(test_taken_step, NULL, free_probes)
{
	struct rec_step_parts r = { .s = { .h = hdr(REC_STEP, 0), .vals = { 2 }, .n_parts = 2, .parts_left = 1 } };
	struct rec_node node = { .h = hdr(REC_NODE, 0) };
	struct shown_contexts drafts = {};
	size_t size = REC_STEP_SIZE(2);
	const struct rec_step *taken;
	struct probe_spec *s;
	const char *why;

	s = add("f", "u32 arg1");
	assert_int_equal(rows_begin(s, "a", &why), 0);
	s->row_struct = 16;
	s->rows_fit = true; /* of an earlier batch */
	assert_ptr_equal(calls_take(&probes, NULL, &drafts, s, &r.s.h, &size), &r);
	assert_int_equal(size, REC_STEP_SIZE(2));
	s->rows_fit = false;
	stderr_grab_begin(&said);
	taken = (const struct rec_step *)calls_take(&probes, NULL, &drafts, s, &r.s.h, &size);
	stderr_grab_end(&said);
	assert_non_null(strstr(said.text, "row 0 of 2 is no row of a batch"));
	assert_int_equal(taken->vals[0], 2);
	assert_int_equal(taken->n_parts + taken->parts_left, 0);
	assert_int_equal(size, sizeof(*taken));
	size = REC_NODE_SIZE(0);
	assert_ptr_equal(calls_take(&probes, NULL, &drafts, s, &node.h, &size), &node);
}

RUN_TESTS(NULL, NULL)
