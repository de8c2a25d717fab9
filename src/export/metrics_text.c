// SPDX-License-Identifier: BSD-2-Clause
#include "export/metrics_text.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <unistd.h>

#define NAME_MAX_LEN 96
#define EXEMPLAR_LABELS_MAX 128 /* characters of names and values, by OpenMetrics 1.0 */

struct text {
	FILE *out;
	bool openmetrics;
	int metric; /* the one at present, -1: none */
};

bool metrics_accepts_openmetrics(const char *accept)
{
	static const char type[] = "application/openmetrics-text";
	const char *p = accept, *end;

	while (p && (p = strcasestr(p, type))) {
		p += strlen(type);
		end = p + strcspn(p, ",");
		/* neither of an unknown version nor refused */
		if (!memmem(p, (size_t)(end - p), "q=0,", 4) && !memmem(p, (size_t)(end - p), "version=2", 9))
			return true;
		p = end;
	}
	return false;
}

const char *metrics_text_type(bool openmetrics)
{
	return openmetrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8" : "text/plain; version=0.0.4; charset=utf-8";
}

/* "gen_ai.server.request.duration" -> "gen_ai_server_request_duration" */
static const char *plain_name(char *buf, size_t size, const char *name)
{
	size_t i;

	for (i = 0; i < size - 1 && name[i]; i++)
		buf[i] = isalnum((unsigned char)name[i]) ? name[i] : '_';
	buf[i] = 0;
	return buf;
}

/* The name of the family, with its unit, as OpenTelemetry's rules for Prometheus have it. */
static const char *family_name(char *buf, size_t size, const struct metric_about *about)
{
	plain_name(buf, size, about->name);
	if (about->unit == UNIT_SECONDS)
		snprintf(buf + strlen(buf), size - strlen(buf), "_seconds");
	return buf;
}

/* Exactly, without going through a double; with a decimal at least, as OpenMetrics wants bounds. */
static void put_seconds(FILE *out, uint64_t ns)
{
	char digits[16];
	size_t len = 9;

	snprintf(digits, sizeof(digits), "%09llu", (unsigned long long)(ns % 1000000000));
	while (len > 1 && digits[len - 1] == '0')
		len--;
	fprintf(out, "%llu.%.*s", (unsigned long long)(ns / 1000000000), (int)len, digits);
}

static void put_value(FILE *out, const char *value)
{
	for (; *value; value++) {
		if (*value == '\\' || *value == '"')
			fputc('\\', out);
		if (*value == '\n')
			fputs("\\n", out);
		else
			fputc(*value, out);
	}
}

/* le: the bound of a bucket in nanoseconds, UINT64_MAX: none, 0: no bucket. */
static void put_labels(FILE *out, enum metric metric, const char *const values[LABEL_MAX], uint64_t le)
{
	char name[NAME_MAX_LEN];
	const char *sep = "{";

	for (int i = 0; i < LABEL_MAX; i++) {
		if (!values[i])
			continue;
		fprintf(out, "%s%s=\"", sep, plain_name(name, sizeof(name), metric_label_name(metric, (enum metric_label)i)));
		put_value(out, values[i]);
		fputc('"', out);
		sep = ",";
	}
	if (le) {
		fprintf(out, "%sle=\"", sep);
		if (le == UINT64_MAX)
			fputs("+Inf", out);
		else
			put_seconds(out, le);
		fputc('"', out);
		sep = ",";
	}
	if (*sep == ',')
		fputc('}', out);
}

static void put_head(struct text *t, const char *family, const char *help, const char *type, bool seconds)
{
	const char *total = !t->openmetrics && !strcmp(type, "counter") ? "_total" : "";

	fprintf(t->out, "# HELP %s%s %s\n# TYPE %s%s %s\n", family, total, help, family, total, type);
	if (t->openmetrics && seconds)
		fprintf(t->out, "# UNIT %s seconds\n", family);
}

static void put_exemplar(FILE *out, const struct metric_exemplar *e)
{
	char labels[EXEMPLAR_LABELS_MAX];
	int len = snprintf(labels, sizeof(labels), "\",line=\"%llu\",ts_us=\"%llu\"", (unsigned long long)e->line, (unsigned long long)e->ts_us);

	fputs(" # {file=\"", out);
	put_value(out, e->file);
	fprintf(out, "%.*s} ", len, labels);
	put_seconds(out, e->ns);
}

static void put_histogram(struct text *t, const char *family, const struct metric_series *s, const char *const values[LABEL_MAX])
{
	const struct metric_about *about = metric_about(s->metric);
	uint64_t sum = 0;

	for (size_t i = 0; i <= about->n_bounds; i++) {
		sum += s->buckets[i];
		fprintf(t->out, "%s_bucket", family);
		put_labels(t->out, s->metric, values, i < about->n_bounds ? about->bounds[i] : UINT64_MAX);
		fprintf(t->out, " %llu", (unsigned long long)sum);
		if (t->openmetrics && s->exemplars && s->exemplars[i].at_ms)
			put_exemplar(t->out, &s->exemplars[i]);
		fputc('\n', t->out);
	}
	fprintf(t->out, "%s_sum", family);
	put_labels(t->out, s->metric, values, 0);
	fputc(' ', t->out);
	put_seconds(t->out, s->sum);
	fprintf(t->out, "\n%s_count", family);
	put_labels(t->out, s->metric, values, 0);
	fprintf(t->out, " %llu\n", (unsigned long long)s->count);
}

static int put_series(void *ctx, const struct metric_series *s, const char *const values[LABEL_MAX])
{
	const struct metric_about *about = metric_about(s->metric);
	char family[NAME_MAX_LEN];
	struct text *t = ctx;

	family_name(family, sizeof(family), about);
	if (t->metric != (int)s->metric)
		put_head(t, family, about->help, about->bounds ? "histogram" : "counter", about->unit == UNIT_SECONDS);
	t->metric = (int)s->metric;
	if (about->bounds) {
		put_histogram(t, family, s, values);
		return 0;
	}
	fprintf(t->out, "%s_total", family);
	put_labels(t->out, s->metric, values, 0);
	fputc(' ', t->out);
	if (about->unit == UNIT_SECONDS)
		put_seconds(t->out, s->sum);
	else
		fprintf(t->out, "%llu", (unsigned long long)s->sum);
	fputc('\n', t->out);
	return 0;
}

static void put_number(struct text *t, const char *family, const char *help, bool counter, uint64_t value)
{
	put_head(t, family, help, counter ? "counter" : "gauge", false);
	fprintf(t->out, "%s%s %llu\n", family, counter ? "_total" : "", (unsigned long long)value);
}

static uint64_t resident_bytes(void)
{
	unsigned long long pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (f && fscanf(f, "%*u %llu", &pages) != 1)
		pages = 0;
	if (f)
		fclose(f);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* What the exporter itself does, misses and costs. */
static void put_own(struct text *t, const struct metrics *m, const struct metrics_own *own)
{
	struct rusage ru;

	put_number(t, "inftrace_export_files", "Profiles that are followed.", false, own->files->files);
	put_number(t, "inftrace_export_files_left_out", "Profiles that are not read, since there are too many.", false, own->files->files_left_out);
	put_number(t, "inftrace_export_unread_bytes", "Bytes of profiles that are not counted yet.", false, own->files->unread);
	put_number(t, "inftrace_export_lines", "Lines of profiles that were read.", true, own->files->lines);
	put_number(t, "inftrace_export_read_bytes", "Bytes of profiles that were read.", true, own->files->bytes);
	put_number(t, "inftrace_export_bad_lines", "Lines of profiles that could not be used.", true, own->files->bad_lines);
	put_number(t, "inftrace_export_errors", "Profiles that could not be read.", true, own->files->errors);
	put_number(t, "inftrace_export_other_labels", "Models, phases, containers, events and stages of lines that are counted as \"other\", since there were too many.", true,
		metrics_others(m));
	if (own->otlp) {
		put_number(t, "inftrace_export_otlp_sent", "Bodies that the collector took.", true, own->sent.sent);
		put_number(t, "inftrace_export_otlp_failures", "Tries to send that failed.", true, own->sent.failed);
		put_number(t, "inftrace_export_otlp_dropped_requests", "Slow requests whose spans were not sent.", true, own->sent.dropped);
	}
	put_number(t, "process_resident_memory_bytes", "Resident memory of the exporter.", false, resident_bytes());
	if (getrusage(RUSAGE_SELF, &ru))
		return;
	put_head(t, "process_cpu_seconds", "CPU time of the exporter.", "counter", true);
	fputs("process_cpu_seconds_total ", t->out);
	put_seconds(t->out, (uint64_t)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) * 1000000000 +
				    (uint64_t)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) * 1000);
	fputc('\n', t->out);
}

int metrics_text(struct metrics *m, const struct metrics_own *own, bool openmetrics, char **ret_text, size_t *ret_len)
{
	struct text t = { .openmetrics = openmetrics, .metric = -1 };
	char *text = NULL;
	size_t len = 0;

	t.out = open_memstream(&text, &len);
	if (!t.out)
		return -ENOMEM;
	metrics_each(m, put_series, &t);
	put_own(&t, m, own);
	if (openmetrics)
		fputs("# EOF\n", t.out);
	if (ferror(t.out) | fclose(t.out)) {
		free(text);
		return -ENOMEM;
	}
	*ret_text = text;
	*ret_len = len;
	return 0;
}
