// SPDX-License-Identifier: BSD-2-Clause
/* request_prof, from steps and from sockets, in the orders in which rings deliver them. */
#include "cases.h"
#include "profile_lines.h"

#include <sys/socket.h>

#include "format/derive.h"

struct call {
	uint64_t start, end, tokens, context;
	uint8_t flags;
};

static void open_requests(struct out *o)
{
	struct probe_spec *s = add_probe("llama_decode", ROLE_STEP, PROBE_F_SPAN,
		"a == 1 ? decode : prefill", "s32 *(sp+8),ptr arg1");

	free(s->args[0].name);
	free(s->args[1].name);
	s->args[0].name = strdup("n_tokens");
	s->args[1].name = strdup("context");
	add_probe("run", ROLE_STEP, PROBE_F_SPAN, NULL, "");
	profile_open(o, &plain);
}

static void close_requests(struct out *o)
{
	profile_done(o);
	probe_table_free(&probes);
}

static void emit_call(struct out *o, uint32_t number, const struct call *c)
{
	struct rec_step r = {
		.h = hdr(REC_STEP, 0), .number = number, .vals = { c->tokens, c->context }
	};

	r.h.start_ns = START + c->start;
	r.h.dur_ns = c->end - c->start;
	r.h.flags = c->flags;
	EMIT(o, &r);
}

static void emit_calls(struct out *o, const struct call *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		emit_call(o, (uint32_t)i, &list[i]);
}

static void read_requests(struct out *o, const struct call *list, size_t n)
{
	open_requests(o);
	emit_calls(o, list, n);
	profile_close(o);
}

/* Expects what the calls give, as consecutive lines. */
static void assert_requests(
	const struct call *list, size_t n, const char *const *lines, size_t n_lines)
{
	struct out o;

	read_requests(&o, list, n);
	for (size_t i = 0; i < n_lines && i < count(&o); i++)
		assert_body(&o, i, "request_prof", lines[i]);
	assert_int_equal(count(&o), n_lines);
	close_requests(&o);
}

#define ASSERT_REQUESTS(calls, ...)                                                \
	do {                                                                       \
		static const char *const want[] = { __VA_ARGS__ };                 \
		assert_requests(calls, ARRAY_SIZE(calls), want, ARRAY_SIZE(want)); \
	} while (0)

#define KIND "\"source_kind\":\"steps\""

TEST_WITH(test_request, setup, teardown)
{
	static const struct call one[] = {
		{ 1000, 5000, 11, 0, 0 },
		{ 6000, 7000, 1, 0, 0 },
		{ 8000, 9500, 1, 0, 0 },
		{ 9600, 10000, 1, 0, 0 },
	};
	static const struct call chunks[] = {
		{ 0, 10, 512, 16, 0 },
		{ 10, 20, 512, 16, 0 },
		{ 20, 30, 200, 16, 0 },
		{ 30, 40, 64, 16, 0 },
		{ 40, 50, 1, 16, 0 },
	};
	static const struct call two[] = {
		{ 0, 10, 5, 0, 0 },
		{ 20, 30, 1, 0, 0 },
		{ 40, 50, 7, 0, 0 },
	};
	static const struct call other = { 1, 2, 1, 0, 0 };
	struct rec_step r = { .h = hdr(REC_STEP, 1) };
	struct out o;

	ASSERT_REQUESTS(one, "{\"pid\":5000000," KIND
			     ",\"ts_us\":1.000,\"prompt_tokens\":11,\"output_tokens\":4,"
			     "\"prefill_steps\":1,\"end_not_seen\":true} "
			     "{\"total\":9.000,\"ttft\":4.000,\"tpot_p50\":2.000,\"tpot_p90\":2."
			     "500,\"tpot_p99\":2.500,"
			     "\"tpot_max\":2.500}");
	ASSERT_REQUESTS(chunks,
		"{\"pid\":5000000," KIND ",\"context\":16,\"ts_us\":0.000,\"prompt_tokens\":1288,"
		"\"output_tokens\":2,\"prefill_steps\":4,\"end_not_seen\":true} "
		"{\"total\":0.050,\"ttft\":0.040,\"tpot_p50\":0.010,\"tpot_p90\":0.010,\"tpot_"
		"p99\":0.010,"
		"\"tpot_max\":0.010}");
	ASSERT_REQUESTS(two,
		"{\"pid\":5000000," KIND ",\"ts_us\":0.000,\"prompt_tokens\":5,\"output_tokens\":2,"
		"\"prefill_steps\":1} "
		"{\"total\":0.030,\"ttft\":0.010,\"tpot_p50\":0.020,\"tpot_p90\":0.020,\"tpot_"
		"p99\":0.020,"
		"\"tpot_max\":0.020}",
		"{\"pid\":5000000," KIND ",\"ts_us\":0.040,\"prompt_tokens\":7,\"output_tokens\":0,"
		"\"prefill_steps\":1,\"end_not_seen\":true} {\"total\":0.010}");

	/* steps of an engine without phases belong to no request */
	open_requests(&o);
	EMIT(&o, &r);
	profile_close(&o);
	assert_int_equal(count(&o), 0);
	close_requests(&o);

	/* a line appears when the next request begins, not only at the end */
	open_requests(&o);
	emit_calls(&o, two, 3);
	settle(&o, 1);
	profile_read(&o);
	assert_int_equal(count(&o), 0);
	settle(&o, 1);
	profile_read(&o);
	assert_int_equal(count(&o), 1);
	emit_call(&o, 4, &other);
	profile_close(&o);
	assert_int_equal(count(&o), 2);
	profile_done(&o);
}

/* In flight at the start and at the end of the recording. */
TEST_WITH(test_cut, setup, teardown)
{
	static const struct call before[] = {
		{ 10, 20, 1, 0, 0 },
		{ 20, 40, 1, 0, 0 },
		{ 50, 60, 9, 0, REC_F_OPEN_END },
	};
	static const struct call after[] = {
		{ 10, 20, 9, 0, 0 },
		{ 20, 40, 1, 0, 0 },
		{ 40, 70, 1, 0, REC_F_OPEN_END },
	};

	ASSERT_REQUESTS(before,
		"{\"pid\":5000000," KIND ",\"ts_us\":0.010,\"output_tokens\":2,\"prefill_steps\":0,"
		"\"began_before\":true} {\"total\":0.030,\"tpot_p50\":0.020,\"tpot_p90\":0.020,"
		"\"tpot_p99\":0.020,\"tpot_max\":0.020}",
		"{\"pid\":5000000," KIND ",\"ts_us\":0.050,\"prompt_tokens\":9,\"output_tokens\":0,"
		"\"prefill_steps\":1,\"unfinished\":true} {\"total\":0.010}");
	ASSERT_REQUESTS(after,
		"{\"pid\":5000000," KIND ",\"ts_us\":0.010,\"prompt_tokens\":9,\"output_tokens\":2,"
		"\"prefill_steps\":1,\"unfinished\":true} {\"total\":0.060,\"ttft\":0.010,"
		"\"tpot_p50\":0.020,\"tpot_p90\":0.020,\"tpot_p99\":0.020,\"tpot_max\":0.020}");
}

/* Sequences of one batch cannot be distinguished, and the profile says so. */
TEST_WITH(test_mixed, setup, teardown)
{
	static const uint64_t runs[][8] = {
		{ 30, 2, 2, 1, 1 }, /* two sequences, until one ends */
		{ 30, 31, 2, 1 },   /* a second prompt joins the first sequence */
		{ 512, 512, 4, 4, 1 },
		{ 512, 200, 300, 1 },
	};
	static const struct call overlap[] = { { 0, 10, 5, 0, 0 }, { 9, 20, 1, 0, 0 } };
	static const struct call begin[] = {
		{ 0, 10, 5, 0, 0 }, { 20, 90, 1, 0, 0 }, { 30, 40, 5, 0, 0 }, { 40, 50, 1, 0, 0 },
		{ 60, 70, 5, 0, 0 }, /* the second call is still running */
		{ 80, 95, 1, 0, 0 }, { 95, 99, 5, 0, 0 }, { 99, 100, 1, 0, 0 },
		{ 100, 110, 5, 7, 0 }, /* another context */
	};
	struct out o;

	for (size_t i = 0; i < ARRAY_SIZE(runs); i++) {
		open_requests(&o);
		for (uint32_t k = 0; k < 8 && runs[i][k]; k++)
			emit_call(&o, k, &(struct call){ k, k + 1, runs[i][k], 0, 0 });
		profile_close(&o);
		assert_text(shape(&o, 0, "mixed"), "true");
		close_requests(&o);
	}
	read_requests(&o, overlap, 2);
	assert_int_equal(count(&o), 1);
	assert_text(shape(&o, 0, "mixed"), "true");
	close_requests(&o);

	/* the next request begins during a step of the previous one: neither is alone */
	read_requests(&o, begin, ARRAY_SIZE(begin));
	assert_int_equal(count(&o), 5);
	for (size_t i = 0; i < 3; i++)
		assert_text(shape(&o, i, "mixed"), "true");
	for (size_t i = 3; i < 5; i++)
		assert_null(shape(&o, i, "mixed"));
	profile_done(&o);
}

/*
 * Several contexts at once, each with its own requests, in the order of several rings: steps arrive within two rounds of
 * their end.
 */
TEST_WITH(test_contexts, setup, teardown)
{
	enum { CONTEXTS = 5,
		STEPS = 6000 };
	struct {
		struct call call;
		uint32_t number;
	} late[64];
	uint64_t at[CONTEXTS] = {}, left[CONTEXTS] = {}, tokens = 0, requests = 0, got = 0,
		 n_late = 0;
	struct out o;

	open_requests(&o);
	for (uint32_t i = 0; i < cases(STEPS, STEPS / 5); i++) {
		uint32_t c = draw() % CONTEXTS;
		struct call call = { .context = c + 1, .tokens = left[c] ? 1 : 2 + draw() % 100 };

		requests += !left[c];
		left[c] = left[c] ? left[c] - 1 : draw() % 20;
		call.start = at[c] = 10 * i > at[c] ? 10 * i : at[c];
		call.end = at[c] += 10 + draw() % 100;
		tokens++;
		late[n_late].call = call;
		late[n_late++].number = i;
		if (n_late < 64 && draw() % 10)
			continue;
		while (n_late) {
			uint64_t k = draw() % n_late--;

			emit_call(&o, late[k].number, &late[k].call);
			late[k] = late[n_late];
		}
		settle(&o, 1);
	}
	for (uint64_t k = 0; k < n_late; k++)
		emit_call(&o, late[k].number, &late[k].call);
	profile_close(&o);
	for (size_t i = 0; i < count(&o); i++) {
		got += (uint64_t)atoi(shape(&o, i, "output_tokens"));
		/* runs of consecutive prompts are not distinguished */
		requests -= (uint64_t)atoi(shape(&o, i, "prefill_steps"));
		if (atoi(shape(&o, i, "prefill_steps")) > 1)
			got += (uint64_t)atoi(shape(&o, i, "prefill_steps")) - 1;
		else
			assert_null(shape(&o, i, "mixed"));
	}
	assert_int_equal(requests, 0);
	assert_int_equal(got, tokens);
	profile_done(&o);
}

static void emit_parts(struct out *o, uint32_t number, const struct call *c, const struct row_part *parts, uint32_t n)
{
	struct rec_step_parts r = {
		.s = { .h = hdr(REC_STEP, 0), .number = number, .vals = { c->tokens, c->context }, .n_parts = n }
	};

	r.s.h.start_ns = START + c->start;
	r.s.h.dur_ns = c->end - c->start;
	r.s.h.flags = c->flags;
	r.s.ns[ST_CPU] = r.s.h.dur_ns - 1;
	r.s.ns[ST_BLOCKED_FUTEX] = 1;
	memcpy(r.parts, parts, n * sizeof(*parts));
	sink_record(o->s, &r.s.h, sizeof(r.s) + n * sizeof(*parts));
}

/* Lines of steps in order: `want` has what each says about its rows, or "". */
static void assert_rows(struct out *o, const char *const *want, size_t n)
{
	const char *l, *end, *rows;
	char step[32];

	read_text(o);
	l = o->text;
	for (size_t i = 0; i < n; i++) {
		snprintf(step, sizeof(step), "\"step\":%zu,", i);
		l = strstr(l, step);
		assert_non_null(l);
		end = strchr(l, '\n');
		rows = strstr(l, "\"prompt_tokens\"");
		if (*want[i])
			assert_memory_equal(rows, want[i], strlen(want[i]));
		else
			assert_true(!rows || rows > end);
	}
}

/* Two of three requests share steps, and one comes later in a used slot. */
TEST_WITH(test_sequences, setup, teardown)
{
	static const struct row_part first[] = { { 3, 0, 9, 1 } }, second[] = { { 3, 9, 1, 1 }, { 5, 0, 3, 1 } },
				     third[] = { { 5, 3, 1, 1 } }, fourth[] = { { 5, 4, 1, 1 }, { 3, 10, 1, 1 } },
				     fifth[] = { { 3, 7, 2, 1 } };
	static const char *const rows[] = { "\"prompt_tokens\":9,\"decode_tokens\":0,", "\"prompt_tokens\":3,\"decode_tokens\":1,",
		"\"prompt_tokens\":0,\"decode_tokens\":1,", "\"prompt_tokens\":0,\"decode_tokens\":2,", "\"prompt_tokens\":2,\"decode_tokens\":0," };
	struct out o;

	open_requests(&o);
	/* in the order in which rings may give them */
	emit_parts(&o, 1, &(struct call){ 1000, 2000, 4, 77, 0 }, second, 2);
	emit_parts(&o, 0, &(struct call){ 0, 900, 9, 77, 0 }, first, 1);
	settle(&o, 2);
	emit_parts(&o, 3, &(struct call){ 3200, 3300, 2, 77, 0 }, fourth, 2);
	emit_parts(&o, 2, &(struct call){ 2100, 3100, 1, 77, 0 }, third, 1);
	emit_parts(&o, 4, &(struct call){ 4000, 5000, 2, 77, 0 }, fifth, 1);
	profile_close(&o);
	assert_int_equal(count(&o), 3);
	assert_body(&o, 0, "request_prof",
		"{\"pid\":5000000,\"source_kind\":\"sequence\",\"number\":1,\"context\":77,\"sequence\":3,"
		"\"ts_us\":0.000,\"prompt_tokens\":9,\"cached_tokens\":0,\"output_tokens\":3,\"steps\":3,"
		"\"steps_shared\":2,\"prefill_steps\":1,\"waited1_for\":2,\"waited1_pid\":5000000,"
		"\"waited1_sequence\":5,\"waited1_us\":1.750} "
		"{\"total\":3.300,\"own_prefill\":0.900,\"own_prefill_cpu\":0.899,\"own_prefill_blocked_futex\":0.001,"
		"\"own_decode\":0.350,\"own_decode_cpu\":0.349,\"own_decode_blocked_futex\":0.001,"
		"\"others\":1.750,\"others_cpu\":1.748,\"others_blocked_futex\":0.002,\"between\":0.300,"
		"\"ttft_others\":0.000,\"ttft_between\":0.000,\"ttft\":0.900,\"tpot_p50\":1.100,\"tpot_p90\":1.300,\"tpot_p99\":1.300,\"tpot_max\":1.300}");
	assert_text(shape(&o, 1, "sequence"), "3");
	assert_text(shape(&o, 1, "cached_tokens"), "7");
	assert_text(shape(&o, 1, "number"), "3");
	assert_int_equal(stage(&o, 1, "ttft"), 1000);
	assert_text(shape(&o, 2, "sequence"), "5");
	assert_text(shape(&o, 2, "prompt_tokens"), "3");
	assert_int_equal(stage(&o, 2, "total"), 2300);
	assert_null(shape(&o, 2, "waited1_for"));
	assert_rows(&o, rows, ARRAY_SIZE(rows));
	close_requests(&o);
}

/* A waiting line has what was known when its step came: later calls may show that an argument is not what it seems. */
TEST_WITH(test_waiting, setup, teardown)
{
	static const struct row_part parts[] = { { 3, 0, 9, 1 } };
	struct out o;

	open_requests(&o);
	emit_parts(&o, 0, &(struct call){ 0, 900, 9, 77, 0 }, parts, 1);
	probes.specs[0].misfits = 1;
	emit_parts(&o, 1, &(struct call){ 1000, 1900, 9, 77, 0 }, parts, 1);
	profile_close(&o);
	read_text(&o);
	assert_non_null(strstr(o.text, "\"step\":0,\"pid\":5000000,\"tid\":5000001,\"phase\":\"prefill\",\"n_tokens\":9,"));
	assert_null(strstr(strstr(o.text, "\"step\":1,"), "n_tokens"));
	close_requests(&o);
}

/* The same with what their sockets show: one line where the match is clear, else both. */
TEST_WITH(test_joined, setup, teardown)
{
	static const struct row_part first[] = { { 3, 0, 9, 1 } }, second[] = { { 3, 9, 1, 1 } },
				     third[] = { { 3, 0, 2, 1 }, { 5, 0, 2, 1 } };
	struct rec_request r = { .h = hdr(REC_REQUEST, 7), .family = AF_INET, .http = 1, .head = "POST /v1 HTTP/1.1\r\n", .bytes_read = 100, .bytes_written = 400, .reads = 1, .writes = 3, .chunks = 2, .blocked_ns = 350 };
	struct out o;

	rec.sockets = true;
	open_requests(&o);
	rec.sockets = false;
	emit_parts(&o, 0, &(struct call){ 1000, 2000, 9, 77, 0 }, first, 1);
	emit_parts(&o, 1, &(struct call){ 3000, 4000, 1, 77, 0 }, second, 1);
	settle(&o, 2);
	r.h.start_ns = START + 400;
	r.read_ns = START + 450;
	r.h.dur_ns = 3700;
	r.first_byte_ns = r.first_chunk_ns = START + 2100;
	r.last_chunk_ns = START + 4100;
	EMIT(&o, &r);
	/* which of two is which is unclear; and one was no question for a model */
	emit_parts(&o, 2, &(struct call){ 10000, 11000, 4, 77, 0 }, third, 2);
	for (int i = 0; i < 3; i++) {
		r.read_ns = r.h.start_ns = START + 9000;
		r.h.dur_ns = i < 2 ? 2500 : 500;
		r.chunks = 1;
		r.first_byte_ns = r.first_chunk_ns = r.last_chunk_ns = START + 9000 + r.h.dur_ns;
		EMIT(&o, &r);
	}
	profile_close(&o);
	assert_int_equal(count(&o), 6);
	assert_body(&o, 0, "request_prof",
		"{\"pid\":5000000,\"source_kind\":\"sequence\",\"number\":1,\"context\":77,\"sequence\":3,"
		"\"ts_us\":0.400,\"prompt_tokens\":9,\"cached_tokens\":0,\"output_tokens\":2,\"steps\":2,"
		"\"steps_shared\":0,\"prefill_steps\":1,\"joined\":true,\"request\":\"POST \\/v1\",\"fd\":7,"
		"\"family\":\"inet\",\"bytes_read\":100,\"bytes_written\":400,\"reads\":1,\"writes\":3,\"chunks\":2,\"write_blocked_us\":0.350} "
		"{\"total\":3.600,\"queued\":0.600,\"unread\":0.050,\"own_prefill\":1.000,\"own_prefill_cpu\":0.999,"
		"\"own_prefill_blocked_futex\":0.001,\"own_decode\":1.000,\"own_decode_cpu\":0.999,"
		"\"own_decode_blocked_futex\":0.001,\"others\":0.000,\"between\":1.000,\"ttft_others\":0.000,"
		"\"ttft_between\":0.000,\"ttft\":1.000,\"tpot_p50\":2.000,\"tpot_p90\":2.000,\"tpot_p99\":2.000,"
		"\"tpot_max\":2.000,\"ttft_client\":1.700,\"first_answered\":0.100,\"answered\":0.100}");
	for (size_t i = 1; i < 6; i++) {
		assert_text(shape(&o, i, "joined"), "false");
		assert_text(shape(&o, i, "source_kind"), i < 3 ? "sequence" : "socket");
		assert_text(shape(&o, i, "joined_why"), i < 5 ? "several fit" : "none fits");
	}
	close_requests(&o);
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

TEST_WITH(test_percentiles, setup, teardown)
{
	/* up to 65536 all are kept */
	const size_t sizes[] = { 1, 2, 3, 10, 99, 100, 101, cases(65536, 1000),
		cases(200000, 66000) };
	static const char *const keys[] = { "tpot_p50", "tpot_p90", "tpot_p99", "tpot_max" };
	static const double shares[] = { 0.5, 0.9, 0.99, 1 };

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		uint64_t *list = calloc(sizes[i], sizeof(*list)), now = 100;
		struct out o;

		open_requests(&o);
		emit_call(&o, 0, &(struct call){ 0, now, 5, 0, 0 });
		for (size_t k = 0; k < sizes[i]; k++) {
			list[k] = 1000 + draw() % 1000000;
			emit_call(
				&o, (uint32_t)k + 1, &(struct call){ now, now + list[k], 1, 0, 0 });
			now += list[k];
			if (k % 1000 == 0)
				settle(&o, 1);
		}
		profile_close(&o);
		qsort(list, sizes[i], sizeof(*list), compare);
		assert_int_equal(atoi(shape(&o, 0, "output_tokens")), sizes[i] + 1);
		for (size_t k = 0; k < ARRAY_SIZE(keys); k++) {
			double rank = shares[k] * (double)sizes[i];
			size_t at = (size_t)rank + ((double)(size_t)rank < rank) - 1;
			int64_t ns = stage(&o, 0, keys[k]);

			if (sizes[i] <= 65536 || k == 3)
				assert_int_equal(ns, list[at]);
			else /* only every second or fourth */
				assert_true(llabs(ns - (int64_t)list[at]) < 20000);
		}
		close_requests(&o);
		free(list);
	}
}

/* ---- requests on sockets ---- */

static struct rec_request socket_request(const char *head)
{
	struct rec_request r = { .h = hdr(REC_REQUEST, 7), .family = AF_INET6, .http = 1 };

	memcpy(r.head, head, strnlen(head, sizeof(r.head)));
	r.read_ns = r.h.start_ns;
	r.bytes_read = 100;
	r.bytes_written = 200;
	r.reads = 1;
	r.writes = 3;
	return r;
}

TEST_WITH(test_socket, setup, teardown)
{
	static const struct {
		const char *head, *name;
	} names[] = {
		{ "POST /v1/chat/completions HTTP/1.1\r\nHost: ", "POST /v1/chat/completions" },
		{ "GET /x?key=secret HTTP/1.1\r\n", "GET /x" },
		{ "GET /012345678901234567890123456789012345678901234567890123456789",
			"GET /01234567890123456789012345678901234567890123456789012345678" },
		{ "PUT /\"\\\x01\xff ", "PUT /\"\\\x01\xef\xbf\xbd" },
		{ "HEAD\r\n", "HEAD" },
		{ "", "" },
	};
	struct rec_request r = socket_request(names[0].head);
	struct out o;

	profile_open(&o, &plain);
	r.read_ns = r.h.start_ns + 50;
	r.accept_ns = r.h.start_ns - 4950;
	r.first_byte_ns = r.h.start_ns + 100;
	r.first_chunk_ns = r.h.start_ns + 200;
	r.last_chunk_ns = r.h.start_ns + 1200;
	r.longest_ns = 700;
	r.chunks = 3;
	r.blocked_ns = 42;
	r.gaps[0] = 2;
	EMIT(&o, &r);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		r = socket_request(names[i].head);
		EMIT(&o, &r);
	}
	r.family = AF_UNIX;
	r.http = 0;
	r.writes = 0;
	r.h.flags = REC_F_OPEN_END;
	EMIT(&o, &r);
	r.writes = 1;
	r.h.flags = REQUEST_F_END_UNSEEN;
	EMIT(&o, &r);
	profile_close(&o);
	assert_int_equal(count(&o), ARRAY_SIZE(names) + 3);
	assert_body(&o, 0, "request_prof",
		"{\"pid\":5000000,\"source_kind\":\"socket\",\"request\":\"POST "
		"\\/v1\\/chat\\/completions\","
		"\"ts_us\":10.000,\"fd\":7,\"family\":\"inet6\",\"bytes_read\":100,\"bytes_"
		"written\":200,"
		"\"reads\":1,\"writes\":3,\"chunks\":3,\"write_blocked_us\":0.042} {\"total\":1.234,\"accepted\":5.000,\"unread\":0.050,"
		"\"first_byte\":0.100,\"ttft\":0.200,\"tpot_mean\":0.500,\"tpot_p50\":0.700,"
		"\"tpot_p90\":0.700,\"tpot_p99\":0.700,\"tpot_max\":0.700}");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_string_equal(shape(&o, i + 1, "request"), names[i].name);
	assert_body(&o, ARRAY_SIZE(names) + 1, "request_prof",
		"{\"pid\":5000000,\"source_kind\":\"socket\",\"request\":\"request\",\"ts_us\":10."
		"000,\"fd\":7,"
		"\"family\":\"unix\",\"bytes_read\":100,\"bytes_written\":200,\"reads\":1,"
		"\"writes\":0,"
		"\"chunks\":0,\"write_blocked_us\":0.000,\"unfinished\":true} {\"total\":1.234}");
	assert_string_equal(shape(&o, ARRAY_SIZE(names) + 2, "end_not_seen"), "true");
	profile_done(&o);
}

/* From counts by length, within the range that a count stands for. */
TEST_WITH(test_gaps, setup, teardown)
{
	static const unsigned int percents[] = { 50, 90, 99 };

	for (size_t n = 1; n < 5000; n = n * 3 + 1) {
		uint64_t *list = calloc(n, sizeof(*list));
		struct rec_request r = {};

		for (size_t i = 0; i < n; i++) {
			uint64_t ns = (100000 + draw() % 1000) << draw() % 19;
			unsigned int octave = 63 - (unsigned int)__builtin_clzll(ns);

			list[i] = ns;
			r.gaps[(octave - 16) * 32 +
				(unsigned int)((ns - (UINT64_C(1) << octave)) * 32 >> octave)]++;
			if (ns > r.longest_ns)
				r.longest_ns = ns;
		}
		qsort(list, n, sizeof(*list), compare);
		for (size_t i = 0; i < ARRAY_SIZE(percents); i++) {
			uint64_t want = list[(n * percents[i] + 99) / 100 - 1];
			uint64_t got = request_gap_ns(&r, percents[i]);

			assert_true(got * 1000 >= want * 984 && got * 1000 <= want * 1016);
			assert_true(got <= r.longest_ns);
		}
		free(list);
	}
	assert_int_equal(request_gap_ns(&(struct rec_request){}, 50), 0);
}

/* A full ring still holds steps from before the loss, and the loss is told first: the missing step number shows which
 * requests were under way. */
TEST_WITH(test_lost, setup, teardown)
{
	static const struct call before[] = {
		{ 10, 20, 9, 1, 0 }, { 20, 30, 1, 1, 0 }, { 30, 40, 9, 2, 0 }, { 40, 50, 1, 2, 0 }, { 50, 60, 9, 2, 0 }
	},
				 after[] = { { 90, 100, 1, 2, 0 }, { 100, 110, 9, 2, 0 }, { 110, 120, 1, 2, 0 } };
	const struct loss l = { .from_ns = START, .to_ns = START + 80, .count = { [REC_STEP] = 3 } };
	static const bool lost[] = { false, true, true, false };
	struct out o;

	open_requests(&o);
	emit_calls(&o, before, ARRAY_SIZE(before));
	sink_loss(o.s, &l);
	settle(&o, 1);
	for (size_t i = 0; i < ARRAY_SIZE(after); i++)
		emit_call(&o, (uint32_t)(8 + i), &after[i]);
	settle(&o, 3);
	profile_close(&o);
	assert_int_equal(count(&o), ARRAY_SIZE(lost));
	for (size_t i = 0; i < ARRAY_SIZE(lost); i++) {
		assert_int_equal(shape(&o, i, "lost_steps") != NULL, lost[i]);
	}
	close_requests(&o);
}

TEST_WITH(test_trace, setup, teardown)
{
	struct rec_request r = socket_request("POST /x HTTP/1.1\r\n");
	struct json_object *e;
	struct out o;

	chrome_open(&o);
	r.first_chunk_ns = r.h.start_ns + 234;
	EMIT(&o, &r);
	r.h.flags = REC_F_OPEN_END;
	r.first_chunk_ns = 0;
	r.h.start_ns += 1000; /* while the first one is in progress */
	EMIT(&o, &r);
	r.h.flags = REQUEST_F_END_UNSEEN;
	r.h.start_ns += 1000; /* and when it is over */
	EMIT(&o, &r);
	r.h.flags = 0;
	for (int i = 0; i < 100; i++) { /* more than anybody can look at */
		r.h.start_ns++;
		EMIT(&o, &r);
	}
	chrome_read(&o);
	e = find(&o, "X", "POST /x", 0);
	assert_track(e, PID, 4194400);
	assert_span(e, "requests", "10.000", "1.234");
	assert_string_equal(arg(e, "bytes_read"), "100");
	assert_string_equal(arg(e, "fd"), "7");
	assert_track(get(&o, "X", "ttft"), PID, 4194400);
	assert_span(get(&o, "X", "ttft"), "requests", "10.000", "0.234");
	e = find(&o, "X", "POST /x", 1);
	assert_track(e, PID, 4194401);
	assert_string_equal(arg(e, "unfinished"), "true");
	e = find(&o, "X", "POST /x", 2);
	assert_track(e, PID, 4194400);
	assert_string_equal(arg(e, "end_not_seen"), "true");
	assert_non_null(find(&o, "X", "POST /x", 64)); /* of 64 lanes */
	assert_null(find(&o, "X", "POST /x", 65));
	chrome_done(&o);
}

RUN_TESTS(NULL, NULL)
