/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/log.h"
#include "util/parse.h"

/* PID_MAX_LIMIT of include/linux/threads.h on 64-bit machines */
#define PID_LIMIT (4 * 1024 * 1024)

struct unit {
	const char *name;
	uint64_t factor;
};

static const struct unit duration_units[] = {
	{ "", 1000000000 },
	{ "ns", 1 },
	{ "us", 1000 },
	{ "ms", 1000000 },
	{ "s", 1000000000 },
	{ "m", 60 * 1000000000ull },
	{ "h", 3600 * 1000000000ull },
	{ NULL, 0 },
};

static const struct unit size_units[] = {
	{ "", 1 },
	{ "b", 1 },
	{ "k", 1ull << 10 },
	{ "m", 1ull << 20 },
	{ "g", 1ull << 30 },
	{ "t", 1ull << 40 },
	{ NULL, 0 },
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static char to_lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c + 'a' - 'A') : c;
}

/* Reads digits up to max and moves *s past them. */
static int take_digits(const char **s, uint64_t max, uint64_t *ret)
{
	uint64_t v = 0;
	const char *p = *s;

	if (!is_digit(*p))
		return -EINVAL;
	for (; is_digit(*p); p++) {
		unsigned int d = (unsigned int)(*p - '0');

		if (v > (max - d) / 10)
			return -ERANGE;
		v = v * 10 + d;
	}
	*s = p;
	*ret = v;
	return 0;
}

static int find_unit(const struct unit *units, const char *name, uint64_t *ret_factor)
{
	for (; units->name; units++) {
		if (strcmp(units->name, name) == 0) {
			*ret_factor = units->factor;
			return 0;
		}
	}
	return -EINVAL;
}

/* "12" or "1.5" before a unit: whole, and the fraction as frac / den. */
struct decimal {
	uint64_t whole, frac, den;
};

static int take_decimal(const char **s, struct decimal *ret)
{
	struct decimal d = { .den = 1 };
	const char *p = *s;
	int err;

	err = take_digits(&p, INT64_MAX, &d.whole);
	if (err)
		return err;
	if (*p == '.') {
		p++;
		if (!is_digit(*p))
			return -EINVAL;
		/* the remainder, below 10^-15 of a unit, is too small for any unit to show */
		for (; is_digit(*p); p++) {
			if (d.den < 1000000000000000ull) {
				d.frac = d.frac * 10 + (unsigned int)(*p - '0');
				d.den *= 10;
			}
		}
	}
	*s = p;
	*ret = d;
	return 0;
}

static int scale(const struct decimal *d, uint64_t factor, uint64_t *ret)
{
	unsigned __int128 v = (unsigned __int128)d->whole * factor;

	v += (unsigned __int128)d->frac * factor / d->den;
	if (v > INT64_MAX)
		return -ERANGE;
	*ret = (uint64_t)v;
	return 0;
}

int parse_duration(const char *s, uint64_t *ret_ns)
{
	struct decimal d;
	uint64_t factor;
	int err;

	err = take_decimal(&s, &d);
	if (err)
		return err;
	err = find_unit(duration_units, s, &factor);
	if (err)
		return err;
	return scale(&d, factor, ret_ns);
}

int parse_share(const char *s, uint64_t *ret_millionths)
{
	struct decimal d;
	uint64_t v;
	int err;

	err = take_decimal(&s, &d);
	if (err)
		return err;
	s += *s == ' ';
	if (strcmp(s, "%"))
		return -EINVAL;
	err = scale(&d, 10000, &v);
	if (err || v > 1000000 || (v == 1000000 && d.frac))
		return -ERANGE;
	*ret_millionths = v;
	return 0;
}

int parse_size(const char *s, uint64_t *ret_bytes)
{
	struct decimal d;
	uint64_t factor;
	char unit[4] = "";
	size_t i, len;
	int err;

	err = take_decimal(&s, &d);
	if (err)
		return err;
	len = strlen(s);
	if (len >= sizeof(unit))
		return -EINVAL;
	for (i = 0; i < len; i++)
		unit[i] = to_lower(s[i]);
	/* K, KB and KiB are the same */
	if (len > 1 && unit[0] != 'b' &&
		(strcmp(unit + 1, "b") == 0 || strcmp(unit + 1, "ib") == 0))
		unit[1] = '\0';
	err = find_unit(size_units, unit, &factor);
	if (err)
		return err;
	return scale(&d, factor, ret_bytes);
}

int parse_u32(const char *s, uint32_t *ret)
{
	uint64_t v;
	int err;

	err = take_digits(&s, UINT32_MAX, &v);
	if (err)
		return err;
	if (*s)
		return -EINVAL;
	*ret = (uint32_t)v;
	return 0;
}

int parse_last(const char *s, struct last *ret)
{
	struct last last = { 0 };
	int err = parse_u32(s, &last.n);

	if (err == -EINVAL)
		err = parse_duration(s, &last.ns);
	if (err)
		return err;
	if (!last.n && !last.ns)
		return -EINVAL;
	*ret = last;
	return 0;
}

static bool has_pid(const pid_t *pids, size_t n, pid_t pid)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (pids[i] == pid)
			return true;
	}
	return false;
}

int parse_pid_list(const char *s, pid_t **pids, size_t *n)
{
	size_t n_new = *n, room = *n + 1;
	const char *p;
	pid_t *arr;
	uint64_t v;
	int err;

	for (p = s; *p; p++)
		room += *p == ',';
	arr = reallocarray(NULL, room, sizeof(*arr));
	if (!arr)
		return -ENOMEM;
	if (*n)
		memcpy(arr, *pids, *n * sizeof(*arr));
	for (;;) {
		err = take_digits(&s, PID_LIMIT, &v);
		if (err)
			goto out;
		if (v == 0 || (*s && *s != ',')) {
			err = -EINVAL;
			goto out;
		}
		if (!has_pid(arr, n_new, (pid_t)v))
			arr[n_new++] = (pid_t)v;
		if (!*s)
			break;
		s++;
	}
	free(*pids);
	*pids = arr;
	*n = n_new;
	arr = NULL;
out:
	free(arr);
	return err;
}

static const struct {
	const char *noun, *advice;
} kinds[] = {
	[PARSE_DURATION] = { "duration", "write 10s, 500ms or 2m" },
	[PARSE_SIZE] = { "size", "write 64MB, 512K or a number of bytes" },
	[PARSE_U32] = { "number", "write digits only, at most 4294967295" },
	[PARSE_PID_LIST] = { "list of process ids", "write 123 or 123,456" },
	[PARSE_LAST] = { "number or time", "write 20 for so many, or 2s" },
	[PARSE_SHARE] = { "share of the time", "write 2% or 0.5%, at most 100%" },
};

const char *parse_error(
	char buf[PARSE_ERROR_MAX], enum parse_kind kind, const char *option, const char *s, int err)
{
	char shown[41];
	size_t i;

	for (i = 0; i < sizeof(shown) - 1 && s[i]; i++)
		shown[i] = s[i] >= ' ' && s[i] <= '~' ? s[i] : '?';
	shown[i] = '\0';
	if (s[i])
		memcpy(shown + i - 3, "...", 3);
	if (err == -ENOMEM)
		snprintf(buf, PARSE_ERROR_MAX, "%.40s%sout of memory", option ? option : "",
			option ? ": " : "");
	else if (err == -ERANGE && kind == PARSE_PID_LIST)
		snprintf(buf, PARSE_ERROR_MAX, "%.40s%s'%s' is not a list of process ids: the largest is %d; pgrep finds them",
			option ? option : "", option ? ": " : "", shown, PID_LIMIT);
	else
		snprintf(buf, PARSE_ERROR_MAX, "%.40s%s'%s' is %s %s; %s", option ? option : "",
			option ? ": " : "", shown, err == -ERANGE ? "too large a" : "not a",
			kinds[kind].noun, kinds[kind].advice);
	return buf;
}

int parse_refuse(enum parse_kind kind, const char *option, const char *s, int err)
{
	char buf[PARSE_ERROR_MAX];

	log_error("%s", parse_error(buf, kind, option, s, err));
	return err;
}
