/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Formatting of events, the hot path of every sink.
 *
 * Each function writes at p and returns the new end; nothing is terminated with a NUL
 * and nothing is bounds checked: the caller reserves the sum of the FMT_*_MAX of what
 * it writes before it starts. stdio costs more for one number than these do for a
 * whole event, and it follows the locale.
 */
#ifndef INFTRACE_UTIL_FMT_H
#define INFTRACE_UTIL_FMT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Most bytes that each function writes. */
#define FMT_U32_MAX 10
#define FMT_U64_MAX 20
#define FMT_S64_MAX 20
#define FMT_US_MAX 21 /* 17 digits, the point, 3 decimals */
#define FMT_HEX_MAX 18
#define FMT_FLOAT_MAX 25 /* -1.2345678901234567e-308, and a NUL */
#define FMT_JSON_STR_MAX(len) (6 * (size_t)(len) + 2) /* each byte a \u00XX, and the quotes */

extern const char fmt_pairs[201];    /* "00" "01" ... "99" */
extern const uint64_t fmt_pow10[20]; /* powers of ten; the first is 0 so that 0 has one digit */

static inline char *fmt_str(char *p, const char *s, size_t len)
{
	memcpy(p, s, len);
	return p + len;
}

/* A string literal: a few moves instead of a call. */
#define fmt_lit(p, lit) fmt_str((p), "" lit, sizeof(lit) - 1)

static inline unsigned int fmt_count_digits(uint64_t v)
{
	/* 1233 / 4096 is log10(2) rounded up: right, or one too many where v < 10^t */
	unsigned int t = ((64 - (unsigned int)__builtin_clzll(v | 1)) * 1233) >> 12;

	return t + 1 - (v < fmt_pow10[t]);
}

static inline void fmt_pair(char *p, uint32_t v)
{
	memcpy(p, fmt_pairs + 2 * v, 2);
}

/* Exactly 8 digits, v < 10^8. The four pairs do not wait for each other. */
static inline void fmt_8digits(char *p, uint32_t v)
{
	uint32_t hi = v / 10000, lo = v % 10000;

	fmt_pair(p, hi / 100);
	fmt_pair(p + 2, hi % 100);
	fmt_pair(p + 4, lo / 100);
	fmt_pair(p + 6, lo % 100);
}

static inline char *fmt_u32(char *p, uint32_t v)
{
	char *end = p + fmt_count_digits(v), *q = end;

	while (v >= 100) {
		q -= 2;
		fmt_pair(q, v % 100);
		v /= 100;
	}
	if (v >= 10)
		fmt_pair(q - 2, v);
	else
		q[-1] = (char)('0' + v);
	return end;
}

static inline char *fmt_u64(char *p, uint64_t v)
{
	uint64_t hi;

	if (v <= UINT32_MAX)
		return fmt_u32(p, (uint32_t)v);
	hi = v / 100000000;
	if (hi <= UINT32_MAX) {
		p = fmt_u32(p, (uint32_t)hi);
	} else {
		p = fmt_u32(p, (uint32_t)(hi / 100000000));
		fmt_8digits(p, (uint32_t)(hi % 100000000));
		p += 8;
	}
	fmt_8digits(p, (uint32_t)(v % 100000000));
	return p + 8;
}

static inline char *fmt_s64(char *p, int64_t v)
{
	if (v < 0)
		*p++ = '-';
	return fmt_u64(p, v < 0 ? -(uint64_t)v : (uint64_t)v);
}

/* Nanoseconds as microseconds with exactly three decimals, "1234.567". Never by way of a
 * double, which would round neighbouring spans into each other. */
static inline char *fmt_us(char *p, uint64_t ns)
{
	uint64_t us = ns / 1000;
	uint32_t frac = (uint32_t)(ns - us * 1000);

	p = fmt_u64(p, us);
	p[0] = '.';
	p[1] = (char)('0' + frac / 100);
	fmt_pair(p + 2, frac % 100);
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

/* The shortest number that reads back as the same f32 (size 4) or f64 (size 8), of these bits; what is
 * no number to JSON as a string: "NaN", "Infinity", "-Infinity". */
char *fmt_float(char *p, uint64_t bits, unsigned int size);

/* Length of the well-formed UTF-8 sequence at s, of which there are len >= 1 bytes, or minus the
 * length of the ill-formed part that one U+FFFD stands for. */
int fmt_utf8_scan(const unsigned char *s, size_t len);

#endif
