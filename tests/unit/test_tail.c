// SPDX-License-Identifier: BSD-2-Clause
/* Growing profiles, and the metrics made from their lines. */
#include "export/metrics.h"
#include "export/tail.h"
#include "io/writer.h"
#include "unit.h"
#include "util/alloc.h"
#include "util/log.h"

#include <fcntl.h>
#include <zlib.h>

#define HEAD(event, model) "{\"event\":\"" event "\",\"commit_sha\":null,\"env_hash\":\"sha256:0\",\"model\":\"" model "\",\"concurrency\":1,"
#define END ",\"graph_enabled\":false,\"runtime_flags\":{}}\n"
#define STEP HEAD("token_prof", "m") "\"shape\":{\"phase\":\"decode\",\"n_tokens\":2},\"stage_us\":{\"total\":1000.000,\"cpu\":900.000,\"runnable\":100.000}" END

static char path[] = "/tmp/test_tail.XXXXXX";
static char *const paths[] = { path };
static struct tail *t;
static struct metrics *m;
static int of_others; /* lines */

static void take(void *ctx, const struct profile_line *line, const char *file)
{
	of_others += !!strstr(file, "other");
	metrics_line(m, line, file, 1);
}

static void look(uint64_t max)
{
	tail_read(t, max, take, NULL);
}

static void append(const char *text, size_t len)
{
	FILE *f = fopen(path, "a");

	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

static int begin(void **state)
{
	int fd;

	log_set_level(-1);
	strcpy(path + strlen(path) - 6, "XXXXXX");
	fd = mkstemp(path);
	if (fd < 0 || close(fd))
		return -1;
	m = metrics_new();
	return m ? tail_new(paths, 1, &t) : -1;
}

static int end(void **state)
{
	tail_free(t);
	metrics_free(m);
	return unlink(path);
}

/* Whether the text has this line. */
static bool says(bool openmetrics, const char *line)
{
	size_t len;
	char *text = metrics_text(m, &(struct metrics_own){ .files = tail_counts(t) }, openmetrics, &len);
	bool found;

	assert_int_equal(strlen(text), len);
	found = strstr(text, line);
	if (!found)
		print_message("%s\n", text);
	free(text);
	return found;
}

TEST_WITH(test_pieces, begin, end)
{
	for (const char *p = STEP STEP "no JSON\n" STEP; *p; p++) {
		append(p, 1);
		look(UINT64_MAX);
	}
	assert_int_equal(tail_counts(t)->lines, 3);
	assert_int_equal(tail_counts(t)->bad_lines, 1);
	assert_int_equal(tail_counts(t)->unread, 0);
	assert_true(says(false, "inftrace_step_tokens_total{gen_ai_response_model=\"m\",phase=\"decode\"} 6\n"));
	append("{\"event\"", 8);
	look(UINT64_MAX);
	assert_int_equal(tail_counts(t)->unread, 8);
}

/* Each call reads a limited amount, so that clients are answered meanwhile. */
TEST_WITH(test_limit, begin, end)
{
	for (int i = 0; i < 10000; i++)
		append(STEP, strlen(STEP));
	look(1);
	assert_in_range(tail_counts(t)->bytes, 1, TAIL_BLOCK);
	assert_int_equal(tail_counts(t)->unread, 10000 * strlen(STEP) - tail_counts(t)->bytes);
	while (tail_counts(t)->unread)
		look(1);
	assert_int_equal(tail_counts(t)->lines, 10000);
}

TEST_WITH(test_long_line, begin, end)
{
	char *text = xmalloc(TAIL_LINE_MAX);

	memset(text, 'x', TAIL_LINE_MAX);
	append(STEP, strlen(STEP));
	append(text, TAIL_LINE_MAX);
	look(UINT64_MAX);
	append(text, 100);
	look(UINT64_MAX);
	append("\n" STEP, 1 + strlen(STEP));
	look(UINT64_MAX);
	look(UINT64_MAX);
	assert_int_equal(tail_counts(t)->lines, 2);
	assert_int_equal(tail_counts(t)->bad_lines, 1);
	assert_int_equal(tail_counts(t)->unread, 0);
	free(text);
}

/* A file that is large because its size was set, and a line without end: neither is read at once, or for ever. */
TEST_WITH(test_endless, begin, end)
{
	char *text = xmalloc(2 * TAIL_LINE_MAX);

	memset(text, 'x', 2 * TAIL_LINE_MAX);
	append(text, 2 * TAIL_LINE_MAX);
	look(1);
	assert_int_equal(tail_counts(t)->bad_lines, 1);
	assert_int_equal(truncate(path, (off_t)(UINT64_C(500) << 30)), 0);
	for (int i = 0; i < 20; i++)
		look(TAIL_LINE_MAX);
	append("\n" STEP, 1 + strlen(STEP));
	look(UINT64_MAX);
	assert_int_equal(tail_counts(t)->lines, 1);
	assert_int_equal(tail_counts(t)->unread, 0);
	free(text);
}

/* A profile that grows as fast as it is read does not block the next one. */
TEST_WITH(test_fair, begin, end)
{
	char other[] = "/tmp/test_tail_other.XXXXXX", *two[] = { path, other };
	int fd = mkstemp(other);

	tail_free(t);
	assert_int_equal(write(fd, STEP, strlen(STEP)), strlen(STEP));
	assert_int_equal(tail_new(two, 2, &t), 0);
	for (int i = 0; i < 4; i++) {
		for (int k = 0; k < 10000; k++)
			append(STEP, strlen(STEP));
		look(1);
	}
	assert_int_equal(of_others, 1);
	close(fd);
	unlink(other);
}

TEST_WITH(test_shorter, begin, end)
{
	append(STEP STEP, 2 * strlen(STEP));
	look(UINT64_MAX);
	assert_int_equal(truncate(path, 0), 0);
	append(STEP, strlen(STEP));
	look(UINT64_MAX);
	assert_int_equal(tail_counts(t)->lines, 3);
}

/* A compressed profile, read while it is written: whole members. */
TEST_WITH(test_gzip, begin, end)
{
	static const char half[] = { 0x1f, (char)0x8b, 8, 0 }, junk[] = "xxxxxxxxxxxxxxxxxxxxx";
	struct writer *w = writer_new(open(path, O_WRONLY | O_APPEND | O_CLOEXEC), "profile", WRITER_LINES_GZIP);

	for (unsigned int i = 0; i < 1000; i++) {
		writer_append(w, STEP, strlen(STEP));
		if (i % 50)
			continue;
		assert_int_equal(writer_sync(w), 0);
		look(UINT64_MAX);
		assert_int_equal(tail_counts(t)->lines, i + 1);
		assert_int_equal(tail_counts(t)->unread, 0);
	}
	assert_int_equal(writer_close(w), 0);
	look(UINT64_MAX);
	assert_int_equal(tail_counts(t)->lines, 1000);
	append(half, sizeof(half));
	look(UINT64_MAX);
	assert_int_equal(tail_counts(t)->unread, sizeof(half));
	assert_int_equal(tail_counts(t)->errors, 0);
	append(junk, sizeof(junk));
	look(UINT64_MAX);
	look(UINT64_MAX);
	assert_int_equal(tail_counts(t)->errors, 1);
	assert_int_equal(tail_counts(t)->unread, 0);
	assert_int_equal(tail_counts(t)->lines, 1000);
}

/* A line that would be unpacked once more. */
TEST_WITH(test_gzip_nested, begin, end)
{
	static const char lines[] = "\x1f\x8b\x08\n" STEP;

	for (int i = 0; i < 2; i++) {
		gzFile z;

		assert_int_equal(truncate(path, 0), 0);
		z = gzopen(path, i ? "w" : "wT");
		assert_int_equal(gzwrite(z, i ? lines : STEP, i ? sizeof(lines) - 1 : strlen(STEP)), i ? sizeof(lines) - 1 : strlen(STEP));
		assert_int_equal(gzclose(z), Z_OK);
		look(UINT64_MAX);
		assert_int_equal(tail_counts(t)->errors, i);
		assert_int_equal(tail_counts(t)->lines, 1);
	}
}

/* Of another tool: a line may be in two members, and a member may be of any size. */
TEST_WITH(test_gzip_foreign, begin, end)
{
	char *zeros = xcalloc(1, 2 * TAIL_LINE_MAX);

	for (int i = 0; i < 2; i++) {
		gzFile z = gzopen(path, i ? "w" : "a");

		assert_int_equal(gzwrite(z, i ? zeros : STEP, i ? 2 * TAIL_LINE_MAX : 100), i ? 2 * TAIL_LINE_MAX : 100);
		assert_int_equal(gzclose(z), Z_OK);
		tail_free(t);
		assert_int_equal(tail_new(paths, 1, &t), 0);
		look(UINT64_MAX);
		look(UINT64_MAX);
		assert_int_equal(tail_counts(t)->errors, 1);
		assert_int_equal(tail_counts(t)->lines, 0);
	}
	free(zeros);
}

/* A value at a bound belongs to the bucket below, and steps without a state count as 0. */
TEST_WITH(test_buckets, begin, end)
{
	append(STEP, strlen(STEP));
	append(HEAD("token_prof", "m") "\"shape\":{\"phase\":\"decode\"},\"stage_us\":{\"total\":1000.001,\"cpu\":1000.001}" END,
		strlen(HEAD("token_prof", "m") "\"shape\":{\"phase\":\"decode\"},\"stage_us\":{\"total\":1000.001,\"cpu\":1000.001}" END));
	look(UINT64_MAX);
#define STEP_BUCKET "inftrace_step_duration_seconds_bucket{gen_ai_response_model=\"m\",phase=\"decode\",le="
#define STATE "inftrace_step_state_seconds_"
#define RUNNABLE "{gen_ai_response_model=\"m\",phase=\"decode\",state=\"runnable\""
	assert_true(says(false, STEP_BUCKET "\"0.0005\"} 0\n" STEP_BUCKET "\"0.001\"} 1\n" STEP_BUCKET "\"0.0025\"} 2\n"));
	assert_true(says(false, "inftrace_step_duration_seconds_sum{gen_ai_response_model=\"m\",phase=\"decode\"} 0.002000001\n"));
	assert_true(says(false, STATE "bucket" RUNNABLE ",le=\"0.00003\"} 1\n" STATE "bucket" RUNNABLE ",le=\"0.0001\"} 2\n"));
	assert_true(says(false, STATE "sum" RUNNABLE "} 0.0001\n" STATE "count" RUNNABLE "} 2\n"));
}

TEST_WITH(test_exemplar, begin, end)
{
	static const char slow[] = HEAD("request_prof", "a\\\"b") "\"shape\":{\"source_kind\":\"steps\",\"ts_us\":5.500,\"output_tokens\":3},"
								  "\"stage_us\":{\"total\":90000.000,\"ttft\":70000.000}" END;
	char line[512];

	append(slow, strlen(slow));
	look(UINT64_MAX);
	snprintf(line, sizeof(line),
		"inftrace_request_first_step_to_first_token_seconds_bucket{gen_ai_response_model=\"a\\\"b\",source_kind=\"steps\",le=\"0.08\"} 1 # {file=\"%s\",line=\"1\",ts_us=\"5\"} 0.07\n",
		strrchr(path, '/') + 1);
	assert_true(says(true, line));
	assert_true(says(true, "\n# EOF\n"));
	assert_true(says(false, "source_kind=\"steps\",le=\"0.08\"} 1\n"));
	assert_true(says(false, "gen_ai_server_time_per_output_token_seconds_sum{gen_ai_response_model=\"a\\\"b\",source_kind=\"steps\"} 0.01\n"));
}

TEST(test_accept)
{
	static const struct {
		const char *accept;
		bool openmetrics;
	} cases[] = {
		{ NULL, false },
		{ "", false },
		{ "*/*", false },
		{ "text/plain;version=0.0.4", false },
		{ "application/openmetrics-text", true },
		/* Prometheus 2.42 */
		{ "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
			true },
		{ "application/openmetrics-text;version=2.0.0,text/plain", false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(metrics_accepts_openmetrics(cases[i].accept), cases[i].openmetrics);
}

RUN_TESTS(NULL, NULL)
