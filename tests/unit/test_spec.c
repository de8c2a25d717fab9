// SPDX-License-Identifier: BSD-2-Clause
/* Probe specifications: -u options, the files they apply to, matches of globs, names. */
#include <fnmatch.h>

#include "engine/python_steps.h"
#include "engine/sites.h"
#include "preset.h"

TABLE_TEST(test_options)
{
	const struct probe_spec *s;

	assert_int_equal(probe_table_add_option(&pt, "libfoo.so:func"), 0);
	s = &pt.specs[0];
	assert_string_equal(s->library, "libfoo.so");
	assert_string_equal(s->symbol, "func");
	assert_int_equal(s->role, ROLE_OTHER);
	assert_int_equal(s->flags, PROBE_F_SPAN);
	assert_int_equal(s->nargs, 0);
	assert_null(s->engine);
	assert_string_equal(name_of(s, 0), "func");

	assert_int_equal(
		probe_table_add_option(&pt, "/usr/lib/x.so:ns_*(n=s32 *(sp+8), p=ptr arg2)@step"),
		0);
	s = &pt.specs[1];
	assert_string_equal(s->library, "/usr/lib/x.so");
	assert_string_equal(s->symbol, "ns_*");
	assert_int_equal(s->role, ROLE_STEP);
	assert_int_equal(s->nargs, 2);
	assert_string_equal(s->args[0].name, "n");
	assert_int_equal(s->fetch[0].off[0], 8);
	assert_string_equal(s->args[1].name, "p");
	assert_true(s->args[1].is_pointer);

	assert_int_equal(probe_table_add_option(&pt, "l:f@gpu_wait"), 0);
	assert_int_equal(pt.specs[2].role, ROLE_GPU_WAIT);
	assert_int_equal(probe_table_add_option(&pt, "l:f()"), 0);
	assert_int_equal(pt.specs[3].nargs, 0);
	/* a symbol may be followed by its version */
	assert_int_equal(probe_table_add_option(&pt, "l:f@@V_1.2@op"), 0);
	assert_string_equal(pt.specs[4].symbol, "f@@V_1.2");
	assert_int_equal(pt.specs[4].role, ROLE_OP);
	assert_int_equal(pt.n, 5);
	/* USDT probes */
	assert_int_equal(probe_table_add_option(&pt, "/bin/py:usdt:python:line(f=str arg1,x=f64 *(arg12+8))@op"), 0);
	s = &pt.specs[5];
	assert_string_equal(s->library, "/bin/py");
	assert_string_equal(s->symbol, "usdt:python:line");
	assert_true(s->is_usdt);
	assert_false(s->is_glob);
	assert_int_equal(s->flags, PROBE_F_INSTANT);
	assert_int_equal(s->role, ROLE_OP);
	assert_int_equal(s->nargs, 2);
	assert_true(s->args[1].is_float);
	assert_int_equal(s->fetch[1].reg, FETCH_USDT_ARG | 11);
	assert_int_equal(probe_table_add_option(&pt, "l:usdt:p:n*"), 0);
	assert_true(pt.specs[6].is_usdt && pt.specs[6].is_glob);
	assert_int_equal(probe_table_add_option(&pt, "l:usdt"), 0); /* a function */
	assert_false(pt.specs[7].is_usdt);
}

/* C++ names as people write them. */
TEST(test_cpp)
{
	static const struct {
		const char *option, *symbol, *matches, *other;
	} names[] = {
		{ "l:ns::f", "_ZN?(K)2ns1f[EIB]*", "_ZNK2ns1fEi", "_ZN2ns1f1gEv" },
		{ "l:ns::f", "_ZN?(K)2ns1f[EIB]*", "_ZN2ns1fIiEEvT_", "_ZN1a2ns1fEv" },
		{ "l:::f(n=s32 arg1)@op", "_Z1f*", "_Z1fi", "_Z2fgi" },
		{ "l:a::B::B", "_ZN?(K)1a1BC[0-9][EIB]*", "_ZN1a1BC2Ev", "_ZN1a1BD2Ev" },
		{ "l:a::B::~B", "_ZN?(K)1a1BD[0-9][EIB]*", "_ZN1a1BD1Ev", "_ZN1a1BC1Ev" },
		{ "l:std::sort", "_ZSt4sort*", "_ZSt4sortIPiEvT_S1_", "_ZN3std4sortEv" },
		{ "l:std::foo::bar", "_ZN?(K)St3foo3bar[EIB]*", "_ZNSt3foo3barEv", "_ZN3foo3barEv" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		assert_int_equal(probe_table_add_option(&pt, names[i].option), 0);
		assert_string_equal(pt.specs[0].symbol, names[i].symbol);
		assert_true(pt.specs[0].is_glob);
		assert_int_equal(fnmatch(pt.specs[0].symbol, names[i].matches, FNM_EXTMATCH), 0);
		assert_int_equal(fnmatch(pt.specs[0].symbol, names[i].other, FNM_EXTMATCH), FNM_NOMATCH);
		probe_table_free(&pt);
	}
}

/* Each location of a USDT probe with its arguments in other places is a probe of its own. */
TABLE_TEST(test_places)
{
	struct fetch here[FUNC_VALS_MAX] = { { .reg = 5, .size = 4 } }, there[FUNC_VALS_MAX] = { { .reg = 6, .size = 4 } };
	size_t first, second, id;

	assert_int_equal(probe_table_add_option(&pt, "l:usdt:p:*(n=s32 arg1)@op"), 0);
	assert_int_equal(probe_table_place(&pt, 0, "usdt:p:n", here, &first), 0);
	assert_int_equal(probe_table_place(&pt, 0, "usdt:p:n", there, &second), 0);
	assert_int_not_equal(first, second);
	assert_int_equal(probe_table_place(&pt, 0, "usdt:p:n", here, &id), 0);
	assert_int_equal(id, first);
	assert_int_equal(probe_table_place(&pt, 0, "usdt:p:m", here, &id), 0);
	assert_int_equal(pt.n, 4);
	assert_int_equal(pt.specs[second].fetch[0].reg, 6);
	assert_int_equal(pt.specs[second].from, 1);
	assert_true(pt.specs[second].is_usdt);
	assert_int_equal(pt.specs[second].flags, PROBE_F_INSTANT | PROBE_F_REGS);
	assert_string_equal(name_of(&pt.specs[second], 0), "p:n");
}

TEST(test_bad_options)
{
	static const struct {
		const char *option, *why;
	} options[] = {
		{ "", "no library before ':'" },
		{ "l:a::", "a C++ function is LIB:SCOPE::NAME, without its parameters" },
		{ "l:a::b c", "a C++ function is LIB:SCOPE::NAME, without its parameters" },
		{ "l:a::1", "a C++ function is LIB:SCOPE::NAME, without its parameters" },
		{ "func", "no library before ':'" },
		{ ":func", "no library before ':'" },
		{ "lib:", "no symbol after ':'" },
		{ "lib:@op", "no symbol after ':'" },
		{ "lib:(a=u8 arg1)", "no symbol after ':'" },
		{ "lib:f@", "no such role (step, op, graph, sample, barrier, gpu_wait, gc, other)" },
		{ "lib:f@nope", "no such role (step, op, graph, sample, barrier, gpu_wait, gc, other)" },
		{ "lib:f(a=u8 arg1", "')' missing" },
		{ "lib:f(a=u8 arg1)x", "')' missing" },
		{ "lib:f(", "')' missing" },
		{ "lib:f(a)", "an argument is name=EXPR" },
		{ "lib:f(a=u8 arg1,b)", "an argument is name=EXPR" },
		{ "lib:f(=u8 arg1)", "an argument's name has 1 to 63 bytes, no control characters" },
		{ "lib:f(a=arg1)", "not a type (u8..u64, s8..s64, f32, f64, ptr, str or an enum of the preset)" },
		{ "lib:f(a=u8 arg9)", "not a register (arg1 to arg6, sp)" },
		{ "lib:f(a=f64 arg1)", "floating-point registers cannot be read: an f32 or f64 must be loaded, *(...)" },
		{ "lib:usdt:", "a USDT probe is LIB:usdt:PROVIDER:NAME" },
		{ "lib:usdt:p", "a USDT probe is LIB:usdt:PROVIDER:NAME" },
		{ "lib:usdt:p:", "a USDT probe is LIB:usdt:PROVIDER:NAME" },
		{ "lib:usdt::n", "a USDT probe is LIB:usdt:PROVIDER:NAME" },
		{ "lib:usdt:p:n:m", "a USDT probe is LIB:usdt:PROVIDER:NAME" },
		{ "lib:usdt:p:n(a=u8 sp)", "not an argument of a USDT probe (arg1 to arg12)" },
		{ "lib:usdt:p:n@step", "a USDT probe is an instant: no step, barrier, gpu_wait or gc" },
		{ "lib:usdt:p:n@gpu_wait", "a USDT probe is an instant: no step, barrier, gpu_wait or gc" },
		{ "lib:f(a=u8 arg1,a=u8 arg2)", "two arguments with the same name" },
		{ "lib:f(workers=u8 arg1)", "this name has another meaning in traces and profiles, as have: began_before breakdown_us call "
					    "faults_minor faults_major lost lost_records migrations phase pid step switches switches_voluntary syscalls thread tid ts_us "
					    "unfinished watched workers" },
		{ "lib:f(a=u8 arg1,b=u8 arg1,c=u8 arg1,d=u8 arg1,e=u8 arg1,f=u8 arg1,g=u8 arg1,"
		  "h=u8 arg1,i=u8 arg1,j=u8 arg1,k=u8 arg1)",
			"more than ten arguments" },
		/* a misplaced role would be taken for the symbol's version */
		{ "lib:f@step(a=u8 arg1)", "the role goes after the arguments" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		char line[512];
		int err;

		stderr_grab_begin(&said);
		err = probe_table_add_option(&pt, options[i].option);
		stderr_grab_end(&said);
		snprintf(line, sizeof(line),
			"inftrace: -u %s: %s; write LIB:SYMBOL[(name=EXPR,...)][@role]\n",
			options[i].option, options[i].why);
		if (err != -EINVAL || strcmp(said.text, line))
			fail_msg("%s: %d %s", options[i].option, err, said.text);
		probe_table_free(&pt);
	}
}

TEST(test_hostile_options)
{
	static const struct {
		const char *before, *part;
		size_t n;
		const char *behind;
	} options[] = {
		{ "lib:", "s", 256, "" },
		{ "lib:", "*", 100000, "" },
		{ "lib:f", "\n\x1b[2J", 1, "" },
		{ "lib:f@", "%%s%%n\n", 1000, "" },
		{ "lib:f(", "a%d=u8 arg1,", 10000, ")" },
		{ "lib:f(a=u8 ", "*(", 50000, ")" },
		{ "lib:f(", "a", 64, "=u8 arg1)" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		char *option =
			repeat(options[i].before, options[i].part, options[i].n, options[i].behind);
		int err;

		stderr_grab_begin(&said);
		err = probe_table_add_option(&pt, option);
		stderr_grab_end(&said);
		assert_int_equal(err, -EINVAL);
		assert_one_line(said.text);
		assert_true(strlen(said.text) < 500);
		probe_table_free(&pt);
		test_free(option);
	}
}

static const struct {
	const char *library, *path;
	bool option, preset; /* whether it matches in a -u option and in a preset */
} match_cases[] = {
	{ "libfoo.so", "/usr/lib/libfoo.so", true, true },
	{ "libfoo.so", "libfoo.so", true, true },
	{ "libfoo.so", "/usr/lib/libfoo.so.1", true, false },
	{ "libfoo.so", "/usr/lib/libfoo.so.1.2.3", true, false },
	{ "libfoo", "/usr/lib/libfoo.so", true, false },
	{ "libfoo", "/usr/lib/libfoo-bar.so", false, false },
	{ "libfoo.so", "/usr/lib/libfoo.sox", false, false },
	{ "libfoo.so", "/usr/lib/xlibfoo.so", false, false },
	{ "libfoo.so", "/usr/libfoo.so/libbar.so", false, false },
	{ "libfoo.so.1", "/usr/lib/libfoo.so", false, false },
	{ "libfoo*.so*", "/usr/lib/libfoo-cpu.so.2", true, true },
	{ "lib[fb]oo.so", "/usr/lib/libboo.so", true, true },
	{ "*", "/usr/lib/anything", true, true },
	{ "lib?.so", "/usr/lib/libfoo.so", false, false },
	{ "*.so", "/usr/lib.so/libfoo", false, false },
	/* with a slash it is a path */
	{ "/usr/lib/libfoo.so", "/usr/lib/libfoo.so", true, true },
	{ "/usr/lib/libfoo.so", "/usr/lib/libfoo.so.1", false, false },
	{ "/usr/lib/libfoo.so", "/usr/local/lib/libfoo.so", false, false },
	{ "/usr/lib/*.so", "/usr/lib/libfoo.so", false, false },
	/* a file that was replaced while mapped */
	{ "libfoo.so", "/usr/lib/libfoo.so (deleted)", true, true },
	{ "libfoo.so", "/usr/lib/libfoo.so.1 (deleted)", true, false },
	{ "/usr/lib/libfoo.so", "/usr/lib/libfoo.so (deleted)", true, true },
	{ "server", "/opt/server (deleted)", true, true },
	{ "server", "/opt/server (deleted", false, false },
	{ "server", " (deleted)", false, false },
	{ "", "/usr/lib/", true, true },
	{ "", "/usr/lib/x", false, false },
};

TEST(test_matches)
{
	struct engine engine = {};

	for (size_t i = 0; i < ARRAY_SIZE(match_cases); i++) {
		struct probe_spec s = { .library = (char *)match_cases[i].library };

		if (probe_spec_matches(&s, match_cases[i].path) != match_cases[i].option)
			fail_msg("-u %s, %s", match_cases[i].library, match_cases[i].path);
		s.engine = &engine;
		if (probe_spec_matches(&s, match_cases[i].path) != match_cases[i].preset)
			fail_msg("preset %s, %s", match_cases[i].library, match_cases[i].path);
	}
}

/* A function without a library of its own may be in any file of the engine. */
TEST(test_matches_engine)
{
	char *mapped[] = { "libllama.*so*", "libggml-*.so*" };
	struct engine engine = { .mapped = mapped, .n_mapped = ARRAY_SIZE(mapped) };
	struct probe_spec s = { .engine = &engine };

	assert_true(probe_spec_matches(&s, "/a/libllama.so"));
	assert_true(probe_spec_matches(&s, "/a/libllama.3.so"));
	assert_true(probe_spec_matches(&s, "/a/libggml-cpu.so (deleted)"));
	assert_false(probe_spec_matches(&s, "/a/libllama2.so"));
	assert_false(probe_spec_matches(&s, "/a/libggml.so"));
	s.engine = NULL;
	assert_false(probe_spec_matches(&s, "/a/libllama.so"));
}

/* ---- matches of a glob ---- */

static size_t add_glob(const char *name)
{
	struct probe_spec *s = spec_append(&pt, "libx.so", "_ZN2at*");
	const char *why;

	assert_non_null(s);
	assert_true(s->is_glob);
	s->role = ROLE_OP;
	s->flags = PROBE_F_SPAN;
	assert_int_equal(spec_add_arg(s, "n", "s32 arg1", NULL, 0, &why), 0);
	if (name)
		assert_int_equal(spec_set_name(s, name, &why), 0);
	return pt.n - 1;
}

static const struct tensor_args no_tensors;

static size_t match(size_t glob, const char *symbol)
{
	size_t id;

	assert_int_equal(probe_table_match(&pt, glob, symbol, false, &no_tensors, &id), 0);
	return id;
}

TABLE_TEST(test_glob)
{
	const struct probe_spec *s;
	size_t glob = add_glob(NULL), first;

	first = match(glob, "_ZN2at3addEv");
	assert_int_not_equal(match(glob, "_ZN2at3subEv"), first);
	assert_int_equal(match(glob, "_ZN2at3addEv"), first); /* of another file */
	assert_int_equal(pt.n, 3);
	s = &pt.specs[first];
	assert_string_equal(name_of(s, 0), "_ZN2at3addEv");
	assert_string_equal(s->library, "libx.so");
	assert_int_equal(s->role, ROLE_OP);
	assert_int_equal(s->flags, PROBE_F_SPAN);
	assert_int_equal(s->nargs, 1);
	assert_string_equal(s->args[0].name, "n");
	assert_false(s->is_glob);
	assert_int_equal(s->from, glob + 1);
}

/* Two values for each tensor's shape, and others where a file has tensors elsewhere. */
TABLE_TEST(test_tensors)
{
	const struct tensor_args tensors = { .tensors = 0x5, .sizes = 72, .n = 3, .regs = 1 << REG_ARG2 | 1 << REG_ARG4, .index = SHAPE_FLAG_LAST << 2 * REG_ARG4 };
	const struct rec_function counted = { .h = { .kind = REC_FUNCTION, .flags = FUNCTION_F_COUNTED } };
	struct tensor_args elsewhere = tensors;
	struct probe p;
	size_t glob, first, id;

	assert_non_null(spec_append(&pt, "libx.so", "_ZN2at*"));
	glob = pt.n - 1;
	assert_int_equal(probe_table_match(&pt, glob, "_ZN2at3addEv", false, &tensors, &first), 0);
	assert_int_equal(probe_table_match(&pt, glob, "_ZN2at3addEv", false, &tensors, &id), 0);
	assert_int_equal(id, first);
	elsewhere.sizes = 56;
	assert_int_equal(probe_table_match(&pt, glob, "_ZN2at3addEv", false, &elsewhere, &id), 0);
	assert_int_not_equal(id, first);
	assert_int_equal(probe_spec_values(&pt.specs[first]), 4);
	assert_ptr_equal(probe_record_counts(&pt.specs[first], &counted), &counted.vals[4]);
	assert_int_equal(pt.specs[first].nargs, 0); /* no other probe shows them */
	assert_int_equal(probe_spec_encode(&pt.specs[first], &p), 0);
	assert_int_equal(p.nvals, 4);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(p.fetch[i].reg, i < 2 ? REG_ARG2 : REG_ARG4);
		assert_int_equal(p.fetch[i].flags, FETCH_F_SHAPE);
		assert_int_equal(p.fetch[i].element, 1 + i % 2);
		assert_int_equal(p.fetch[i].index, i < 2 ? 0 : SHAPE_FLAG_LAST);
		assert_int_equal(p.fetch[i].off[1], 72);
	}
}

/* A match copies the glob except for its name: a member that is not copied would be lost silently. */
TABLE_TEST(test_match_whole)
{
	struct probe_spec *g, *m;
	size_t glob, id;

	g = spec_append(&pt, "lib.so", "ggml_barrier*");
	assert_non_null(g);
	g->role = ROLE_BARRIER;
	g->flags = PROBE_F_SPAN | PROBE_F_GROUP;
	g->group = (struct fetch){ .reg = 3, .derefs = 1 };
	g->past_early_return = true;
	g->hidden = true;
	g->attached = 7;
	g->records = 9;
	g->refused = true;
	glob = pt.n - 1;
	id = match(glob, "ggml_barrier_x");
	g = &pt.specs[glob];
	m = &pt.specs[id];
	assert_memory_equal(&m->group, &g->group, sizeof(g->group));
	assert_true(m->past_early_return);
	assert_true(m->hidden);
	assert_int_equal(m->flags, g->flags);
	assert_int_equal(m->role, ROLE_BARRIER);
	assert_string_equal(m->symbol, "ggml_barrier_x");
	assert_string_equal(m->library, "lib.so");
	assert_int_equal(m->from, glob + 1);
	/* the count belongs to the glob */
	assert_false(m->is_glob);
	assert_false(m->refused);
	assert_int_equal(m->attached, 0);
	assert_int_equal(m->records, 0);
}

TEST(test_glob_names)
{
	static const struct {
		const char *rule, *symbol, *name;
	} names[] = {
		{ "fixed", "_ZN2at4_ops3add4callE", "fixed" },
		{ "n == 1 ? one : other", "_ZN2at4_ops3add4callE", "one" },
		{ "$part0", "_ZN2at4_ops3add4callERKNS_6TensorE", "at" },
		{ "$part2", "_ZN2at4_ops3add4callERKNS_6TensorE", "add" },
		{ "$part3", "_ZN2at4_ops3add4callERKNS_6TensorE", "call" },
		/* fewer parts, none, and wrong lengths */
		{ "$part9", "_ZN2at4_ops3add4callE", "_ZN2at4_ops3add4callE" },
		{ "$part0", "_ZN2at", "at" },
		{ "$part0", "_ZN3at", "_ZN3at" },
		{ "$part0", "_ZN2at*", "at" },
		{ "$part0", "_ZN0E", "_ZN0E" },
		{ "$part0", "_ZN99999999999999999999atE", "_ZN99999999999999999999atE" },
		{ "$part1", "_ZN2at18446744073709551615x", "_ZN2at18446744073709551615x" },
		{ "$part0", "plain", "plain" },
		{ "$part0", "", "" },
		/* file contents may come from anyone */
		{ "$part0", "_ZN5\x1b[31mE", "?[31m" },
		{ NULL, "_ZN2at\n\x7f\x01", "_ZN2at???" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		size_t glob = add_glob(names[i].rule), id;

		id = match(glob, names[i].symbol);
		assert_string_equal(name_of(&pt.specs[id], 1), names[i].name);
		assert_string_equal(pt.specs[id].symbol, names[i].symbol);
		probe_table_free(&pt);
	}
}

/* A symbol may have thousands of bytes; a span's name has only the room in its event. */
TEST(test_glob_long)
{
	static const char *const rules[] = { NULL, "$part0" };
	char *symbol = repeat("_ZN4000", "\x01", 4000, "");

	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		size_t glob = add_glob(rules[i]), id;
		const char *name;

		id = match(glob, symbol);
		assert_string_equal(pt.specs[id].symbol, symbol); /* the probe is looked up by this */
		name = name_of(&pt.specs[id], 0);
		assert_int_equal(strlen(name), SPEC_STRING_MAX);
		assert_true(spec_text_ok(name, SPEC_STRING_MAX));
		probe_table_free(&pt);
	}
	test_free(symbol);
}

/* A glob that matches everything stops at the size of the kernel's map. */
TABLE_TEST(test_glob_full)
{
	size_t glob = add_glob(NULL), id;
	char symbol[32];

	for (unsigned int i = 1; i < SPECS_MAX; i++) {
		snprintf(symbol, sizeof(symbol), "f%u", i);
		assert_int_equal(match(glob, symbol), i);
	}
	assert_int_equal(probe_table_match(&pt, glob, "g", false, &no_tensors, &id), -E2BIG);
	assert_int_equal(match(glob, "f1"), 1);
}

/* ---- where the strings of a record are ---- */

TABLE_TEST(test_strings)
{
	struct rec_function r = {};
	struct probe_spec *s = spec_append(&pt, NULL, "f");
	const char *why;

	assert_non_null(s);
	assert_ptr_equal(probe_record_strings(s, &r), r.vals);
	for (int i = 0; i < FUNC_VALS_MAX; i++) {
		char name[] = { (char)('a' + i), 0 };

		assert_int_equal(
			spec_add_arg(s, name, i % 5 ? "u8 arg1" : "str arg1", NULL, 0, &why), 0);
		assert_ptr_equal(probe_record_strings(s, &r), &r.vals[i + 1]);
	}
	assert_int_equal(s->nstrs, FUNC_STRS_MAX);
	assert_ptr_equal(probe_record_strings(s, &r), r.strs);
}

TABLE_TEST(test_python)
{
	static const struct {
		const char *option;
		unsigned int n;
		const char *name, *file; /* of the last one */
	} good[] = {
		{ "step", 1, "step", "" },
		{ "gen.py:Model.step", 1, "Model.step", "gen.py" },
		{ "a/b:c.py:f", 1, "f", "a/b:c.py" },
		{ "pkg.mod.Class.f", 7, "f", "pkg/mod/Class/__init__.py" },
		{ "mod.main.<locals>.f", 5, "<locals>.f", "mod/main/__init__.py" },
	};
	static const char *const bad[] = { "", ":", "f.py:", ":f", "a..b", ".a", "a.", "a b", "f\n", "\xc3\xa9",
		"a.b.c.d.e.f.g.h.i.j.k" };
	struct python_calls c;
	const char *why;
	int err;

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		assert_int_equal(python_names_parse(good[i].option, &c, &why), 0);
		assert_int_equal(c.n, good[i].n);
		assert_string_equal((const char *)c.names[c.n - 1].name.words, good[i].name);
		assert_string_equal((const char *)c.names[c.n - 1].file.words, good[i].file);
		assert_int_equal(c.names[c.n - 1].file_len, strlen(good[i].file));
		assert_true(c.lengths >> strlen(good[i].name) & 1);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(python_names_parse(bad[i], &c, &why), -EINVAL);
	assert_true(python_names_tell("Model.step", PYTHON_LAYOUT_3_11, &why));
	assert_true(python_names_tell("step", PYTHON_LAYOUT_3_8, &why));
	assert_true(python_names_tell("gen.py:Model.step", PYTHON_LAYOUT_3_8, &why));
	assert_int_equal(python_names_parse("a|gen.py:b", &c, &why), 0);
	assert_int_equal(c.n, 2);
	assert_int_equal(python_names_parse("a|", &c, &why), -EINVAL);
	assert_true(python_names_tell("pkg.mod.step", PYTHON_LAYOUT_3_8, &why));
	assert_false(python_names_tell("Model.step", PYTHON_LAYOUT_3_8, &why));
	assert_false(python_names_tell("main.<locals>.step", PYTHON_LAYOUT_3_8, &why));
	for (unsigned int i = 0; i < PYTHON_CALLS_MAX; i++) {
		assert_int_equal(probe_table_add_python(&pt, "a.b*", ROLE_STEP), 0);
		assert_false(pt.specs[i].is_glob);
		for (unsigned int layout = 0; layout < PYTHON_LAYOUTS; layout++) {
			assert_int_equal(probe_spec_python(&pt, i, layout, &c), i);
			/* "b*" in a.py and in a/__init__.py; from 3.11 on a.b*, too */
			assert_int_equal(c.n, layout == PYTHON_LAYOUT_3_8 ? 2 : 3);
			assert_int_equal(c.lengths, layout == PYTHON_LAYOUT_3_8 ? 1 << 2 : 1 << 2 | 1 << 4);
			assert_int_equal(c.frame_code, layout >= PYTHON_LAYOUT_3_12 ? 0 : 32);
		}
	}
	stderr_grab_begin(&said);
	err = probe_table_add_python(&pt, "a.b", ROLE_STEP);
	assert_one_line(stderr_grab_end(&said));
	assert_int_equal(err, -EINVAL);
	assert_true(probe_spec_matches(&pt.specs[0], "/usr/bin/python3.11"));
	assert_true(probe_spec_matches(&pt.specs[0], "/opt/lib/libpython3.11.so.1.0"));
	assert_false(probe_spec_matches(&pt.specs[0], "/opt/lib/libtorch_python.so"));
}

/* Arguments of Python functions; what is refused: tests/integration/py-steps.sh. */
TABLE_TEST(test_python_values)
{
	static const struct {
		const char *expr;
		struct python_value v;
		const char *last; /* the name of the last hop */
	} cases[] = {
		{ "ids", { .n = 1, .as = PYTHON_AS_NUMBER }, "ids" },
		{ " a_1.b2 ", { .n = 2, .as = PYTHON_AS_NUMBER }, "b2" },
		{ "len(a.b)", { .n = 2, .as = PYTHON_AS_LENGTH }, "b" },
		{ "len(a.b.c?)", { .n = 3, .as = PYTHON_AS_LENGTH }, "c" },
		{ "len(a) >= 3", { .n = 1, .as = PYTHON_AS_LENGTH, .when = WHEN_GT, .than = 2 }, "a" },
		{ "str(a['k,=]'])", { .n = 2, .as = PYTHON_AS_STRING }, "k,=]" },
		{ "a[\"it's\"]", { .n = 2, .as = PYTHON_AS_NUMBER }, "it's" },
		{ "a.shape[-1]", { .n = 1, .as = PYTHON_AS_SIZE, .index = -1 }, "a" },
		{ "a.shape[2] == 1", { .n = 1, .as = PYTHON_AS_SIZE, .index = 2, .when = WHEN_EQ, .than = 1 }, "a" },
		{ "shape[2]", { .n = 2, .as = PYTHON_AS_NUMBER }, "" },
		{ "a.shape.b", { .n = 3, .as = PYTHON_AS_NUMBER }, "b" },
		{ "a <= -5", { .n = 1, .as = PYTHON_AS_NUMBER, .when = WHEN_LT, .than = -4 }, "a" },
		{ "a!=5", { .n = 1, .as = PYTHON_AS_NUMBER, .when = WHEN_NE, .than = 5 }, "a" },
		{ "a is None", { .n = 1, .as = PYTHON_AS_NONE, .when = WHEN_EQ, .than = 1 }, "a" },
		{ "a.b is not None", { .n = 2, .as = PYTHON_AS_NONE, .when = WHEN_EQ, .than = 0 }, "b" },
	};
	const struct probe_spec *s;
	char option[200];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct python_value *want = &cases[i].v, *v;

		snprintf(option, sizeof(option), "f.py:f(x=%s, y=z)", cases[i].expr);
		assert_int_equal(probe_table_add_python(&pt, option, ROLE_STEP), 0);
		s = &pt.specs[pt.n - 1];
		v = &s->values->value[0];
		assert_string_equal(s->symbol, "f.py:f");
		assert_int_equal(s->values->n, 2);
		assert_int_equal(s->nargs, 2);
		assert_int_equal(v->n, want->n);
		assert_int_equal(v->as, want->as);
		assert_int_equal(v->when, want->when);
		assert_int_equal(v->than, want->than);
		assert_int_equal(v->index, want->index);
		assert_int_equal(v->hops[0].how, PYTHON_HOP_VARIABLE);
		assert_string_equal(v->hops[v->n - 1].name.text, cases[i].last);
		assert_int_equal(v->hops[v->n - 1].how == PYTHON_HOP_IF_ANY, strchr(cases[i].expr, '?') != NULL);
		assert_int_equal(s->args[0].is_string, want->as == PYTHON_AS_STRING);
		probe_table_free(&pt);
		memset(&pt, 0, sizeof(pt));
	}
	/* prompts and tokens, and requests with a probe for their ids */
	assert_int_equal(probe_table_add_python(&pt, "f.py:f(n_tokens=a, request=b.c)", ROLE_STEP), 0);
	s = &pt.specs[0];
	assert_true(probe_spec_own_ids(s));
	assert_int_equal(pt.n, 2);
	assert_int_equal(pt.specs[1].role, ROLE_SEQUENCE);
	assert_int_equal(s->values->value[1].as, PYTHON_AS_REQUEST);
	assert_string_equal(probe_spec_name(s, (uint64_t[FUNC_VALS_MAX]){ 2 }), "prefill");
	assert_string_equal(probe_spec_name(s, (uint64_t[FUNC_VALS_MAX]){ 1 }), "decode");
	assert_string_equal(probe_spec_name(s, (uint64_t[FUNC_VALS_MAX]){ PYTHON_UNKNOWN }), "f.py:f");
}

RUN_TESTS(NULL, NULL)
