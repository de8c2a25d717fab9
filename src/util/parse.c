/* SPDX-License-Identifier: BSD-2-Clause */
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "util/alloc.h"
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

/* K, KB and KiB are the same. */
static const struct unit size_units[] = {
	{ "", 1 },
	{ "b", 1 },
	{ "k", 1ull << 10 },
	{ "kb", 1ull << 10 },
	{ "kib", 1ull << 10 },
	{ "m", 1ull << 20 },
	{ "mb", 1ull << 20 },
	{ "mib", 1ull << 20 },
	{ "g", 1ull << 30 },
	{ "gb", 1ull << 30 },
	{ "gib", 1ull << 30 },
	{ "t", 1ull << 40 },
	{ "tb", 1ull << 40 },
	{ "tib", 1ull << 40 },
	{ NULL, 0 },
};

/* In millionths of a millionth, so that a share slightly above 100 % is noticed. */
#define SHARE_ONE 1000000000000ull
static const struct unit share_units[] = {
	{ "%", SHARE_ONE / 100 },
	{ " %", SHARE_ONE / 100 },
	{ NULL, 0 },
};

/* Reads digits up to max and moves *s past them. */
static int take_digits(const char **s, uint64_t max, uint64_t *ret)
{
	uint64_t v;
	char *end;

	if (!isdigit((unsigned char)**s))
		return -EINVAL;
	errno = 0;
	v = strtoull(*s, &end, 10);
	if (errno || v > max)
		return -ERANGE;
	*s = end;
	*ret = v;
	return 0;
}

/* Parses "12" or "1.5" and a unit; *ret counts units of factor 1. */
static int parse_scaled(
	const char *s, const struct unit *unit, int (*compare)(const char *a, const char *b), uint64_t *ret)
{
	uint64_t whole, frac = 0, den = 1;
	unsigned __int128 v;
	int err;

	err = take_digits(&s, INT64_MAX, &whole);
	if (err)
		return err;
	if (*s == '.') {
		s++;
		if (!isdigit((unsigned char)*s))
			return -EINVAL;
		/* the remainder, below 10^-15 of a unit, is too small for any unit to show */
		for (; isdigit((unsigned char)*s); s++) {
			if (den < 1000000000000000ull) {
				frac = frac * 10 + (unsigned int)(*s - '0');
				den *= 10;
			}
		}
	}
	while (unit->name && compare(unit->name, s))
		unit++;
	if (!unit->name)
		return -EINVAL;
	v = (unsigned __int128)whole * unit->factor + (unsigned __int128)frac * unit->factor / den;
	if (v > INT64_MAX)
		return -ERANGE;
	*ret = (uint64_t)v;
	return 0;
}

int parse_duration(const char *s, uint64_t *ret_ns)
{
	return parse_scaled(s, duration_units, strcmp, ret_ns);
}

int parse_share(const char *s, uint64_t *ret_millionths)
{
	uint64_t v;
	int err = parse_scaled(s, share_units, strcmp, &v);

	if (err || v > SHARE_ONE)
		return err ?: -ERANGE;
	*ret_millionths = v / 1000000;
	return 0;
}

int parse_size(const char *s, uint64_t *ret_bytes)
{
	return parse_scaled(s, size_units, strcasecmp, ret_bytes);
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
	for (size_t i = 0; i < n; i++) {
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
	int err = 0;

	for (p = s; *p; p++)
		room += *p == ',';
	arr = xreallocarray(NULL, room, sizeof(*arr));
	if (*n)
		memcpy(arr, *pids, *n * sizeof(*arr));
	for (; !err; s++) {
		err = take_digits(&s, PID_LIMIT, &v);
		if (!err && (v == 0 || (*s && *s != ',')))
			err = -EINVAL;
		if (!err && !has_pid(arr, n_new, (pid_t)v))
			arr[n_new++] = (pid_t)v;
		if (!*s)
			break;
	}
	if (err) {
		free(arr);
		return err;
	}
	free(*pids);
	*pids = arr;
	*n = n_new;
	return 0;
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
	if (err == -ERANGE && kind == PARSE_PID_LIST)
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

	return log_fail(err, "%s", parse_error(buf, kind, option, s, err));
}
