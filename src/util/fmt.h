/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Formatting of events, the hot path of every sink.
 *
 * Each function writes at p and returns the new end; nothing is terminated with a NUL and nothing is bounds checked:
 * before it starts the caller reserves the sum of the FMT_*_MAX of what it writes. That many bytes may be touched,
 * wherever the end is. stdio costs more for one number than these do for a whole event, and it follows the locale.
 */
#ifndef INFTRACE_UTIL_FMT_H
#define INFTRACE_UTIL_FMT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The most bytes that each function writes. */
#define FMT_U32_MAX 10
#define FMT_U64_MAX 20
#define FMT_S64_MAX 20
#define FMT_US_MAX 21 /* 17 digits, the point, 3 decimals */
#define FMT_HEX_MAX 18
#define FMT_FLOAT_MAX 25 /* -1.2345678901234567e-308, and a NUL */
#define FMT_JSON_STR_MAX(len) (6 * (size_t)(len) + 9) /* each byte a \u00XX, the quotes, padding to a word */

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the first digit is the lowest byte");

static inline char *fmt_str(char *p, const char *s, size_t len)
{
	memcpy(p, s, len);
	return p + len;
}

/* A string literal: a few moves instead of a call. */
#define fmt_lit(p, lit) fmt_str((p), "" lit, sizeof(lit) - 1)

/* Writes the comma before a member of an object or a list, unless it is the first. */
static inline char *fmt_comma(char *p)
{
	if (p[-1] != '{' && p[-1] != '[')
		*p++ = ',';
	return p;
}

#define FMT_ZEROS UINT64_C(0x3030303030303030) /* eight times '0' */

/*
 * The eight decimal digits of v < 10^8, one per byte, the first in the lowest byte. All are
 * computed at once, in halves, quarters and single digits of one register, so there is neither a
 * table to load from nor a branch on their number: 10486 / 2^20 is 1 / 100 for values below 10^4,
 * 103 / 2^10 is 1 / 10 for values below 100.
 */
static inline uint64_t fmt_digits8(uint32_t v)
{
	uint64_t halves = v / 10000 | (uint64_t)(v % 10000) << 32;
	uint64_t high = (halves * 10486 >> 20) & UINT64_C(0x0000007f0000007f);
	uint64_t pairs = high | (halves - 100 * high) << 16;
	uint64_t tens = (pairs * 103 >> 10) & UINT64_C(0x000f000f000f000f);

	return tens | (pairs - 10 * tens) << 8;
}

/* Exactly 8 digits, v < 10^8. */
static inline void fmt_8digits(char *p, uint32_t v)
{
	uint64_t text = fmt_digits8(v) | FMT_ZEROS;

	memcpy(p, &text, sizeof(text));
}

/* v < 10^8, without leading zeros. Writes 8 bytes, the significant digits first. */
static inline char *fmt_below_1e8(char *p, uint32_t v)
{
	uint64_t digits = fmt_digits8(v);
	/* the last digit is written even if it is zero */
	unsigned int zeros = (unsigned int)__builtin_ctzll(digits | UINT64_C(1) << 56) / 8;
	uint64_t text = (digits | FMT_ZEROS) >> 8 * zeros;

	memcpy(p, &text, sizeof(text));
	return p + 8 - zeros;
}

static inline char *fmt_u64(char *p, uint64_t v)
{
	uint64_t high;

	if (v < 10) {
		*p++ = (char)('0' + v);
		return p;
	}
	if (v < 100000000)
		return fmt_below_1e8(p, (uint32_t)v);
	high = v / 100000000;
	if (high < 100000000) {
		p = fmt_below_1e8(p, (uint32_t)high);
	} else {
		p = fmt_below_1e8(p, (uint32_t)(high / 100000000));
		fmt_8digits(p, (uint32_t)(high % 100000000));
		p += 8;
	}
	fmt_8digits(p, (uint32_t)(v % 100000000));
	return p + 8;
}

static inline char *fmt_u32(char *p, uint32_t v)
{
	return fmt_u64(p, v);
}

static inline char *fmt_s64(char *p, int64_t v)
{
	if (v < 0)
		*p++ = '-';
	return fmt_u64(p, v < 0 ? -(uint64_t)v : (uint64_t)v);
}

/* Eight digits of nanoseconds, five of them before the point: "12345.678". */
static inline char *fmt_us_8digits(char *p, uint64_t digits)
{
	uint64_t text = digits | FMT_ZEROS;

	memcpy(p, &text, 5);
	p[5] = '.';
	text >>= 40;
	memcpy(p + 6, &text, 3);
	return p + 9;
}

/* Nanoseconds as microseconds with exactly three decimals, "1234.567". Not by way of a double,
 * which would round neighbouring spans into each other. */
static inline char *fmt_us(char *p, uint64_t ns)
{
	uint64_t digits, text;
	unsigned int zeros;

	if (ns >= 100000000) {
		p = fmt_u64(p, ns / 100000000);
		return fmt_us_8digits(p, fmt_digits8((uint32_t)(ns % 100000000)));
	}
	digits = fmt_digits8((uint32_t)ns);
	zeros = (unsigned int)__builtin_ctzll(digits | UINT64_C(1) << 32) / 8;
	text = (digits | FMT_ZEROS) >> 8 * zeros;
	memcpy(p, &text, sizeof(text));
	p += 5 - zeros;
	text = '.' | (digits | FMT_ZEROS) >> 40 << 8;
	memcpy(p, &text, 4);
	return p + 4;
}

/* "0x7f12", lower case, no leading zeros. */
static inline char *fmt_hex(char *p, uint64_t v)
{
	unsigned int n = (67 - (unsigned int)__builtin_clzll(v | 1)) / 4, i;

	p[0] = '0';
	p[1] = 'x';
	p += 2;
	for (i = n; i-- > 0; v >>= 4)
		p[i] = "0123456789abcdef"[v & 15];
	return p + n;
}

/*
 * s as a quoted JSON string, at most FMT_JSON_STR_MAX(len) bytes. Raw UTF-8 stays; each
 * ill-formed part becomes one U+FFFD (as the Unicode standard recommends in section 3.9);
 * control characters (C0 and C1), quotes and backslashes are escaped. Never a surrogate escape: "\ud83d"
 * makes Perfetto refuse the whole file.
 */
char *fmt_json_str(char *p, const char *s, size_t len);

/* The shortest number that reads back as the same f32 (size 4) or f64 (size 8) with these bits; values
 * that JSON cannot express become strings: "NaN", "Infinity", "-Infinity". */
char *fmt_float(char *p, uint64_t bits, unsigned int size);

/* The length of the well-formed UTF-8 sequence at s, where there are len >= 1 bytes, or minus the
 * length of the ill-formed part for which one U+FFFD stands. */
int fmt_utf8_scan(const unsigned char *s, size_t len);

/* Returns how many bytes follow the first one of a UTF-8 sequence (-1: none begins so), and the limits of the second byte. Later
 * bytes are 0x80 to 0xbf. */
int fmt_utf8_need(unsigned char first, unsigned char *ret_lo, unsigned char *ret_hi);

#endif
