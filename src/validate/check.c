// SPDX-License-Identifier: BSD-2-Clause
#include "validate/check.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "util/text.h"

void check_problem(struct check_report *report, const char *fmt, ...)
{
	char *text = NULL;
	va_list ap;

	if (report->problems++ >= CHECK_SHOWN_MAX || !report->problem)
		return;
	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	report->problem(report->ctx, text ? text : "out of memory");
	free(text);
}

void check_summary_end(const struct check_report *report, FILE *out)
{
	if (report->problems)
		fprintf(out, "; NOT VALID, %llu problem%s", (unsigned long long)report->problems,
			report->problems == 1 ? "" : "s");
	fputc('\n', out);
}

void name_counts_add(struct name_counts *counts, const char *name)
{
	char printable[sizeof(counts->names[0].name)];

	text_printable(printable, sizeof(printable), name);
	for (size_t i = 0; i < counts->len; i++) {
		if (!strcmp(counts->names[i].name, printable)) {
			counts->names[i].count++;
			return;
		}
	}
	if (counts->len == NAME_COUNT_MAX) {
		counts->others++;
		return;
	}
	strcpy(counts->names[counts->len].name, printable);
	counts->names[counts->len++].count = 1;
}

static int compare_counts(const void *a, const void *b)
{
	const struct name_count *x = a, *y = b;

	if (x->count != y->count)
		return x->count < y->count ? 1 : -1;
	return strcmp(x->name, y->name);
}

void name_counts_print(struct name_counts *counts, FILE *out)
{
	qsort(counts->names, counts->len, sizeof(counts->names[0]), compare_counts);
	for (size_t i = 0; i < counts->len; i++)
		fprintf(out, "%s%s %llu", i ? ", " : "", counts->names[i].name,
			(unsigned long long)counts->names[i].count);
	if (counts->others)
		fprintf(out, ", (others) %llu", (unsigned long long)counts->others);
	if (!counts->len)
		fputs("none", out);
}
