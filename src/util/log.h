/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages to the person at the terminal: always stderr, always one line that says
 * what failed, on what, and what to do. Bytes that would break the line or drive the terminal are
 * shown as \x1b.
 */
#ifndef INFTRACE_LOG_H
#define INFTRACE_LOG_H

#include <stdbool.h>

/* Verbosity: -1 quiet (errors only), 0 default, 1 -v, 2 INFTRACE_DEBUG (libbpf's messages too). */
void log_set_level(int level);
int log_level(void);

/* Each prints "inftrace: TEXT\n"; the text of log_warn starts with "warning: ". Wipes a status line
 * that is on the terminal first. Preserves errno. */
void log_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The same, and evaluates to err: return log_fail(-EINVAL, "..."); */
#define log_fail(err, ...) (log_error(__VA_ARGS__), (err))
void log_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Whether log_error() was called: an error not reported yet needs a line. */
bool log_error_said(void);

/* One line that is rewritten in place on a terminal and printed as is elsewhere.
 * No newline in the text. Shown at levels >= 0. */
void log_status(const char *text);

#endif
