/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit.h"
#include "util/parse.h"
#include "util/text.h"

#define UNTOUCHED 0x5a5a5a5a5a5a5a5aull

struct good {
	const char *s;
	uint64_t value;
};

static void check_good(int (*parse)(const char *, uint64_t *), const struct good *g, size_t n)
{
	uint64_t v;
	size_t i;

	for (i = 0; i < n; i++) {
		v = UNTOUCHED;
		if (parse(g[i].s, &v) || v != g[i].value)
			fail_msg("'%s' gave %" PRIu64 ", not %" PRIu64, g[i].s, v, g[i].value);
	}
}

static void check_bad(
	int (*parse)(const char *, uint64_t *), const char *const *s, size_t n, int err)
{
	uint64_t v;
	size_t i;
	int r;

	for (i = 0; i < n; i++) {
		v = UNTOUCHED;
		r = parse(s[i], &v);
		if (r != err)
			fail_msg("'%s' gave %d, not %d", s[i], r, err);
		assert_int_equal(v, UNTOUCHED);
	}
}

TEST(test_duration)
{
	static const struct good good[] = { { "10s", 10000000000 }, { "500ms", 500000000 }, { "2m", 120000000000 }, { "1h", 3600000000000 },
		{ "250us", 250000 }, { "100ns", 100 }, { "10", 10000000000 }, { "1.5s", 1500000000 },
		{ "1.5", 1500000000 }, { "0.25ms", 250000 }, { "1.5m", 90000000000 }, { "0", 0 },
		{ "0.000000001", 1 }, { "0.0000000019", 1 }, { "1.9ns", 1 }, { "007s", 7000000000 },
		{ "0.3333333333333333333333333333333333333s", 333333333 },
		{ "0.999999999999999999999999h", 3599999999999 }, { "9223372036854775807ns", INT64_MAX },
		{ "9223372036.854775807", INT64_MAX } };
	static const char *const malformed[] = { "", " ", "s", "ms", "-1s", "+1s", "1 s", " 1s",
		"1s ", "1ss", "1.s", "1.", ".5s", ".", "1.5.5s", "1e3s", "0x10s", "10S", "10min",
		"1,5s", "inf", "nan", "ten", "1s\n", "10\xc2\xb5s", "1.-5s" };
	static const char *const large[] = { "9223372036854775808ns", "9223372036.854775808",
		"9223372037s", "2562048h", "18446744073709551616ns",
		"99999999999999999999999999999s" };

	check_good(parse_duration, good, ARRAY_SIZE(good));
	check_bad(parse_duration, malformed, ARRAY_SIZE(malformed), -EINVAL);
	check_bad(parse_duration, large, ARRAY_SIZE(large), -ERANGE);
}

TEST(test_share)
{
	static const struct good good[] = { { "2%", 20000 }, { "0%", 0 }, { "100%", 1000000 }, { "0.5%", 5000 }, { "1.25 %", 12500 },
		{ "0.0001%", 1 } };
	static const char *const bad[] = { "", "%", "2", "2%%", "-1%", "2 percent", " 2%", "2%x", "x%", ".5%", "0.%", "1e1%", "2  %" };
	static const char *const large[] = { "101%", "100.5%", "100.0000001%", "99999999999999999999%" };

	check_good(parse_share, good, ARRAY_SIZE(good));
	check_bad(parse_share, bad, ARRAY_SIZE(bad), -EINVAL);
	check_bad(parse_share, large, ARRAY_SIZE(large), -ERANGE);
}

TEST(test_size)
{
	static const struct good good[] = { { "64MB", 64 << 20 }, { "64M", 64 << 20 }, { "64MiB", 64 << 20 }, { "64mb", 64 << 20 },
		{ "8m", 8 << 20 }, { "4K", 4096 }, { "4k", 4096 }, { "4kib", 4096 }, { "1G", 1 << 30 },
		{ "2T", 2ull << 40 }, { "1.5G", 3ull << 29 }, { "0.5K", 512 }, { "4096", 4096 }, { "4096B", 4096 },
		{ "0", 0 }, { "9223372036854775807", INT64_MAX }, { "8388607T", 8388607ull << 40 } };
	static const char *const malformed[] = { "", "M", "-1", "+1", "64 MB", "64MBB", "64MiBs",
		"64i", "64iB", "64Bi", "64BiB", "64ib", "64iib", "64BB", "64X", "64XB", "64Mi",
		"1.M", ".5M", "0x40", "1e6", "64P", "64MB\n" };
	static const char *const large[] = { "9223372036854775808", "8388608T",
		"18446744073709551616", "99999999999999999999T" };

	check_good(parse_size, good, ARRAY_SIZE(good));
	check_bad(parse_size, malformed, ARRAY_SIZE(malformed), -EINVAL);
	check_bad(parse_size, large, ARRAY_SIZE(large), -ERANGE);
}

TEST(test_u32)
{
	static const char *const malformed[] = { "", "-1", "+1", " 1", "1 ", "1.0", "0x1", "a",
		"1a" };
	uint32_t v = 7;
	size_t i;

	assert_int_equal(parse_u32("0", &v), 0);
	assert_int_equal(v, 0);
	assert_int_equal(parse_u32("4294967295", &v), 0);
	assert_int_equal(v, UINT32_MAX);
	assert_int_equal(parse_u32("0042", &v), 0);
	assert_int_equal(v, 42);
	assert_int_equal(parse_u32("4294967296", &v), -ERANGE);
	assert_int_equal(parse_u32("99999999999999999999", &v), -ERANGE);
	for (i = 0; i < ARRAY_SIZE(malformed); i++)
		assert_int_equal(parse_u32(malformed[i], &v), -EINVAL);
	assert_int_equal(v, 42);
}

TEST(test_pid_list)
{
	static const char *const malformed[] = { "", ",", "1,", ",1", "1,,2", "0", "1,0", "-1",
		"1 ,2", "1, 2", "1;2", "a", "1,a", "1a" };
	pid_t *pids = NULL, *before;
	size_t n = 0, i;

	assert_int_equal(parse_pid_list("123", &pids, &n), 0);
	assert_int_equal(n, 1);
	assert_int_equal(pids[0], 123);
	/* a second -p adds to the first, without duplicates */
	assert_int_equal(parse_pid_list("7,123,8,7,4194304", &pids, &n), 0);
	assert_int_equal(n, 4);
	assert_int_equal(pids[0], 123);
	assert_int_equal(pids[1], 7);
	assert_int_equal(pids[2], 8);
	assert_int_equal(pids[3], 4194304);
	before = pids;
	for (i = 0; i < ARRAY_SIZE(malformed); i++)
		assert_int_equal(parse_pid_list(malformed[i], &pids, &n), -EINVAL);
	assert_int_equal(parse_pid_list("4194305", &pids, &n), -ERANGE);
	assert_int_equal(parse_pid_list("5,99999999999999999999", &pids, &n), -ERANGE);
	assert_ptr_equal(pids, before);
	assert_int_equal(n, 4);
	assert_int_equal(pids[3], 4194304);
	free(pids);
}

TEST(test_pid_list_long)
{
	pid_t *pids = NULL;
	size_t n = 0, len = 0;
	static char s[60000];
	int i;

	for (i = 1; i <= 5000; i++)
		len += (size_t)snprintf(s + len, sizeof(s) - len, "%s%d", i > 1 ? "," : "", i);
	assert_int_equal(parse_pid_list(s, &pids, &n), 0);
	assert_int_equal(n, 5000);
	for (i = 0; i < 5000; i++)
		assert_int_equal(pids[i], i + 1);
	free(pids);
}

TEST(test_last)
{
	static const char *const bad[] = { "", "0", "0s", "-1", "2 s", "2x", "s", "1.5x" };
	struct last last = { 0 };

	assert_int_equal(parse_last("20", &last), 0);
	assert_true(last.n == 20 && !last.ns);
	assert_int_equal(parse_last("1.5s", &last), 0);
	assert_true(!last.n && last.ns == 1500000000);
	assert_int_equal(parse_last("4294967296", &last), -ERANGE);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		if (parse_last(bad[i], &last) != -EINVAL)
			fail_msg("'%s' was taken", bad[i]);
	}
	assert_true(!last.n && last.ns == 1500000000);
}

TEST(test_error_text)
{
	char buf[PARSE_ERROR_MAX], wide[4096];

	assert_string_equal(parse_error(buf, PARSE_DURATION, "--duration", "10x", -EINVAL),
		"--duration: '10x' is not a duration; write 10s, 500ms or 2m");
	assert_string_equal(parse_error(buf, PARSE_SIZE, NULL, "99999999T", -ERANGE),
		"'99999999T' is too large a size; write 64MB, 512K or a number of bytes");
	assert_string_equal(parse_error(buf, PARSE_PID_LIST, "-p", "", -EINVAL),
		"-p: '' is not a list of process ids; write 123 or 123,456");
	/* the text typed is shown shortened and sanitized */
	assert_string_equal(parse_error(buf, PARSE_DURATION, "-d", "1\n\x1b[2J\xff", -EINVAL),
		"-d: '1??[2J?' is not a duration; write 10s, 500ms or 2m");
	memset(wide, '9', sizeof(wide) - 1);
	wide[sizeof(wide) - 1] = '\0';
	assert_string_equal(parse_error(buf, PARSE_DURATION, "-d", wide, -ERANGE),
		"-d: '9999999999999999999999999999999999999...' is too large a duration; "
		"write 10s, 500ms or 2m");
	/* and never longer than the buffer */
	parse_error(buf, PARSE_PID_LIST, wide, wide, -ERANGE);
	assert_int_equal(strlen(buf),
		40 + strlen(": '") + 40 +
			strlen("' is not a list of process ids: the largest is 4194304; pgrep finds them"));
}

TEST(test_nearest)
{
	static const char *const names[] = { "every", "for", "blocked_io" };
	char longest[64] = "";

	assert_string_equal(nearest_name("evry", names, 3), "every");
	assert_string_equal(nearest_name("fr", names, 3), "for");
	assert_string_equal(nearest_name("every", names, 3), "every");
	assert_string_equal(nearest_name("blockde_io", names, 3), "blocked_io");
	assert_string_equal(nearest_name("locked", names, 3), "blocked_io");
	assert_null(nearest_name("", names, 3));
	assert_null(nearest_name("io", names, 3));
	assert_null(nearest_name("nothing", names, 3));
	assert_null(nearest_name("every", names, 0));
	memset(longest, 'x', sizeof(longest) - 1);
	assert_null(nearest_name(longest, names, 3));
}

RUN_TESTS(NULL, NULL)
