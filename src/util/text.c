// SPDX-License-Identifier: BSD-2-Clause
#include "util/text.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "util/fmt.h"

/* Categories Cc, Cf, Zl and Zp of Unicode 15. */
static const struct range {
	uint32_t first, last;
} hidden[] = {
	{ 0x0000, 0x001f },
	{ 0x007f, 0x009f },
	{ 0x00ad, 0x00ad },
	{ 0x0600, 0x0605 },
	{ 0x061c, 0x061c },
	{ 0x06dd, 0x06dd },
	{ 0x070f, 0x070f },
	{ 0x0890, 0x0891 },
	{ 0x08e2, 0x08e2 },
	{ 0x180e, 0x180e },
	{ 0x200b, 0x200f },
	{ 0x2028, 0x202e },
	{ 0x2060, 0x206f },
	{ 0xfeff, 0xfeff },
	{ 0xfff9, 0xfffb },
	{ 0x110bd, 0x110bd },
	{ 0x110cd, 0x110cd },
	{ 0x13430, 0x1343f },
	{ 0x1bca0, 0x1bca3 },
	{ 0x1d173, 0x1d17a },
	{ 0xe0001, 0xe007f },
};

bool text_is_shown(uint32_t c)
{
	for (size_t i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++) {
		if (c <= hidden[i].last)
			return c < hidden[i].first;
	}
	return true;
}

uint32_t text_decode(const unsigned char *s, int len)
{
	uint32_t c = len == 1 ? s[0] : s[0] & (0x7fu >> len);

	for (int i = 1; i < len; i++)
		c = c << 6 | (s[i] & 0x3f);
	return c;
}

char *text_encode(char *out, uint32_t c)
{
	if (c < 0x80) {
		*out++ = (char)c;
		return out;
	}
	if (c < 0x800) {
		*out++ = (char)(0xc0 | c >> 6);
	} else {
		if (c < 0x10000) {
			*out++ = (char)(0xe0 | c >> 12);
		} else {
			*out++ = (char)(0xf0 | c >> 18);
			*out++ = (char)(0x80 | (c >> 12 & 0x3f));
		}
		*out++ = (char)(0x80 | (c >> 6 & 0x3f));
	}
	*out++ = (char)(0x80 | (c & 0x3f));
	return out;
}

static bool is_white_space(uint32_t c)
{
	return c == ' ' || (c >= 0x09 && c <= 0x0d) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
	       (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
	       c == 0x3000;
}

static int space_at(const char *text, size_t len)
{
	const unsigned char *s = (const unsigned char *)text;
	int n = len ? fmt_utf8_scan(s, len) : 0;

	return n > 0 && is_white_space(text_decode(s, n)) ? n : 0;
}

const char *text_trim(const char *text, size_t *len)
{
	int n;

	for (; (n = space_at(text, *len)); text += n)
		*len -= (size_t)n;
	do {
		n = 0;
		for (size_t k = 1; k <= 3 && k <= *len && !n; k++)
			n = space_at(text + *len - k, k) == (int)k ? (int)k : 0;
		*len -= (size_t)n;
	} while (n);
	return text;
}

bool text_is_blank(const char *text, size_t len)
{
	text_trim(text, &len);
	return !len;
}

char *text_json(char *out, const char *text, size_t len)
{
	const unsigned char *s = (const unsigned char *)text;
	int n;

	for (size_t i = 0; i < len; i += (size_t)abs(n)) {
		uint32_t c;

		n = fmt_utf8_scan(s + i, len - i);
		c = n > 0 ? text_decode(s + i, n) : 0xfffd;
		if (n > 0 && (text_is_shown(c) || c == '\n' || c == '\t' || c == '\r'))
			out = fmt_str(out, text + i, (size_t)n);
		else if (c <= 0xffff && c != 0xfffd)
			out += sprintf(out, "\\u%04x", c);
		else
			out = fmt_lit(out, "\xef\xbf\xbd");
	}
	return out;
}

const char *text_printable(char *buf, size_t size, const char *text)
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

bool text_has_suffix(const char *text, const char *suffix)
{
	size_t n = strlen(text), k = strlen(suffix);

	return n > k && !strcmp(text + n - k, suffix);
}

/* ---- typing errors ---- */

#define LEN_MAX 32 /* longer names are not compared */

/* Only the diagonal band within max is computed. */
int edit_distance(const char *a, int la, const char *b, int lb, int max)
{
	int prev[EDIT_LEN_MAX + 1], cur[EDIT_LEN_MAX + 1];

	if (abs(la - lb) > max)
		return max + 1;
	for (int j = 0; j <= lb; j++)
		prev[j] = j;
	for (int i = 1; i <= la; i++) {
		int from = i - max > 1 ? i - max : 1, to = i + max < lb ? i + max : lb;
		int best = max + 1;

		cur[from - 1] = from == 1 ? i : max + 1;
		for (int j = from; j <= to; j++) {
			int d = prev[j - 1] + (a[i - 1] != b[j - 1]);

			if (cur[j - 1] + 1 < d)
				d = cur[j - 1] + 1;
			/* beyond the band prev[] holds an older row, which must not be used */
			if (j < i + max && prev[j] + 1 < d)
				d = prev[j] + 1;
			cur[j] = d;
			if (d < best)
				best = d;
		}
		if (best > max)
			return max + 1;
		memcpy(prev + from - 1, cur + from - 1, (size_t)(to - from + 2) * sizeof(*cur));
	}
	return prev[lb] > max ? max + 1 : prev[lb];
}

const char *nearest_name(const char *typed, const char *const *names, size_t n)
{
	int len = (int)strnlen(typed, LEN_MAX + 1), max = len < 6 ? 1 : len / 3;
	const char *nearest = NULL;

	if (!len || len > LEN_MAX)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		int len_i = (int)strnlen(names[i], LEN_MAX + 1);
		int d = len_i <= LEN_MAX ? edit_distance(typed, len, names[i], len_i, max) : max + 1;

		if (d <= max) { /* from here on only a closer one counts */
			max = d - 1;
			nearest = names[i];
		}
	}
	for (size_t i = 0; i < n && !nearest && len >= 3; i++) {
		if (strstr(names[i], typed))
			nearest = names[i];
	}
	return nearest;
}

/* ---- secrets ---- */

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* Better to leave out one setting too many than to reveal one secret. */
static const char *const names[] = { "key", "token", "secret", "pass", "pwd", "auth", "cred", "cookie",
	"bearer" };

/* Parameters of a URL, or of settings that contain such lists. */
static const char *const parameters[] = { "key=", "token=", "secret=", "pass=", "password=", "passwd=", "pwd=",
	"auth=", "sig=", "signature=", "credential=", "creds=", "bearer ", "basic " };

/* OpenAI, Anthropic and others; Hugging Face; GitHub; GitLab; AWS; Google; Slack; a JSON web token. */
static const char *const prefixes[] = { "sk-", "hf_", "ghp_", "gho_", "ghs_", "github_pat_", "glpat-", "akia", "aiza",
	"xox", "eyj", "nvapi-" };

static bool text_contains_any(const char *text, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (strcasestr(text, list[i]))
			return true;
	}
	return false;
}

bool secret_name(const char *name)
{
	return text_contains_any(name, names, ARRAY_SIZE(names));
}

/* scheme://user:password@host, and the same without the scheme */
static bool has_user(const char *value)
{
	const char *at = strrchr(value, '@');
	const char *colon = strchr(value, ':');

	return at && colon && colon < at;
}

bool secret_value(const char *value)
{
	if (has_user(value) || text_contains_any(value, parameters, ARRAY_SIZE(parameters)))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++) {
		if (!strncasecmp(value, prefixes[i], strlen(prefixes[i])))
			return true;
	}
	return false;
}
