// SPDX-License-Identifier: BSD-2-Clause
#include "util/json_check.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "util/text.h"

void check_problem(struct check_report *report, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	if (report->problems++ >= CHECK_SHOWN_MAX || !report->problem)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	report->problem(report->ctx, text);
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

	json_printable(printable, sizeof(printable), name);
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

/* The key at p (behind its opening quote) is name; escapes do not occur in these names. */
static bool key_is(const unsigned char *p, const unsigned char *end, const char *name)
{
	size_t len = strlen(name);

	return (size_t)(end - p) > len && !memcmp(p, name, len) && p[len] == '"';
}

/*
 * An object at the start of the file: the first line of a profile, or {"traceEvents": ...}? The
 * keys at depth 1 tell. A profile that is broken in its first line should still be called one, a
 * trace may have anything of any size before its traceEvents, over any number of lines.
 */
static enum check_kind detect_object(const unsigned char *p, const unsigned char *end)
{
	bool in_string = false, may_be_key = false, event_key = false;
	int depth = 0;

	for (; p < end; p++) {
		if (in_string) {
			if (*p == '\\')
				p++;
			else if (*p == '"')
				in_string = false;
			continue;
		}
		switch (*p) {
		case '{':
		case '[':
			depth++;
			may_be_key = true;
			break;
		case '}':
		case ']':
			if (--depth == 0)
				return CHECK_PROFILE;
			break;
		case ',':
			may_be_key = true;
			break;
		case '"':
			in_string = true;
			if (depth == 1 && may_be_key && key_is(p + 1, end, "traceEvents"))
				return CHECK_TRACE;
			if (depth == 1 && may_be_key && key_is(p + 1, end, "event"))
				event_key = true;
			may_be_key = false;
			break;
		case '\n':
			if (event_key)
				return CHECK_PROFILE;
			break;
		}
	}
	return event_key ? CHECK_PROFILE : CHECK_TRACE;
}

enum check_kind check_detect(
	const struct json_source *source, char *buf, size_t size, const char **ret_why)
{
	const unsigned char *p = source->pos, *end = source->end, *line;

	if (p == end) {
		*ret_why = "is empty";
		return CHECK_NOTHING;
	}
	/* blank lines, as those of a profile may be */
	while ((line = memchr(p, '\n', (size_t)(end - p))) && text_is_blank((const char *)p, (size_t)(line - p)))
		p = line + 1;
	while (p < end && (*p == ' ' || *p == '\t' || *p == '\r'))
		p++;
	if (text_is_blank((const char *)p, (size_t)(end - p))) {
		*ret_why = "holds only white space";
		return CHECK_NOTHING;
	}
	if (*p == '[')
		return CHECK_TRACE;
	if (*p == '{')
		return detect_object(p, end);
	if (source->pos[0] == '\n' && p == source->pos + 1) {
		*ret_why = "is not JSON (a .pftrace is read by Perfetto's trace_processor)";
		return CHECK_NOTHING;
	}
	snprintf(buf, size,
		"neither a profile (one JSON object a line) nor a Chrome trace ([ or "
		"{\"traceEvents\": [): it starts with byte 0x%02x",
		*p);
	*ret_why = buf;
	return CHECK_NOTHING;
}
