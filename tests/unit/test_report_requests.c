// SPDX-License-Identifier: BSD-2-Clause
/* inftrace report on requests in batches, from the profile's lines. */
#include "report.h"

/* A request, times in milliseconds; members that are 0 are left out where possible. */
struct line {
	int number, sequence, ts, prompt, cached, outputs;
	int queued, prefill, decode, others, between;
	int first_others, first_between; /* before its first token */
	const char *shape, *stages;      /* further members, each after a comma */
	const char *event;               /* NULL: "sequence" */
};

static void add_line(struct profile *p, const struct line *l)
{
	int total = l->queued + l->prefill + l->decode + l->others + l->between;

	fprintf(p->out,
		"{\"event\":\"request_prof\"," HEAD ",\"shape\":{\"pid\":1,\"source_kind\":\"%s\",\"number\":%d,"
		"\"context\":7,\"sequence\":%d,\"ts_us\":%d.000,\"prompt_tokens\":%d,\"cached_tokens\":%d,"
		"\"output_tokens\":%d,\"steps\":%d,\"steps_shared\":0,\"prefill_steps\":1%s},\"stage_us\":{"
		"\"total\":%d.000,\"queued\":%d.000,\"own_prefill\":%d.000,\"own_decode\":%d.000,"
		"\"others\":%d.000,\"between\":%d.000",
		l->event ? l->event : "sequence", l->number, l->sequence, 1000 * l->ts, l->prompt, l->cached,
		l->outputs, l->outputs, l->shape ? l->shape : "", 1000 * total, 1000 * l->queued, 1000 * l->prefill,
		1000 * l->decode, 1000 * l->others, 1000 * l->between);
	if (l->outputs)
		fprintf(p->out, ",\"ttft\":%d.000,\"ttft_others\":%d.000,\"ttft_between\":%d.000",
			1000 * (l->prefill + l->first_others + l->first_between), 1000 * l->first_others,
			1000 * l->first_between);
	fprintf(p->out, "%s}}\n", l->stages ? l->stages : "");
}

#define LINE(p, ...) add_line(p, &(struct line){ __VA_ARGS__ })

/* Ten requests with 100 ms to the first token and 11 ms for each of ten later ones. */
static void add_usual(struct profile *p, int first)
{
	for (int i = 0; i < 10; i++) {
		LINE(p, .number = first + i, .sequence = i % 4, .ts = 1000 * (first + i), .prompt = 500 + i, .outputs = 11,
			.prefill = 100, .decode = 100, .between = 10);
	}
}

TEST(test_table)
{
	struct profile *p = profile_new();

	add_usual(p, 1);
	PROFILE_SAYS(p, ARGV("-"),
		"  first step to first token      10     100 ms     100 ms",
		"  mean time per token            10    11.0 ms    11.0 ms",
		"  whole request                  10     210 ms     210 ms",
		"  requests: 10, of 5045 prompt and 110 output tokens\n",
		"  own prefill     47.62 % ",
		"  between steps    4.76 % ",
		"!queued",
		"!slowest requests");
}

TEST(test_late_first)
{
	struct profile *p = profile_new();

	add_usual(p, 1);
	LINE(p, .number = 21, .sequence = 2, .ts = 30000, .prompt = 2048, .outputs = 1, .prefill = 400);
	LINE(p, .number = 17, .sequence = 3, .ts = 29000, .prompt = 512, .outputs = 11, .queued = 1400, .prefill = 110,
		.decode = 100, .others = 310, .between = 10, .first_others = 310,
		.shape = ",\"waited1_for\":21,\"waited1_pid\":1,\"waited1_sequence\":2,\"waited1_us\":310000.000");
	/* how much of its prompt came before the recording is unknown */
	LINE(p, .number = 22, .sequence = 1, .ts = 31000, .outputs = 3, .decode = 20, .others = 8,
		.shape = ",\"began_before\":true,\"waited1_for\":23,\"waited1_sequence\":0,\"waited1_us\":8000.000");
	LINE(p, .number = 23, .ts = 31000, .outputs = 3, .decode = 20, .shape = ",\"began_before\":true");
	PROFILE_SAYS(p, ARGV("-"),
		"  request 23 (sequence 0): 8.00 ms, by request 22\n",
		"  request 17 (sequence 3, 512 prompt tokens), first token after 1.82 s instead of 100 ms: "
		"1.40 s queued; 310 ms for request 21 (2048 prompt tokens)\n",
		"Requests waited 318 ms while steps worked for others, longest for\n"
		"  request 21 (sequence 2, 2048 prompt tokens): 310 ms, by request 17\n",
		"  queued                          1     1.40 s");
}

/* Two slots: request 31 waits for both of them, for 34, which came later and was taken first, and for 36, of which nobody knows. */
TEST(test_slots)
{
	struct profile *p = profile_new();

	add_usual(p, 1);
	LINE(p, .number = 30, .sequence = 0, .ts = 30000, .prompt = 500, .outputs = 1, .prefill = 1000);
	LINE(p, .number = 32, .sequence = 1, .ts = 30000, .prompt = 500, .outputs = 1, .prefill = 3000);
	LINE(p, .number = 31, .sequence = 0, .ts = 30200, .prompt = 500, .outputs = 1, .queued = 1800, .prefill = 100);
	LINE(p, .number = 34, .sequence = 0, .ts = 30400, .prompt = 500, .outputs = 1, .queued = 600, .prefill = 500);
	LINE(p, .number = 36, .sequence = 0, .ts = 31500, .prompt = 500, .outputs = 1, .prefill = 400);
	/* its slot was free all the time: something else was in the way */
	LINE(p, .number = 35, .sequence = 3, .ts = 32200, .prompt = 500, .outputs = 1, .queued = 300, .prefill = 100);
	PROFILE_SAYS(p, ARGV("-", "--slowest=20"),
		"  request 31 (sequence 0, 500 prompt tokens), first token after 1.90 s instead of 100 ms: 1.80 s queued "
		"(all 2 slots were taken by requests 32, 30, 34 and 36; 1 later one was taken first)\n",
		"  request 34 (sequence 0, 500 prompt tokens), first token after 1.10 s instead of 100 ms: "
		"600 ms queued (all 2 slots were taken by requests 30 and 32); its own prefill took 500 ms instead of 100 ms\n",
		"300 ms queued\n",
		"all slots taken 8");
}

/* The cause of most of the time without a step, where it must be that of this part: 500 of 700 ms, of which 300 are in the queue. */
TEST(test_gap_cause)
{
	struct profile *p = profile_new();
	const char *path = ",\"path1_comm\":\"main\",\"path1_tid\":1,\"path1_pid\":1,\"path1_state\":\"blocked_io\","
			   "\"path1_call\":\"read\",\"path1_us\":500000.000,\"path_rest_us\":200000.000";

	add_usual(p, 1);
	LINE(p, .number = 30, .ts = 30000, .prompt = 500, .outputs = 11, .queued = 300, .prefill = 100, .decode = 100, .between = 400,
		.shape = path);
	LINE(p, .number = 31, .ts = 40000, .prompt = 500, .outputs = 11, .queued = 690, .prefill = 100, .decode = 100, .between = 10,
		.shape = path);
	PROFILE_SAYS(p, ARGV("-"), " 300 ms queued\n", " 400 ms between steps\n", " 690 ms queued, mostly by `main: blocked_io in read`\n");
}

/* The wait is explained by its part after the first token. */
TEST(test_late_tokens)
{
	struct profile *p = profile_new();

	add_usual(p, 1);
	LINE(p, .number = 11, .ts = 20000, .prompt = 500, .outputs = 11, .prefill = 100, .decode = 100, .others = 800,
		.between = 10, .first_others = 300,
		.shape = ",\"waited1_for\":30,\"waited1_pid\":1,\"waited1_sequence\":2,\"waited1_us\":500000.000,"
			 "\"waited1_ttft_us\":100000.000,\"waited2_for\":31,\"waited2_pid\":1,\"waited2_sequence\":1,"
			 "\"waited2_us\":200000.000,\"waited2_ttft_us\":200000.000,\"waited3_for\":32,"
			 "\"waited3_sequence\":1,\"waited3_us\":90000.000,\"waited_others_us\":10000.000");
	LINE(p, .number = 12, .ts = 21000, .prompt = 500, .outputs = 11, .prefill = 100, .decode = 100, .between = 2010,
		.stages = ",\"between_cpu\":110000.000,\"between_blocked_sleep\":1900000.000");
	PROFILE_SAYS(p, ARGV("-"),
		"  request 11 (sequence 0, 500 prompt tokens), first token after 400 ms instead of 100 ms: "
		"200 ms for request 31, 100 ms for request 30\n",
		"  request 11 (sequence 0, 500 prompt tokens), 61.0 ms per token instead of 11.0 ms over 10: "
		"400 ms for request 30, 90.0 ms for request 32\n",
		"  request 12 (sequence 0, 500 prompt tokens), 211 ms per token instead of 11.0 ms over 10: "
		"2.01 s between steps (the calling thread slept for 1.90 s)\n");
}

/* With too few to compare, obvious waits are reported; also for requests without a token. */
TEST(test_alone)
{
	struct profile *p = profile_new();

	LINE(p, .number = 1, .ts = 1000, .prompt = 500, .outputs = 11, .queued = 900, .prefill = 100, .decode = 100,
		.between = 10);
	LINE(p, .number = 2, .sequence = 1, .ts = 2000, .prompt = 256, .cached = 14, .queued = 700, .prefill = 50, .others = 250,
		.shape = ",\"end_not_seen\":true");
	LINE(p, .number = 3, .sequence = 2, .ts = 2000, .prompt = 256, .queued = 700, .prefill = 50, .others = 250,
		.shape = ",\"cancelled\":true");
	LINE(p, .number = 4, .ts = 4000, .prompt = 128, .outputs = 1, .prefill = 400,
		.stages = ",\"own_prefill_cpu\":250000.000,\"own_prefill_runnable\":150000.000");
	PROFILE_SAYS(p, ARGV("-"),
		"  request 4 (sequence 0, 128 prompt tokens), first token after 400 ms: its own prefill took "
		"400 ms (the calling thread waited 150 ms for a CPU)\n",
		"  request 1 (sequence 0, 500 prompt tokens), first token after 1.00 s: 900 ms queued\n",
		"  request 2 (sequence 1, 256 prompt tokens), no token after 1.00 s: 700 ms queued; "
		"250 ms for other requests\n",
		"  request 3 (sequence 2, 256 prompt tokens), cancelled without a token after 1.00 s: ",
		"  more prompt tokens from the cache: 14; cancelled requests: 1; requests whose end was not recorded: 1\n");
}

TEST(test_json)
{
	struct profile *p = profile_new();

	add_usual(p, 1);
	LINE(p, .number = 17, .sequence = 3, .ts = 29000, .prompt = 505, .outputs = 11, .queued = 1400, .prefill = 110,
		.decode = 100, .others = 310, .between = 10, .first_others = 310,
		.shape = ",\"waited1_for\":21,\"waited1_pid\":1,\"waited1_sequence\":2,\"waited1_us\":310000.000");
#define BATCH "processes.0.batch_requests."
	JSON_IS(profile_json(p, ARGV("--json", "--slo", "ttft=1s", "-n", "5", "-")),
		{ "processes.0.first_step_to_first_token_us.max", "420000.000" },
		{ "processes.0.ttft_us", NULL },
		{ "processes.0.mean_time_per_token_us.p50", "11000.000" },
		{ "processes.0.goodput.kept", "10" },
		{ BATCH "count", "11" },
		{ BATCH "parts_us.others", "310000.000" },
		{ BATCH "parts_us.total", "4030000.000" },
		{ BATCH "slowest#", "1" },
		{ BATCH "slowest.0.request", "17" },
		{ BATCH "slowest.0.kind", "ttft" },
		{ BATCH "slowest.0.us", "1820000.000" },
		{ BATCH "slowest.0.typical_us", "100000.000" },
		{ BATCH "slowest.0.excess_us", "1720000.000" },
		{ BATCH "slowest.0.parts.1.part", "others" },
		{ BATCH "slowest.0.parts.1.us", "310000.000" },
		{ BATCH "slowest.0.waited_for.0.request", "21" },
		{ BATCH "pairs.0.for", "21" });
}

TEST(test_slo)
{
	struct profile *p = profile_new();

	add_usual(p, 1);
	LINE(p, .number = 11, .ts = 20000, .prompt = 500, .outputs = 11, .queued = 450, .prefill = 100, .decode = 1000);
	LINE(p, .number = 12, .ts = 22000, .prompt = 500, .outputs = 11, .prefill = 100, .decode = 100,
		.shape = ",\"lost_steps\":true");
	LINE(p, .number = 13, .ts = 22000, .prompt = 500, .prefill = 400, .shape = ",\"unfinished\":true");
	LINE(p, .number = 14, .ts = 22000, .prompt = 500, .prefill = 600, .shape = ",\"unfinished\":true");
	LINE(p, .number = 15, .ts = 20900, .prompt = 500, .outputs = 1, .prefill = 100);
	/* from 1 s to 22.6 s */
	REPORT_SAYS(profile_end(p), ARGV("--slo", "ttft=500ms,tpot=50ms", "-"),
		"  goodput 84.6 % (11 of 13 requests, 0.509 per s) with ttft <= 500 ms, tpot <= 50.0 ms; "
		"2 missed ttft; 1 missed tpot; of 2 it is not known\n");
	REPORT_SAYS(p->text, ARGV("--slo", "tpot=5ms", "-"), "  goodput 8.3 % (1 of 12 requests");
	for (int i = 0; i < 8; i++) {
		static const char *const bad[] = { "", "500ms", "ttft=", "ttft=0s", "ttft=1s,ttft=2s", "tftt=1s", "ttft=500", "ttft=1s,tpot=0.5" };

		REPORT_FAILS(p->text, ARGV("--slo", (char *)bad[i], "-"), EXIT_USAGE, "--slo", NULL);
	}
	free(p->text);
}

/* Where sockets were seen, the client's view covers all of their requests, joined or not, and nothing else. */
TEST(test_clients)
{
	static const char socket[] = ",\"joined\":false,\"joined_why\":\"several fit\",\"chunks\":3";
	struct profile *p = profile_new();

	for (int i = 0; i < 8; i++) {
		LINE(p, .number = 1 + i, .ts = 1000 * i, .prompt = 500, .outputs = 2, .queued = 1000, .prefill = 100, .decode = 50,
			.shape = ",\"joined\":true", .stages = ",\"ttft_client\":1101000.000,\"answered\":2000.000");
		LINE(p, .number = 11 + i, .ts = 1000 * i, .prompt = 500, .outputs = 2, .prefill = 100, .decode = 50,
			.shape = ",\"joined\":false,\"joined_why\":\"several fit\"");
		LINE(p, .event = "socket", .ts = 1000 * i, .prefill = i < 2 ? 400 : 3000, .shape = socket,
			.stages = i < 2 ? ",\"ttft\":400000.000,\"tpot_mean\":1000.000" : ",\"ttft\":3000000.000,\"tpot_mean\":90000.000");
		/* a health check */
		LINE(p, .event = "socket", .ts = 1000 * i, .prefill = 1, .shape = ",\"joined\":false,\"joined_why\":\"none fits\"");
	}
	PROFILE_SAYS(p, ARGV("--slo", "ttft=2s,tpot=50ms", "-"),
		"  time to first token            16     1.10 s     3.00 s     3.00 s     3.00 s\n",
		"  first step to first token      16     100 ms     100 ms",
		"  whole request                  16     1.15 s     3.00 s",
		"  queued                          8     1.00 s     1.00 s",
		"  requests seen at sockets: 16, 8 of them found in the steps; left out: 8 that were none to the engine\n",
		"  goodput 62.5 % (10 of 16 requests, 1 per s) with ttft <= 2.00 s, tpot <= 50.0 ms; 6 missed ttft; 6 missed tpot\n",
		"Where the time of 8 of 16 requests went ",
		"  queued          86.96 % ");
}

/* A token that was there is written late, as by a server whose event loop is held up. */
TEST(test_written)
{
	struct profile *p = profile_new();

	for (int i = 0; i < 10; i++)
		LINE(p, .number = 1 + i, .ts = 1000 * i, .prompt = 500, .outputs = 2, .queued = 10, .prefill = 100, .decode = 50,
			.shape = ",\"joined\":true", .stages = i == 7 ? ",\"ttft_client\":400000.000" : i == 8 ? ",\"ttft_client\":109000.000"
													: ",\"ttft_client\":111000.000");
	PROFILE_SAYS(p, ARGV("-"), "request 8 (sequence 0, 500 prompt tokens), first token written 290 ms after the step that gave it instead of 1.00 ms\n",
		"!request 9 (");
}

/* Engines whose rows are unknown have requests, too; indistinguishable ones are not judged. */
TEST(test_slo_steps)
{
	struct profile *p = profile_new();

	LINE(p, .event = "steps", .ts = 1000, .prompt = 10, .outputs = 11, .prefill = 100, .decode = 100);
	LINE(p, .event = "steps", .ts = 2000, .prompt = 10, .outputs = 11, .prefill = 100, .decode = 800);
	LINE(p, .event = "steps", .ts = 2000, .prompt = 10, .outputs = 11, .prefill = 100, .shape = ",\"mixed\":true");
	PROFILE_SAYS(p, ARGV("--slo", "ttft=500ms,tpot=50ms", "-"),
		"  goodput 50.0 % (1 of 2 requests, 0.526 per s) with",
		"1 missed tpot; of 1 it is not known\n",
		"first step to first token       2",
		"!Where the time of requests");
}

/* Times that do not add up are left out of all sums; their request still counts. */
TEST(test_wrong)
{
	struct profile p;

	profile_begin(&p);
	add_usual(&p, 1);
	LINE(&p, .number = 11, .prompt = 500, .outputs = 11, .prefill = 100, .decode = 100,
		.stages = ",\"others\":5000.000");
	LINE(&p, .number = 12, .prompt = 500, .outputs = 11, .prefill = 100, .decode = 100, .others = 10,
		.shape = ",\"waited1_for\":3,\"waited1_us\":11000.000");
	PROFILE_SAYS(&p, ARGV("-"),
		"  requests: 12, of",
		"!work for others",
		"!worked for others");

	profile_begin(&p);
	LINE(&p, .number = 1, .shape = ",\"waited2_us\":-1");
	LINE(&p, .number = 1, .stages = ",\"between_cpu\":\"x\"");
	LINE(&p, .number = 1, .prompt = 3, .outputs = 1, .prefill = 2);
	REPORT_FAILS(profile_end(&p), ARGV("-"), EXIT_RUN, "line 1: waited2_us of a request is not a number >= 0 (and 1 more)",
		"  requests: 1, of 3 prompt and 1 output tokens\n");
	free(p.text);
}

/* A request that cannot be told from others has no times, and is not one of those in batches. */
TEST(test_mixed)
{
	struct profile *p = profile_new();

	add_usual(p, 1);
	LINE(p, .number = 11, .prompt = 500, .prefill = 7000, .shape = ",\"mixed\":true");
	PROFILE_SAYS(p, ARGV("--slo", "ttft=1s", "-"),
		"  requests: 10, of 5045 prompt and 110 output tokens\n",
		"  left out of these times: 1 requests that cannot be told from others\n",
		"  whole request                  10     210 ms     210 ms",
		"(10 of 10 requests, ",
		"; of 1 it is not known\n");
}

/* Each recording has its own numbers. */
TEST(test_recordings)
{
	struct profile *p = profile_new();

	LINE(p, .number = 1, .prompt = 70, .outputs = 1, .prefill = 2);
	fputs("{\"event\":\"window_prof\"," HEAD ",\"shape\":{\"window\":0},\"stage_us\":{\"total\":1.000}}\n", p->out);
	LINE(p, .number = 1, .prompt = 90, .outputs = 1, .prefill = 2);
	LINE(p, .number = 2, .prompt = 90, .outputs = 1, .prefill = 2, .others = 9, .first_others = 9,
		.shape = ",\"waited1_for\":1,\"waited1_us\":9000.000");
	PROFILE_SAYS(p, ARGV("-"), ": 9.00 ms for request 1 (90 prompt tokens)\n");
}

/* A trace says the same, with the requests in a process of their own. */
TEST(test_trace)
{
	struct profile *p = profile_new();

	fputs("[\n{\"ph\":\"M\",\"pid\":4194600,\"tid\":4194600,\"name\":\"process_name\",\"args\":{\"name\":\"requests\"}}", p->out);
	fputs(",\n{\"ph\":\"X\",\"pid\":4194600,\"tid\":4194601,\"ts\":5000000.000,\"dur\":630000.000,\"name\":\"request 17\","
	      "\"cat\":\"batch\",\"args\":{\"number\":17,\"pid\":7,\"context\":\"0x5647da916260\",\"sequence\":3,"
	      "\"prompt_tokens\":512,\"cached_tokens\":4,\"output_tokens\":11,\"steps\":11,\"steps_shared\":2,\"ttft_us\":420000.000,"
	      "\"ttft_others_us\":310000.000,\"ttft_between_us\":0.000,\"own_prefill_us\":110000.000,\"own_decode_us\":200000.000,"
	      "\"others_us\":310000.000,\"between_us\":10000.000,\"queued_us\":1400000.000,\"waited1_for\":21,"
	      "\"waited1_us\":310000.000}}",
		p->out);
	fputs(",\n{\"ph\":\"X\",\"pid\":4194600,\"tid\":4194601,\"ts\":5000000.000,\"dur\":420000.000,\"name\":\"prefill\","
	      "\"cat\":\"batch\",\"args\":{}}",
		p->out);
	fputs(",\n{\"ph\":\"X\",\"pid\":4194600,\"tid\":4194602,\"ts\":5100000.000,\"dur\":500000.000,\"name\":\"request 21\","
	      "\"cat\":\"batch\",\"args\":{\"number\":21,\"pid\":7,\"sequence\":2,\"prompt_tokens\":2048,\"output_tokens\":1,"
	      "\"ttft_us\":500000.000,\"own_prefill_us\":500000.000}}\n]\n",
		p->out);
	PROFILE_SAYS(p, ARGV("-"),
		"pid 7: no engine steps\n",
		"  requests: 2, of 2560 prompt and 12 output tokens\n",
		"  first step to first token       2     420 ms     500 ms",
		"  mean time per token             1    21.0 ms",
		"  request 17 (sequence 3, 512 prompt tokens), first token after 1.82 s: 1.40 s queued; "
		"310 ms for request 21 (2048 prompt tokens)\n",
		"  request 21 (sequence 2, 2048 prompt tokens): 310 ms, by request 17\n");
}

/* Steps by the sequences that have rows in them. */
TEST(test_occupancy)
{
	struct profile *p = profile_new();

	for (int i = 0; i < 6; i++) {
		int sequences = i < 3 ? 5 : 8;

		fprintf(p->out,
			"{\"event\":\"token_prof\"," HEAD ",\"shape\":{\"step\":%d,\"pid\":1,\"tid\":1,\"phase\":\"mixed\","
			"\"n_tokens\":%d,\"ts_us\":%d.000,\"n_outputs\":1,\"n_sequences\":%d},\"stage_us\":{"
			"\"total\":1000.000,\"cpu\":1000.000}}\n",
			i, i < 2 ? 1 : 10, 2000 * i, i < 2 ? 1 : sequences);
	}
	add_usual(p, 1);
	PROFILE_SAYS(p, ARGV("-"),
		"  1                               2        1.0    1.00 ms   33.33 % ",
		"  5 to 8                          4       10.0    1.00 ms   66.67 % ");
}

RUN_TESTS(NULL, NULL)
