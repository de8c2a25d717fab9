// SPDX-License-Identifier: BSD-2-Clause
#include "util/log.h"
#include "util/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#define TEXT_MAX 8192 /* enough for a list of names */

static int level;
static bool status_shown, error_said;

void log_set_level(int l)
{
	level = l;
}

int log_level(void)
{
	return level;
}

static void wipe_status(void)
{
	if (status_shown)
		fputs("\r\033[K", stderr);
	status_shown = false;
}

static void log_print_line(const char *prefix, const char *fmt, va_list ap)
{
	char text[TEXT_MAX], shown[TEXT_MAX];
	int saved = errno;

	vsnprintf(text, sizeof(text), fmt, ap);
	wipe_status();
	/* names of files, processes and symbols come from outside: no newline, no escape sequence */
	fprintf(stderr, "inftrace: %s%s\n", prefix, text_printable(shown, sizeof(shown), text));
	errno = saved;
}

#define LOG_FUNC(name, min_level, prefix)                                                          \
	void name(const char *fmt, ...)                                                            \
	{                                                                                          \
		va_list ap;                                                                        \
                                                                                                   \
		if (level < (min_level))                                                           \
			return;                                                                    \
		error_said |= (min_level) < 0;                                                     \
		va_start(ap, fmt);                                                                 \
		log_print_line(prefix, fmt, ap);                                                   \
		va_end(ap);                                                                        \
	}

LOG_FUNC(log_error, -1, "")
LOG_FUNC(log_warn, 0, "warning: ")
LOG_FUNC(log_info, 0, "")
LOG_FUNC(log_debug, 1, "")

bool log_error_said(void)
{
	return error_said;
}

void log_status(const char *text)
{
	if (level < 0)
		return;
	if (!isatty(STDERR_FILENO)) {
		fprintf(stderr, "inftrace: %s\n", text);
		return;
	}
	wipe_status();
	fputs(text, stderr);
	fflush(stderr);
	status_shown = true;
}
