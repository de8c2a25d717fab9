/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzz target of the formatter: any bytes must come out as one JSON string of valid UTF-8
 * within the promised size, and any number as snprintf() prints it.
 *
 *   clang -g -O1 -std=gnu11 -D_GNU_SOURCE -Isrc -fsanitize=fuzzer,address,undefined \
 *	tests/fuzz/fuzz_fmt.c src/util/fmt.c -ljson-c -o build/fuzz_fmt
 *   build/fuzz_fmt -max_total_time=60
 */
#include "fuzz.h"

#include <inttypes.h>
#include <json-c/json.h>

#include "util/fmt.h"

static void check_number(const char *buf, const char *end, const char *expect, size_t max)
{
	size_t len = (size_t)(end - buf);

	REQUIRE(len <= max && len == strlen(expect) && memcmp(buf, expect, len) == 0);
}

static void fuzz_numbers(uint64_t v)
{
	char buf[32], expect[32];

	snprintf(expect, sizeof(expect), "%" PRIu64, v);
	check_number(buf, fmt_u64(buf, v), expect, FMT_U64_MAX);
	snprintf(expect, sizeof(expect), "%" PRId64, (int64_t)v);
	check_number(buf, fmt_s64(buf, (int64_t)v), expect, FMT_S64_MAX);
	snprintf(expect, sizeof(expect), "%" PRIu32, (uint32_t)v);
	check_number(buf, fmt_u32(buf, (uint32_t)v), expect, FMT_U32_MAX);
	snprintf(expect, sizeof(expect), "0x%" PRIx64, v);
	check_number(buf, fmt_hex(buf, v), expect, FMT_HEX_MAX);
	snprintf(expect, sizeof(expect), "%" PRIu64 ".%03u", v / 1000, (unsigned int)(v % 1000));
	check_number(buf, fmt_us(buf, v), expect, FMT_US_MAX);
}

/* No escape names anything above U+00FF, so none is a surrogate; no control byte is left,
 * which some parsers let pass. */
static void check_escapes(const char *p, const char *end)
{
	for (; p < end; p++) {
		REQUIRE((unsigned char)*p >= 0x20);
		if (*p == '\\' && *++p == 'u')
			REQUIRE(memcmp(p, "u00", 3) == 0);
	}
}

static void fuzz_string(const uint8_t *data, size_t size)
{
	size_t max = FMT_JSON_STR_MAX(size), len, len2;
	char *out = malloc(max), *again = NULL;
	struct json_tokener *tok = json_tokener_new();
	struct json_object *obj;

	REQUIRE(out && tok);
	len = (size_t)(fmt_json_str(out, (const char *)data, size) - out);
	REQUIRE(len >= 2 && len <= max);
	check_escapes(out, out + len);
	json_tokener_set_flags(tok, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	obj = json_tokener_parse_ex(tok, out, (int)len);
	REQUIRE(json_tokener_get_error(tok) == json_tokener_success);
	REQUIRE(json_object_is_type(obj, json_type_string));

	/* what a reader sees is well formed, so formatting it again changes nothing */
	again = malloc(FMT_JSON_STR_MAX(json_object_get_string_len(obj)));
	REQUIRE(again);
	len2 = (size_t)(fmt_json_str(again, json_object_get_string(obj), (size_t)json_object_get_string_len(obj)) - again);
	REQUIRE(len2 == len && memcmp(out, again, len) == 0);

	json_object_put(obj);
	json_tokener_free(tok);
	free(again);
	free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t v;

	if (size >= sizeof(v)) {
		memcpy(&v, data, sizeof(v));
		fuzz_numbers(v);
		fuzz_numbers(v >> (data[0] & 63));
	}
	if (size <= 1 << 16)
		fuzz_string(data, size);
	return 0;
}
