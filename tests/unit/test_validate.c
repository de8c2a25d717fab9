// SPDX-License-Identifier: BSD-2-Clause
/* inftrace validate as a whole, on the files of tests/golden (run from the root of the tree) and on
 * text given here. */
#include "run_command.h"
#include "util/alloc.h"
#include "validate/check.h"

#define GOLDEN "tests/golden/"

#define ARGV(...) ((char *[]){ "inftrace validate", ##__VA_ARGS__, NULL })

/* Expects the output and exit code for a text on stdin; out and err may be NULL: any. */
static void expect_input(const void *text, size_t len, char **argv, int rc, const char *out, const char *err)
{
	struct output result;

	run_command(&result, cmd_validate, text, len, argv);
	if (err)
		assert_string_equal(result.err, err);
	if (out)
		assert_string_equal(result.out, out);
	assert_int_equal(result.rc, rc);
	output_free(&result);
}

#define EXPECT(argv, rc, out, err) expect_input("", 0, argv, rc, out, err)

static void expect_text(const char *text, const char *out)
{
	expect_input(text, strlen(text), ARGV("-"), EXIT_OK, out, "");
}

/* The input is refused with this one line, and nothing else. */
static void expect_problem(const void *text, size_t len, const char *problem)
{
	char line[512];

	snprintf(line, sizeof(line), "inftrace: -: %s\n", problem);
	expect_input(text, len, ARGV("-"), EXIT_RUN, NULL, line);
}

static void expect_text_problem(const char *text, const char *problem)
{
	expect_problem(text, strlen(text), problem);
}

static void expect_good(const char *text)
{
	expect_text(text, NULL);
}

/* Expects that the text is good, with this note (or without it). */
static void expect_note(const char *text, const char *note, bool there)
{
	struct output result;

	run_command(&result, cmd_validate, text, strlen(text), ARGV("-"));
	assert_string_equal(result.err, "");
	assert_int_equal(result.rc, EXIT_OK);
	if ((strstr(result.out, note) != NULL) != there)
		fail_msg("%s in: %s", note, result.out);
	output_free(&result);
}

/* --- profiles --- */

TEST(test_profile_golden)
{
	EXPECT(ARGV(GOLDEN "profile_good.jsonl"), EXIT_OK,
		GOLDEN "profile_good.jsonl: profile, 5 lines: token_prof 2, a_family_of_the_future 1, unified_prof 1, window_prof 1\n",
		"");
#define BAD "inftrace: " GOLDEN "profile_bad.jsonl: "
	EXPECT(ARGV(GOLDEN "profile_bad.jsonl"), EXIT_RUN,
		GOLDEN "profile_bad.jsonl: profile, 11 lines: token_prof 7; NOT VALID, 5 problems\n",
		BAD "line 7: missing required field: shape\n" BAD
		    "line 9: invalid JSON: the line ends inside the value\n" BAD
		    "line 10: stage_us: the states sum to 61234566 ns, total is 61234567 ns (-1 ns)\n" BAD "line 11: concurrency must be an integer from 1 to 4294967295\n" BAD
		    "line 12: commit_sha must be a non-empty string or null\n");
}

/* The families of the profile's specification: for each a file of good lines and one of bad lines; line N of the .txt names
 * the problem of bad line N. */
TEST(test_nothing)
{
	static const char *const profiles[] = { "", "\n", " \t\r\n\n", "\xc2\xa0\v\f\xc2\x85\n\xe2\x80\xa8\n" };
	static const char *const traces[] = { "[]", " [\n]\n", "{\"traceEvents\":[]}" };

	for (size_t i = 0; i < ARRAY_SIZE(profiles); i++) {
		expect_text(profiles[i], "-: profile, 0 lines: none; note: no events\n");
		expect_input(profiles[i], strlen(profiles[i]), ARGV("-", "--require", "token_prof"), EXIT_RUN, NULL,
			"inftrace: -: missing profile event groups: token_prof\n");
	}
	for (size_t i = 0; i < ARRAY_SIZE(traces); i++)
		expect_note(traces[i], "0 events; slices: none; 0 tracks; note: no events\n", true);
}

/* Other tools call their lines native, too: only the rules for all lines count for them. */
TEST(test_profile_foreign)
{
	EXPECT(ARGV(GOLDEN "profile_foreign.jsonl"), EXIT_OK, NULL, "");
}

TEST(test_profile_families)
{
	static const char *const families[][2] = {
		{ "token_prof", "token_prof" },
		{ "op_prof", "op_prof" },
		{ "sample_prof", "sample_prof" },
		{ "graph_prof", "graph_prof" },
		{ "stack_prof", "stack_prof" },
		{ "request_prof", "request_prof" },
		{ "kernel_profs", "sched_prof,syscall_prof,fault_prof,memory_prof" },
		{ "window_prof", "window_prof" },
	};
	char path[128], expected[4096], line[512], *p;
	FILE *f;

	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
		snprintf(path, sizeof(path), GOLDEN "family_%s_good.jsonl", families[i][0]);
		EXPECT(ARGV(path, "--require", (char *)families[i][1]), EXIT_OK, NULL, "");

		snprintf(path, sizeof(path), GOLDEN "family_%s_bad.txt", families[i][0]);
		f = fopen(path, "re");
		assert_non_null(f);
		snprintf(path, sizeof(path), GOLDEN "family_%s_bad.jsonl", families[i][0]);
		for (p = expected, *p = 0; fgets(line, sizeof(line), f);)
			p += sprintf(p, "inftrace: %s: %s", path, line);
		fclose(f);
		assert_true(p > expected);
		EXPECT(ARGV(path), EXIT_RUN, NULL, expected);
	}
}

TEST(test_profile_require)
{
	char list[40 * 50], said[sizeof(list) + 200], *to = said;

	EXPECT(ARGV(GOLDEN "profile_good.jsonl", "--require", "token_prof,window_prof"), EXIT_OK, NULL, NULL);
	EXPECT(ARGV(GOLDEN "profile_good.jsonl", "--require", "token_prof,op_prof"), EXIT_RUN, NULL,
		"inftrace: " GOLDEN "profile_good.jsonl: missing profile event groups: op_prof\n");
	EXPECT(ARGV("--require=op_prof,a,token_prof", GOLDEN "profile_good.jsonl"), EXIT_RUN, NULL,
		"inftrace: " GOLDEN "profile_good.jsonl: missing profile event groups: op_prof, a\n");
	/* the list is complete, however long */
	memset(list, 'a', sizeof(list));
	for (size_t i = 40; i < sizeof(list); i += 40)
		list[i] = ',';
	list[sizeof(list) - 1] = 0;
	to += sprintf(to, "inftrace: " GOLDEN "profile_good.jsonl: missing profile event groups: ");
	for (const char *c = list; *c; c++) {
		*to++ = *c;
		if (*c == ',')
			*to++ = ' ';
	}
	strcpy(to, "\n");
	EXPECT(ARGV(GOLDEN "profile_good.jsonl", "-r", list), EXIT_RUN, NULL, said);
	/* a trace has no families: the option is about the profile next to it */
	EXPECT(ARGV(GOLDEN "trace_good.json", GOLDEN "profile_good.jsonl", "-r", "token_prof"), EXIT_OK, NULL, NULL);
	EXPECT(ARGV(GOLDEN "trace_good.json", "-r", "token_prof"), EXIT_RUN, NULL,
		"inftrace: --require: none of the files is a profile\n");
}

static const char good_line[] = "{\"event\":\"op_prof\",\"commit_sha\":null,\"env_hash\":\"sha256:unknown\",\"model\":\"m\","
				"\"concurrency\":1,\"shape\":{},\"stage_us\":{},\"graph_enabled\":false,\"runtime_flags\":{}}\n";

/* What a single line may hold: tests/golden/profile_cases.jsonl. */
TEST(test_profile_lines)
{
	const char *line = good_line;
	char text[4096];

	/* CR LF, blank lines, no newline at the end */
	snprintf(text, sizeof(text), "\n  \n%.*s\r\n\t\r\n%.*s", (int)strlen(line) - 1, line,
		(int)strlen(line) - 1, line);
	expect_text(text, "-: profile, 2 lines: op_prof 2\n");

	/* any white space makes a blank line, also the first */
	snprintf(text, sizeof(text), "\v\f\n\xc2\xa0\n%s\v\f\n\xe2\x80\x83 \n", line);
	expect_text(text, "-: profile, 1 line: op_prof 1\n");
	/* nor does it matter around a value */
	snprintf(text, sizeof(text), "\xc2\x85\xe2\x80\xa8%.*s\xc2\xa0\v\f\xe2\x80\xa9\n", (int)strlen(line) - 1, line);
	expect_good(text);
	snprintf(text, sizeof(text), "%s\v{x}\n", line);
	expect_text_problem(text, "line 2: invalid JSON at column 3: a key in quotes expected, not 'x'");

	snprintf(text, sizeof(text), "%s[1]\n", line);
	expect_text_problem(text, "line 2: profile event must be a JSON object");
	snprintf(text, sizeof(text), "%s%.*s {}\n", line, (int)strlen(line) - 1, line);
	expect_text_problem(text, "line 2: invalid JSON: text after the value, at column 160");
	snprintf(text, sizeof(text), "%s{\"event\":NaN}\n", line);
	expect_text_problem(text, "line 2: invalid JSON at column 10: a value expected, not 'N'");
	/* a line that was cut by a full disk, then appended to */
	snprintf(text, sizeof(text), "%.40s\n%s", line, line);
	expect_text_problem(text, "line 1: invalid JSON: the line ends inside the value");
	assert_non_null(strstr(line, "op_prof"));
	snprintf(text, sizeof(text), "%s{\"event\":\"\x01\"}\n", line);
	expect_text_problem(text, "line 2: invalid JSON at column 11: control byte 0x01 in a string");
}

/* --- Chrome traces --- */

TEST(test_trace_golden)
{
	static const char counts[] = "13 events: C 1, M 3, X 6, f 1, i 1, s 1; slices: syscall 3, op 1, sched 1, step 1; 2 tracks";
	static const char open_note[] = "; open (not closed by ]: recording cut)";
	static const struct {
		const char *file, *form, *note;
	} good[] = {
		{ "trace_good.json", "array", "" },
		{ "trace_object.json", "object", "" },
		{ "trace_cut_comma.json", "array", open_note },
		{ "trace_members.json.gz", "array, gzip", open_note },
	};
	static const char *const bad[][2] = {
		{ "trace_cut_inside.json",
			"event 13 (line 14): the file ends inside an event: readers refuse it" },
		{ "trace_cut_member.json.gz",
			"event 12: gzip data is cut inside a member (whole members before it: 1): readers refuse the file" },
		{ "trace_overlap_1ns.json", "events 6 (line 7) and 7 (line 11) overlap by 1 ns "
					    "without nesting: pid 4242 tid 4242" },
	};
	char path[128], line[512];

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		snprintf(path, sizeof(path), GOLDEN "%s", good[i].file);
		snprintf(line, sizeof(line), "%s: Chrome trace (%s), %s%s\n", path, good[i].form,
			counts, good[i].note);
		EXPECT(ARGV(path), EXIT_OK, line, "");
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(path, sizeof(path), GOLDEN "%s", bad[i][0]);
		snprintf(line, sizeof(line), "inftrace: %s: %s\n", path, bad[i][1]);
		EXPECT(ARGV(path), EXIT_RUN, NULL, line);
	}
}

/* A real trace of PyTorch's profiler: other rules (string pids, unpaired flows), no failure. The
 * figures are what Python's json module and the chrome://tracing importer count. */
TEST(test_trace_kineto)
{
	EXPECT(ARGV(GOLDEN "kineto.json.gz"), EXIT_OK,
		GOLDEN "kineto.json.gz: Chrome trace (object, gzip), 9524 events: M 58, X 6902, f 1310, i 2, s 1252; slices: cpu_op "
		       "4338, kernel 1185, cuda_runtime 1125, cuda_driver 198, gpu_memcpy 46, gpu_memset 8, Trace 1, overhead 1; 4 "
		       "tracks; note: 71 flow ends without a start; note: 13 flow starts without an end; note: 2 events whose pid or "
		       "tid is negative or a text\n",
		"");
}

#define SLICE(ts, dur) \
	"{\"ph\":\"X\",\"name\":\"a\",\"ts\":" ts ",\"dur\":" dur ",\"pid\":1,\"tid\":2}"

TEST(test_trace_events)
{
	static const char *const cases[][2] = {
		{ "5", "not an object" },
		{ "{\"name\":\"a\"}", "missing key: ph" },
		{ "{\"ph\":1}", "not a string: ph" },
		{ "{\"ph\":\"XX\"}", "unknown ph: XX" },
		{ "{\"ph\":\"\\u001b[2J\"}", "unknown ph: \\x1b[2J" },
		{ "{\"ph\":\"X\"}", "missing key: pid" },
		{ "{\"ph\":\"X\",\"pid\":1.5}", "neither an integer nor a string: pid" },
		{ "{\"ph\":\"X\",\"pid\":1}", "missing key: tid" },
		{ "{\"ph\":\"X\",\"pid\":1,\"tid\":2}", "missing key: name" },
		{ "{\"ph\":\"X\",\"pid\":1,\"tid\":2,\"name\":\"a\"}", "missing key: ts" },
		{ SLICE("\"1\"", "1"), "not a number: ts" },
		{ SLICE("1.000", "-0.001"), "dur is negative" },
		{ SLICE("1e300", "1"), "does not fit in 64 bits of nanoseconds: ts" },
		{ SLICE("9223372036854775", "1"),
			"ts + dur does not fit in 64 bits of nanoseconds" },
		{ "{\"ph\":\"M\",\"name\":\"process_name\"}", "missing key: args, an object" },
		{ "{\"ph\":\"C\",\"ts\":1,\"name\":\"n\",\"pid\":1}",
			"missing key: args, an object" },
		{ "{\"ph\":\"i\",\"name\":\"n\"}", "missing key: ts" },
		{ "{\"ph\":\"s\",\"ts\":1,\"name\":\"n\",\"pid\":1,\"tid\":2}", "missing key: id" },
		{ "{\"ph\":\"i\",\"ts\":1,\"name\":\"n\",\"args\":{\"a\":[9223372036854775808]}}",
			"integer above 2^63-1: must be a string" },
		{ "{\"ph\":\"i\",\"ts\":1,\"name\":\"\\ud83d\\ude00\"}",
			"\\u escape of a surrogate pair: must be UTF-8" },
	};
	char text[512], expected[256];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text), "[\n%s,\n%s\n]\n", SLICE("0.000", "9.000"), cases[i][0]);
		snprintf(expected, sizeof(expected), "event 2 (line 3): %s", cases[i][1]);
		expect_text_problem(text, expected);
	}
	expect_good("[" SLICE("-1", "0.5e1") "," SLICE("0.0004", "0") "]");
}

TEST(test_trace_forms)
{
	expect_good("[" SLICE("1", "1"));
	expect_good("[" SLICE("1", "1") "  \n ");
	expect_good("[" SLICE("1", "1") ",\n");
	expect_good(" \n[\n" SLICE("1", "1") "   \n\n\n  ,\n\n" SLICE("2", "1") "\n]\n\n");
	expect_good("{\"traceEvents\": [" SLICE("1", "1") "]}");
	expect_good("{\"a\":{\"event\":1},\"b\":[\"traceEvents\"],\n\"traceEvents\":[" SLICE(
		"1", "1") "],\"displayTimeUnit\":\"ns\"}\n");
	expect_text_problem("[\n", "no events");
	expect_text_problem("[" SLICE("1", "1") ",\n]", "line 2 (after 1 events): an event expected, not ']'");
	expect_text_problem("[" SLICE("1", "1") "\n" SLICE("2", "1") "]",
		"line 2 (after 1 events): ',' or ']' expected, not '{'");
	expect_text_problem("[" SLICE("1", "1") "]\n[", "line 2: text after the end of the trace");
	expect_text_problem("{\"traceEvents\":[" SLICE("1", "1"),
		"event 1 (line 1): the file ends inside traceEvents: readers refuse it");
	expect_text_problem("{\"traceEvents\":[" SLICE("1", "1") "]",
		"event 1 (line 1): the file ends inside the outer object: readers refuse it");
	expect_text_problem("{\"traceEvents\":[" SLICE("1", "1") "],\"x\":01}",
		"event 1: invalid JSON at line 1 (byte 75): a number with a leading zero");
	expect_text_problem("{\"traceEvents\":{}}",
		"line 1 (after 0 events): the array of traceEvents expected, not '{'");
	/* PyTorch's execution trace is neither */
	expect_text_problem("{\n\"schema\":\"1.1.1-chakra.0.0.4\",\n\"nodes\":[],\n\"x\":{\"y\":[", "line 4: the file ends inside the outer object");
}

/* Recognised by content, whatever the name; by name if the content does not tell. */
TEST(test_execution_traces)
{
	/* metadata with a version, node 0 and node 1, which depends on it */
	static const char nodes[] = "\5\x0a\0031.0\5\x12\1a\x18\4\x0a\x08\1\x12\1b\x18\4\x2a\1";
	char path[] = "/tmp/inftrace-XXXXXX.et", json[] = "/tmp/inftrace-XXXXXX.json", line[128];
	int fd = mkstemps(path, 3);

	expect_input(nodes, sizeof(nodes), ARGV("-"), EXIT_OK, "-: execution trace, 2 nodes, 1 dependencies: COMP 2\n", "");
	EXPECT(ARGV(GOLDEN "pytorch_et.json.gz"), EXIT_OK, GOLDEN "pytorch_et.json.gz: execution trace of PyTorch, 4340 nodes, 4339 dependencies\n", "");
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "\0", 1), 1);
	assert_int_equal(close(fd), 0);
	EXPECT(ARGV(path), EXIT_OK, NULL, "");
	assert_int_equal(truncate(path, 0), 0);
	EXPECT(ARGV(path), EXIT_RUN, "", NULL);
	unlink(path);
	fd = mkstemps(json, 5);
	assert_true(fd >= 0);
	snprintf(line, sizeof(line), "inftrace: %s: is empty\n", json);
	EXPECT(ARGV(json), EXIT_RUN, "", line);
	close(fd);
	unlink(json);
}

#define CLOCK "{\"ph\":\"i\",\"s\":\"g\",\"name\":\"inftrace_clock\",\"ts\":0,\"pid\":9,\"tid\":9}"

/* Readers that take only plain events refuse these: noted in any file, and problems in one of inftrace. */
TEST(test_trace_plain)
{
#define PLAIN(pid, more) "{\"ph\":\"X\",\"name\":\"a\",\"ts\":1,\"dur\":1,\"pid\":" pid ",\"tid\":2" more "}"
	static const char *const cases[][3] = {
		{ PLAIN("1", ""), "slices: (no cat) 1", "missing key: cat" },
		{ PLAIN("-1", ",\"cat\":\"c\""), "note: 1 events whose pid or tid is negative or a text",
			"pid and tid: must be integers from 0 to 4294967295" },
		{ PLAIN("\"1\"", ",\"cat\":\"c\""), "note: 1 events whose pid or tid is negative or a text",
			"pid and tid: must be integers from 0 to 4294967295" },
		{ PLAIN("1", ",\"cat\":\"c\",\"args\":[1]"), "note: 1 events whose args are no object", "args: not an object" },
	};
	char text[512], problem[128];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		snprintf(text, sizeof(text), "[%s]", cases[i][0]);
		expect_note(text, cases[i][1], true);
		snprintf(text, sizeof(text), "[" CLOCK ",%s]", cases[i][0]);
		snprintf(problem, sizeof(problem), "event 2 (line 1): %s", cases[i][2]);
		expect_text_problem(text, problem);
	}
}

TEST(test_trace_nesting)
{
	/* later in the file, same start, same end, touching, of no length: all nest */
	expect_good("[" SLICE("5", "1") "," SLICE("0", "10") "," SLICE("0", "4") "," SLICE(
		"4", "6") "," SLICE("10", "1") "," SLICE("10", "0") "," SLICE("11", "0") "]");
	expect_text_problem("[" SLICE("0", "1.001") "," SLICE("1.000", "1") "," CLOCK "]",
		"events 1 (line 1) and 2 (line 1) overlap by 1 ns without nesting: pid 1 tid 2");
	/* beyond 2^53 ns a double would not tell them apart */
	expect_text_problem("[" SLICE("9007199254740.993", "0.002") "," SLICE("9007199254740.994", "1") "," CLOCK "]",
		"events 1 (line 1) and 2 (line 1) overlap by 1 ns without nesting: pid 1 tid 2");
	/* another track: no overlap */
	expect_good("[" SLICE("0", "2") ",{\"ph\":\"X\",\"name\":\"a\",\"ts\":1,\"dur\":2,\"pid\":1,"
					"\"tid\":\"2b\"}]");
	/* other writers may round; in the array form to microseconds */
	expect_text("[" SLICE("0", "2") "," SLICE("1", "2") "]",
		"-: Chrome trace (array), 2 events: X 2; slices: (no cat) 2; 1 track; note: 1 slices overlap another "
		"without nesting, by up to 1000 ns, as where microseconds are rounded (not written by inftrace)\n");
	expect_text_problem("[" SLICE("0", "2.001") "," SLICE("1", "2") "]",
		"events 1 (line 1) and 2 (line 1) overlap by 1001 ns without nesting: pid 1 tid 2");
	expect_text("{\"traceEvents\":[" SLICE("0", "1.001") "," SLICE("1.000", "1") "]}",
		"-: Chrome trace (object), 2 events: X 2; slices: (no cat) 2; 1 track; note: 1 "
		"slices overlap another without nesting, by up to 1 ns\n");
}

#define FLOW(ph, id, ts)                                                                        \
	"{\"ph\":\"" ph "\",\"name\":\"w\",\"cat\":\"c\",\"id\":" id ",\"bp\":\"e\",\"ts\":" ts \
	",\"pid\":1,\"tid\":2}"

TEST(test_trace_flows)
{
	expect_good("[" SLICE("0", "10") "," FLOW("s", "1", "1") "," FLOW("f", "1", "2") "]");
	/* by time, not by place in the file; an id may be reused; strings and steps */
	expect_good("[" FLOW("f", "1", "2") "," FLOW("s", "1", "1") "," SLICE("0", "10") "," FLOW(
		"s", "1", "3") "," FLOW("f", "1", "4") "," FLOW("s", "\"x\"", "3") "," FLOW("t",
		"\"x\"", "4") "," FLOW("f", "\"x\"", "9.999") "]");
}

TEST(test_trace_flow_problems)
{
	expect_text_problem("[" SLICE("0", "10") "," FLOW("s", "1", "1") "]",
		"event 2 (line 1): flow start without an end");
	expect_text_problem("[" SLICE("0", "10") "," FLOW("f", "1", "1") "," FLOW(
				    "s", "2", "1") "," FLOW("f", "2", "1") "]",
		"event 2 (line 1): flow step or end without a start before it");
	expect_text_problem("[" SLICE("0", "10") "," FLOW("s", "1", "1") "," FLOW(
				    "s", "1", "2") "," FLOW("f", "1", "3") "]",
		"event 3 (line 1): flow start with an id that is in use");
	expect_text_problem("[" SLICE("0", "10") "," FLOW("s", "1", "0") "," FLOW("f", "1", "10") "]",
		"event 3 (line 1): flow event outside of every slice of its track");
	/* at a cut the other half may not have been written */
	expect_note("[" SLICE("0", "10") "," FLOW("s", "1", "1"), "; note: 1 flow starts without an end\n", true);
}

/* What the importer of chrome://tracing makes of them (tests/integration/importer.sh). */
TEST(test_trace_flow_rounding)
{
	static const char note[] = "; note: 1 arrows that chrome://tracing leaves out";
	/* the second ends in the same microsecond as the first, or there is an instant */
	static const char *const nested[] = {
		"[" SLICE("0.900", "0.200") "," SLICE("1.120", "0.300") "," FLOW("s", "1", "1.200") "," FLOW(
			"f", "1", "1.300") "]",
		"[{\"ph\":\"i\",\"s\":\"t\",\"name\":\"n\",\"ts\":0.6,\"pid\":1,\"tid\":2}," SLICE("0.700",
			"0.500") "," SLICE("0", "0.100") "," FLOW("s", "1", "1") "," FLOW("f", "1", "1.100") "]",
	};
	/* it ends in another one; one slice holds both; the instant belongs to another thread, or to the process */
	static const char *const separate[] = {
		"[" SLICE("0.900", "0.200") "," SLICE("1.120", "0.400") "," FLOW("s", "1", "1.200") "," FLOW(
			"f", "1", "1.300") "]",
		"[" SLICE("0", "9") "," SLICE("0.900", "0.200") "," SLICE("1.120", "0.300") "," FLOW(
			"s", "1", "1.200") "," FLOW("f", "1", "1.300") "]",
		"[{\"ph\":\"i\",\"s\":\"t\",\"name\":\"n\",\"ts\":0.6,\"pid\":1,\"tid\":3}," SLICE(
			"0.700", "0.500") "," FLOW("s", "1", "1") "," FLOW("f", "1", "1.100") "]",
		"[{\"ph\":\"i\",\"s\":\"p\",\"name\":\"n\",\"ts\":0.6,\"pid\":1,\"tid\":2}," SLICE(
			"0.700", "0.500") "," FLOW("s", "1", "1") "," FLOW("f", "1", "1.100") "]",
	};

	for (size_t i = 0; i < ARRAY_SIZE(nested); i++)
		expect_note(nested[i], note, true);
	for (size_t i = 0; i < ARRAY_SIZE(separate); i++)
		expect_note(separate[i], "note", false);
}

/* --- hostile input --- */

TEST(test_not_ours)
{
	expect_text_problem("\177ELF",
		"neither a profile (one JSON object a line) nor a Chrome trace ([ or {\"traceEvents\": [): it starts with byte 0x7f");
	expect_text_problem("\n\x12\x08\x01", "is not JSON (a .pftrace is read by Perfetto's "
					      "trace_processor, and `traceconv json` makes JSON of it)");
	expect_text_problem("{broken", "line 1 (after 0 events): a key in quotes expected, not 'b'");
	expect_problem("[\0", 2,
		"event 1: invalid JSON at line 1 (byte 1): a value expected, not byte 0x00");
	expect_problem("[{\"a\0b\":1}]", 11,
		"event 1: invalid JSON at line 1 (byte 4): control byte 0x00 in a string");
	expect_problem("\x1f\x8b", 2,
		"gzip data is cut inside a member (whole members before it: 0): readers refuse the file");
	expect_problem("\x1f\x8b\x09xxxx", 7,
		"damaged gzip data (whole members before it: 0): unknown compression method");
	EXPECT(ARGV("/"), EXIT_RUN, NULL, "inftrace: /: is a directory, not a trace or profile\n");
	EXPECT(ARGV(GOLDEN "trace_good.json", "/nonexistent/a\nb", GOLDEN "trace_good.json"), EXIT_RUN, NULL,
		"inftrace: /nonexistent/a\\x0ab: cannot open: No such file or directory\n");
}

TEST(test_large)
{
	const size_t mb = 1 << 20;
	size_t used;
	char *text;

	text = xmalloc(40 * mb);
	/* a string of 10 MB is only long */
	used = sprintf(text, "[{\"ph\":\"M\",\"args\":{},\"name\":\"");
	memset(text + used, 'x', 10 * mb);
	strcpy(text + used + 10 * mb, "\"}]");
	expect_good(text);
	/* over the limit of an event, but not of what is skipped */
	memset(text + used, 'x', 20 * mb);
	strcpy(text + used + 20 * mb, "\"}]");
	expect_text_problem(text, "event 1: larger than 16 MB");
	used = sprintf(text, "{\"skipped\":\"");
	memset(text + used, 'x', 20 * mb);
	strcpy(text + used + 20 * mb, "\",\"traceEvents\":[" SLICE("1", "1") "]}");
	expect_good(text);
	/* nested without end */
	memset(text, '[', 10 * mb);
	text[10 * mb] = '\0';
	expect_text_problem(text, "event 1: invalid JSON at line 1 (byte 64): nested too deep");
	/* few bytes, many objects */
	used = sprintf(text, "[{\"a\":[");
	for (int i = 0; i < 1 << 20; i++)
		used += sprintf(text + used, "{},");
	strcpy(text + used, "1]}]");
	expect_text_problem(text, "event 1: more than 65536 values");
	/* a line over the limit is skipped, the next is read */
	used = sprintf(text, "{\"event\":\"");
	memset(text + used, 'x', 20 * mb);
	strcpy(text + used + 20 * mb, "\"}\n");
	used = strlen(text);
	strcpy(text + used, good_line);
	expect_text_problem(text, "line 1: larger than 16 MB");
	free(text);
}

TEST(test_many_problems)
{
	struct output result;
	char text[1024] = "[5";
	const char *p;
	int lines = 0;

	for (int i = 0; i < 30; i++)
		strcat(text, ",5");
	run_command(&result, cmd_validate, text, strlen(text), ARGV("-"));
	for (p = result.err; (p = strchr(p, '\n')); p++)
		lines++;
	assert_int_equal(lines, CHECK_SHOWN_MAX + 1);
	assert_contains(result.err, "inftrace: -: 21 more problems\n");
	output_free(&result);
}

TEST(test_usage)
{
	struct output result;

	EXPECT(ARGV("--nonsense"), EXIT_USAGE, NULL, NULL);
	EXPECT(ARGV(), EXIT_USAGE, NULL, NULL);
	EXPECT(ARGV("-", "--require", "a,,b"), EXIT_USAGE, NULL, NULL);
	run_command(&result, cmd_validate, "", 0, ARGV("--help"));
	assert_int_equal(result.rc, EXIT_OK);
	assert_contains(result.out, "EXAMPLES:");
	output_free(&result);
	EXPECT(ARGV("-q", GOLDEN "trace_good.json"), EXIT_OK, "", NULL);
}

RUN_TESTS(NULL, NULL)
