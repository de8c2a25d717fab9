/* SPDX-License-Identifier: BSD-2-Clause */
/* Puts sentences together piece by piece. */
#ifndef INFTRACE_REPORT_SENTENCE_H
#define INFTRACE_REPORT_SENTENCE_H

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

/* The text so far; what does not fit is cut. */
struct text {
	char *buf;
	size_t size, len;
};

static inline void __attribute__((format(printf, 2, 3))) add(struct text *t, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(t->buf + t->len, t->size - t->len, fmt, ap);
	va_end(ap);
	if (n > 0)
		t->len += (size_t)n < t->size - t->len ? (size_t)n : t->size - t->len - 1;
}

#endif
