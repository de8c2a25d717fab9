// SPDX-License-Identifier: BSD-2-Clause
#include "util/json_read.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/fmt.h"
#include "util/text.h"

int json_reader_init(struct json_reader *reader, struct json_source *source)
{
	memset(reader, 0, sizeof(*reader));
	reader->source = source;
	reader->line = 1;
	reader->tokener = json_tokener_new_ex(JSON_DEPTH_MAX + 2);
	if (!reader->tokener)
		return -ENOMEM;
	/* not the strict mode: json_scan has seen the text before, and is stricter */
	json_tokener_set_flags(reader->tokener, 0);
	return 0;
}

void json_reader_free(struct json_reader *reader)
{
	if (reader->tokener)
		json_tokener_free(reader->tokener);
	reader->tokener = NULL;
	free(reader->text);
	reader->text = NULL;
}

static int __attribute__((format(printf, 3, 4)))
reader_fail(struct json_reader *reader, int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(reader->error, sizeof(reader->error), fmt, ap);
	va_end(ap);
	return err;
}

/* Sees to it that at least one byte stands at source->pos. */
static int reader_fill(struct json_reader *reader)
{
	struct json_source *source = reader->source;
	int ret;

	if (source->pos < source->end)
		return 0;
	ret = json_source_fill(source);
	if (ret < 0)
		return reader_fail(reader, ret, "%s", source->error);
	return ret ? 0 : -ENODATA;
}

/* Moves past n bytes that stand in the buffer. */
static void reader_advance(struct json_reader *reader, size_t n)
{
	const unsigned char *p = reader->source->pos, *end = p + n;

	reader->byte += n;
	reader->source->pos = end;
	while ((p = memchr(p, '\n', end - p))) {
		reader->line++;
		p++;
	}
}

int json_reader_peek(struct json_reader *reader)
{
	struct json_source *source = reader->source;
	int err;

	for (;;) {
		err = reader_fill(reader);
		if (err)
			return err;
		switch (*source->pos) {
		case '\n':
			reader->line++;
			/* fallthrough */
		case ' ':
		case '\t':
		case '\r':
			source->pos++;
			reader->byte++;
			break;
		default:
			return *source->pos;
		}
	}
}

void json_reader_take(struct json_reader *reader)
{
	if (reader->source->pos < reader->source->end)
		reader_advance(reader, 1);
}

/* Appends n bytes of the buffer to the text. */
static int text_append(struct json_reader *reader, size_t n)
{
	size_t want = reader->len + n, size = reader->size ? reader->size : 4096;
	char *text;

	if (want > JSON_TEXT_MAX)
		return reader_fail(reader, -E2BIG, "larger than %u MB", JSON_TEXT_MAX >> 20);
	while (size < want)
		size *= 2;
	if (size > reader->size) {
		text = realloc(reader->text, size);
		if (!text)
			return reader_fail(reader, -ENOMEM, "out of memory");
		reader->text = text;
		reader->size = size;
	}
	memcpy(reader->text + reader->len, reader->source->pos, n);
	reader->len = want;
	return 0;
}

/* The text of one value as objects. */
static int text_parse(
	struct json_reader *reader, const struct json_scan *scan, struct json_object **ret_value)
{
	struct json_object *value;
	enum json_tokener_error jerr;

	if (scan->values > JSON_VALUES_MAX)
		return reader_fail(reader, -E2BIG, "more than %u values", JSON_VALUES_MAX);
	json_tokener_reset(reader->tokener);
	value = json_tokener_parse_ex(reader->tokener, reader->text, reader->len);
	jerr = json_tokener_get_error(reader->tokener);
	if (jerr == json_tokener_continue) /* a number ends only with what follows it */
		value = json_tokener_parse_ex(reader->tokener, " ", 1);
	jerr = json_tokener_get_error(reader->tokener);
	if (jerr != json_tokener_success)
		return reader_fail(
			reader, -EBADMSG, "invalid JSON: %s", json_tokener_error_desc(jerr));
	*ret_value = value;
	return 0;
}

/* Runs the scanner over one value; keeps the text when wanted. */
static int value_scan(struct json_reader *reader, struct json_scan *scan, bool keep)
{
	struct json_source *source = reader->source;
	size_t used;
	int err, ret;

	do {
		err = reader_fill(reader);
		if (err == -ENODATA)
			return json_scan_end(scan) == 1 ? 0 : -ENODATA;
		if (err)
			return err;
		ret = json_scan_feed(scan, source->pos, source->end - source->pos, &used);
		if (keep && ret >= 0) {
			err = text_append(reader, used);
			if (err)
				return err;
		}
		reader_advance(reader, used);
	} while (!ret);
	if (ret < 0)
		return reader_fail(reader, ret, "invalid JSON at line %llu (byte %llu): %s",
			(unsigned long long)reader->line, (unsigned long long)reader->byte,
			scan->error);
	return 0;
}

int json_reader_value(struct json_reader *reader, struct json_object **ret_value)
{
	struct json_scan scan;
	int ret;

	ret = json_reader_peek(reader);
	if (ret < 0)
		return ret;
	reader->value_line = reader->line;
	reader->len = 0;
	json_scan_init(&scan);
	ret = value_scan(reader, &scan, ret_value != NULL);
	if (ret)
		return ret;
	reader->surrogate_escapes = scan.surrogate_escapes;
	return ret_value ? text_parse(reader, &scan, ret_value) : 0;
}

/* Reads up to and with the next newline; text over the limit is dropped, *ret_big says so. */
static int line_read(struct json_reader *reader, bool *ret_big)
{
	struct json_source *source = reader->source;
	const unsigned char *nl = NULL;
	bool big = false, any = false;
	size_t n;
	int err;

	reader->len = 0;
	while (!nl) {
		err = reader_fill(reader);
		if (err == -ENODATA && any)
			break;
		if (err)
			return err;
		any = true;
		n = source->end - source->pos;
		nl = memchr(source->pos, '\n', n);
		if (nl)
			n = nl - source->pos;
		err = big ? 0 : text_append(reader, n);
		if (err == -E2BIG)
			big = true;
		else if (err)
			return err;
		reader_advance(reader, n + (nl != NULL));
	}
	*ret_big = big;
	return 0;
}

/* What JSON takes for white space. */
static bool text_ended(const char *text, size_t len)
{
	while (len && strchr(" \t\r\n", text[len - 1]) && text[len - 1])
		len--;
	return len == 0;
}

int json_reader_line(struct json_reader *reader, struct json_object **ret_value)
{
	struct json_scan scan;
	size_t used = 0;
	bool big;
	int ret;

	do {
		reader->value_line = reader->line;
		ret = line_read(reader, &big);
		if (ret)
			return ret;
		if (big)
			return reader_fail(
				reader, -E2BIG, "larger than %u MB", JSON_TEXT_MAX >> 20);
	} while (text_is_blank(reader->text, reader->len));

	json_scan_init(&scan);
	ret = json_scan_feed(&scan, (unsigned char *)reader->text, reader->len, &used);
	if (!ret)
		ret = json_scan_end(&scan);
	if (ret == -ENODATA)
		return reader_fail(
			reader, -EBADMSG, "invalid JSON: the line ends inside the value");
	if (ret < 0)
		return reader_fail(
			reader, ret, "invalid JSON at column %zu: %s", used + 1, scan.error);
	if (!text_ended(reader->text + used, reader->len - used))
		return reader_fail(reader, -EBADMSG,
			"invalid JSON: text after the value, at column %zu", used + 1);
	reader->surrogate_escapes = scan.surrogate_escapes;
	return text_parse(reader, &scan, ret_value);
}

/* Decimal text scaled by 10^shift to an integer; the rules of json_us_to_ns. */
static int decimal_scale(const char *text, int shift, int64_t *ret)
{
	bool negative = *text == '-', point = false, cut = false, e = strpbrk(text, "eE");
	int64_t value = 0;
	long exponent = 0;

	text += negative;
	for (; (*text >= '0' && *text <= '9') || (*text == '.' && !point); text++) {
		if (*text == '.') {
			point = true;
			continue;
		}
		if (point && shift == 0 && !e) {
			cut |= *text != '0'; /* the usual case of too many decimals */
			continue;
		}
		if (__builtin_mul_overflow(value, 10, &value) ||
			__builtin_add_overflow(value, *text - '0', &value))
			return -ERANGE;
		shift -= point;
	}
	if (*text == 'e' || *text == 'E') {
		exponent = strtol(text + 1, NULL, 10);
		if (exponent > 10000 || exponent < -10000)
			return -ERANGE;
	}
	for (exponent += shift; exponent > 0 && value; exponent--)
		if (__builtin_mul_overflow(value, 10, &value))
			return -ERANGE;
	for (; exponent < 0 && value; exponent++) {
		cut |= value % 10 != 0;
		value /= 10;
	}
	*ret = negative ? -value - cut : value;
	return cut;
}

int json_us_to_ns(struct json_object *value, int64_t *ret_ns)
{
	int64_t ns;

	switch (json_object_get_type(value)) {
	case json_type_int:
		if (__builtin_mul_overflow(json_object_get_int64(value), 1000, &ns))
			return -ERANGE;
		*ret_ns = ns;
		return 0;
	case json_type_double: /* json-c keeps the text a double was parsed from */
		return decimal_scale(json_object_get_string(value), 3, ret_ns);
	default:
		return -EINVAL;
	}
}

const char *json_printable(char *buf, size_t size, const char *text)
{
	const unsigned char *p = (const unsigned char *)text;
	size_t used = 0, left = strlen(text), len;
	uint32_t c;
	int n;

	for (; left; p += len, left -= len) {
		n = fmt_utf8_scan(p, left);
		c = n > 0 ? text_decode(p, n) : 0;
		len = n > 0 && (c >= 0xa0 || n == 1) ? (size_t)n : 1;
		if (used + 4 + (c > 0xffff ? 6 : c > 0x9f ? 2 : 0) + sizeof("...") > size) {
			strcpy(buf + used, "...");
			return buf;
		}
		if (n > 0 && text_is_shown(c)) {
			memcpy(buf + used, p, len);
			used += len;
		} else if (c > 0xffff) {
			used += sprintf(buf + used, "\\U%08x", c);
		} else if (c > 0x9f) {
			used += sprintf(buf + used, "\\u%04x", c);
		} else {
			used += sprintf(buf + used, "\\x%02x", *p);
		}
	}
	buf[used] = '\0';
	return buf;
}
