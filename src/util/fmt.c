/* SPDX-License-Identifier: BSD-2-Clause */
#include "util/fmt.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define ONES (~(uint64_t)0 / 255)
#define HIGHS (ONES * 0x80)

/* Non-zero when one of the 8 bytes is zero; exact as long as none has its high bit set. */
static inline uint64_t has_zero(uint64_t v)
{
	return (v - ONES) & ~v & HIGHS;
}

/* Whether all 8 bytes are printable ASCII that JSON needs not escape. */
static inline int is_plain8(uint64_t v)
{
	uint64_t control = (v - ONES * 0x20) & ~v;

	return !((v | control | has_zero(v ^ (ONES * '"')) | has_zero(v ^ (ONES * '\\'))) & HIGHS);
}

/* The ranges are those of table 3-7 of the Unicode standard: no overlong forms, no surrogates,
 * nothing above U+10FFFF. */
int fmt_utf8_need(unsigned char first, unsigned char *ret_lo, unsigned char *ret_hi)
{
	*ret_lo = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
	*ret_hi = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
	if (first < 0x80)
		return 0;
	if (first < 0xc2 || first > 0xf4)
		return -1;
	return first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
}

int fmt_utf8_scan(const unsigned char *s, size_t len)
{
	unsigned char lo, hi;
	int need = fmt_utf8_need(s[0], &lo, &hi);

	for (int i = 1; i <= need; i++) {
		if ((size_t)i >= len || s[i] < lo || s[i] > hi)
			return -i;
		lo = 0x80;
		hi = 0xbf;
	}
	return need < 0 ? -1 : need + 1;
}

static char *fmt_escape(char *p, unsigned char c)
{
	*p++ = '\\';
	switch (c) {
	case '"':
	case '\\':
		*p++ = (char)c;
		return p;
	case '\n':
		*p++ = 'n';
		return p;
	case '\t':
		*p++ = 't';
		return p;
	default:
		p = fmt_lit(p, "u00");
		*p++ = (char)('0' + (c >> 4));
		*p++ = "0123456789abcdef"[c & 15];
		return p;
	}
}

char *fmt_float(char *p, uint64_t bits, unsigned int size)
{
	uint32_t bits32 = (uint32_t)bits;
	int digits = size == 4 ? 6 : 15;
	double v;
	float v32;

	memcpy(&v, &bits, sizeof(v));
	memcpy(&v32, &bits32, sizeof(v32));
	if (size == 4)
		v = (double)v32;
	if (v != v)
		return fmt_lit(p, "\"NaN\"");
	if (isinf(v))
		return v < 0 ? fmt_lit(p, "\"-Infinity\"") : fmt_lit(p, "\"Infinity\"");
	if (v == 0 && signbit(v))
		return fmt_lit(p, "-0.0"); /* -0 is an integer to some readers */
	/* no locale with another decimal point: nothing calls setlocale() */
	for (;; digits++) {
		int n = snprintf(p, FMT_FLOAT_MAX, "%.*g", digits, v);

		if (digits == (size == 4 ? 9 : 17))
			return p + n;
		if (size == 4 ? strtof(p, NULL) == v32 : strtod(p, NULL) == v)
			return p + n;
	}
}

/* Writes the rest of a string, from the first word that is not plain. */
static char *fmt_json_rest(char *p, const char *s, const char *end)
{
	unsigned char c;
	uint64_t v;
	int n;

	while (s < end) {
		if (end - s >= 8) {
			memcpy(&v, s, 8);
			if (is_plain8(v)) {
				memcpy(p, &v, 8);
				p += 8;
				s += 8;
				continue;
			}
		}
		c = (unsigned char)*s;
		if (c < 0x20 || c == '"' || c == '\\') {
			p = fmt_escape(p, c);
			s++;
			continue;
		}
		n = fmt_utf8_scan((const unsigned char *)s, (size_t)(end - s));
		if (n == 2 && c == 0xc2 && (unsigned char)s[1] < 0xa0) {
			p = fmt_escape(p, (unsigned char)s[1]); /* C1 controls drive terminals */
			s += n;
		} else if (n > 0) {
			p = fmt_str(p, s, (size_t)n);
			s += n;
		} else {
			p = fmt_lit(p, "\xef\xbf\xbd");
			s -= n;
		}
	}
	*p++ = '"';
	return p;
}

/* The 1 to 7 bytes of s, padded with blanks. The loads overlap where they have the same bytes. */
static inline uint64_t load_padded(const char *s, size_t len)
{
	uint64_t v = ONES * ' ' << 8 * len, byte;
	uint32_t low, high;

	if (len >= 4) {
		memcpy(&low, s, 4);
		memcpy(&high, s + len - 4, 4);
		return v | (uint64_t)high << 8 * (len - 4) | low;
	}
	byte = (unsigned char)s[0];
	v |= byte;
	byte = (unsigned char)s[len / 2];
	v |= byte << 8 * (len / 2);
	byte = (unsigned char)s[len - 1];
	return v | byte << 8 * (len - 1);
}

char *fmt_json_str(char *p, const char *s, size_t len)
{
	const char *end = s + len;
	uint64_t v;

	*p++ = '"';
	/* nearly all strings are plain: copies whole words, the last of which may overlap with the one before */
	for (; end - s >= 8; p += 8, s += 8) {
		memcpy(&v, s, 8);
		if (!is_plain8(v))
			return fmt_json_rest(p, s, end);
		memcpy(p, &v, 8);
	}
	if (s < end && len >= 8) {
		memcpy(&v, end - 8, 8);
		if (!is_plain8(v))
			return fmt_json_rest(p, s, end);
		p -= 8 - (end - s);
		memcpy(p, &v, 8);
		p += 8;
	} else if (s < end) {
		v = load_padded(s, len);
		if (!is_plain8(v))
			return fmt_json_rest(p, s, end);
		memcpy(p, &v, 8);
		p += len;
	}
	*p++ = '"';
	return p;
}
