/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Parses what people type: options and environment variables.
 *
 * The whole string must match: no white space, no sign, nothing after it. The locale does not
 * matter. Each returns 0, -EINVAL (malformed) or -ERANGE (does not fit), and writes its result on
 * success only.
 */
#ifndef INFTRACE_UTIL_PARSE_H
#define INFTRACE_UTIL_PARSE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* "10s", "500ms", "1.5m", "1h", "250us", "100ns"; a plain number is seconds. Parts of a
 * nanosecond are dropped. At most INT64_MAX, so that it can be added to a clock. */
int parse_duration(const char *s, uint64_t *ret_ns);

/* "64MB", "64M", "64MiB", "4K", "1.5G", "2T", "4096", "4096B", in any case. Units are powers
 * of two. At most INT64_MAX, so that it can be an off_t. */
int parse_size(const char *s, uint64_t *ret_bytes);

/* "2%", "0.5 %": in millionths. -ERANGE: more than 100 %. */
int parse_share(const char *s, uint64_t *ret_millionths);

/* Decimal digits only. */
int parse_u32(const char *s, uint32_t *ret);

/*
 * "123" or "123,456": appends to the array *pids of length *n, initially NULL and 0, skipping those
 * it already holds. The caller frees *pids. On failure nothing changes.
 */
int parse_pid_list(const char *s, pid_t **pids, size_t *n);

/* The last `n` things, or the things of the last `ns`; both 0: all. */
struct last {
	uint32_t n;
	uint64_t ns;
};

/* "20", or a duration with its unit. Not 0. */
int parse_last(const char *s, struct last *ret);

enum parse_kind {
	PARSE_DURATION,
	PARSE_SIZE,
	PARSE_U32,
	PARSE_PID_LIST,
	PARSE_SHARE,
	PARSE_LAST,
};

#define PARSE_ERROR_MAX 192

/*
 * One line for the person who typed it: "--duration: '10x' is not a duration; write 10s, 500ms
 * or 2m". The text is shortened and its unprintable bytes become '?'. option may be NULL.
 * Returns buf.
 */
const char *parse_error(char buf[PARSE_ERROR_MAX], enum parse_kind kind, const char *option,
	const char *s, int err);

/* Prints that line. Returns err. */
int parse_refuse(enum parse_kind kind, const char *option, const char *s, int err);

#endif
