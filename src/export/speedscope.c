// SPDX-License-Identifier: BSD-2-Clause
/* speedscope's format: https://www.speedscope.app/file-format-schema.json. A profile for each thread, and another one for
 * its waits, both in the order of time. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "export/samples.h"
#include "util/fmt.h"
#include "util/version.h"

static void put_string(const char *key, const char *text, FILE *out)
{
	char buf[FMT_JSON_STR_MAX(SAMPLES_LABEL_MAX)];

	fputs(key, out);
	fwrite(buf, 1, (size_t)(fmt_json_str(buf, text, strnlen(text, SAMPLES_LABEL_MAX)) - buf), out);
}

static void put_frames(const struct samples *s, FILE *out)
{
	char label[SAMPLES_LABEL_MAX];

	for (uint32_t i = 0; i < s->frames.n; i++) {
		const struct samples_frame *f = samples_frame(s, i);
		const char *file = samples_text(s, f->line ? f->file : f->mapping);

		put_string(i ? ",\n{\"name\":" : "\n{\"name\":", samples_label(s, f, label), out);
		if (file[0])
			put_string(",\"file\":", file, out);
		if (f->line)
			fprintf(out, ",\"line\":%u", f->line);
		fputc('}', out);
	}
}

/* Samples of the same thread and kind together, in the order of time. */
static const struct samples *sorted; /* qsort() passes no context */

static int compare(const void *a, const void *b)
{
	const struct samples_event *x = a, *y = b;
	const struct samples_key *k = samples_key(sorted, x->key), *l = samples_key(sorted, y->key);

	if (k->thread != l->thread)
		return k->thread < l->thread ? -1 : 1;
	if (k->off_cpu != l->off_cpu)
		return k->off_cpu < l->off_cpu ? -1 : 1;
	return (x->at_ns > y->at_ns) - (x->at_ns < y->at_ns);
}

static bool is_same(const struct samples *s, const struct samples_event *a, const struct samples_event *b)
{
	const struct samples_key *k = samples_key(s, a->key), *l = samples_key(s, b->key);

	return k->thread == l->thread && k->off_cpu == l->off_cpu;
}

/* The list of samples, or of their weights: one nanosecond or sample each where the time is unknown. */
static void put_list(const struct samples *s, const struct samples_event *e, size_t n, bool weights, bool timed, FILE *out)
{
	const uint32_t *frames;
	size_t n_frames;

	for (size_t i = 0; i < n; i++) {
		fputs(i ? "," : "", out);
		if (weights) {
			fprintf(out, "%llu", timed ? (unsigned long long)e[i].ns : 1);
			continue;
		}
		frames = samples_stack(s, samples_key(s, e[i].key)->stack, &n_frames);
		for (size_t k = 0; k < n_frames; k++)
			fprintf(out, k ? ",%u" : "[%u", frames[k]);
		fputc(']', out);
	}
}

static void put_profile(const struct samples *s, const struct samples_event *e, size_t n, FILE *out)
{
	const struct samples_key *k = samples_key(s, e->key);
	const struct samples_thread *t = samples_thread(s, k->thread);
	const char *comm = samples_name(s, t->pid, t->tid);
	char name[SAMPLES_LABEL_MAX + 64];
	uint64_t total = 0;
	bool timed;

	for (size_t i = 0; i < n; i++)
		total += e[i].ns;
	timed = total;
	snprintf(name, sizeof(name), "%s (%u)%s", comm[0] ? comm : "thread", t->tid, k->off_cpu ? " off CPU" : "");
	put_string("\n{\"type\":\"sampled\",\"name\":", name, out);
	fprintf(out, ",\"unit\":\"%s\",\"startValue\":0,\"endValue\":%llu,\"samples\":[", timed ? "nanoseconds" : "none",
		(unsigned long long)(timed ? total : n));
	put_list(s, e, n, false, timed, out);
	fputs("],\"weights\":[", out);
	put_list(s, e, n, true, timed, out);
	fputs("]}", out);
}

int speedscope_write(const struct samples *s, const char *name, FILE *out)
{
	size_t n;

	sorted = s;
	if (s->n_events)
		qsort(s->events, s->n_events, sizeof(*s->events), compare);
	fputs("{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":\"inftrace " INFTRACE_VERSION
	      "\"",
		out);
	put_string(",\"name\":", name, out);
	fputs(",\"activeProfileIndex\":0,\"shared\":{\"frames\":[", out);
	put_frames(s, out);
	fputs("]},\"profiles\":[", out);
	for (size_t i = 0; i < s->n_events; i += n) {
		for (n = 1; i + n < s->n_events && is_same(s, &s->events[i], &s->events[i + n]); n++)
			;
		fputs(i ? "," : "", out);
		put_profile(s, &s->events[i], n, out);
	}
	fputs("]}\n", out);
	return fflush(out) || ferror(out) ? -EIO : 0;
}
