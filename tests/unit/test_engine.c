// SPDX-License-Identifier: BSD-2-Clause
/* Presets (run from the root of the tree). Texts here have ' for ". */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "cases.h"
#include "engine/engine.h"
#include "engine/spec.h"
#include "stderr.h"
#include "target/elf.h"
#include "target/elf_pointers.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

static int preset_fd;
static char preset_path[64];
static struct stderr_grab said;

static int make_preset_file(void **state)
{
	(void)state;
	preset_fd = memfd_create("preset", MFD_CLOEXEC);
	snprintf(preset_path, sizeof(preset_path), "/proc/self/fd/%d", preset_fd);
	return preset_fd < 0;
}

/* Whatever was in the input: one line, fit to print. */
static void assert_one_line(const char *text)
{
	size_t len = strlen(text);

	assert_true(len > strlen("inftrace: \n") && text[len - 1] == '\n');
	assert_memory_equal(text, "inftrace: ", 10);
	for (size_t i = 0; i < len - 1; i++) {
		if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
			fail_msg("byte 0x%02x in: %s", text[i], text);
	}
}

/* Loads bytes as a preset. An error has its one line, success has none. */
static int load_bytes(struct probe_table *pt, const void *text, size_t len)
{
	int err;

	assert_int_equal(ftruncate(preset_fd, 0), 0);
	assert_int_equal(pwrite(preset_fd, text, len, 0), len);
	stderr_grab_begin(&said);
	err = engine_load(pt, preset_path);
	stderr_grab_end(&said);
	if (err)
		assert_one_line(said.text);
	else
		assert_string_equal(said.text, "");
	return err;
}

static size_t put_quotes(char *text)
{
	for (char *p = text; (p = strchr(p, '\''));)
		*p = '"';
	return strlen(text);
}

static int load_text(struct probe_table *pt, const char *text)
{
	char *copy = test_malloc(strlen(text) + 1);
	int err;

	strcpy(copy, text);
	err = load_bytes(pt, copy, put_quotes(copy));
	test_free(copy);
	return err;
}

static void expect_good(const char *text)
{
	struct probe_table pt = {};

	if (load_text(&pt, text))
		fail_msg("%s refused: %s", text, said.text);
	probe_table_free(&pt);
}

/* `problem`: what stands behind the path: LINE: KEY: WHY. */
static void expect_bad(const char *text, const char *problem)
{
	struct probe_table pt = {};
	char line[512];
	int err;

	err = load_text(&pt, text);
	snprintf(line, sizeof(line), "inftrace: %s:%s\n", preset_path, problem);
	if (err != -EINVAL || strcmp(said.text, line))
		fail_msg("%s\n%d: %s instead of: %s", text, err, said.text, line);
	probe_table_free(&pt);
}

/* ---- presets that are good ---- */

static const struct probe_spec *get(const struct probe_table *pt, const char *symbol)
{
	for (size_t i = 0; i < pt->n; i++) {
		if (!strcmp(pt->specs[i].symbol, symbol))
			return &pt->specs[i];
	}
	fail_msg("no probe of %s", symbol);
	return NULL;
}

static const char *name_of(const struct probe_spec *s, uint64_t val)
{
	uint64_t vals[FUNC_VALS_MAX] = { val };

	return probe_spec_name(s, vals);
}

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

static void test_llama_cpp(void **state)
{
	const struct fetch op = { .reg = REG_ARG2, .derefs = 1, .size = 4, .off = { 80 } };
	const struct probe_spec *s;
	struct probe_table pt = {};

	(void)state;
	assert_int_equal(engine_load(&pt, "engines/llama.cpp.json"), 0);
	assert_int_equal(pt.n_engines, 1);
	assert_string_equal(pt.engines[0]->name, "llama.cpp");
	assert_true(pt.engines[0]->version >= 1);
	assert_int_equal(pt.n, 7);
	check_llama_step(get(&pt, "llama_decode"));

	s = get(&pt, "ggml_cpu_extra_compute_forward");
	assert_int_equal(s->role, ROLE_OP);
	assert_int_equal(s->flags, PROBE_F_BEGIN);
	assert_memory_equal(&s->fetch[0], &op, sizeof(op));
	assert_string_equal(name_of(s, 0), "none");
	assert_string_equal(name_of(s, 2), "add");
	/* numbers that a later release may have */
	assert_string_equal(name_of(s, 4000), "ggml_cpu_extra_compute_forward");
	assert_string_equal(name_of(s, UINT64_MAX), "ggml_cpu_extra_compute_forward");

	/* one probe for the end of two pairs and a span of its own */
	s = get(&pt, "ggml_barrier");
	assert_int_equal(s->role, ROLE_BARRIER);
	assert_int_equal(s->flags, PROBE_F_SPAN | PROBE_F_END | PROBE_F_GROUP);
	assert_int_equal(s->group.reg, REG_ARG1);
	assert_int_equal(s->nargs, 0);
	assert_string_equal(name_of(s, 0), "ggml_barrier");

	s = get(&pt, "ggml_compute_forward_rms_norm_mul_fused");
	assert_int_equal(s->flags, PROBE_F_BEGIN);
	assert_string_equal(name_of(s, 0), "rms_norm_mul");
	assert_int_equal(get(&pt, "llama_sampler_sample")->role, ROLE_SAMPLE);
	assert_true(probe_spec_matches(s, "/opt/llama/libggml-cpu-haswell.so"));
	assert_false(probe_spec_matches(s, "/opt/llama/libggml-base.so"));
	probe_table_free(&pt);
}

/* Every preset of the tree, by folder and by name. */
static void test_installed(void **state)
{
	struct probe_table pt = {};
	size_t n;

	(void)state;
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

	/* no presets: none is detected, which is no error, but told */
	n = pt.n;
	assert_int_equal(setenv("INFTRACE_ENGINES", "/nonexistent", 1), 0);
	stderr_grab_begin(&said);
	assert_int_equal(engine_load_all(&pt), 0);
	stderr_grab_end(&said);
	assert_one_line(said.text);
	assert_int_equal(pt.n, n);
	unsetenv("INFTRACE_ENGINES");
	probe_table_free(&pt);
}

#define START "{'name':'x','match':{'mapped':['lib*']},"
#define PROBES(text) START "'probes':[" text "]}"
#define F "'symbol':'f','role':'op'"

static void test_good(void **state)
{
	(void)state;
	expect_good(PROBES(""));
	expect_good(PROBES("{" F "}"));
	expect_good(START "'version':0,'checked':[],'enums':{},'probes':[]}\n\n ");
	expect_good(PROBES("{" F ",'args':{'a':'u8 arg1','b':'u8 arg1','c':'u8 arg1','d':'u8 arg1',"
			   "'e':'u8 arg1','f':'u8 arg1'},'name':'$f'}"));
	/* the function at the end of a pair has a span of its own, in either order */
	expect_good(PROBES("{'begin':'f','end':'g','role':'op'},{'symbol':'g','role':'barrier'}"));
	expect_good(PROBES("{'symbol':'g','role':'barrier'},{'begin':'f','end':'g','role':'op'}"));
	/* the same name in two libraries is two functions */
	expect_good(PROBES("{" F ",'library':'liba*'},{" F ",'library':'libb*'},{" F "}"));
	/* UTF-8 is for everyone */
	expect_good(PROBES("{" F ",'name':'d\xc3\xa9"
			   "code \xe6\xa8\xa1 \xf0\x9f\x98\x80'}"));
	expect_good(PROBES("{" F ",'name':'\\u00e9 \\u6a21'}"));
	expect_good(PROBES(
		"{" F ",'args':{'n':'s64 arg1'},'name':'n == -9223372036854775808 ? a : b'}"));
}

static void test_name_rules(void **state)
{
	struct probe_table pt = {};
	const struct probe_spec *s;

	(void)state;
	assert_int_equal(
		load_text(&pt, START "'enums':{'e':{'names':['zero','one']}},'probes':["
				     "{'symbol':'rule','role':'step','args':{'n':'s32 arg1'},"
				     "'name':'n == -1 ? minus-one : some.other'},"
				     "{'symbol':'fixed','role':'op','name':'a fixed name'},"
				     "{'symbol':'number','role':'op','args':{'n':'u8 arg1'},"
				     "'name':'$n'},"
				     "{'symbol':'enum','role':'op','args':{'n':'e arg1'},"
				     "'name':'$n'}]}"),
		0);
	s = get(&pt, "rule");
	assert_string_equal(name_of(s, (uint64_t)-1), "minus-one");
	assert_string_equal(name_of(s, 0), "some.other");
	assert_string_equal(name_of(get(&pt, "fixed"), 0), "a fixed name");
	/* a number has no name: the function's stays */
	assert_string_equal(name_of(get(&pt, "number"), 1), "number");
	s = get(&pt, "enum");
	assert_string_equal(name_of(s, 1), "one");
	assert_string_equal(name_of(s, 2), "enum");
	probe_table_free(&pt);
}

static void test_usdt(void **state)
{
	struct probe_table pt = {};
	const struct probe_spec *s;

	(void)state;
	assert_int_equal(load_text(&pt, PROBES("{'usdt':['p:n','q:*'],'role':'op','args':{'a':'f64 arg12'}},"
					       "{'begin':'usdt:p:b','end':'usdt:p:e','role':'request'},"
					       "{'instant':'usdt:p:i','role':'op'}")),
		0);
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
	probe_table_free(&pt);
}

static void test_conditions(void **state)
{
	struct probe_table pt = {};
	const struct probe_spec *s;
	struct probe p;

	(void)state;
	assert_int_equal(
		load_text(&pt, START
			"'enums':{'e':{'names':['zero','one']}},'probes':["
			"{'symbol':'f','role':'op'},"
			"{'instant':'f','role':'op','args':{'n':'s32 arg1','o':'e arg2'},"
			"'when':'o == one'},"
			"{'symbol':'g','role':'op','args':{'n':'s32 arg1'},'when':'n > -0x10'},"
			"{'symbol':'h','role':'op','args':{'o':'e arg1'},'when':'o != two'}]}"),
		0);
	/* a function has a span, and an instant under a condition */
	assert_int_equal(pt.n, 4);
	assert_int_equal(pt.specs[0].flags, PROBE_F_SPAN);
	s = &pt.specs[1];
	assert_string_equal(s->symbol, "f");
	assert_int_equal(s->flags, PROBE_F_INSTANT);
	assert_int_equal(probe_spec_encode(s, &p), 0);
	assert_int_equal(p.when, WHEN_EQ);
	assert_int_equal(p.when_val, 1);
	assert_int_equal(p.when_than, 1);
	assert_int_equal(probe_spec_encode(get(&pt, "g"), &p), 0);
	assert_int_equal(p.when, WHEN_GT);
	assert_int_equal(p.when_val, 0);
	assert_int_equal(p.when_than, -16);
	/* a name that the enum of this release lacks */
	assert_int_equal(probe_spec_encode(get(&pt, "h"), &p), -ENOENT);
	probe_table_free(&pt);
}

#define LATE_RULE \
	"only a number that is loaded, in a function with a return that is no step, is had at the return"
#define NAMES_RULE "write: {\"ARG\": \"$ARG\"}, the second a str"

#define DETAIL                                                                              \
	PROBES("{'symbol':['f','g'],'role':'op','args':{'a':'u8 arg1'},'detail':{'t':'str " \
	       "arg2'}},"                                                                   \
	       "{'instant':'h','role':'op','detail_only':true},{'symbol':'i','role':'op',"  \
	       "'detail_only':false}")

static void test_detail(void **state)
{
	struct probe_table pt = {};
	struct probe p;

	(void)state;
	assert_int_equal(load_text(&pt, DETAIL), 0);
	assert_int_equal(pt.n, 3);
	assert_int_equal(get(&pt, "f")->nargs, 1);
	assert_int_equal(get(&pt, "g")->nargs, 1);
	assert_int_equal(get(&pt, "i")->nargs, 0);
	probe_table_free(&pt);

	pt.op_detail = true;
	assert_int_equal(load_text(&pt, DETAIL), 0);
	assert_int_equal(pt.n, 4);
	assert_int_equal(get(&pt, "g")->nargs, 2);
	assert_true(get(&pt, "g")->args[1].is_string);
	assert_int_equal(get(&pt, "h")->flags, PROBE_F_INSTANT);
	assert_int_equal(probe_spec_encode(get(&pt, "f"), &p), 0);
	assert_int_equal(p.nvals, 2);
	assert_int_equal(p.nstrs, 1);
	assert_int_equal(p.fetch[1].flags, FETCH_F_STRING);
	/* malformed, and an argument that is there twice */
	assert_int_equal(load_text(&pt, PROBES("{" F ",'detail':[]}")), -EINVAL);
	assert_non_null(strstr(said.text, ":1: detail: must be an object"));
	assert_int_equal(
		load_text(&pt, PROBES("{" F ",'args':{'a':'u8 arg1'},\n'detail':{'a':'u8 arg2'}}")),
		-EINVAL);
	assert_non_null(strstr(said.text, "a: two arguments of one name"));
	probe_table_free(&pt);
}

static void test_names(void **state)
{
	struct probe_table pt = {};
	const struct probe_spec *s;
	struct probe p;

	(void)state;
	assert_int_equal(load_text(&pt,
				 PROBES("{'symbol':'get','role':'other','args':{'h':'ptr *(*(arg1)+8) at return',"
					"'n':'str arg3'},'names':{'h':'$n'}},"
					"{'symbol':'use','role':'launch','args':{'h':'handle arg1'}},"
					"{'instant':'tell','role':'other','detail_only':true,'args':{'h':'ptr arg2',"
					"'n':'str arg4'},'names':{'h':'$n'}}")),
		0);
	assert_int_equal(pt.n, 3);
	s = get(&pt, "get");
	assert_int_equal(s->handle_arg, 0);
	assert_int_equal(s->handle_name, 1);
	assert_false(s->hidden);
	assert_int_equal(s->flags, PROBE_F_SPAN | PROBE_F_LATE);
	assert_int_equal(probe_spec_encode(s, &p), 0);
	assert_int_equal(p.fetch[0].flags, FETCH_F_LATE);
	assert_int_equal(p.fetch[0].derefs, 2);
	s = get(&pt, "use");
	assert_true(s->args[0].is_handle && s->args[0].is_pointer);
	assert_int_equal(s->handle_arg, -1);
	/* for its names, also where it is not shown */
	assert_true(get(&pt, "tell")->hidden);
	probe_table_free(&pt);
	pt.op_detail = true;
	assert_int_equal(load_text(&pt,
				 PROBES("{'instant':'tell','role':'other','detail_only':true,'args':{'h':'ptr arg2',"
					"'n':'str arg4'},'names':{'h':'$n'}}")),
		0);
	assert_false(get(&pt, "tell")->hidden);
	probe_table_free(&pt);
}

/* Two presets in one table: the first stays whole when the second turns out bad. */
static void test_two(void **state)
{
	struct probe_table pt = {};

	(void)state;
	assert_int_equal(load_text(&pt, PROBES("{" F "}")), 0);
	assert_int_equal(load_text(&pt, PROBES("{" F "}")), 0); /* another engine's function */
	assert_int_equal(load_text(&pt, PROBES("{" F "},{" F "}")), -EINVAL);
	assert_string_equal(pt.specs[0].symbol, "f");
	assert_ptr_equal(pt.specs[0].engine, pt.engines[0]);
	assert_ptr_equal(pt.specs[1].engine, pt.engines[1]);
	probe_table_free(&pt);
}

/* ---- and bad ---- */

#define TEXT_RULE "must have 1 to 255 bytes, no control characters"
#define PAIR_RULE "give one of symbol, begin and end, instant, or usdt"
#define FIRST "{'symbol':'first','role':'op'},\n" /* so that lines count */

static const struct {
	const char *text, *problem;
} bads[] = {
	{ "[]", "1: a preset is a JSON object" },
	{ "null", "1: a preset is a JSON object" },
	{ "{}", "1: name: missing" },
	{ "{'name':1}", "1: name: must be a string" },
	{ "{'name':''}", "1: name: " TEXT_RULE },
	{ "{\n'name':'x\\u0007'}", "2: name: " TEXT_RULE },
	{ "{\n'name':'x\\u0000y'}", "2: name: " TEXT_RULE },
	{ "{'name':'x'}", "1: match: missing or not an object" },
	{ "{'name':'x',\n'match':[]}", "2: match: missing or not an object" },
	{ "{'name':'x',\n'match':{}}", "2: mapped: must be an array of globs" },
	{ "{'name':'x','match':{\n'mapped':[]}}", "2: mapped: must be an array of globs" },
	{ "{'name':'x','match':{\n'mapped':['a',1]}}", "2: mapped: must be an array of globs" },
	{ "{'name':'x','match':{\n'mapped':'a'}}", "2: mapped: must be an array of globs" },
	{ "{'name':'x','match':{'mapped':['a'],\n'path':1}}", "2: path: unknown key" },
	{ START "\n'version':'1','probes':[]}", "2: version: must be a number from 0" },
	{ START "'enums':{'version':{'names':[]}},\n'version':'1','probes':[]}",
		"2: version: must be a number from 0" },
	{ START "\n'version':-1,'probes':[]}", "2: version: must be a number from 0" },
	{ START "\n'version':1e3,'probes':[]}", "2: version: must be a number from 0" },
	{ START "\n'version':99999999999,'probes':[]}", "2: version: must be a number from 0" },
	{ START "\n'checked':'1','probes':[]}", "2: checked: must be an array of strings" },
	{ START "\n'checked':[1],'probes':[]}", "2: checked: must be an array of strings" },
	{ START "\n'probe':[]}", "2: probe: unknown key" },
	{ "{'name':'x','match':{'mapped':['lib*']}}", "1: probes: must be an array" },
	{ START "\n'probes':{}}", "2: probes: must be an array" },
	{ START "\n'probes':null}", "2: probes: must be an array" },
	{ PROBES("1"), "1: probes: each must be an object" },
	{ PROBES(FIRST "null"), "2: probes: each must be an object" },
	/* the line is that of the probe at fault, not of the first with such a key */
	{ PROBES(FIRST "{" F "},\n{}"), "3: role: missing" },
	{ PROBES(FIRST "{'symbol':'f',\n'role':'opp'}"), "3: role: opp is not a role" },
	{ PROBES(FIRST "{'symbol':'f',\n'role':'OP'}"), "3: role: OP is not a role" },
	{ PROBES(FIRST "{'symbol':'f',\n'role':''}"), "3: role: " TEXT_RULE },
	{ PROBES(FIRST "{'symbol':\n'f','role':['op']}"), "3: role: must be a string" },
	{ PROBES(FIRST "{'symbol':'f'},{'symbol':'g','role':'op'}"), "2: role: missing" },
	{ PROBES(FIRST "{" F ",'lib':'x'}"), "2: lib: unknown key" },
	{ PROBES(FIRST "{'symbol':7,'role':'op'}"), "2: symbol: must be a string" },
	{ PROBES(FIRST "{" F ",'library':null}"), "2: library: must be a string" },
	/* pairs */
	{ PROBES("{'role':'op'}"), "1: role: " PAIR_RULE },
	{ PROBES("{'begin':'f','role':'op'}"), "1: role: " PAIR_RULE },
	{ PROBES("{'end':'f','role':'op'}"), "1: role: " PAIR_RULE },
	{ PROBES("{" F ",'begin':'g'}"), "1: symbol: " PAIR_RULE },
	{ PROBES("{" F ",'end':'g'}"), "1: symbol: " PAIR_RULE },
	{ PROBES("{" F ",'begin':'g','end':'h'}"), "1: symbol: " PAIR_RULE },
	{ PROBES(FIRST "{" F "},\n{" F "}"), "3: symbol: this function has a probe already" },
	{ PROBES("{" F "},\n{'begin':'f','end':'g','role':'op'}"),
		"2: begin: this function has a probe already" },
	{ PROBES("{'begin':'f','end':'g','role':'op'},\n{'begin':'f','end':'h','role':'op'}"),
		"2: begin: this function has a probe already" },
	{ PROBES("{'begin':'f','end':'g','role':'op'},\n{" F "}"),
		"2: symbol: this function has a probe already" },
	/* USDT probes */
	{ PROBES("{'usdt':'p','role':'op'}"), "1: usdt: write PROVIDER:NAME" },
	{ PROBES("{'usdt':':n','role':'op'}"), "1: usdt: write PROVIDER:NAME" },
	{ PROBES("{'usdt':['p:n','p:'],'role':'op'}"), "1: usdt: write PROVIDER:NAME" },
	{ PROBES("{'usdt':'usdt:p:n','role':'op'}"), "1: usdt: write PROVIDER:NAME" },
	{ PROBES("{'usdt':[],'role':'op'}"), "1: usdt: must be a name or an array of names" },
	{ PROBES("{'usdt':'p:n','symbol':'f','role':'op'}"), "1: symbol: " PAIR_RULE },
	{ PROBES("{'usdt':'p:n','instant':'f','role':'op'}"), "1: role: " PAIR_RULE },
	{ PROBES("{'usdt':'p:n',\n'role':'step'}"),
		"2: role: a USDT probe is an instant: no step, barrier or gpu_wait" },
	{ PROBES("{'symbol':'usdt:p:n','role':'op'}"),
		"1: symbol: a USDT probe has no return: use usdt, or begin and end" },
	{ PROBES("{'begin':'usdt:p','end':'f','role':'op'}"), "1: begin: a USDT probe is usdt:PROVIDER:NAME" },
	{ PROBES("{'begin':'f','end':'usdt:p','role':'op'}"), "1: end: a USDT probe is usdt:PROVIDER:NAME" },
	{ PROBES("{'usdt':'p:n','role':'op','args':{'a':'u8 arg13'}}"),
		"1: a: not an argument of a USDT probe (arg1 to arg12)" },
	/* floats */
	{ PROBES("{" F ",'args':{'a':'f32 arg1'}}"),
		"1: a: floating-point registers cannot be read: an f32 or f64 must be loaded, *(...)" },
	{ PROBES("{" F ",'args':{'a':'f32 *(arg1)'},'when':'a > 1'}"),
		"1: when: a > 1: an f32 or f64 cannot be compared" },
	{ PROBES("{" F ",'args':{'a':'f64 *(arg1)'},'name':'a == 1 ? x : y'}"),
		"1: name: a == 1 ? x : y: an f32 or f64 cannot be compared" },
	/* arguments and names */
	{ PROBES("{" F ",'args':[]}"), "1: args: must be an object" },
	{ PROBES("{" F ",\n'args':{'a':1}}"), "2: a: must be a string" },
	{ PROBES("{" F ",'args':{\n'a':'u9 arg1'}}"),
		"2: a: not a type (u8..u64, s8..s64, f32, f64, ptr, str or an enum of the preset)" },
	{ PROBES("{" F ",'args':{\n'a':'u8 rdi'}}"), "2: a: not a register (arg1 to arg6, sp)" },
	{ PROBES("{" F ",'args':{'':'u8 arg1'}}"),
		"1: : an argument's name has 1 to 63 bytes, no control characters" },
	{ PROBES("{" F ",'args':{'a':'u8 sp','b':'u8 sp','c':'u8 sp','d':'u8 sp','e':'u8 "
		 "sp',\n'f':'u8 sp','g':'u8 sp','h':'u8 sp','i':'u8 sp','j':'u8 sp',"
		 "\n'k':'u8 sp'}}"),
		"3: k: more than ten arguments" },
	{ PROBES("{" F ",\n'name':'$a'}"), "2: name: $a: no such argument" },
	{ PROBES("{" F ",'args':{'ab':'u8 arg1'},\n'name':'$a'}"),
		"2: name: $a: no such argument" },
	{ PROBES("{" F ",'name':'$'}"), "1: name: $: no such argument" },
	{ PROBES("{" F ",'name':'a == 1 ? x : y'}"), "1: name: a == 1 ? x : y: no such argument" },
	{ PROBES("{" F ",'name':'a ? x : y'}"),
		"1: name: a ? x : y: write: arg == value (or !=, <, >)" },
	{ PROBES("{" F ",'name':'a == b ? x : y'}"),
		"1: name: a == b ? x : y: no such argument" },
	{ PROBES("{" F ",'name':'a == 1 ? x'}"),
		"1: name: a == 1 ? x: write: arg == value ? name : name" },
	{ PROBES("{" F ",'name':'a == 1 ? x : y z'}"),
		"1: name: a == 1 ? x : y z: no such argument" },
	/* conditions, instants, several functions */
	{ PROBES("{" F ",\n'when':'a == 1'}"), "2: when: a == 1: no such argument" },
	{ PROBES("{" F ",'args':{'a':'u8 arg1'},\n'when':'a'}"),
		"2: when: a: write: arg == value (or !=, <, >)" },
	{ PROBES("{" F ",'args':{'a':'u8 arg1'},'when':'a <= 1'}"),
		"1: when: a <= 1: write: arg == value (or !=, <, >)" },
	{ PROBES("{" F ",'args':{'a':'u8 arg1'},'when':'a == 1 2'}"),
		"1: when: a == 1 2: write: arg == value (or !=, <, >)" },
	{ PROBES("{" F ",'args':{'a':'u8 arg1'},'when':'a == one'}"),
		"1: when: a == one: the value is neither a number nor an argument that is one" },
	{ PROBES("{" F ",'args':{'a':'u8 arg1'},'when':'a == 99999999999999999999'}"),
		"1: when: a == 99999999999999999999: the value is neither a number nor an argument that is one" },
	{ PROBES("{" F ",'when':1}"), "1: when: must be a string" },
	{ PROBES("{" F ",'detail':{'a':'u8 arg1'},\n'when':'a == 1'}"), "2: when: a == 1: no such argument" },
	{ PROBES("{" F ",'detail':{'a':'u8 arg1'},\n'name':'$a'}"), "2: name: $a: no such argument" },
	/* also without --op-detail */
	{ PROBES("{" F ",\n'detail':[]}"), "2: detail: must be an object" },
	{ PROBES("{" F ",'args':{'a':'u8 arg1'},\n'detail':{'b':'u8 arg2','a':'u8 arg1'}}"),
		"1: a: two arguments of one name" },
	{ PROBES(FIRST "{'symbol':'f','role':'op','detail_only':true,\n'args':{'a':'u8 arg9'}}"),
		"3: a: not a register (arg1 to arg6, sp)" },
	{ PROBES("{" F ",'args':{'a':'u8 arg1 if b > 1',\n'b':'u8 arg1'}}"), "1: a: no such argument" },
	{ PROBES("{" F ",'args':{'b':'u8 arg1',\n'a':'u8 arg1 if b'}}"),
		"2: a: write: arg == value (or !=, <, >)" },
	{ PROBES("{" F ",'args':{'a':'u8 arg1'},\n'check':'b > 1'}"), "2: check: no such argument" },
	{ PROBES("{" F ",\n'check':1}"), "2: check: must be a condition, or an array of them" },
	{ PROBES("{" F ",\n'check':['a > 1',1]}"), "2: check: no such argument" },
	{ PROBES("{" F ",'args':{'a':'u8 arg1'},\n'check':['a > 1','a > 1','a > 1','a > 1','a > 1']}"),
		"2: check: more than four checks" },
	{ PROBES("{" F ",\n'graph_launch':1}"), "2: graph_launch: must be true or false" },
	/* what is there when the function returns, and what it is called */
	{ PROBES("{" F ",'args':{'a':'u8 arg1 at return'}}"), "1: a: " LATE_RULE },
	{ PROBES("{" F ",'args':{'a':'str *(arg1) at return'}}"), "1: a: " LATE_RULE },
	{ PROBES("{'instant':'f','role':'op','args':{'a':'u8 *(arg1) at return'}}"), "1: a: " LATE_RULE },
	{ PROBES("{'symbol':'f','role':'step','args':{'a':'u8 *(arg1) at return'}}"), "1: a: " LATE_RULE },
	{ PROBES("{" F ",'args':{'a':'u8 *(arg1) at return'},\n'when':'a == 1'}"),
		"2: when: a == 1: not known before the function returns" },
	{ PROBES("{" F ",\n'names':'a'}"), "2: names: must be {\"ARG\": \"$ARG\"}" },
	{ PROBES("{" F ",\n'names':{}}"), "2: names: must be {\"ARG\": \"$ARG\"}" },
	{ PROBES("{" F ",\n'names':{'a':1}}"), "2: names: must be {\"ARG\": \"$ARG\"}" },
	{ PROBES("{" F ",'args':{'a':'ptr arg1','b':'str arg2'},\n'names':{'a':'b'}}"), "2: names: " NAMES_RULE },
	{ PROBES("{" F ",'args':{'a':'ptr arg1','b':'ptr arg2'},\n'names':{'a':'$b'}}"), "2: names: " NAMES_RULE },
	{ PROBES("{" F ",'args':{'a':'ptr arg1','b':'str arg2'},\n'names':{'b':'$b'}}"), "2: names: " NAMES_RULE },
	{ PROBES("{" F ",'instant':'g'}"), "1: symbol: " PAIR_RULE },
	{ PROBES("{'instant':'f','end':'g','role':'op'}"), "1: role: " PAIR_RULE },
	{ PROBES("{'instant':'f','begin':'g','end':'h','role':'op'}"), "1: role: " PAIR_RULE },
	{ PROBES("{" F ",\n'detail_only':1}"), "2: detail_only: must be true or false" },
	{ PROBES("{'role':'op',\n'symbol':[]}"), "2: symbol: must be a name or an array of names" },
	{ PROBES("{'role':'op',\n'symbol':['f',1]}"),
		"2: symbol: must be a name or an array of names" },
	{ PROBES("{'role':'op',\n'symbol':['f','']}"),
		"2: symbol: must be a name or an array of names" },
	{ PROBES("{'role':'op',\n'symbol':['f','g','f']}"),
		"2: symbol: this function has a probe already" },
	{ PROBES("{" F ",'name':'$part'}"), "1: name: $part: write $part0 to $part15" },
	{ PROBES("{" F ",'name':'$part16'}"), "1: name: $part16: write $part0 to $part15" },
	{ PROBES("{" F ",'args':{'a':'str arg1','b':'str arg2',\n'c':'str arg3'}}"),
		"2: c: more than two strings" },
	/* enums */
	{ START "\n'enums':[],'probes':[]}", "2: enums: must be an object" },
	{ START "'enums':{\n'e':[]},'probes':[]}", "2: e: must be an object" },
	{ START "'enums':{\n'e':{}},'probes':[]}", "2: e: needs an array \"names\"" },
	{ START "'enums':{\n'e':{'names':{}}},'probes':[]}", "2: e: needs an array \"names\"" },
	{ START "'enums':{'e':{'names':[],\n'name':1}},'probes':[]}", "2: name: unknown key" },
	{ START "'enums':{\n'e':{'names':['a',1]}},'probes':[]}",
		"2: e: name 1 must be a string of 1 to 63 bytes, no control characters" },
	{ START "'enums':{\n'e':{'names':['a\\n']}},'probes':[]}",
		"2: e: name 0 must be a string of 1 to 63 bytes, no control characters" },
	/* keys given twice: json-c would take the last */
	{ START "'probes':[],\n'probes':[]}", "2: probes: is given twice" },
	{ "{'name':'x',\n'name':'x','match':{'mapped':['a']},'probes':[]}",
		"2: name: is given twice" },
	{ PROBES(FIRST "{" F ",\n'role':'step'}"), "3: role: is given twice" },
	{ PROBES("{" F ",'args':{'n':'u8 arg1',\n'm':'u8 arg1','n':'u8 arg2'}}"),
		"2: n: is given twice" },
	{ START "'enums':{'e':{'names':[]},\n'e':{'names':['a']}},'probes':[]}",
		"2: e: is given twice" },
	{ START "\n'prob\\u0065s':[]}", "2: prob\\u0065s: a key without escapes is expected" },
};

static void test_bad(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bads); i++)
		expect_bad(bads[i].text, bads[i].problem);
}

/* What is no JSON at all: json-c words the reason. */
static void test_not_json(void **state)
{
	static const char *const texts[] = { "", " ", "\n\n", "{", "}", "x", "{'name' 'x'}",
		"{'name':'x',}", "{name:'x'}", "{'name':'x'} x", "{'name':'x'}{}", "/* */{}",
		"{'name':'\xff'}", "{'name':'\xed\xa0\x80'}", "{'name':'\\x'}", "{'name':'\\u12'}",
		"{'name':tru}" };
	struct probe_table pt = {};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		char line[80];

		if (load_text(&pt, texts[i]) != -EINVAL)
			fail_msg("%s: accepted", texts[i]);
		snprintf(line, sizeof(line), "inftrace: %s:%d: ", preset_path, i == 2 ? 3 : 1);
		assert_memory_equal(said.text, line, strlen(line));
	}
	assert_int_equal(load_bytes(&pt, "{}\0{}", 5), -EINVAL);
	assert_int_equal(load_bytes(&pt, "\n{\0}", 4), -EINVAL);
	assert_non_null(strstr(said.text, ":2: a NUL byte"));
	probe_table_free(&pt);
}

/* A preset with one of everything. */
static const char everything[] =
	"{'name':'x','version':1,'checked':['v1'],'match':{'mapped':['lib*','b']},\n"
	"'enums':{'e':{'table_symbol':'T','names':['a','b']}},'probes':[\n"
	"{'library':'l*','symbol':'f','role':'step','args':{'n':'s32 *(sp+8)'},'name':'n == 1 ? a "
	": b'},\n"
	"{'begin':'g','end':'h','role':'op','args':{'o':'e *(*(arg2+8)+0x10)'},'name':'$o'},\n"
	"{'symbol':'h','role':'barrier'}]}";

/* Cut anywhere, it is refused with its one line. */
static void test_truncated(void **state)
{
	char text[sizeof(everything)];
	size_t len;

	(void)state;
	strcpy(text, everything);
	len = put_quotes(text);
	expect_good(everything);
	for (size_t n = 0; n < len; n += cases(1, 4)) {
		struct probe_table pt = {};

		assert_int_equal(load_bytes(&pt, text, n), -EINVAL);
		assert_int_equal(pt.n, 0);
		probe_table_free(&pt);
	}
}

/* With any byte changed it is good, or refused with one line; load_bytes() looks at that, and the
 * sanitizers and valgrind at the rest. */
static void test_changed(void **state)
{
	static const char bytes[] = { 0, '"', '[', '}', '\\', '\n', '0', '\xff' };
	char text[sizeof(everything)];
	size_t len;

	(void)state;
	strcpy(text, everything);
	len = put_quotes(text);
	for (size_t i = 0; i < len; i += cases(1, 7)) {
		char was = text[i];

		for (size_t k = i % 3; k < sizeof(bytes); k += 3) {
			struct probe_table pt = {};
			int err;

			text[i] = bytes[k];
			err = load_bytes(&pt, text, len);
			assert_true(!err || err == -EINVAL);
			probe_table_free(&pt);
		}
		text[i] = was;
	}
}

static void expect_refused(const char *text, const char *why)
{
	struct probe_table pt = {};

	assert_int_equal(load_text(&pt, text), -EINVAL);
	if (!strstr(said.text, why))
		fail_msg("'%s' instead of '%s'", said.text, why);
	probe_table_free(&pt);
}

/* A text with `n` times `part` in its middle; to be freed. */
static char *repeat(const char *before, const char *part, size_t n, const char *behind)
{
	char *text = test_malloc(strlen(before) + n * (strlen(part) + 8) + strlen(behind) + 1), *p;

	p = stpcpy(text, before);
	for (size_t i = 0; i < n; i++)
		p += sprintf(p, part, (int)i);
	strcpy(p, behind);
	return text;
}

static void test_hostile(void **state)
{
	static const struct {
		const char *before, *part;
		size_t n;
		const char *behind, *why;
	} texts[] = {
		{ START "'checked':", "[", 100000, "", "" },
		{ START "'checked':", "{'a':", 100000, "", "" },
		{ START "'checked':", "[", 9, "]]]]]]]]],'probes':[]}", "" },
		{ "{'", "k", 100000, "':1}", "kkk...: unknown key" },
		{ "{'k", "\x1b[31m\x07\x7f", 1, "':1}", "\\x1b[31m\\x07\\x7f: unknown key" },
		{ "{'", "k%d':1,'", 50000, "':1}", "k0: unknown key" },
		{ "{'name':'", "n", 256, "'}", TEXT_RULE },
		{ PROBES("{'symbol':'f','role':'"), "r", 200, "'}]}", "rrr... is not a role" },
		{ PROBES("{'role':'op','symbol':'"), "s", 256, "'}]}", TEXT_RULE },
		{ PROBES("{'role':'op','symbol':'f','name':'"), "?", 200, "'}]}",
			"???...: write:" },
		{ PROBES("{'role':'op','symbol':'f','name':'"), "%%s%%n?", 20, "'}]}", "%s%n?" },
		{ PROBES("{'role':'op','symbol':'f','args':{'"), "a", 64, "':'u8 arg1'}}]}",
			"1 to 63" },
		{ PROBES("{'role':'op','symbol':'f','args':{'a':'u8 "), "*(", 50000, "'}}]}",
			"more than three loads" },
		{ PROBES("{'role':'op','symbol':'f','args':{'a':'"), " ", 50000, "'}}]}",
			"not a type" },
		{ START "'enums':{'e':{'names':['", "e", 64, "']}},'probes':[]}",
			"name 0 must be" },
		{ START "'enums':{'e':{'names':['a'", ",'a'", 4096, "]}},'probes':[]}",
			"more than 4096 names" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		char before[256], *text;

		/* PROBES() closes the array: open it again */
		snprintf(before, sizeof(before), "%s", texts[i].before);
		if (strlen(before) > 2 && !strcmp(before + strlen(before) - 2, "]}"))
			before[strlen(before) - 2] = 0;
		text = repeat(before, texts[i].part, texts[i].n, texts[i].behind);
		expect_refused(text, texts[i].why);
		test_free(text);
	}
}

/* The largest that is read, and one byte more. */
static void test_size(void **state)
{
	static const char text[] = "{\"name\":\"x\",\"match\":{\"mapped\":[\"a\"]},\"probes\":[]}";
	size_t max = 1 << 20;
	char *big = test_malloc(max + 1);
	struct probe_table pt = {};

	(void)state;
	memset(big, ' ', max + 1);
	memcpy(big + max - strlen(text), text, strlen(text));
	assert_int_equal(load_bytes(&pt, big, max), 0);
	assert_int_equal(load_bytes(&pt, big, max + 1), -EFBIG);
	probe_table_free(&pt);
	test_free(big);
}

/* As many probes as the kernel's map holds, and one more. */
static void test_too_many(void **state)
{
	struct probe_table pt = {};
	char *text;

	(void)state;
	text = repeat(
		START "'probes':[{" F "}", ",\n{'symbol':'f%d','role':'op'}", SPECS_MAX - 1, "]}");
	assert_int_equal(load_text(&pt, text), 0);
	assert_int_equal(pt.n, SPECS_MAX);
	assert_string_equal(pt.specs[SPECS_MAX - 1].symbol, "f4094");
	test_free(text);
	assert_int_equal(load_text(&pt, PROBES("{" F "}")), -EINVAL);
	stderr_grab_begin(&said);
	assert_int_equal(probe_table_add_option(&pt, "libx:f"), -EINVAL);
	stderr_grab_end(&said);
	assert_one_line(said.text);
	assert_int_equal(pt.n, SPECS_MAX);
	probe_table_free(&pt);
}

/* ---- enums that the engine's own file knows better ---- */

/* As the inspector does with what its worker reads. */
static void read_enums_of(struct probe_table *pt, struct elf_file *elf)
{
	struct engine *e = pt->engines[0];

	for (size_t i = 0; i < e->n_enums; i++) {
		char **names;
		size_t n;

		if (e->enums[i].object && !elf_strings_read(elf, e->enums[i].object, &names, &n))
			engine_set_names(pt, e, i, names, n);
	}
}

extern const char *const test_op_names[];
const char *const test_op_names[] = { "NONE", "Mul_Mat", NULL, "A\x1b[1m", "ADD" };

static void test_enum_from_file(void **state)
{
	struct probe_table pt = {};
	const struct probe_spec *s;
	struct elf_file *elf;

	(void)state;
	assert_int_equal(load_text(&pt, START
				 "'enums':{'e':{'table_symbol':'test_op_names','names':['old']},"
				 "'other':{'table_symbol':'no_such_table','names':['kept']}},"
				 "'probes':[{'symbol':'f','role':'op','args':{'o':'e arg1'},"
				 "'name':'$o'},{'symbol':'g','role':'op',"
				 "'args':{'o':'other arg1'},'name':'$o'}]}"),
		0);
	s = get(&pt, "f");
	assert_string_equal(name_of(s, 0), "old");
	assert_int_equal(elf_open("/proc/self/exe", &elf), 0);
	read_enums_of(&pt, elf);
	assert_string_equal(name_of(s, 0), "none");
	assert_string_equal(name_of(s, 1), "mul_mat");
	assert_string_equal(name_of(s, 2), "f"); /* a hole */
	assert_string_equal(name_of(s, 3), "a?[1m");
	assert_string_equal(name_of(s, 4), "add");
	assert_string_equal(name_of(s, 5), "f");
	assert_string_equal(name_of(get(&pt, "g"), 0), "kept");
	read_enums_of(&pt, elf);
	assert_false(pt.many_names);
	elf_close(elf);
	probe_table_free(&pt);
}

static void set_name(struct probe_table *pt, uint64_t ino, const char *name)
{
	char **names = calloc(2, sizeof(*names));

	names[0] = strdup(name);
	pt->reading.dev = 7;
	pt->reading.ino = ino;
	engine_set_names(pt, pt->engines[0], 0, names, 1);
}

static const char *name_for(struct probe_table *pt, uint32_t tgid)
{
	probe_table_use(pt, tgid);
	return name_of(get(pt, "f"), 0);
}

/* What a file says is for the processes that have mapped it. */
static void test_enum_of_process(void **state)
{
	struct probe_table pt = {};

	(void)state;
	assert_int_equal(load_text(&pt, START
				 "'enums':{'e':{'table_symbol':'t','names':['old']}},'probes':["
				 "{'symbol':'f','role':'op','args':{'o':'e arg1'},'name':'$o'}]}"),
		0);
	assert_string_equal(name_for(&pt, 1), "old");
	set_name(&pt, 1, "first");
	probe_table_mapped(&pt, 7, 1, 100);
	assert_string_equal(name_for(&pt, 1), "first");
	set_name(&pt, 2, "second");
	probe_table_mapped(&pt, 7, 2, 200);
	assert_string_equal(name_for(&pt, 100), "first");
	assert_string_equal(name_for(&pt, 200), "second");
	assert_string_equal(name_for(&pt, 100), "first");
	assert_string_equal(name_for(&pt, 1), "first"); /* not known to use one */
	probe_table_forked(&pt, 200, 201);
	assert_string_equal(name_for(&pt, 201), "second");
	probe_table_forked(&pt, 100, 200); /* another process of that number */
	assert_string_equal(name_for(&pt, 200), "first");
	probe_table_mapped(&pt, 7, 2, 200);
	probe_table_forked(&pt, 300, 200);
	assert_string_equal(name_for(&pt, 200), "first");
	/* the same file again, and more of them than are kept */
	set_name(&pt, 2, "changed");
	for (uint32_t i = 3; i < 2 * ENUM_VARIANTS_MAX; i++) {
		set_name(&pt, i, i % 2 ? "odd" : "even");
		probe_table_mapped(&pt, 7, i, 1000 + i);
	}
	assert_string_equal(name_for(&pt, 1003), "odd");
	assert_string_equal(name_for(&pt, 1004), "even");
	assert_string_equal(name_for(&pt, 201), "second");
	assert_string_equal(name_for(&pt, 1000 + 2 * ENUM_VARIANTS_MAX - 1), "first");
	probe_table_free(&pt);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_llama_cpp),
		cmocka_unit_test(test_installed),
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_name_rules),
		cmocka_unit_test(test_usdt),
		cmocka_unit_test(test_conditions),
		cmocka_unit_test(test_detail),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_two),
		cmocka_unit_test(test_bad),
		cmocka_unit_test(test_not_json),
		cmocka_unit_test(test_truncated),
		cmocka_unit_test(test_changed),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_size),
		cmocka_unit_test(test_too_many),
		cmocka_unit_test(test_enum_from_file),
		cmocka_unit_test(test_enum_of_process),
	};

	return cmocka_run_group_tests(tests, make_preset_file, NULL);
}
