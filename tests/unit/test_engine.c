// SPDX-License-Identifier: BSD-2-Clause
/* Presets that are good (run from the root of the tree). */
#include "preset.h"

static void check_llama_step(const struct probe_spec *s)
{
#ifdef __aarch64__
	const struct fetch n_tokens = {
		.reg = REG_ARG2, .derefs = 1, .size = 4, .flags = FETCH_F_SIGNED
	};
#else
	const struct fetch n_tokens = {
		.reg = REG_SP, .derefs = 1, .size = 4, .flags = FETCH_F_SIGNED, .off = { 8 }
	};
#endif
#ifdef __aarch64__
#define BATCH(at) { .reg = REG_ARG2, .derefs = 1, .size = 8, .off = { at } }
#else
#define BATCH(at) { .reg = REG_SP, .derefs = 1, .size = 8, .off = { 8 + at } }
#endif
	static const struct row_fetch rows[ROW_COLUMNS] = {
		[ROW_SEQUENCE] = { BATCH(40), .stride = 8, .loads = 2, .size = 4, .flags = FETCH_F_SIGNED },
		[ROW_SEQUENCES] = { BATCH(32), .stride = 4, .loads = 1, .size = 4, .flags = FETCH_F_SIGNED },
		[ROW_POSITION] = { BATCH(24), .stride = 4, .loads = 1, .size = 4, .flags = FETCH_F_SIGNED },
		[ROW_OUTPUT] = { BATCH(48), .stride = 1, .loads = 1, .size = 1, .flags = FETCH_F_SIGNED },
	};
#undef BATCH
	/* n_tokens, context, n_outputs, n_sequences, sequence, sequences, position, rows_read */
	static const struct {
		uint64_t vals[FUNC_VALS_MAX];
		const char *name;
	} names[] = {
		{ { 1, 0, 1, 1, 0, 0, 7, 1 }, "decode" },
		{ { 1, 0, 1, 2, ROW_UNKNOWN, 3, 7, 1 }, "mixed" }, /* a row of two sequences */
		{ { 1, 0, ROW_UNKNOWN, ROW_UNKNOWN, ROW_UNKNOWN, 0, ROW_UNKNOWN, 0 }, "decode" },
		{ { 9, 0, 1, 1, 0, 0, 0, 9 }, "prefill" },
		{ { 9, 0, 0, 1, 0, 0, 512, 9 }, "prefill" },
		{ { 9, 0, 1, 1, 0, 0, ROW_UNKNOWN, 9 }, "prefill" }, /* llama_batch_get_one() */
		{ { 9, 0, 9, 1, 0, 0, 0, 9 }, "prefill" },	     /* embeddings */
		{ { 4, 0, 4, 1, 3, 0, 77, 4 }, "decode" },	     /* drafts to be verified */
		{ { 4, 0, 4, 4, ROW_UNKNOWN, 15, 77, 4 }, "mixed" },
		{ { 40000, 0, 2, 2, ROW_UNKNOWN, 0, 77, 16384 }, "mixed" }, /* at least two */
		{ { 9, 0, 1, ROW_UNKNOWN, ROW_UNKNOWN, 0, 0, 5 }, "unknown" },
		{ { 9, 0, ROW_UNKNOWN, ROW_UNKNOWN, ROW_UNKNOWN, 0, ROW_UNKNOWN, 0 }, "unknown" },
		{ { 0, 0, 0, 0, ROW_UNKNOWN, 0, ROW_UNKNOWN, 0 }, "unknown" },
		{ { (uint64_t)-1, 0, ROW_UNKNOWN, ROW_UNKNOWN, ROW_UNKNOWN, 0, ROW_UNKNOWN, 0 }, "unknown" },
	};
	struct probe p;

	assert_string_equal(s->library, "libllama.*so*");
	assert_int_equal(s->role, ROLE_STEP);
	assert_int_equal(s->flags, PROBE_F_SPAN);
	assert_int_equal(s->nargs, 2 + ROW_VALUES);
	assert_string_equal(s->args[0].name, "n_tokens");
	assert_string_equal(s->args[1].name, "context");
	assert_true(s->args[0].is_signed);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_string_equal(probe_spec_name(s, names[i].vals), names[i].name);

	probe_spec_encode(s, &p);
	assert_int_equal(p.role, ROLE_STEP);
	assert_int_equal(p.flags, PROBE_F_SPAN);
	assert_int_equal(p.nvals, 2 + ROW_VALUES);
	assert_memory_equal(&p.fetch[0], &n_tokens, sizeof(n_tokens));
	assert_int_equal(p.rows, 1);
	assert_int_equal(p.rows_at, 2);
	assert_int_equal(p.row_else, ROW_ELSE_LAST);
	assert_memory_equal(p.row, rows, sizeof(rows));
}

TABLE_TEST(test_llama_cpp)
{
	const struct fetch op = { .reg = REG_ARG2, .derefs = 1, .size = 4, .off = { 80 } };
	const struct probe_spec *s;

	assert_int_equal(engine_load(&pt, "engines/llama.cpp.json"), 0);
	assert_int_equal(pt.n_engines, 1);
	assert_string_equal(pt.engines[0]->name, "llama.cpp");
	assert_true(pt.engines[0]->version >= 1);
	assert_int_equal(pt.n, 31);
	check_llama_step(get("llama_decode"));

	s = get("ggml_cpu_extra_compute_forward");
	assert_int_equal(s->role, ROLE_OP);
	assert_int_equal(s->flags, PROBE_F_BEGIN);
	assert_memory_equal(&s->fetch[0], &op, sizeof(op));
	assert_string_equal(name_of(s, 0), "none");
	assert_string_equal(name_of(s, 2), "add");
	/* numbers that a later release may have */
	assert_string_equal(name_of(s, 4000), "ggml_cpu_extra_compute_forward");
	assert_string_equal(name_of(s, UINT64_MAX), "ggml_cpu_extra_compute_forward");

	/* one probe for the ends of two pairs and for its own span */
	s = get("ggml_barrier");
	assert_int_equal(s->role, ROLE_BARRIER);
	assert_int_equal(s->flags, PROBE_F_SPAN | PROBE_F_END | PROBE_F_GROUP);
	assert_int_equal(s->group.reg, REG_ARG1);
	assert_int_equal(s->nargs, 0);
	assert_string_equal(name_of(s, 0), "ggml_barrier");

	s = get("ggml_compute_forward_rms_norm_mul_fused");
	assert_int_equal(s->flags, PROBE_F_BEGIN);
	assert_string_equal(name_of(s, 0), "rms_norm_mul");
	assert_int_equal(get("llama_sampler_sample")->role, ROLE_SAMPLE);
	assert_true(probe_spec_matches(s, "/opt/llama/libggml-cpu-haswell.so"));
	assert_false(probe_spec_matches(s, "/opt/llama/libggml-base.so"));
}

/* Every preset of the tree, by folder and by name. */
TABLE_TEST(test_installed)
{
	size_t n;

	assert_int_equal(setenv("INFTRACE_ENGINES", "engines", 1), 0);
	stderr_grab_begin(&said);
	engine_load_all(&pt);
	stderr_grab_end(&said);
	assert_string_equal(said.text, "");
	assert_true(pt.n_engines >= 1);
	n = pt.n;
	assert_int_equal(engine_load(&pt, "llama.cpp"), 0);
	assert_true(pt.n > n);

	stderr_grab_begin(&said);
	assert_int_equal(engine_load(&pt, "no_such_preset"), -EINVAL);
	stderr_grab_end(&said);
	assert_string_equal(said.text,
		"inftrace: --engine: no preset named no_such_preset in engines; inftrace engines lists them; or give its "
		"file, or none\n");
	stderr_grab_begin(&said);
	assert_int_equal(engine_load(&pt, "engines/no_such.json"), -ENOENT);
	stderr_grab_end(&said);
	assert_one_line(said.text);
	stderr_grab_begin(&said);
	assert_true(engine_load(&pt, "engines/") < 0);
	stderr_grab_end(&said);
	assert_one_line(said.text);

	/* no presets: detecting none is no error, but is reported */
	n = pt.n;
	assert_int_equal(setenv("INFTRACE_ENGINES", "/nonexistent", 1), 0);
	stderr_grab_begin(&said);
	assert_int_equal(engine_load_all(&pt), 0);
	stderr_grab_end(&said);
	assert_one_line(said.text);
	assert_int_equal(pt.n, n);
	unsetenv("INFTRACE_ENGINES");
}

TEST(test_good)
{
	expect_good(PROBES(""));
	expect_good(PROBES("{" F "}"));
	expect_good(START "'version':0,'checked':[],'enums':{},'probes':[]}\n\n ");
	expect_good(PROBES("{" F ",'args':{'a':'u8 arg1','b':'u8 arg1','c':'u8 arg1','d':'u8 arg1',"
			   "'e':'u8 arg1','f':'u8 arg1'},'name':'$f'}"));
	/* the end function of a pair has its own span, in either order */
	expect_good(PROBES("{'begin':'f','end':'g','role':'op'},{'symbol':'g','role':'barrier'}"));
	expect_good(PROBES("{'symbol':'g','role':'barrier'},{'begin':'f','end':'g','role':'op'}"));
	/* the same name in two libraries means two functions */
	expect_good(PROBES("{" F ",'library':'liba*'},{" F ",'library':'libb*'},{" F "}"));
	/* UTF-8 is for everyone */
	expect_good(PROBES("{" F ",'name':'d\xc3\xa9"
			   "code \xe6\xa8\xa1 \xf0\x9f\x98\x80'}"));
	expect_good(PROBES("{" F ",'name':'\\u00e9 \\u6a21'}"));
	expect_good(PROBES(
		"{" F ",'args':{'n':'s64 arg1'},'name':'n == -9223372036854775808 ? a : b'}"));
}

TABLE_TEST(test_name_rules)
{
	const struct probe_spec *s;

	load_good(START "'enums':{'e':{'names':['zero','one']}},'probes':["
			"{'symbol':'rule','role':'step','args':{'n':'s32 arg1'},"
			"'name':'n == -1 ? minus-one : some.other'},"
			"{'symbol':'fixed','role':'op','name':'a fixed name'},"
			"{'symbol':'number','role':'op','args':{'n':'u8 arg1'},"
			"'name':'$n'},"
			"{'symbol':'enum','role':'op','args':{'n':'e arg1'},"
			"'name':'$n'}]}");
	s = get("rule");
	assert_string_equal(name_of(s, (uint64_t)-1), "minus-one");
	assert_string_equal(name_of(s, 0), "some.other");
	assert_string_equal(name_of(get("fixed"), 0), "a fixed name");
	/* a number has no name: the function's stays */
	assert_string_equal(name_of(get("number"), 1), "number");
	s = get("enum");
	assert_string_equal(name_of(s, 1), "one");
	assert_string_equal(name_of(s, 2), "enum");
}

TABLE_TEST(test_usdt)
{
	const struct probe_spec *s;

	load_good(PROBES("{'usdt':['p:n','q:*'],'role':'op','args':{'a':'f64 arg12'}},"
			 "{'begin':'usdt:p:b','end':'usdt:p:e','role':'request'},"
			 "{'instant':'usdt:p:i','role':'op'}"));
	assert_int_equal(pt.n, 5);
	s = pt.specs;
	for (int i = 0; i < 5; i++)
		assert_true(s[i].is_usdt);
	assert_string_equal(s[0].symbol, "usdt:p:n");
	assert_string_equal(s[1].symbol, "usdt:q:*");
	assert_false(s[0].is_glob);
	assert_true(s[1].is_glob);
	assert_int_equal(s[0].flags, PROBE_F_INSTANT);
	assert_true(s[0].args[0].is_float);
	assert_int_equal(s[2].flags, PROBE_F_BEGIN);
	assert_int_equal(s[3].flags, PROBE_F_END);
	assert_string_equal(s[3].symbol, "usdt:p:e");
	assert_int_equal(s[4].flags, PROBE_F_INSTANT);
}

TABLE_TEST(test_conditions)
{
	const struct probe_spec *s;
	struct probe p;

	load_good(START
		"'enums':{'e':{'names':['zero','one']}},'probes':["
		"{'symbol':'f','role':'op'},"
		"{'instant':'f','role':'op','args':{'n':'s32 arg1','o':'e arg2'},"
		"'when':'o == one'},"
		"{'symbol':'g','role':'op','args':{'n':'s32 arg1'},'when':'n > -0x10'},"
		"{'symbol':'h','role':'op','args':{'o':'e arg1'},'when':'o != two'}]}");
	/* a function has a span, and a conditional instant */
	assert_int_equal(pt.n, 4);
	assert_int_equal(pt.specs[0].flags, PROBE_F_SPAN);
	s = &pt.specs[1];
	assert_string_equal(s->symbol, "f");
	assert_int_equal(s->flags, PROBE_F_INSTANT);
	assert_int_equal(probe_spec_encode(s, &p), 0);
	assert_int_equal(p.when, WHEN_EQ);
	assert_int_equal(p.when_val, 1);
	assert_int_equal(p.when_than, 1);
	assert_int_equal(probe_spec_encode(get("g"), &p), 0);
	assert_int_equal(p.when, WHEN_GT);
	assert_int_equal(p.when_val, 0);
	assert_int_equal(p.when_than, -16);
	/* a name that this release's enum lacks */
	assert_int_equal(probe_spec_encode(get("h"), &p), -ENOENT);
}

#define DETAIL                                                                              \
	PROBES("{'symbol':['f','g'],'role':'op','args':{'a':'u8 arg1'},'detail':{'t':'str " \
	       "arg2'}},"                                                                   \
	       "{'instant':'h','role':'op','detail_only':true},{'symbol':'i','role':'op',"  \
	       "'detail_only':false}")

TABLE_TEST(test_detail)
{
	struct probe p;

	load_good(DETAIL);
	assert_int_equal(pt.n, 3);
	assert_int_equal(get("f")->nargs, 1);
	assert_int_equal(get("g")->nargs, 1);
	assert_int_equal(get("i")->nargs, 0);
	probe_table_free(&pt);

	pt.op_detail = true;
	load_good(DETAIL);
	assert_int_equal(pt.n, 4);
	assert_int_equal(get("g")->nargs, 2);
	assert_true(get("g")->args[1].is_string);
	assert_int_equal(get("h")->flags, PROBE_F_INSTANT);
	assert_int_equal(probe_spec_encode(get("f"), &p), 0);
	assert_int_equal(p.nvals, 2);
	assert_int_equal(p.nstrs, 1);
	assert_int_equal(p.fetch[1].flags, FETCH_F_STRING);
	/* malformed, and an argument given twice */
	assert_int_equal(load_text(PROBES("{" F ",'detail':[]}")), -EINVAL);
	assert_non_null(strstr(said.text, ":1: detail: must be an object"));
	assert_int_equal(
		load_text(PROBES("{" F ",'args':{'a':'u8 arg1'},\n'detail':{'a':'u8 arg2'}}")),
		-EINVAL);
	assert_non_null(strstr(said.text, "a: two arguments with the same name"));
}

TABLE_TEST(test_names)
{
	const struct probe_spec *s;
	struct probe p;

	load_good(PROBES("{'symbol':'get','role':'other','args':{'h':'ptr *(*(arg1)+8) at return',"
			 "'n':'str arg3'},'names':{'h':'$n'}},"
			 "{'symbol':'use','role':'launch','args':{'h':'handle arg1'}},"
			 "{'instant':'tell','role':'other','detail_only':true,'args':{'h':'ptr arg2',"
			 "'n':'str arg4'},'names':{'h':'$n'}}"));
	assert_int_equal(pt.n, 3);
	s = get("get");
	assert_int_equal(s->handle_arg, 0);
	assert_int_equal(s->handle_name, 1);
	assert_false(s->hidden);
	assert_int_equal(s->flags, PROBE_F_SPAN | PROBE_F_LATE);
	assert_int_equal(probe_spec_encode(s, &p), 0);
	assert_int_equal(p.fetch[0].flags, FETCH_F_LATE);
	assert_int_equal(p.fetch[0].derefs, 2);
	s = get("use");
	assert_true(s->args[0].is_handle && s->args[0].is_pointer);
	assert_int_equal(s->handle_arg, -1);
	/* for its names, even if it is hidden */
	assert_true(get("tell")->hidden);
	probe_table_free(&pt);
	pt.op_detail = true;
	load_good(PROBES("{'instant':'tell','role':'other','detail_only':true,'args':{'h':'ptr arg2',"
			 "'n':'str arg4'},'names':{'h':'$n'}}"));
	assert_false(get("tell")->hidden);
}

/* Two presets in one table: the first stays intact when the second turns out bad. */
TABLE_TEST(test_two)
{
	load_good(PROBES("{" F "}"));
	load_good(PROBES("{" F "}")); /* another engine's function */
	assert_int_equal(load_text(PROBES("{" F "},{" F "}")), -EINVAL);
	assert_string_equal(pt.specs[0].symbol, "f");
	assert_ptr_equal(pt.specs[0].engine, pt.engines[0]);
	assert_ptr_equal(pt.specs[1].engine, pt.engines[1]);
}

RUN_TESTS(make_preset_file, NULL)
