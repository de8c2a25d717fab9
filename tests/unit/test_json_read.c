// SPDX-License-Identifier: BSD-2-Clause
/* The JSON readers: byte sources, values in a stream and their nodes, times, untrusted text. */
#include <zlib.h>

#include "read/json_source.h"
#include "unit.h"
#include "util/alloc.h"
#include "util/text.h"

/* Parses the text, fed in pieces of n bytes, into nodes that are valid until the next call. */
static void value_parse(struct json_nodes *nodes, const char *text, size_t n)
{
	static char buf[1024];
	size_t len = strlen(text), used;
	struct json_scan scan;
	int ret = 0;

	assert_true(len < sizeof(buf));
	strcpy(buf, text);
	json_scan_init(&scan, nodes);
	for (size_t at = 0; at < len && !ret; at += n)
		ret = json_scan_feed(&scan, (unsigned char *)buf + at, len - at < n ? len - at : n, &used);
	assert_int_equal(json_scan_end(&scan), 1);
	assert_int_equal(json_nodes_finish(nodes, buf), 0);
}

TEST(test_us_to_ns)
{
	static const struct {
		const char *text;
		int ret;
		int64_t ns;
	} cases[] = { { "0", 0, 0 }, { "1", 0, 1000 }, { "-0.001", 0, -1 }, { "4291064922837.701", 0, 4291064922837701 },
		{ "9223372036854775.807", 0, INT64_MAX }, { "9223372036854775.808", -ERANGE, 0 },
		{ "9223372036854776", -ERANGE, 0 }, { "18446744073709551616", -ERANGE, 0 }, { "0.0001", 1, 0 },
		{ "-0.0001", 1, -1 }, { "1.2340", 0, 1234 }, { "1.2349", 1, 1234 }, { "1.5e3", 0, 1500000 },
		{ "15E-4", 1, 1 }, { "2e-3", 0, 2 }, { "0e99", 0, 0 }, { "1e99999999999", -ERANGE, 0 },
		{ "\"1\"", -EINVAL, 0 } };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct json_nodes nodes = { 0 };
		int64_t ns = 0;

		value_parse(&nodes, cases[i].text, 99);
		assert_int_equal(node_us_to_ns(nodes.list, &ns), cases[i].ret);
		assert_int_equal(ns, cases[i].ns);
		json_nodes_free(&nodes);
	}
}

/* Whether text is one JSON value, fed in pieces of n bytes. */
static bool scan_pieces(const char *text, size_t n)
{
	struct json_scan scan;
	size_t len = strlen(text), used;
	int ret;

	json_scan_init(&scan, NULL);
	for (size_t at = 0; at < len; at += n) {
		ret = json_scan_feed(&scan, (const unsigned char *)text + at, len - at < n ? len - at : n, &used);
		if (ret < 0)
			return false;
		if (ret)
			return at + used == len;
	}
	return json_scan_end(&scan) == 1;
}

TEST(test_scan)
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

	for (size_t n = 1; n < 9; n++) {
		for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
			assert_true(scan_pieces(good[i], n));
		for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
			assert_false(scan_pieces(bad[i], n));
	}
}

TEST(test_nodes)
{
	static const char text[] =
		" {\"a\":[1,{\"b\":null},-2.5e1],\"\\u0062\":\"x\\n\\u20ac\\ud83d\\ude00\\u0000y\",\"c\":true,\"d\":false,\"e\":{}}";
	static const char string[] = "x\n\xe2\x82\xac\xf0\x9f\x98\x80\0y";
	struct json_nodes nodes = { 0 };

	for (size_t n = 1; n < sizeof(text); n++) {
		const struct json_node *root, *a, *child;

		value_parse(&nodes, text, n);
		root = nodes.list;
		assert_int_equal(root->kind, JSON_OBJECT);
		a = node_get(root, "a");
		assert_true(node_is(a, JSON_ARRAY));
		child = json_next(a, NULL);
		assert_int_equal(node_s64(child), 1);
		assert_string_equal(child->text, "1");
		child = json_next(a, child);
		assert_true(node_is(node_get(child, "b"), JSON_NULL));
		child = json_next(a, child);
		assert_int_equal(child->kind, JSON_REAL);
		assert_true(node_double(child) == -25);
		assert_null(json_next(a, child));
		assert_int_equal(node_get(root, "b")->len, sizeof(string) - 1);
		assert_memory_equal(node_string(node_get(root, "b")), string, sizeof(string));
		assert_true(node_is(node_get(root, "c"), JSON_TRUE) &&
			    node_is(node_get(root, "d"), JSON_FALSE));
		assert_null(json_next(node_get(root, "e"), NULL));
		assert_null(node_get(root, "f"));
		assert_null(node_get(a, "b"));
	}
	json_nodes_free(&nodes);
}

/* Of members with the same key the last counts, as with json-c, Python and JSON.parse. */
TEST(test_nodes_repeated)
{
	static const char text[] =
		"{\"a\":1,\"b\":{\"c\":1,\"d\":2,\"c\":3},\"\\u0061\":[5],\"b\":6,\"a\":7}";
	struct json_nodes nodes = { 0 };
	char many[1024] = "{", *p = many + 1;
	unsigned int n = 0;

	value_parse(&nodes, text, 99);
	json_for_each (child, nodes.list)
		n++;
	assert_int_equal(n, 2);
	assert_int_equal(node_s64(node_get(nodes.list, "a")), 7);
	assert_int_equal(node_s64(node_get(nodes.list, "b")), 6);

	for (int i = 0; i < 100; i++)
		p += sprintf(p, "\"%d\":%d%c", i % 50, i, i < 99 ? ',' : '}');
	value_parse(&nodes, many, 99);
	n = 0;
	json_for_each (child, nodes.list)
		assert_int_equal(node_s64(child), 50 + n++);
	assert_int_equal(n, 50);
	json_nodes_free(&nodes);
}

/* Neither by length nor as a C string does a key with a NUL equal the one that ends there. */
TEST(test_nodes_nul_key)
{
	static const char *const names[] = { "a" };
	const struct json_node *found;
	struct json_nodes nodes = { 0 };
	unsigned int n = 0;

	value_parse(&nodes, "{\"a\\u0000\":1,\"a\\u0000b\":2,\"\\u0000\":3,\"a\":4,\"a\\u0000b\":5,\"\\u0061\\u0000\":6}", 99);
	json_for_each (child, nodes.list) {
		assert_int_equal(strlen(child->key), child->key_len);
		assert_int_equal(!strcmp(child->key, "a"), node_s64(child) == 4);
		assert_true(node_get(nodes.list, child->key) == child);
		n++;
	}
	assert_int_equal(n, 4);
	node_members(nodes.list, names, 1, &found);
	assert_int_equal(node_s64(found), 4);
	json_nodes_free(&nodes);
}

TEST(test_node_numbers)
{
	static const struct {
		const char *text;
		int64_t s64;
		uint64_t u64;
	} cases[] = { { "0", 0, 0 }, { "-0", 0, 0 }, { "-7", -7, 0 }, { "9223372036854775807", INT64_MAX, INT64_MAX },
		{ "9223372036854775808", INT64_MAX, 9223372036854775808ULL },
		{ "-9223372036854775808", INT64_MIN, 0 }, { "-9223372036854775809", INT64_MIN, 0 },
		{ "18446744073709551615", INT64_MAX, UINT64_MAX }, { "18446744073709551616", INT64_MAX, UINT64_MAX },
		{ "99999999999999999999999", INT64_MAX, UINT64_MAX }, { "1.0", 0, 0 }, { "\"1\"", 0, 0 } };
	struct json_nodes nodes = { 0 };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		value_parse(&nodes, cases[i].text, 99);
		assert_true(node_s64(nodes.list) == cases[i].s64);
		assert_true(node_u64(nodes.list) == cases[i].u64);
	}
	json_nodes_free(&nodes);
}

/* Members in the expected order are found at once, and in any other order as well. */
TEST(test_node_get_next)
{
	static const char order[] = "abcdcab";
	const struct json_node *cursor = NULL;
	struct json_nodes nodes = { 0 };
	char key[2] = "";

	value_parse(&nodes, "{\"a\":97,\"b\":98,\"c\":99,\"d\":100}", 99);
	for (const char *p = order; *p; p++) {
		key[0] = *p;
		assert_int_equal(node_s64(node_get_next(nodes.list, key, &cursor)), *p);
	}
	assert_null(node_get_next(nodes.list, "x", &cursor));
	json_nodes_free(&nodes);
}

/* Values of all sizes, across buffer borders; the file's lines are counted. */
TEST(test_reader_values)
{
	const size_t count = 3000;
	const struct json_node *value;
	struct json_reader reader;
	struct json_source source;
	char *text, *p;

	p = text = malloc(count * (count / 2 + 32));
	assert_non_null(text);
	for (size_t i = 0; i < count; i++) {
		p += sprintf(p, "{\"n\":%zu,\n\"s\":\"", i);
		memset(p, 'x', i % 1400);
		p = stpcpy(p + i % 1400, "\"}");
	}
	assert_int_equal(json_source_open_mem(&source, text, (size_t)(p - text)), 0);
	json_reader_init(&reader, &source);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(json_reader_value(&reader, i % 7 == 3 ? NULL : &value), 0);
		assert_int_equal(reader.value_line, i + 1);
		if (i % 7 == 3)
			continue;
		assert_int_equal(node_s64(node_get(value, "n")), i);
		assert_int_equal(node_get(value, "s")->len, i % 1400);
	}
	assert_int_equal(json_reader_value(&reader, &value), -ENODATA);
	assert_int_equal(reader.byte, p - text);
	json_reader_free(&reader);
	json_source_close(&source);
	free(text);
}

TEST(test_printable)
{
	char buf[16];

	assert_string_equal(text_printable(buf, sizeof(buf), "mul_mat"), "mul_mat");
	assert_string_equal(text_printable(buf, sizeof(buf), "\xc3\xa9\n"), "\xc3\xa9\\x0a");
	assert_string_equal(text_printable(buf, sizeof(buf), "\xc2\x9b"), "\\xc2\\x9b");
	/* characters that reorder text or are invisible */
	assert_string_equal(text_printable(buf, sizeof(buf), "a\xe2\x80\xae"), "a\\u202e");
	assert_string_equal(text_printable(buf, sizeof(buf), "\xef\xbb\xbf"), "\\ufeff");
	assert_string_equal(text_printable(buf, sizeof(buf), "\xd8\x9c"), "\\u061c");
	assert_string_equal(text_printable(buf, sizeof(buf), "\xf3\xa0\x81\x81"), "\\U000e0041");
	assert_string_equal(text_printable(buf, 14, "\xf3\xa0\x81\x81"), "\\U000e0041");
	assert_string_equal(text_printable(buf, 13, "\xf3\xa0\x81\x81"), "...");
	assert_string_equal(text_printable(buf, sizeof(buf), "0123456789abcdefgh"), "012345678...");
	assert_string_equal(text_printable(buf, sizeof(buf), "\xe2\x82"), "\\xe2\\x82");
}

static void *gzip_member(const char *text, size_t len, size_t *ret_len)
{
	size_t size = len + 1024;
	unsigned char *buf = xmalloc(size);
	z_stream z = { 0 };

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

/* One member per piece of text: the source returns the text, however it is cut up. */
TEST(test_source_members)
{
	const size_t len = 3 * JSON_SOURCE_BUF + 17, piece = 100003;
	char *text = malloc(len), *file = malloc(2 * len), *read_back = malloc(len);
	struct json_source source;
	size_t file_len = 0, got = 0, n, members = 0;
	int ret = 1;
	void *member;

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
		source.pos = source.end;
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

RUN_TESTS(NULL, NULL)
