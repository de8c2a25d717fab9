// SPDX-License-Identifier: BSD-2-Clause
/* The protobuf encoder: bytes as in the encoding's specification. */
#include "schema/proto.h"
#include "unit.h"

#define same(buf, end, bytes)                                       \
	do {                                                        \
		assert_int_equal((end) - (buf), sizeof(bytes) - 1); \
		assert_memory_equal(buf, bytes, sizeof(bytes) - 1); \
	} while (0)

TEST(test_varint)
{
	static const struct {
		uint64_t v;
		const char *bytes;
		size_t len;
	} cases[] = { { 0, "\x00", 1 }, { 127, "\x7f", 1 }, { 128, "\x80\x01", 2 }, { 150, "\x96\x01", 2 },
		{ 16383, "\xff\x7f", 2 }, { 16384, "\x80\x80\x01", 3 }, { UINT32_MAX, "\xff\xff\xff\xff\x0f", 5 },
		{ INT64_MAX, "\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 9 },
		{ UINT64_MAX, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10 } };
	char buf[16];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(proto_varint(buf, cases[i].v) - buf, cases[i].len);
		assert_memory_equal(buf, cases[i].bytes, cases[i].len);
	}
}

TEST(test_fields)
{
	char buf[32];

	same(buf, proto_u64(buf, 1, 150), "\x08\x96\x01");
	same(buf, proto_u64(buf, 15, 1), "\x78\x01");
	same(buf, proto_u64(buf, 16, 1), "\x80\x01\x01");
	same(buf, proto_u64(buf, 330, 0), "\xd0\x14\x00");
	same(buf, proto_s64(buf, 2, -2), "\x10\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01");
	same(buf, proto_fixed64(buf, 5, UINT64_C(0x0102030405060708)),
		"\x29\x08\x07\x06\x05\x04\x03\x02\x01");
}

/* A length in two bytes, whatever it is. */
TEST(test_nested)
{
	char *outer, *inner, *p, *buf = malloc(PROTO_NESTED_MAX + 16);

	p = proto_open(buf, 3, &outer);
	p = proto_open(p, 4, &inner);
	p = proto_u64(p, 1, 150);
	p = proto_close(inner, p);
	same(buf, proto_close(outer, p), "\x1a\x86\x00\x22\x83\x00\x08\x96\x01");
	p = proto_open(buf, 3, &outer);
	same(buf, proto_close(outer, p), "\x1a\x80\x00");
	p = proto_open(buf, 3, &outer);
	memset(p, 'x', PROTO_NESTED_MAX - 1);
	p = proto_close(outer, p + PROTO_NESTED_MAX - 1);
	assert_int_equal(p - buf, 3 + PROTO_NESTED_MAX - 1);
	assert_memory_equal(buf, "\x1a\xff\x7fx", 4);
	free(buf);
}

TEST(test_text)
{
	char buf[64];

	same(buf, proto_text(buf, 2, "testing", 7), "\x12\x87\x00testing");
	same(buf, proto_text(buf, 2, "", 0), "\x12\x80\x00");
	same(buf, proto_text(buf, 2, "\xc3\xa9\n\"", 4), "\x12\x84\x00\xc3\xa9\n\"");
	/* text that is not UTF-8, and a character cut off at the end */
	same(buf,
		proto_text(buf, 2,
			"a\xff"
			"b\xc3",
			4),
		"\x12\x88\x00"
		"a\xef\xbf\xbd"
		"b\xef\xbf\xbd");
	assert_true(3 + 8 <= PROTO_TEXT_MAX(4));
}

RUN_TESTS(NULL, NULL)
