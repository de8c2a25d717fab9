// SPDX-License-Identifier: BSD-2-Clause
/* The JSON readers: sources of bytes, values found in a stream, times, untrusted text. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

#include "util/json_read.h"

static void test_us_to_ns(void **state)
{
	static const struct {
		const char *text;
		int ret;
		int64_t ns;
	} cases[] = {
		{ "0", 0, 0 },
		{ "1", 0, 1000 },
		{ "-0.001", 0, -1 },
		{ "4291064922837.701", 0, 4291064922837701 },
		{ "9223372036854775.807", 0, INT64_MAX },
		{ "9223372036854775.808", -ERANGE, 0 },
		{ "9223372036854776", -ERANGE, 0 },
		{ "18446744073709551616", -ERANGE, 0 },
		{ "0.0001", 1, 0 },
		{ "-0.0001", 1, -1 },
		{ "1.2340", 0, 1234 },
		{ "1.2349", 1, 1234 },
		{ "1.5e3", 0, 1500000 },
		{ "15E-4", 1, 1 },
		{ "2e-3", 0, 2 },
		{ "0e99", 0, 0 },
		{ "1e99999999999", -ERANGE, 0 },
		{ "\"1\"", -EINVAL, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct json_object *value = json_tokener_parse(cases[i].text);
		int64_t ns = 0;

		assert_non_null(value);
		assert_int_equal(json_us_to_ns(value, &ns), cases[i].ret);
		assert_int_equal(ns, cases[i].ns);
		json_object_put(value);
	}
}

/* Whether text is one JSON value, fed in pieces of n bytes. */
static bool scan_pieces(const char *text, size_t n)
{
	struct json_scan scan;
	size_t len = strlen(text), used;
	int ret;

	json_scan_init(&scan);
	for (size_t at = 0; at < len; at += n) {
		ret = json_scan_feed(&scan, (const unsigned char *)text + at,
			len - at < n ? len - at : n, &used);
		if (ret < 0)
			return false;
		if (ret)
			return at + used == len;
	}
	return json_scan_end(&scan) == 1;
}

static void test_scan(void **state)
{
	static const char *const good[] = { "{}", "[]", "0", "-0", "-1.5e+10", "1E5", "\"\"",
		"null", "true", "[1,[2,{\"a\":[]}],\"x\"]", "\"\\u00e9\\n\\\\\"",
		"\"\\ud83d\\ude00\"", "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"",
		" {\"a\" : 1 , \"b\" : [ ] }", "{\"\":{\"\":[]}}" };
	static const char *const bad[] = { "", "{", "[1", "[1,]", "{\"a\":1,}", "{,}", "{\"a\"}",
		"{\"a\":}", "{1:2}", "[1 2]", "]", "01", "1.", ".5", "-", "1e", "1e+", "+1", "NaN",
		"Infinity", "tru", "trux", "nul", "\"", "\"\\x\"", "\"\\u12\"", "\"\\u12g4\"",
		"\"\\ud83d\"", "\"\\ude00\"", "\"\\ud83dx\"", "\"\\ud83d\\u0041\"", "\"\t\"",
		"\"\xff\"", "\"\xc0\x80\"", "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"",
		"\"\xe2\x82\"", "'a'", "[1}", "{\"a\":1]", "/* */1", "1 1" };

	(void)state;
	for (size_t n = 1; n < 9; n++) {
		for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
			assert_true(scan_pieces(good[i], n));
		for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
			assert_false(scan_pieces(bad[i], n));
	}
}

static void test_printable(void **state)
{
	char buf[16];

	(void)state;
	assert_string_equal(json_printable(buf, sizeof(buf), "mul_mat"), "mul_mat");
	assert_string_equal(json_printable(buf, sizeof(buf), "\xc3\xa9\n"), "\xc3\xa9\\x0a");
	assert_string_equal(json_printable(buf, sizeof(buf), "\xc2\x9b"), "\\xc2\\x9b");
	/* what turns text around or cannot be seen */
	assert_string_equal(json_printable(buf, sizeof(buf), "a\xe2\x80\xae"), "a\\u202e");
	assert_string_equal(json_printable(buf, sizeof(buf), "\xef\xbb\xbf"), "\\ufeff");
	assert_string_equal(json_printable(buf, sizeof(buf), "\xd8\x9c"), "\\u061c");
	assert_string_equal(json_printable(buf, sizeof(buf), "\xf3\xa0\x81\x81"), "\\U000e0041");
	assert_string_equal(json_printable(buf, 14, "\xf3\xa0\x81\x81"), "\\U000e0041");
	assert_string_equal(json_printable(buf, 13, "\xf3\xa0\x81\x81"), "...");
	assert_string_equal(json_printable(buf, sizeof(buf), "0123456789abcdefgh"), "012345678...");
	assert_string_equal(json_printable(buf, sizeof(buf), "\xe2\x82"), "\\xe2\\x82");
}

static void *gzip_member(const char *text, size_t len, size_t *ret_len)
{
	size_t size = len + 1024;
	unsigned char *buf = malloc(size);
	z_stream z = { 0 };

	assert_non_null(buf);
	assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
	z.next_in = (unsigned char *)text;
	z.avail_in = len;
	z.next_out = buf;
	z.avail_out = size;
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	*ret_len = z.total_out;
	deflateEnd(&z);
	return buf;
}

/* A member for each piece of text: the source gives the text back, however it is cut up. */
static void test_source_members(void **state)
{
	const size_t len = 3 * JSON_SOURCE_BUF + 17, piece = 100003;
	char *text = malloc(len), *file = malloc(2 * len), *read_back = malloc(len);
	struct json_source source;
	size_t file_len = 0, got = 0, n, members = 0;
	int ret = 1;
	void *member;

	(void)state;
	assert_true(text && file && read_back);
	for (size_t i = 0; i < len; i++)
		text[i] = (i * 2654435761u) >> 24;
	for (size_t at = 0; at < len; at += piece, members++) {
		member = gzip_member(text + at, len - at < piece ? len - at : piece, &n);
		memcpy(file + file_len, member, n);
		file_len += n;
		free(member);
	}
	assert_int_equal(json_source_open_mem(&source, file, file_len), 0);
	assert_true(source.gzip);
	for (; ret == 1; ret = json_source_fill(&source)) {
		n = source.end - source.pos;
		assert_true(got + n <= len);
		memcpy(read_back + got, source.pos, n);
		got += n;
	}
	assert_int_equal(ret, 0);
	assert_int_equal(got, len);
	assert_memory_equal(read_back, text, len);
	assert_int_equal(source.members, members);
	json_source_close(&source);
	free(text);
	free(file);
	free(read_back);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_us_to_ns),
		cmocka_unit_test(test_scan),
		cmocka_unit_test(test_printable),
		cmocka_unit_test(test_source_members),
	};

	return cmocka_run_group_tests_name("json_read", tests, NULL, NULL);
}
