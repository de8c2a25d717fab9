// SPDX-License-Identifier: BSD-2-Clause
/* inftrace report as a whole, on the files of tests/golden (run from the root of the tree) and on text made here. */
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "report.h"

#define GOLDEN "tests/golden/"

/* Times in microseconds; more: further keys of the shape, each after a comma. */
static void add_step(struct profile *p, int pid, int step, const char *phase, int tokens, int ts,
	int cpu, const char *state, int us, const char *more)
{
	fprintf(p->out,
		"{\"event\":\"token_prof\"," HEAD
		",\"shape\":{\"step\":%d,\"pid\":%d,\"tid\":%d,\"phase\":\"%s\",\"n_tokens\":%d,"
		"\"ts_us\":%d.000%s},\"stage_us\":{\"total\":%d.000,\"cpu\":%d.000,\"%s\":%d.000}}"
		"\n",
		step, pid, pid, phase, tokens, ts, more, cpu + us, cpu, state, us);
}

/* A prompt of 10 ms and 50 tokens of 1 ms, 100 us apart; one of them waits for 20 ms. */
static void add_request(struct profile *p, int pid, const char *more)
{
	int ts = 1000;

	add_step(p, pid, 0, "prefill", 32, ts, 10000, "runnable", 5, "");
	ts += 10005 + 100;
	for (int i = 1; i <= 50; i++) {
		int us = i == 30 ? 20000 : 5;

		add_step(p, pid, i, "decode", 1, ts, 1000, "runnable", us, i == 30 ? more : "");
		ts += 1000 + us + 100;
	}
}

/* The calling thread waited for a CPU for 20 ms. */
#define WAITED(tid, behind, behind_tid) \
	",\"wait1_comm\":\"main\",\"wait1_tid\":" tid ",\"wait1_state\":\"runnable\",\"wait1_behind\":\"" behind "\"," \
	"\"wait1_behind_tid\":" behind_tid ",\"wait1_behind_us\":20000.000,\"wait1_us\":20000.000"

TEST(test_text)
{
	struct profile *p = profile_new();

	add_request(p, 4711,
		WAITED("4711", "cc1plus", "990"));
	fputs("{\"event\":\"op_prof\"," HEAD
	      ",\"shape\":{\"pid\":4711,\"window\":0,\"n_mul_mat\":600,\"n_rope\":300},"
	      "\"stage_us\":{\"total\":45000.000,\"mul_mat\":40000.000,\"rope\":5000.000}}\n"
	      "{\"event\":\"syscall_prof\"," HEAD
	      ",\"shape\":{\"pid\":4711,\"comm\":\"llama-cli\",\"n_futex\":12},"
	      "\"stage_us\":{\"total\":700.000,\"futex\":700.000}}\n"
	      "{\"event\":\"window_prof\"," HEAD
	      ",\"shape\":{\"window\":0,\"records\":900,\"lost\":7,\"lost_syscall\":7,\"steps\":51,"
	      "\"coverage\":0.990000,\"not_recorded\":\"faults\"},\"stage_us\":{\"total\":90000.000}}\n",
		p->out);
	PROFILE_SAYS(p, ARGV("-"),
		"\nNot recorded: page faults, ",
		"llama-cli, pid 4711, model m: 51 steps in 85.2 ms (50 decode, 1 prefill)\n",
		"first step to first token       1    10.0 ms",
		"time per output token          50    1.10 ms    1.10 ms",
		"  step 30, 21.0 ms instead of 1.00 ms: the calling thread waited 20.0 ms for a "
		"CPU behind pid 990 `cc1plus`\n",
		"mul_mat                          600    40.0 ms    66.7 us",
		"futex                             12     700 us    58.3 us",
		"Loss: 7 records (7 syscall); none of them within a step",
		"; coverage 99.0000 %\n");
}

/* Threads of one name and process are one cause; what is beyond those of a line, and unknown, are rows, too. */
TEST(between_steps)
{
	struct profile *p = profile_new();
	static const char first[] = ",\"gap_us\":10000.000,\"path1_comm\":\"up\\u001b[31m\\u202e\",\"path1_tid\":8,\"path1_pid\":7,"
				    "\"path1_state\":\"blocked_sleep\",\"path1_call\":\"clock_nanosleep\",\"path1_us\":6000.000,"
				    "\"path2_comm\":\"main\",\"path2_tid\":1,\"path2_pid\":1,\"path2_state\":\"cpu\",\"path2_us\":3000.000,"
				    "\"path_rest_us\":1000.000";
	static const char second[] = ",\"gap_us\":10000.000,\"path1_tid\":9,\"path1_state\":\"runnable\",\"path1_behind\":\"x\",\"path1_us\":8000.000,"
				     "\"path2_comm\":\"main\",\"path2_tid\":2,\"path2_pid\":1,\"path2_state\":\"cpu\",\"path2_us\":1000.000,"
				     "\"path_unknown_us\":1000.000,\"path9_us\":5.000,\"path_us\":5.000";

	add_step(p, 1, 0, "decode", 1, 1000, 1000, "runnable", 0, "");
	add_step(p, 1, 1, "decode", 1, 12000, 1000, "runnable", 0, first);
	add_step(p, 1, 2, "decode", 1, 23000, 1000, "runnable", 0, second);
	PROFILE_SAYS(p, ARGV("-"), "\nBetween steps: 20.0 ms in 2 gaps\n   40.0 %    8.00 ms  thread 9: runnable\n",
		" (7): blocked_sleep in clock_nanosleep\n   20.0 %    4.00 ms  main: cpu\n", "    5.0 %    1.00 ms  (others)\n",
		"    5.0 %    1.00 ms  (unknown)\n", "!\033[31m", "!\342\200\256");
}

/* Adds a step of `ms` after a gap of as many, and what is known of the gap. */
static void add_gap(struct profile *p, int pid, int step, int ms, const char *path)
{
	char more[600];

	snprintf(more, sizeof(more), ",\"gap_us\":%d000.000%s", ms, path);
	add_step(p, pid, step, "decode", 1, 1000000 + 1000 * (2 * step * ms), 1000 * ms, "runnable", 0, more);
}

/* "N": its number */
#define CAUSE(n, comm, pid, state, us) \
	",\"path" n "_comm\":\"" comm "\",\"path" n "_tid\":" pid ",\"path" n "_pid\":" pid ",\"path" n "_state\":\"" state "\",\"path" n "_us\":" us

/* Processes that took less than a hundredth are one row; each process of the profile has its own causes. */
TEST(between_steps_processes)
{
	struct profile *p = profile_new();
	char path[400];

	for (int i = 0; i < 120; i++) {
		snprintf(path, sizeof(path), CAUSE("1", "sh", "%d", "cpu", "6000.000") CAUSE("2", "db", "7", "blocked_io", "3000.000"), 5000 + i, 5000 + i);
		add_gap(p, 1, i, 10, path);
	}
	/* of a process with more than that, whatever it did less often is its own, too */
	add_gap(p, 1, 120, 10, CAUSE("1", "db", "7", "cpu", "10000.000"));
	add_gap(p, 2, 0, 10, CAUSE("1", "db", "7", "cpu", "10000.000"));
	PROFILE_SAYS(p, ARGV("-"),
		"\nBetween steps: 1.21 s in 121 gaps\n   59.5 %     720 ms  sh (other processes): cpu\n   29.8 %     360 ms  db (7): blocked_io\n"
		"    9.9 %     120 ms  (unknown)\n    0.8 %    10.0 ms  db (7): cpu\n\n",
		"\nBetween steps: 10.0 ms in 1 gaps\n  100.0 %    10.0 ms  db (7): cpu\n\n");
}

/* Who ran on the CPU of a thread for most of its waits, of all together: neither of two with half of it. */
TEST(between_steps_behind)
{
	struct profile *p = profile_new();

#define BEHIND(by, tid, us) ",\"path1_behind\":\"" by "\",\"path1_behind_tid\":" tid ",\"path1_behind_us\":" us
	add_gap(p, 1, 0, 10, CAUSE("1", "a", "1", "runnable", "9000.000") BEHIND("bash", "8", "2000.000"));
	add_gap(p, 1, 1, 10, CAUSE("1", "a", "1", "runnable", "9000.000") BEHIND("bash", "9", "8000.000"));
	add_gap(p, 1, 2, 10, CAUSE("1", "b", "1", "runnable", "10000.000") BEHIND("x", "8", "5000.000"));
	add_gap(p, 1, 3, 10, CAUSE("1", "b", "1", "runnable", "10000.000") BEHIND("y", "9", "10000.000"));
	add_gap(p, 1, 4, 10, CAUSE("1", "c", "1", "runnable", "10000.000") BEHIND("idle", "0", "9000.000"));
	add_gap(p, 1, 5, 10, CAUSE("1", "d", "1", "runnable", "10000.000") BEHIND("cpu.max", "0", "9000.000"));
	add_gap(p, 1, 6, 10, CAUSE("1", "e", "1", "runnable", "10000.000") BEHIND("up\\u001b[31m", "9", "9000.000"));
	add_gap(p, 1, 7, 10, CAUSE("1", "f", "1", "runnable", "10000.000") BEHIND("z", "9", "11000.000"));
	PROFILE_SAYS(p, ARGV("-"), "\nBetween steps: 80.0 ms in 8 gaps\n   25.0 %    20.0 ms  b: runnable\n   22.5 %    18.0 ms  a: runnable, mostly behind bash\n",
		" c: runnable, mostly while its CPU was idle\n", " d: runnable, mostly held back by a CPU limit\n", " f: runnable\n", " e: runnable, mostly behind up",
		"!\033[31m");
}

/* The same as requests had it; and of the time between steps, what was not wanted by anybody. */
TEST(requests_without_step)
{
	struct profile *p = profile_new();
	static const char request[] = "{\"event\":\"request_prof\"," HEAD ",\"shape\":{\"pid\":1,\"source_kind\":\"sequence\",\"number\":%d,"
				      "\"sequence\":0,\"ts_us\":%d.000,\"output_tokens\":1,\"steps\":1,\"joined\":true%s},"
				      "\"stage_us\":{\"total\":40000.000,\"queued\":30000.000,\"behind_others\":5000.000,\"own_prefill\":10000.000,"
				      "\"own_decode\":0.000,\"others\":0.000,\"between\":0.000,\"ttft\":10000.000,\"ttft_others\":0.000,\"ttft_between\":0.000}}\n";

	add_step(p, 1, 0, "prefill", 1, 130000, 10000, "runnable", 0, "");
	add_step(p, 1, 1, "prefill", 1, 230000, 10000, "runnable", 0, ",\"gap_us\":90000.000" CAUSE("1", "main", "1", "cpu", "90000.000"));
	fprintf(p->out, request, 1, 100000, CAUSE("1", "main", "1", "cpu", "20000.000") ",\"path_unknown_us\":5000.000");
	fprintf(p->out, request, 2, 200000, CAUSE("1", "main", "1", "cpu", "20000.000") ",\"path_rest_us\":5000.000");
	/* from before lines had paths */
	fprintf(p->out, request, 3, 300000, "");
	PROFILE_SAYS(p, ARGV("-"),
		"\nRequests spent 50.0 ms without a step of their context, waiting for\n   80.0 %    40.0 ms  main: cpu\n"
		"   10.0 %    5.00 ms  (",
		"\nBetween steps: 90.0 ms in 1 gaps; during 60.0 ms of it there was no request\n  100.0 %    90.0 ms  main: cpu\n");
}

/* What the first part of an answer waited for, once its first token was there. */
TEST(answers_late)
{
	struct profile *p = profile_new();

	add_step(p, 1, 0, "prefill", 1, 130000, 10000, "runnable", 0, "");
	for (int i = 0; i < 3; i++)
		fprintf(p->out,
			"{\"event\":\"request_prof\"," HEAD ",\"shape\":{\"pid\":1,\"source_kind\":\"sequence\",\"number\":%d,\"sequence\":0,\"ts_us\":%d.000,"
			"\"output_tokens\":1,\"steps\":1%s,\"joined\":true},\"stage_us\":{\"total\":40000.000,\"queued\":30000.000,\"own_prefill\":10000.000,"
			"\"own_decode\":0.000,\"others\":0.000,\"between\":0.000,\"ttft\":10000.000,\"ttft_others\":0.000,\"ttft_between\":0.000,"
			"\"ttft_client\":90000.000,\"first_answered\":50000.000,\"answered\":51000.000}}\n",
			i + 1, 100000 * (i + 1),
			i == 1 ? ",\"answer_unknown_us\":50000.000" :
			i == 2 ? "" : /* without a word of causes: not counted */
				",\"answer1_comm\":\"loop\",\"answer1_tid\":9,\"answer1_pid\":8,\"answer1_state\":\"cpu\",\"answer1_us\":40000.000"
				",\"answer_rest_us\":6000.000,\"answer_unknown_us\":4000.000");
	PROFILE_SAYS(p, ARGV("-"),
		"\nAnswers began 100 ms after their first tokens were there, waiting for\n   54.0 %    54.0 ms  (unknown)\n"
		"   40.0 %    40.0 ms  loop (8): cpu\n    6.0 %    6.00 ms  (others)\n",
		"first token written 50.0 ms after the step that gave it, mostly by `loop (8): cpu`\n",
		"first token written 50.0 ms after the step that gave it\n",
		"answer written 51.0 ms after its last step, mostly by `loop (8): cpu`\n");
}

/* The largest cause is in the sentence about a gap that is longer than the others. */
TEST(between_steps_slow)
{
	struct profile *p = profile_new();
	int ts = 0;

	for (int i = 0; i < 20; i++, ts += 1000) {
		const char *path = CAUSE("1", "main", "1", "cpu", "1000.000");

		ts += i == 12 ? 40000 : 1000;
		if (i == 12)
			path = ",\"gap_us\":40000.000" CAUSE("1", "main", "1", "cpu", "2000.000") CAUSE("2", "up", "7", "blocked_sleep", "38000.000");
		add_step(p, 1, i, "decode", 1, ts, 1000, "runnable", 0, i == 12 ? path : "");
	}
	JSON_IS(profile_json(p, ARGV("-", "--json")),
		{ "processes.0.slowest_between.0.text",
			"before step 12, 40.0 ms instead of 1.00 ms outside of the engine's steps, 38.0 ms of it by `up (7): blocked_sleep`" },
		{ "processes.0.slowest_between.0.by", "up (7): blocked_sleep" }, { "processes.0.slowest_between.0.by_us", "38000.000" },
		{ "processes.0.between_steps#", "2" }, { "processes.0.between_steps.0.total_us", "38000.000" },
		{ "processes.0.between_steps.1.total_us", "2000.000" });
}

/* Gaps of less than a hundredth of the steps are not worth a section; parts of more than the gap are not believed. */
TEST(between_steps_small)
{
	struct profile *p = profile_new();

	add_step(p, 1, 0, "decode", 1, 1000, 1000000, "runnable", 0, ",\"gap_us\":9000.000,\"path1_comm\":\"a\",\"path1_state\":\"cpu\",\"path1_us\":9000.000");
	PROFILE_SAYS(p, ARGV("-"), "!Between steps");
	p = profile_new();
	add_gap(p, 1, 0, 10, CAUSE("1", "a", "1", "cpu", "9000.000") CAUSE("2", "b", "1", "cpu", "9000.000"));
	add_gap(p, 1, 1, 10, ",\"path1_comm\":1,\"path1_us\":\"x\",\"path_rest_us\":9223372036854775807.000");
	add_gap(p, 1, 2, 10, CAUSE("1", "a", "1", "cpu", "9223372036854775807.000") CAUSE("2", "a", "1", "cpu", "9223372036854775807.000"));
	PROFILE_SAYS(p, ARGV("-"), "\nBetween steps: 30.0 ms in 3 gaps\n  100.0 %    30.0 ms  (unknown)\n\n");
}

/* A fast prompt: no figure has an exponent. */
TEST(test_rates)
{
	struct profile *p = profile_new();

	add_step(p, 1, 0, "prefill", 512, 1000, 9000, "runnable", 1000, "");
	add_step(p, 1, 1, "decode", 1, 11000, 4000, "runnable", 0, "");
	PROFILE_SAYS(p, ARGV("-"), "  tokens/s: prefill 51200, output 250\n");
}

TEST(test_json)
{
	struct json_object *report, *steps;
	struct profile *p = profile_new();
	int none = 0;

	add_request(p, 4711,
		",\"straggler_tid\":5" WAITED("4711", "cpu.max", "0"));
	report = profile_json(p, ARGV("--json", "--all-steps", "-n", "1", "-"));
	steps = at_path(report, "steps");
	for (size_t i = 0; i < 51; i++) {
		struct json_object *step = json_object_array_get_idx(steps, i);

		assert_int_equal(json_object_get_int(at_path(step, "step")), i);
		none += !strcmp(json_object_get_string(at_path(step, "state")), "none");
	}
	assert_int_equal(none, 50);
	JSON_IS(report,
		{ "processes.0.pid", "4711" },
		{ "processes.0.time_per_output_token_us.p50", "1105.000" },
		{ "processes.0.first_step_to_first_token_us.max", "10005.000" },
		{ "processes.0.slowest.0.text", "step 30, 21.0 ms instead of 1.00 ms: the calling thread was held back for 20.0 ms by "
						"a CPU limit (cgroup cpu.max)" },
		{ "steps#", "51" },
		{ "steps.30.state", "runnable" },
		{ "steps.30.where", "own" },
		{ "steps.30.by", "cpu.max" },
		{ "steps.30.total_us", "21000.000" },
		{ "steps.30.typical_us", "1005.000" },
		{ "steps.30.excess_us", "19995.000" },
		{ "steps.30.state_us", "19995.000" });
}

/* Two processes in one file, and one of them in an earlier file: told apart and joined by pid. */
TEST(test_processes)
{
	char path[] = "/tmp/test_report_XXXXXX";
	int fd = mkstemp(path);
	struct profile p;

	assert_true(fd >= 0);
	profile_begin(&p);
	add_request(&p, 1, "");
	profile_end(&p);
	assert_int_equal(write(fd, p.text, p.len), p.len);
	close(fd);
	free(p.text);
	profile_begin(&p);
	add_request(&p, 1, "");
	add_request(&p, 2, "");
	JSON_IS(profile_json(&p, ARGV("--json", path, "-")),
		{ "processes#", "2" },
		{ "processes.0.steps", "102" },
		{ "processes.0.recordings", "2" },
		{ "processes.1.steps", "51" });
	unlink(path);
}

/* A request alone, then steps of two sequences: shared steps count in no time, and the report says so. */
TEST(test_mixed)
{
	struct profile *p = profile_new();

	add_step(p, 1, 0, "prefill", 32, 1000, 10000, "runnable", 5,
		",\"n_outputs\":1,\"n_sequences\":1,\"sequence\":0,\"position\":0");
	for (int i = 1; i < 4; i++)
		add_step(p, 1, i, "decode", 1, 10000 * (i + 1), 1000, "runnable", 5,
			",\"n_outputs\":1,\"n_sequences\":1,\"sequence\":0");
	for (int i = 4; i < 8; i++)
		add_step(p, 1, i, "mixed", 7, 10000 * (i + 1), 2000, "runnable", 5,
			",\"n_outputs\":2,\"n_sequences\":2,\"sequences\":6");
	JSON_IS(run_json(profile_end(p), ARGV("--json", "-")),
		{ "processes.0.requests.count", "1" },
		{ "processes.0.requests.output_tokens", "4" },
		{ "processes.0.requests.mixed", "2" },
		{ "processes.0.requests.shared_steps", "4" },
		{ "processes.0.requests.shared_tokens", "8" },
		{ "processes.0.requests.max_sequences", "2" },
		{ "processes.0.first_step_to_first_token_us.count", "1" },
		{ "processes.0.time_per_output_token_us.count", "3" },
		{ "processes.0.requests.left_out", "left out of these times: at least 2 requests, which shared 4 steps with others (up to 2 "
						   "sequences in one)" });
	REPORT_SAYS(p->text, ARGV("-"),
		"4 mixed",
		"  left out of these times: at least 2 requests, which shared 4 steps with others");
	free(p->text);
}

/* The same request from the engine's steps and from the server's socket: told apart, not added up. */
TEST(test_sockets)
{
	struct profile *p = profile_new();

	add_request(p, 1, "");
	for (int socket = 0; socket < 2; socket++)
		fprintf(p->out,
			"{\"event\":\"request_prof\"," HEAD
			",\"shape\":{\"pid\":1,\"source_kind\":\"%s\",\"prompt_tokens\":32,"
			"\"output_tokens\":51},\"stage_us\":{\"total\":99.000,\"ttft\":%s}}\n",
			socket ? "socket" : "steps", socket ? "12000.000" : "10000.000");
	JSON_IS(run_json(profile_end(p), ARGV("--json", "-")),
		{ "processes.0.requests.count", "1" },
		{ "processes.0.requests.output_tokens", "51" },
		{ "processes.0.first_step_to_first_token_us.max", "10005.000" },
		{ "processes.0.ttft_us.max", "12000.000" },
		{ "processes.0.socket_requests", "1" });
	REPORT_SAYS(p->text, ARGV("-"),
		"time to first token             1    12.0 ms",
		"requests seen at sockets: 1\n");
	free(p->text);
}

/* Two threads in turn, each on its own track, or both on one whose events name the thread; and a third in parallel, so that
 * only the threads tell which steps are consecutive. */
static void report_turns(struct output *result, bool shared)
{
	struct profile p;

	profile_begin(&p);
	fputs("[\n{\"ph\":\"M\",\"pid\":7,\"tid\":7,\"name\":\"process_name\",\"args\":{\"name\":\"x\"}}", p.out);
	fputs(",\n{\"ph\":\"X\",\"pid\":7,\"tid\":7,\"ts\":0.000,\"dur\":50000.000,\"name\":\"decode\",\"cat\":\"step\","
	      "\"args\":{\"n_tokens\":1,\"step\":99,\"breakdown_us\":{\"cpu\":50000.000}}}",
		p.out);
	for (int i = 0; i < 20; i++) {
		int tid = 100 + i % 2;

		fprintf(p.out,
			",\n{\"ph\":\"X\",\"pid\":7,\"tid\":%d,\"ts\":%d.000,\"dur\":%d.500,"
			"\"name\":\"%s\",\"cat\":\"step\",\"args\":{\"n_tokens\":%d,\"step\":%d,"
			"\"breakdown_us\":{\"cpu\":%d.500},\"tid\":%d}}",
			shared ? 4194500 : tid, i * 2000, 900 + 10 * i, i < 2 ? "prefill" : "decode",
			i < 2 ? 8 : 1, i, 900 + 10 * i, tid);
	}
	fputs("\n]", p.out);
	RUN(result, profile_end(&p), "--json", "-");
	assert_string_equal(result->err, "");
	free(p.text);
}

TEST(test_trace_shared)
{
	struct output own, shared;

	report_turns(&own, false);
	report_turns(&shared, true);
	assert_string_equal(own.out, shared.out);
	output_free(&own);
	output_free(&shared);
}

/* Steps of a trace count like those of a profile. */
TEST(test_trace)
{
	static const char *const wrap[][2] = { { "[\n", "\n]" }, { "[\n", "" }, { "[\n", ",\n" },
		{ "{\"other\": {\"traceEvents\": [1]}, \"k\": \"traceEvents\", \"traceEvents\": [",
			"], \"z\": 1}" } };
	struct profile p;

	for (size_t w = 0; w < sizeof(wrap) / sizeof(wrap[0]); w++) {
		profile_begin(&p);
		fputs(wrap[w][0], p.out);
		fputs("{\"ph\":\"M\",\"pid\":7,\"tid\":7,\"name\":\"process_name\",\"args\":{"
		      "\"name\":"
		      "\"llama-cli\"}}",
			p.out);
		for (int i = 0; i < 20; i++)
			fprintf(p.out,
				",\n{\"ph\":\"X\",\"pid\":7,\"tid\":7,\"ts\":%d.000,\"dur\":%d.500,"
				"\"name\":\"decode\",\"cat\":\"step\",\"args\":{\"n_tokens\":1,"
				"\"step\":%d,"
				"\"breakdown_us\":{\"cpu\":900.500,\"stopped\":%d.000}}}",
				i * 2000, i == 9 ? 1900 : 900, i, i == 9 ? 1000 : 0);
		fputs(",\n{\"ph\":\"X\",\"pid\":7,\"tid\":7,\"ts\":1.000,\"dur\":2.000,\"name\":"
		      "\"rope\","
		      "\"cat\":\"op\"}",
			p.out);
		fputs(wrap[w][1], p.out);
		JSON_IS(profile_json(&p, ARGV("--json", "-")),
			{ "processes.0.comm", "llama-cli" },
			{ "processes.0.steps", "20" },
			{ "processes.0.slowest.0.state", "stopped" },
			{ "processes.0.operators.0.name", "rope" });
	}
}

#define LINE(shape, stages) \
	"{\"event\":\"token_prof\"," HEAD ",\"shape\":" shape ",\"stage_us\":" stages "}\n"

TEST(test_malformed)
{
	static const char *const refused[][2] = {
		{ "", "is empty" },
		{ "{\"event\":\"x\"", "line 1: invalid JSON: the line ends inside the value" },
		{ "{\"event\":\"token_prof\"}\n\n[]\n", "line 1: missing required field: commit_sha (and 1 more)" },
		{ LINE("[]", "{}"), "line 1: shape and stage_us must be objects" },
		{ LINE("{\"step\":-1}", "{\"total\":1}"), "line 1: shape.step is not a number >= 0" },
		{ LINE("{\"phase\":7}", "{\"total\":1}"), "line 1: shape.phase is not a string" },
		{ LINE("{}", "{\"cpu\":1}"), "line 1: missing stage: stage_us.total" },
		{ LINE("{}", "{\"total\":1,\"a\\u001bb\":-1}"), "line 1: stage_us.a\\x1bb is not a number >= 0" },
		{ "[\n{\"ph\":", "line 2: the file ends inside an event" },
	};
	char line[512];

	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		snprintf(line, sizeof(line), "inftrace: -: %s\n", refused[i][1]);
		REPORT_FAILS(refused[i][0], ARGV("-"), EXIT_RUN, line, "!\n");
	}
	/* one bad line among good ones is reported, and the others count */
	REPORT_FAILS("", ARGV(GOLDEN "profile_bad.jsonl"), EXIT_RUN,
		"inftrace: " GOLDEN "profile_bad.jsonl: line 7: missing required field: shape (and 1 more)\n", "pid 4242: 9 steps");
	REPORT_FAILS(LINE("{\"ts_us\":1e300,\"step\":1e9}", "{\"total\":1}"), ARGV("-"), EXIT_RUN, NULL, NULL);
}

/* Builds are not mixed, and the launcher follows the engine. */
TEST(test_builds)
{
	static const char line[] = "{\"event\":\"%s\",\"commit_sha\":%s,\"env_hash\":\"sha256:1\",\"model\":\"m\",\"concurrency\":1,"
				   "\"shape\":{\"pid\":%d,\"comm\":\"%s\",\"step\":%d,\"tid\":7,\"ts_us\":%d,\"n_read\":1},\"stage_us\":{\"total\":1,\"%s\":1},\"graph_enabled\":false,"
				   "\"runtime_flags\":{}}\n";
	char text[4096], *p = text;
	struct output result;

	p += sprintf(p, line, "syscall_prof", "null", 3, "sh", 0, 0, "read");
	for (int i = 0; i < 6; i++)
		p += sprintf(p, line, "token_prof", i % 3 ? "\"b1\"" : "\"a1\"", 7, "engine", i, 10 * i, "cpu");
	RUN(&result, text, "-");
	assert_contains(result.out, "engine, pid 7, model m, commit a1: 2 steps");
	assert_contains(result.out, "engine, pid 7, model m, commit b1: 4 steps");
	assert_contains(strstr(result.out, "commit b1"), "sh, pid 3, model m: no engine steps");
	output_free(&result);
}

/* Numbers at the limits: no intermediate result may overflow (under UBSan). */
TEST(test_limits)
{
	static const char *const totals[] = { "9223372036854775", "0", "1e15", "0.001" };
	struct profile *p = profile_new();
	struct output result;

	for (int i = 0; i < 400; i++)
		fprintf(p->out,
			LINE("{\"step\":%d,\"pid\":4294967295,\"tid\":99999999999,\"n_tokens\":%d,"
			     "\"ts_us\":%s,\"phase\":\"decode\"}",
				"{\"total\":%s,\"cpu\":9223372036854775,\"workers_cpu\":"
				"9223372036854775}"),
			i, i % 3 ? 2147483647 : 0, totals[i / 7 % 4], totals[i % 4]);
	profile_end(p);
	RUN(&result, p->text, "-");
	assert_string_equal(result.err, "");
	output_free(&result);
	RUN(&result, p->text, "--json", "--all-steps", "-n", "1000", "--html=/dev/null", "-");
	assert_int_equal(result.rc, EXIT_OK);
	json_object_put(parse(result.out));
	output_free(&result);
	free(p->text);
}

/* Names from outside stay text, in the page and on the terminal. */
TEST(test_hostile_names)
{
	static const char name[] = "</script><img src=x onerror=alert(1)>&\\u001b[31m\\u2028\\u009b\\u202e<!--";
	struct profile p;
	struct output result;
	char more[512], line[1024];
	const char *data, *end;

	snprintf(more, sizeof(more),
		WAITED("1", "%s", "3"), name);
	snprintf(line, sizeof(line),
		"{\"event\":\"op_prof\"," HEAD ",\"shape\":{\"pid\":1,\"comm\":\"%s\"},"
		"\"stage_us\":{\"%s\":1.000}}\n",
		name, name);
	profile_begin(&p);
	add_request(&p, 1, more);
	fputs(line, p.out);
	profile_end(&p);
	RUN(&result, p.text, "--html", "-", "-");
	assert_int_equal(result.rc, EXIT_OK);
	data = strstr(result.out, "id=\"data\">");
	assert_non_null(data);
	data += strlen("id=\"data\">");
	end = strstr(data, "</script>");
	assert_non_null(end);
	for (const char *c = data; c < end; c++)
		assert_true(*c != '<' && *c != '>' && *c != '&');
	/* the page's data is whole, so the element did not end early */
	end = strndup(data, (size_t)(end - data));
	json_object_put(parse(end));
	free((char *)end);
	output_free(&result);

	RUN(&result, p.text, "-");
	for (const char *c = result.out; *c; c++)
		assert_true((unsigned char)*c >= 0x20 || *c == '\n');
	assert_contains(result.out, "\\x1b[31m");
	output_free(&result);

	RUN(&result, p.text, "--json", "--all-steps", "-");
	assert_null(strstr(result.out, "\xc2\x9b"));
	assert_null(strstr(result.out, "\xe2\x80\xae"));
	assert_contains(result.out, "\\u2028\\u009b\\u202e");
	json_object_put(parse(result.out));
	output_free(&result);
	free(p.text);
}

#define FOREIGN(event, stages) "{\"event\":\"" event "\"," HEAD ",\"source\":\"cuda\",\"shape\":{},\"stage_us\":{" stages "}}\n"

/* Other programs' lines for events that inftrace does not have, by their stages. */
TEST(test_foreign)
{
	const char *lines = FOREIGN("unified_prof", "\"total\":100.0,\"prep\":20.0,\"launch\":80.0") FOREIGN("unified_prof",
		"\"total\":300.0,\"prep\":30.0,\"launch\":270.0") FOREIGN("bucket\\u001b_prof", "\"a<b\":7.5");
	char *text, *end;

	REPORT_SAYS(lines, ARGV("-"), "unified_prof, cuda: 2 lines, p50 100 us, p90 300 us, p99 300 us, 400 us in all\n",
		"  launch                             2     350 us     175 us  ", "bucket\\x1b_prof, cuda: 1 line\n", "!nothing");
	REPORT_SAYS(lines, ARGV("--json", "-"), "{\"event\":\"unified_prof\",\"source\":\"cuda\",\"lines\":2,\"total_us\":{\"count\":2,\"p50\":100.000",
		"\"stages\":[{\"name\":\"launch\",\"count\":2,\"total_us\":350.000},{\"name\":\"prep\",\"count\":2,\"total_us\":50.000}]");
	REPORT_SAYS(lines, ARGV("--html=-", "-"), "\"families\":[", "!a<b");
	/* no more kinds than that, which is reported */
	text = end = malloc(400 * 300);
	assert_non_null(text);
	for (int i = 0; i < 300; i++)
		end += sprintf(end, FOREIGN("e%d", "\"total\":1.0"), i);
	REPORT_FAILS(text, ARGV("-"), EXIT_RUN, "left out: more than 256 kinds of events of other programs (and 43 more)", "e255, cuda: 1 line",
		"!e256");
	free(text);
}

TEST(test_usage)
{
	static char *const wrong[][4] = {
		{ "inftrace report" },
		{ "inftrace report", "--all-steps", GOLDEN "profile_good.jsonl" },
		{ "inftrace report", "-n", "x", GOLDEN "profile_good.jsonl" },
		{ "inftrace report", "--nonsense" },
		{ "inftrace report", "--json", "--html=-", "x" },
	};
	struct output result;

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		char *argv[5] = { 0 };

		memcpy(argv, wrong[i], sizeof(wrong[i]));
		run_input(&result, "", argv);
		assert_int_equal(result.rc, EXIT_USAGE);
		assert_string_equal(result.out, "");
		output_free(&result);
	}
	REPORT_FAILS("", ARGV(GOLDEN "profile_good.jsonl", "--html", "/nonexistent/x.html"), EXIT_RUN,
		"inftrace: cannot write /nonexistent/x.html: No such file or directory\n", NULL);
	REPORT_FAILS("", ARGV(GOLDEN "profile_good.jsonl", "--html=/dev/full"), EXIT_RUN,
		"inftrace: cannot write /dev/full: No space left on device\n", NULL);
	REPORT_FAILS("{\"event\":\"op_prof\"," HEAD ",\"shape\":{},\"stage_us\":{}}\n", ARGV("-"), EXIT_RUN, "nothing to report", NULL);
}

RUN_TESTS(NULL, NULL)
