// SPDX-License-Identifier: BSD-2-Clause
/* inftrace print: layout, order, what becomes of hostile names and data, and files of any size or damage. */
#include <sys/mman.h>

#include "print/print.h"
#include "stderr.h"
#include "unit.h"
#include "util/fmt.h"

static struct stderr_grab grab;
static char *printed;

/* Prints the file; returns what print_file() does. The output is in `printed`, messages in grab.text. */
static int print_text(const char *text, size_t len, struct last last, uint64_t bytes_max)
{
	int fd = memfd_create("trace", MFD_CLOEXEC), err;
	char path[64];
	size_t size;
	FILE *out;

	free(printed);
	printed = NULL;
	out = open_memstream(&printed, &size);
	assert_int_equal(write(fd, text, len), len);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	stderr_grab_begin(&grab);
	err = print_file(path, last, bytes_max, out);
	stderr_grab_end(&grab);
	fclose(out);
	close(fd);
	return err;
}

static void expect(const char *text, const char *lines)
{
	int err = print_text(text, strlen(text), (struct last){ 0 }, PRINT_BYTES_MAX);

	assert_string_equal(printed, lines);
	assert_string_equal(grab.text, "");
	assert_int_equal(err, 0);
}

TEST(test_layout)
{
	expect("[\n"
	       "{\"ph\":\"X\",\"pid\":7,\"tid\":8,\"ts\":12345678.901,\"dur\":12.300,\"name\":\"read\",\"cat\":\"syscall\",\"args\":{\"ret\":5,\"cpu\":1,\"fd\":3}},\n"
	       "{\"ph\":\"M\",\"pid\":7,\"tid\":7,\"name\":\"process_name\",\"args\":{\"name\":\"llama-server\"}},\n"
	       "{\"ph\":\"X\",\"pid\":7,\"tid\":9,\"ts\":2.001,\"dur\":1,\"name\":\"blocked: futex\",\"cat\":\"sched\",\"args\":{\"a\":{\"b\":1,\"c\":[true,null]},\"d\":\"x y\"}},\n"
	       "{\"ph\":\"M\",\"pid\":7,\"tid\":9,\"name\":\"thread_name\",\"args\":{\"name\":\"worker\"}},\n"
	       "{\"ph\":\"M\",\"pid\":4194305,\"tid\":3,\"name\":\"thread_name\",\"args\":{\"name\":\"CPU 3\"}},\n"
	       "{\"ph\":\"X\",\"pid\":4194305,\"tid\":3,\"ts\":1,\"dur\":2.5,\"name\":\"worker\",\"cat\":\"cpu\",\"args\":{\"pid\":7,\"tid\":9}},\n"
	       "{\"ph\":\"s\",\"pid\":7,\"tid\":9,\"ts\":2.001,\"id\":4,\"name\":\"wake-up\",\"cat\":\"sched\"},\n"
	       "{\"ph\":\"C\",\"pid\":7,\"ts\":0,\"name\":\"rss\",\"cat\":\"memory\",\"args\":{\"bytes\":4096}},\n"
	       "{\"ph\":\"i\",\"pid\":\"Spans\",\"tid\":\"All\",\"ts\":-0.5,\"name\":\"mark\"}]\n",
		"   -0.000000500  [---]                        - mark  tid=All\n"
		"    0.000000000  [---]  llama-server/7        memory rss  bytes=4096\n"
		"    0.000001000  [003]  CPU 3                 cpu worker  pid=7 tid=9 dur=2.5us\n"
		"    0.000002001  [---]  worker/9              sched blocked: futex  a={b=1 c={true null}} d=\"x y\" dur=1us\n"
		"    0.000002001  [---]  worker/9              sched wake-up  ph=s id=4\n"
		"   12.345678901  [001]  llama-server/8        syscall read  ret=5 fd=3 dur=12.300us\n");
}

#define LINE(event, shape, stages)                                                                                            \
	"{\"event\":\"" event "\",\"commit_sha\":null,\"env_hash\":\"e\",\"model\":\"m\",\"concurrency\":1,\"shape\":{" shape \
	"},\"stage_us\":{" stages "},\"graph_enabled\":false,\"runtime_flags\":{}}\n"

TEST(test_profile)
{
	expect(LINE("token_prof", "\"step\":1,\"pid\":7,\"tid\":8,\"phase\":\"decode\",\"ts_us\":50.5", "\"cpu\":19.9,\"total\":20,\"runnable\":0.1")
			LINE("token_prof", "\"step\":0,\"pid\":7,\"tid\":8,\"phase\":\"prefill\",\"ts_us\":5", "\"total\":30,\"cpu\":30")
				LINE("sched_prof", "\"pid\":7,\"comm\":\"server\"", "\"total\":9,\"a\":\"x\",\"b\":8"),
		"    0.000005000  [---]  server/8              token_prof  phase=prefill step=0 total=30us cpu=30us\n"
		"    0.000050500  [---]  server/8              token_prof  phase=decode step=1 total=20us cpu=19.9us\n"
		"              -  [---]  server/7              sched_prof  total=9us b=8us\n");
}

/* No name or data of a traced program can look like a line, a column or data, or drive a terminal. */
TEST(test_hostile)
{
	static const char text[] =
		"[{\"ph\":\"M\",\"pid\":7,\"tid\":7,\"name\":\"thread_name\",\"args\":{\"name\":\"a/1  syscall read  ret=0\\n\\u001b[2J\"}},\n"
		"{\"ph\":\"i\",\"pid\":7,\"tid\":7,\"ts\":1,\"name\":\"f  dur=9us\\u202e\\r\\u009b\",\"cat\":\"x\\ty\",\"args\":{\"k=1 \\u0007\":\"v \\\"w\\\" \\\\n\",\"\":\"\",\"z\":\"}\"}},\n"
		"{\"ph\":\"evil \\u0001\",\"pid\":7,\"tid\":7,\"ts\":2,\"dur\":\"1us\\nx\",\"name\":\"\",\"args\":[1e5,-0]},\n"
		"{\"ph\":\"X\",\"pid\":-1,\"tid\":99999999999,\"ts\":1e300,\"dur\":1,\"name\":\"never\"},\n"
		"{\"ph\":\"X\",\"pid\":7,\"tid\":0,\"ts\":3,\"dur\":9e18,\"name\":7,\"cat\":[],\"args\":{\"cpu\":-4}},\n"
		"7,[],{\"ts\":4}]";

	expect(text,
		"    0.000001000  [---]  \"a/1  syscall read  ret=0\\x0a\\x1b[2J\"/7  x\\x09y \"f  dur=9us\\u202e\\x0d\\xc2\\x9b\"  "
		"\"k=1 \\x07\"=\"v \\x22w\\x22 \\n\" \"\"=\"\" z=\"}\"\n"
		"    0.000002000  [---]  \"a/1  syscall read  ret=0\\x0a\\x1b[2J\"/7  - \"\"  ph=\"evil \\x01\" args={1e5 -0} dur=1us\\x0axus\n"
		"    0.000003000  [---]  /7                    - \"\"  cpu=-4 dur=9e18us\n"
		"    0.000004000  [---]                        - \"\" \n");
}

/* A line is bounded, whatever it contains. */
TEST(test_long)
{
	size_t size = 1 << 20, len;
	char *text = malloc(size);
	int n;

	n = sprintf(text, "[{\"ph\":\"i\",\"pid\":7,\"tid\":7,\"ts\":1,\"name\":\"");
	for (int i = 0; i < 5000; i++)
		n += sprintf(text + n, "\xc3\xa9");
	n += sprintf(text + n, "\",\"args\":{");
	for (int i = 0; i < 20000; i++)
		n += sprintf(text + n, "%s\"key \xc3\xa9 %d\":[\"\xe2\x82\xac\"]", i ? "," : "", i);
	n += sprintf(text + n, "}}]");
	assert_int_equal(print_text(text, (size_t)n, (struct last){ 0 }, PRINT_BYTES_MAX), 0);
	len = strlen(printed);
	assert_in_range(len, 4000, 4200);
	assert_string_equal(printed + len - 4, "...\n");
	/* no character is cut */
	for (size_t i = 0; i < len; i += (size_t)n) {
		n = fmt_utf8_scan((unsigned char *)printed + i, len - i);
		assert_true(n > 0);
	}
	free(text);
}

/* ---- many events ---- */

#define EVENTS 20000

/* Event i begins at i * 10 us. The first of each hundred takes as long as all hundred, and comes last. */
static size_t many(char **ret_text)
{
	char *text = malloc(EVENTS * 100), *p = text;

	p += sprintf(p, "[");
	for (int i = 0; i < EVENTS; i++) {
		int at = i % 100 == 99 ? i - 99 : i + 1;

		p += sprintf(p, "{\"ph\":\"X\",\"pid\":7,\"tid\":7,\"ts\":%d,\"dur\":%d,\"name\":\"n%d\",\"cat\":\"c\"},\n", at * 10,
			at % 100 ? 1 : 1000, at);
	}
	*ret_text = text;
	return (size_t)(p - text);
}

/* The printed events are numbered first, first + 1, ... to the last. Returns how many do not follow their predecessor. */
static int out_of_order(int first)
{
	int n, before = first - 1, count = 0, wrong = 0;

	for (const char *p = printed; (p = strstr(p, " n")); before = n, count++) {
		p += 2;
		n = atoi(p);
		wrong += n != before + 1;
	}
	assert_int_equal(count, EVENTS - first);
	return wrong;
}

TEST(test_order)
{
	char *text;
	size_t len = many(&text);

	assert_int_equal(print_text(text, len, (struct last){ 0 }, PRINT_BYTES_MAX), 0);
	assert_int_equal(out_of_order(0), 0);
	/* far less than all at once, but more than the distance of events */
	assert_int_equal(print_text(text, len, (struct last){ 0 }, 100000), 0);
	assert_int_equal(out_of_order(0), 0);
	assert_string_equal(grab.text, "");
	/* less than that: all are printed, with a note */
	assert_int_equal(print_text(text, len, (struct last){ 0 }, 4000), 0);
	assert_true(out_of_order(0) > 0);
	assert_non_null(strstr(grab.text, "too large to sort: "));
	free(text);
}

TEST(test_last)
{
	char *text;
	size_t len = many(&text);

	for (int k = 0; k < 2; k++) {
		uint64_t max = k ? 100000 : PRINT_BYTES_MAX;

		assert_int_equal(print_text(text, len, (struct last){ .n = 250 }, max), 0);
		assert_int_equal(out_of_order(EVENTS - 250), 0);
		assert_int_equal(print_text(text, len, (struct last){ .n = EVENTS + 1 }, PRINT_BYTES_MAX), 0);
		assert_int_equal(out_of_order(0), 0);
		/* the last 50, and the long one that reaches into that time: two gaps */
		assert_int_equal(print_text(text, len, (struct last){ .ns = 500000 }, max), 0);
		assert_int_equal(out_of_order(EVENTS - 51), 2);
		assert_non_null(strstr(printed, " n19900 "));
		assert_string_equal(grab.text, "");
	}
	assert_int_equal(print_text(text, len, (struct last){ .n = EVENTS }, 100000), 0);
	assert_non_null(strstr(grab.text, "of what --last asks for the first ones may be missing"));
	assert_non_null(strstr(printed, " n19999  "));
	free(text);
}

TEST(test_damaged)
{
	static const char cut[] = "[{\"ph\":\"i\",\"pid\":7,\"tid\":7,\"ts\":1,\"name\":\"a\"},\n{\"ph\":\"i\",\"pi";
	static const char lines[] = LINE("e", "\"ts_us\":1", "") "{}\n7\n" LINE("f", "\"ts_us\":2", "");

	/* cut between events, as by a killed recorder */
	expect("[{\"ph\":\"i\",\"pid\":7,\"tid\":7,\"ts\":1,\"name\":\"a\"},\n", "    0.000001000  [---]  /7                    - a \n");
	assert_int_equal(print_text(cut, strlen(cut), (struct last){ 0 }, PRINT_BYTES_MAX), -EBADMSG);
	assert_string_equal(printed, "    0.000001000  [---]  /7                    - a \n");
	assert_non_null(strstr(grab.text, ": line 2: "));
	assert_non_null(strstr(grab.text, "; what can be read is printed\n"));
	assert_int_equal(print_text(lines, strlen(lines), (struct last){ 0 }, PRINT_BYTES_MAX), -EBADMSG);
	assert_non_null(strstr(printed, "  e \n"));
	assert_non_null(strstr(printed, "  f \n"));
	assert_non_null(strstr(grab.text, ": line 2: missing required field: event; "));
	assert_int_equal(print_text("\n\x12\x08\x01", 4, (struct last){ 0 }, PRINT_BYTES_MAX), -EINVAL);
	assert_non_null(strstr(grab.text, "`traceconv json` makes JSON of it"));
	assert_string_equal(printed, "");
}

RUN_TESTS(NULL, NULL)
