/* SPDX-License-Identifier: BSD-2-Clause */
#include <json-c/json.h>

#include "cases.h"
#include "unit.h"
#include "util/fmt.h"

#define GUARD 0x5a

/* Fixed seed, so that failures repeat (xorshift64, Marsaglia 2003). */
static uint64_t random_u64(void)
{
	static uint64_t x = 88172645463325252ull;

	return next_random(&x);
}

/* All numbers of digits are equally likely. */
static uint64_t random_width(void)
{
	return random_u64() >> (random_u64() & 63);
}

static char buf[256];

/* Fills buf with GUARD, and returns it for a function to write there. */
static char *guarded(void)
{
	return memset(buf, GUARD, sizeof(buf));
}

/* `end` is the function's result; it may have touched max bytes. */
static void check(const char *end, const char *expect, size_t max)
{
	size_t len = strlen(expect);

	assert_int_equal(end - buf, len);
	assert_memory_equal(buf, expect, len);
	assert_true(len <= max);
	for (size_t i = max; i < sizeof(buf); i++)
		assert_int_equal(buf[i], GUARD);
}

static void check_numbers(uint64_t v)
{
	char expect[48];

	snprintf(expect, sizeof(expect), "%" PRIu64, v);
	check(fmt_u64(guarded(), v), expect, FMT_U64_MAX);
	snprintf(expect, sizeof(expect), "%" PRIu32, (uint32_t)v);
	check(fmt_u32(guarded(), (uint32_t)v), expect, FMT_U32_MAX);
	snprintf(expect, sizeof(expect), "%" PRId64, (int64_t)v);
	check(fmt_s64(guarded(), (int64_t)v), expect, FMT_S64_MAX);
	snprintf(expect, sizeof(expect), "0x%" PRIx64, v);
	check(fmt_hex(guarded(), v), expect, FMT_HEX_MAX);
	snprintf(expect, sizeof(expect), "%" PRIu64 ".%03u", v / 1000, (unsigned int)(v % 1000));
	check(fmt_us(guarded(), v), expect, FMT_US_MAX);
}

TEST(test_numbers_small)
{
	for (uint64_t v = 0; v <= cases(100000, 2000); v++) {
		check_numbers(v);
		check_numbers(-v);
	}
}

TEST(test_numbers_edges)
{
	uint64_t p;
	int i, d;

	for (i = 0, p = 1; i < 20; i++, p *= 10) {
		for (d = -2; d <= 2; d++) {
			check_numbers(p + (uint64_t)d);
			check_numbers(-p + (uint64_t)d);
		}
	}
	for (i = 0; i < 64; i++) {
		for (d = -2; d <= 2; d++)
			check_numbers(((uint64_t)1 << i) + (uint64_t)d);
	}
	check_numbers(UINT64_MAX);
	check_numbers((uint64_t)INT64_MAX);
	check_numbers((uint64_t)INT64_MIN);
}

TEST(test_numbers_random)
{
	for (int i = cases(200000, 4000); i > 0; i--)
		check_numbers(random_width());
}

TEST(test_widest)
{
	assert_int_equal(fmt_u32(buf, UINT32_MAX) - buf, FMT_U32_MAX);
	assert_int_equal(fmt_u64(buf, UINT64_MAX) - buf, FMT_U64_MAX);
	assert_int_equal(fmt_s64(buf, INT64_MIN) - buf, FMT_S64_MAX);
	assert_int_equal(fmt_us(buf, UINT64_MAX) - buf, FMT_US_MAX);
	assert_int_equal(fmt_hex(buf, UINT64_MAX) - buf, FMT_HEX_MAX);
}

TEST(test_strings)
{
	check(fmt_lit(guarded(), "{\"ph\":\"X\"}"), "{\"ph\":\"X\"}", 10);
	check(fmt_lit(guarded(), ""), "", 0);
	check(fmt_str(guarded(), "raw\"text", 4), "raw\"", 4);
}

static void check_json(const char *s, size_t len, const char *expect)
{
	assert_true(FMT_JSON_STR_MAX(len) <= sizeof(buf));
	check(fmt_json_str(guarded(), s, len), expect, FMT_JSON_STR_MAX(len));
}

#define CHECK_JSON(lit, expect) check_json(lit, sizeof(lit) - 1, expect)
#define FFFD "\xef\xbf\xbd"

TEST(test_json_known)
{
	CHECK_JSON("", "\"\"");
	CHECK_JSON("mul_mat", "\"mul_mat\"");
	CHECK_JSON("12345678", "\"12345678\"");
	CHECK_JSON("a longer name than eight bytes", "\"a longer name than eight bytes\"");
	CHECK_JSON("say \"hi\" \\o/", "\"say \\\"hi\\\" \\\\o/\"");
	CHECK_JSON("1234567\"", "\"1234567\\\"\"");
	CHECK_JSON("tab\there\nnext\rcr", "\"tab\\there\\nnext\\u000dcr\"");
	CHECK_JSON("\0\x01\x1f\x7f", "\"\\u0000\\u0001\\u001f\x7f\"");
	CHECK_JSON(
		"\0\0\0\0\0\0\0\0", "\"\\u0000\\u0000\\u0000\\u0000\\u0000\\u0000\\u0000\\u0000\"");
	CHECK_JSON("gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80",
		"\"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80\"");
	CHECK_JSON("a\xff"
		   "b",
		"\"a" FFFD "b\"");
	/* overlong '/', lone surrogate, above U+10FFFF: none of their bytes can start anything */
	CHECK_JSON("\xc0\xaf", "\"" FFFD FFFD "\"");
	CHECK_JSON("\xed\xa0\xbd", "\"" FFFD FFFD FFFD "\"");
	CHECK_JSON("\xf4\x90\x80\x80", "\"" FFFD FFFD FFFD FFFD "\"");
	/* table 3-11 of the Unicode standard: truncated sequences, one U+FFFD each */
	CHECK_JSON("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", "\"" FFFD FFFD FFFD FFFD "A\"");
	CHECK_JSON("cut \xf0\x9f\x98", "\"cut " FFFD "\"");
	CHECK_JSON("12345678\xe2\x82", "\"12345678" FFFD "\"");
}

/* Whether the n bytes at s are the UTF-8 form of a code point: decoded and encoded again. */
static bool is_char(const unsigned char *s, size_t n)
{
	static const unsigned char lead[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
	unsigned char out[4];
	uint32_t cp;
	size_t i;

	if (n == 1)
		return s[0] < 0x80;
	cp = s[0] & (0x7f >> n);
	for (i = 1; i < n; i++)
		cp = cp << 6 | (s[i] & 0x3f);
	if (cp > 0x10ffff || (cp >= 0xd800 && cp <= 0xdfff))
		return false;
	if (n != (cp < 0x80 ? 1u : cp < 0x800 ? 2u : cp < 0x10000 ? 3u : 4u))
		return false;
	for (i = n; i-- > 1; cp >>= 6)
		out[i] = 0x80 | (cp & 0x3f);
	out[0] = (unsigned char)(lead[n] | cp);
	return memcmp(out, s, n) == 0;
}

/* Whether these n bytes begin a longer character: tries to complete it. */
static bool is_prefix(const unsigned char *s, size_t n)
{
	unsigned char t[4];

	memcpy(t, s, n);
	for (int tail = 0; tail < 5 * 5 * 5; tail++) {
		const int digits[] = { 0, tail % 5, tail / 5 % 5, tail / 25 };

		for (size_t i = n; i < 4; i++)
			t[i] = (unsigned char)(0x80 + 0x0f * digits[i]);
		for (size_t len = n + 1; len <= 4; len++) {
			if (is_char(t, len))
				return true;
		}
	}
	return false;
}

/* Writes what a reader must see: s with each ill-formed part replaced. Returns the length. */
static size_t sanitize(const unsigned char *s, size_t len, char *out)
{
	size_t i = 0, n, left, o = 0;

	while (i < len) {
		left = len - i;
		for (n = 1; n <= 4 && n <= left && !is_char(s + i, n); n++)
			;
		if (n <= 4 && n <= left) {
			memcpy(out + o, s + i, n);
			o += n;
			i += n;
			continue;
		}
		for (n = 3; n > 1 && (n > left || !is_prefix(s + i, n)); n--)
			;
		memcpy(out + o, FFFD, 3);
		o += 3;
		i += n;
	}
	return o;
}

/* Escapes only name characters up to U+00FF, so none is a surrogate; no control byte is left, since some parsers let them pass. */
static void check_escapes(const char *p, const char *end)
{
	for (; p < end; p++) {
		assert_true((unsigned char)*p >= 0x20);
		if (*p != '\\')
			continue;
		p++;
		if (*p == 'u')
			assert_memory_equal(p, "u00", 3);
	}
}

static void check_round_trip(const unsigned char *s, size_t len)
{
	struct json_tokener *tok = json_tokener_new();
	struct json_object *obj;
	char text[512], expect[512], *end;
	size_t n;

	assert_non_null(tok);
	assert_true(FMT_JSON_STR_MAX(len) <= sizeof(text));
	end = fmt_json_str(text, (const char *)s, len);
	assert_true((size_t)(end - text) <= FMT_JSON_STR_MAX(len));
	check_escapes(text, end);
	json_tokener_set_flags(tok, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	obj = json_tokener_parse_ex(tok, text, (int)(end - text));
	assert_int_equal(json_tokener_get_error(tok), json_tokener_success);
	assert_int_equal(json_object_get_type(obj), json_type_string);
	n = sanitize(s, len, expect);
	assert_int_equal(json_object_get_string_len(obj), n);
	assert_memory_equal(json_object_get_string(obj), expect, n);
	json_object_put(obj);
	json_tokener_free(tok);
}

TEST(test_json_round_trip)
{
	/* bytes at the borders of UTF-8's ranges and of what JSON escapes */
	static const unsigned char odd[] =
		"\0\x1f \"\\\n\t/\x7f\x80\x8f\x90\x9f\xa0\xbf\xc0\xc1"
		"\xc2\xdf\xe0\xe1\xec\xed\xee\xef\xf0\xf1\xf3\xf4\xf5\xff";
	unsigned char s[80];
	size_t len, i;
	int round, kind;

	for (round = cases(30000, 1000); round > 0; round--) {
		kind = round % 3;
		len = random_u64() % (sizeof(s) + 1);
		for (i = 0; i < len; i++) {
			if (kind == 0 || (kind == 2 && random_u64() % 16))
				s[i] = kind == 0 ? (unsigned char)random_u64()
						 : (unsigned char)(' ' + random_u64() % 95);
			else
				s[i] = odd[random_u64() % (sizeof(odd) - 1)];
		}
		check_round_trip(s, len);
	}
}

/* Every byte at each of the 8 places that the fast path looks at together. */
TEST(test_json_each_byte)
{
	unsigned char s[17];
	int c;
	size_t at;

	for (c = 0; c < 256; c++) {
		for (at = 0; at < sizeof(s); at++) {
			memset(s, 'x', sizeof(s));
			s[at] = (unsigned char)c;
			check_round_trip(s, sizeof(s));
			memset(s, '\x7f', sizeof(s));
			s[at] = (unsigned char)c;
			check_round_trip(s, sizeof(s));
		}
	}
}

static void check_float(const char *expected, uint64_t bits, unsigned int size)
{
	*fmt_float(buf, bits, size) = '\0';
	assert_true(strlen(buf) < FMT_FLOAT_MAX);
	assert_string_equal(buf, expected);
}

static uint64_t bits_of(double v)
{
	uint64_t bits;

	memcpy(&bits, &v, sizeof(bits));
	return bits;
}

static uint64_t bits_of_float(float v)
{
	uint32_t bits;

	memcpy(&bits, &v, sizeof(bits));
	return bits;
}

TEST(test_floats)
{
	check_float("0", bits_of(0), 8);
	check_float("-0.0", bits_of(-0.0), 8);
	check_float("3", bits_of(3), 8);
	check_float("0.1", bits_of(0.1), 8);
	check_float("0.30000000000000004", bits_of(0.1 + 0.2), 8);
	check_float("1e+300", bits_of(1e300), 8);
	check_float("-2.2250738585072014e-308", bits_of(-2.2250738585072014e-308), 8);
	check_float("4.94065645841247e-324", 1, 8);
	check_float("0.1", bits_of_float(0.1f), 4);
	check_float("16777216", bits_of_float(16777216.0f), 4);
	check_float("3.4028235e+38", 0x7f7fffff, 4);
	check_float("-1.4013e-45", 0x80000001, 4);
	check_float("-0.0", 0x80000000, 4);
	/* values for which JSON has no number */
	check_float("\"NaN\"", 0x7ff8000000000000, 8);
	check_float("\"NaN\"", 0xfff0000000000001, 8);
	check_float("\"NaN\"", 0x7fc00000, 4);
	check_float("\"Infinity\"", 0x7ff0000000000000, 8);
	check_float("\"-Infinity\"", 0xff800000, 4);
}

TEST(test_floats_random)
{
	for (unsigned int i = cases(100000, 2000); i > 0; i--) {
		uint64_t bits = random_u64();
		double v;
		float f;

		*fmt_float(buf, bits, 8) = '\0';
		memcpy(&v, &bits, sizeof(v));
		if (*buf != '"')
			assert_int_equal(bits_of(strtod(buf, NULL)), bits);
		*fmt_float(buf, bits & UINT32_MAX, 4) = '\0';
		memcpy(&f, &bits, sizeof(f));
		if (*buf != '"')
			assert_int_equal(bits_of_float(strtof(buf, NULL)), bits & UINT32_MAX);
	}
}

RUN_TESTS(NULL, NULL)
