// SPDX-License-Identifier: BSD-2-Clause
#include "util/json_scan.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum scan_state {
	SC_VALUE,
	SC_VALUE_OR_END, /* after [ */
	SC_KEY_OR_END,   /* after { */
	SC_KEY,
	SC_COLON,
	SC_AFTER, /* after a value in a container */
	SC_STRING,
	SC_ESCAPE,
	SC_HEX,
	SC_LOW_BACKSLASH, /* a high surrogate wants \uDC00 behind it */
	SC_LOW_U,
	SC_LITERAL,
	SC_NUM_MINUS,
	SC_NUM_ZERO,
	SC_NUM_INT,
	SC_NUM_POINT,
	SC_NUM_FRAC,
	SC_NUM_E,
	SC_NUM_SIGN,
	SC_NUM_EXP,
	SC_DONE,
};

void json_scan_init(struct json_scan *scan)
{
	memset(scan, 0, sizeof(*scan));
}

static int scan_fail(struct json_scan *scan, const char *what)
{
	snprintf(scan->error, sizeof(scan->error), "%s", what);
	return -EBADMSG;
}

static int scan_unexpected(struct json_scan *scan, unsigned char c, const char *wanted)
{
	if (c > 0x20 && c < 0x7f)
		snprintf(scan->error, sizeof(scan->error), "%s expected, not '%c'", wanted, c);
	else
		snprintf(scan->error, sizeof(scan->error), "%s expected, not byte 0x%02x", wanted,
			c);
	return -EBADMSG;
}

static bool is_space(unsigned char c)
{
	return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static bool is_digit(unsigned char c)
{
	return c >= '0' && c <= '9';
}

static void value_done(struct json_scan *scan)
{
	scan->state = scan->depth ? SC_AFTER : SC_DONE;
}

static int container_open(struct json_scan *scan, bool array)
{
	if (scan->depth == JSON_DEPTH_MAX)
		return scan_fail(scan, "nested too deep");
	scan->depth++;
	scan->arrays &= ~(1ULL << scan->depth);
	scan->arrays |= (uint64_t)array << scan->depth;
	scan->state = array ? SC_VALUE_OR_END : SC_KEY_OR_END;
	return 0;
}

static void container_close(struct json_scan *scan)
{
	scan->depth--;
	value_done(scan);
}

static bool in_array(const struct json_scan *scan)
{
	return scan->arrays >> scan->depth & 1;
}

static int value_start(struct json_scan *scan, unsigned char c)
{
	scan->values++;
	switch (c) {
	case '{':
	case '[':
		return container_open(scan, c == '[');
	case '"':
		scan->key = false;
		scan->state = SC_STRING;
		return 0;
	case 't':
		scan->literal = "rue";
		break;
	case 'f':
		scan->literal = "alse";
		break;
	case 'n':
		scan->literal = "ull";
		break;
	case '-':
		scan->state = SC_NUM_MINUS;
		return 0;
	case '0':
		scan->state = SC_NUM_ZERO;
		return 0;
	default:
		if (!is_digit(c))
			return scan_unexpected(scan, c, "a value");
		scan->state = SC_NUM_INT;
		return 0;
	}
	scan->state = SC_LITERAL;
	return 0;
}

/* Everything but the insides of strings and numbers. */
static int scan_structure(struct json_scan *scan, unsigned char c)
{
	if (is_space(c))
		return 0;
	switch (scan->state) {
	case SC_VALUE_OR_END:
		if (c == ']') {
			container_close(scan);
			return 0;
		}
		return value_start(scan, c);
	case SC_VALUE:
		return value_start(scan, c);
	case SC_KEY_OR_END:
		if (c == '}') {
			container_close(scan);
			return 0;
		}
		/* fallthrough */
	case SC_KEY:
		if (c != '"')
			return scan_unexpected(scan, c, "a key in quotes");
		scan->key = true;
		scan->state = SC_STRING;
		return 0;
	case SC_COLON:
		if (c != ':')
			return scan_unexpected(scan, c, "':'");
		scan->state = SC_VALUE;
		return 0;
	default: /* SC_AFTER */
		if (c == ',')
			scan->state = in_array(scan) ? SC_VALUE : SC_KEY;
		else if (c == (in_array(scan) ? ']' : '}'))
			container_close(scan);
		else
			return scan_unexpected(
				scan, c, in_array(scan) ? "',' or ']'" : "',' or '}'");
		return 0;
	}
}

/* The ranges of RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF. */
static int utf8_start(struct json_scan *scan, unsigned char c)
{
	scan->utf8_lo = 0x80;
	scan->utf8_hi = 0xbf;
	if (c >= 0xc2 && c <= 0xdf) {
		scan->utf8_need = 1;
	} else if (c >= 0xe0 && c <= 0xef) {
		scan->utf8_need = 2;
		if (c == 0xe0)
			scan->utf8_lo = 0xa0;
		else if (c == 0xed)
			scan->utf8_hi = 0x9f;
	} else if (c >= 0xf0 && c <= 0xf4) {
		scan->utf8_need = 3;
		if (c == 0xf0)
			scan->utf8_lo = 0x90;
		else if (c == 0xf4)
			scan->utf8_hi = 0x8f;
	} else {
		return scan_fail(scan, "invalid UTF-8 in a string");
	}
	return 0;
}

static int scan_string(struct json_scan *scan, unsigned char c)
{
	if (scan->utf8_need) {
		if (c < scan->utf8_lo || c > scan->utf8_hi)
			return scan_fail(scan, "invalid UTF-8 in a string");
		scan->utf8_need--;
		scan->utf8_lo = 0x80;
		scan->utf8_hi = 0xbf;
		return 0;
	}
	if (c >= 0x80)
		return utf8_start(scan, c);
	if (c < 0x20) {
		snprintf(scan->error, sizeof(scan->error), "control byte 0x%02x in a string", c);
		return -EBADMSG;
	}
	if (c == '\\')
		scan->state = SC_ESCAPE;
	else if (c == '"' && scan->key)
		scan->state = SC_COLON;
	else if (c == '"')
		value_done(scan);
	return 0;
}

static int hex_done(struct json_scan *scan)
{
	bool high = scan->hex >= 0xd800 && scan->hex <= 0xdbff;
	bool low = scan->hex >= 0xdc00 && scan->hex <= 0xdfff;

	scan->surrogate_escapes |= high || low;
	if (low != (scan->high_surrogate != 0))
		return scan_fail(scan, "half of a surrogate pair in a string");
	scan->high_surrogate = high ? scan->hex : 0;
	scan->state = high ? SC_LOW_BACKSLASH : SC_STRING;
	return 0;
}

static int scan_escape(struct json_scan *scan, unsigned char c)
{
	switch (scan->state) {
	case SC_ESCAPE:
		if (c == 'u') {
			scan->state = SC_HEX;
			scan->hex_left = 4;
			scan->hex = 0;
			return 0;
		}
		if (!c || !strchr("\"\\/bfnrt", c))
			return scan_fail(scan, "unknown escape in a string");
		scan->state = SC_STRING;
		return 0;
	case SC_HEX:
		if (is_digit(c))
			scan->hex = scan->hex << 4 | (c - '0');
		else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
			scan->hex = scan->hex << 4 | ((c | 0x20) - 'a' + 10);
		else
			return scan_fail(scan, "\\u without four hex digits");
		return --scan->hex_left ? 0 : hex_done(scan);
	case SC_LOW_BACKSLASH:
	default: /* SC_LOW_U */
		if (c != (scan->state == SC_LOW_U ? 'u' : '\\'))
			return scan_fail(scan, "half of a surrogate pair in a string");
		if (scan->state == SC_LOW_BACKSLASH) {
			scan->state = SC_LOW_U;
			return 0;
		}
		scan->state = SC_HEX;
		scan->hex_left = 4;
		scan->hex = 0;
		return 0;
	}
}

static int scan_literal(struct json_scan *scan, unsigned char c)
{
	if (c != *scan->literal)
		return scan_fail(scan, "a value that is not true, false or null");
	if (!*++scan->literal)
		value_done(scan);
	return 0;
}

static bool number_may_end(int state)
{
	return state == SC_NUM_ZERO || state == SC_NUM_INT || state == SC_NUM_FRAC ||
	       state == SC_NUM_EXP;
}

/* Returns 1 when c is part of the number, 0 when the number ended before it. */
static int scan_number(struct json_scan *scan, unsigned char c)
{
	bool digit = is_digit(c), e = c == 'e' || c == 'E';
	int next = SC_DONE;

	switch (scan->state) {
	case SC_NUM_MINUS:
		if (digit)
			next = c == '0' ? SC_NUM_ZERO : SC_NUM_INT;
		break;
	case SC_NUM_ZERO:
		if (digit)
			return scan_fail(scan, "a number with a leading zero");
		/* fallthrough */
	case SC_NUM_INT:
		next = digit ? SC_NUM_INT : c == '.' ? SC_NUM_POINT : e ? SC_NUM_E : SC_DONE;
		break;
	case SC_NUM_POINT:
	case SC_NUM_FRAC:
		if (digit)
			next = SC_NUM_FRAC;
		else if (e && scan->state == SC_NUM_FRAC)
			next = SC_NUM_E;
		break;
	case SC_NUM_E:
		if (c == '+' || c == '-') {
			next = SC_NUM_SIGN;
			break;
		}
		/* fallthrough */
	default: /* SC_NUM_SIGN, SC_NUM_EXP */
		if (digit)
			next = SC_NUM_EXP;
		break;
	}
	if (next != SC_DONE) {
		scan->state = next;
		return 1;
	}
	if (!number_may_end(scan->state))
		return scan_unexpected(scan, c, "a digit");
	value_done(scan);
	return 0;
}

/* How many of the bytes are plain: printable ASCII that neither ends a string nor escapes. */
static size_t plain_run(const unsigned char *text, size_t len)
{
	size_t i = 0;

	while (i < len && text[i] >= 0x20 && text[i] < 0x80 && text[i] != '"' && text[i] != '\\')
		i++;
	return i;
}

int json_scan_feed(struct json_scan *scan, const unsigned char *text, size_t len, size_t *ret_used)
{
	size_t i = 0;
	int ret = 0;

	while (i < len && scan->state != SC_DONE) {
		switch (scan->state) {
		case SC_STRING:
			if (!scan->utf8_need)
				i += plain_run(text + i, len - i);
			if (i == len)
				continue;
			ret = scan_string(scan, text[i]);
			break;
		case SC_ESCAPE:
		case SC_HEX:
		case SC_LOW_BACKSLASH:
		case SC_LOW_U:
			ret = scan_escape(scan, text[i]);
			break;
		case SC_LITERAL:
			ret = scan_literal(scan, text[i]);
			break;
		case SC_NUM_MINUS ... SC_NUM_EXP:
			ret = scan_number(scan, text[i]);
			if (!ret)
				continue; /* text[i] is not part of it */
			break;
		default:
			ret = scan_structure(scan, text[i]);
			break;
		}
		if (ret < 0)
			break;
		i++;
	}
	*ret_used = i;
	if (ret < 0)
		return ret;
	return scan->state == SC_DONE;
}

int json_scan_end(struct json_scan *scan)
{
	if (scan->state == SC_DONE || (!scan->depth && number_may_end(scan->state)))
		return 1;
	return -ENODATA;
}
