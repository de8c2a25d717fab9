// SPDX-License-Identifier: BSD-2-Clause
#include "link/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "link/kineto.h"
#include "read/detect.h"
#include "read/pftrace_events.h"
#include "read/trace.h"
#include "util/text.h"

struct file_reader {
	struct link_file *f; /* NULL: only spans are wanted */
	struct kineto *kineto;
	const uint64_t *keys; /* of the spans, sorted */
	size_t n_keys;
	int64_t from_ns, to_ns, begin_ns;
	struct spans *spans;
	bool has_clock;
	char *why; /* empty: nothing was wrong yet */
};

static void note_time(struct link_file *f, int64_t ns)
{
	f->first_ns = ns < f->first_ns ? ns : f->first_ns;
	f->last_ns = ns > f->last_ns ? ns : f->last_ns;
}

/* A slice's begin and end. false: it is none, or damaged. */
static bool slice_times(const struct trace_event *e, int64_t *ret_start, int64_t *ret_end)
{
	const char *ph = node_string(e->ph);
	int64_t dur;

	if (!ph || ph[0] != 'X' || !node_string(e->name) || node_us_to_ns(e->ts, ret_start) < 0 || node_us_to_ns(e->dur, &dur) < 0 ||
		dur < 0 || !link_time_fits(*ret_start) || !link_time_fits(dur))
		return false;
	*ret_end = *ret_start + dur;
	return link_time_fits(*ret_end);
}

static int take_span(struct file_reader *r, const char *name, uint32_t tid, int64_t start_ns, int64_t end_ns)
{
	uint64_t key;

	if (end_ns < r->from_ns || start_ns > r->to_ns)
		return 0;
	key = span_key(name);
	if (!bsearch(&key, r->keys, r->n_keys, sizeof(key), span_compare_keys))
		return 0;
	return spans_add(r->spans, name, tid, start_ns, end_ns);
}

/* ---- Chrome JSON ---- */

static bool clock_arg(const struct trace_event *e, const char *key, int64_t *ret)
{
	return link_clock_text(node_string(node_get(e->args, key)), ret);
}

static int clock_event(struct file_reader *r, const struct trace_event *e)
{
	int64_t boot, real, ts;

	if (node_us_to_ns(e->ts, &ts) < 0 || !link_time_fits(ts) || !clock_arg(e, "boottime_ns", &boot) ||
		!clock_arg(e, "realtime_ns", &real))
		return 0;
	if (!r->has_clock) {
		r->f->begin_ns = boot - ts;
		host_id_from_json(&r->f->id, e->args);
	}
	r->has_clock = true;
	note_time(r->f, ts);
	return link_clock_add(&r->f->clock, boot, real);
}

/* The events of sink/derive.h. */
static int message_event(struct file_reader *r, const struct trace_event *e)
{
	struct message_event m = { .name = node_string(e->name) };

	if (node_us_to_ns(e->ts, &m.ns) < 0 || !link_time_fits(m.ns) || !node_is(e->args, JSON_OBJECT))
		return 0;
	note_time(r->f, m.ns);
	json_for_each (arg, e->args) {
		if (node_is(arg, JSON_INT))
			message_event_number(&m, arg->key, node_u64(arg));
		else
			message_event_text(&m, arg->key, node_string(arg));
	}
	return messages_add(&r->f->messages, &m);
}

static int first_event(void *ctx, const struct trace_event *e)
{
	const char *ph = node_string(e->ph), *name = node_string(e->name), *cat = node_string(e->cat);
	struct file_reader *r = ctx;
	int64_t start, end;

	r->f->events++;
	if (ph && ph[0] == 'i' && name && !strcmp(name, "inftrace_clock"))
		return clock_event(r, e);
	if (ph && ph[0] == 'i' && cat && !strcmp(cat, "message"))
		return message_event(r, e);
	if (!slice_times(e, &start, &end))
		return 0;
	note_time(r->f, start);
	note_time(r->f, end);
	return kineto_event(r->kineto, e, start, end);
}

static int base_time(void *ctx, const struct json_node *value)
{
	struct file_reader *r = ctx;

	if (node_is(value, JSON_INT))
		kineto_base(r->kineto, node_s64(value));
	return 0;
}

static int again_event(void *ctx, const struct trace_event *e)
{
	struct file_reader *r = ctx;
	int64_t start, end, tid = node_s64(e->tid);

	if (!slice_times(e, &start, &end))
		return 0;
	return take_span(r, e->name->text, tid < 0 || tid > UINT32_MAX ? 0 : (uint32_t)tid, start + r->begin_ns, end + r->begin_ns);
}

static void trace_stopped(void *ctx, const struct trace_stop *stop)
{
	struct file_reader *r = ctx;

	if (!r->why[0])
		snprintf(r->why, LINK_WHY_MAX, "line %llu: %s", (unsigned long long)stop->line, stop->why);
}

static int read_chrome(struct file_reader *r, struct json_source *source)
{
	static const struct trace_reader_ops ops = { .event = first_event, .stop = trace_stopped, .member_name = "baseTimeNanoseconds", .member = base_time };
	struct link_file *f = r->f;
	struct trace_form form = { 0 };
	int err;

	err = kineto_new(f, &r->kineto);
	if (!err)
		err = trace_read(source, &ops, r, &form);
	if (!err && !r->has_clock && !kineto_is(r->kineto)) {
		snprintf(r->why, LINK_WHY_MAX,
			"its clock is unknown: it has neither the inftrace_clock of inftrace's traces nor what Kineto's have");
		err = -EINVAL;
	}
	if (!err && r->has_clock) {
		f->kind = LINK_CHROME;
		f->torn = form.open;
		f->first_ns += f->begin_ns;
		f->last_ns += f->begin_ns;
	} else if (!err) {
		f->kind = LINK_KINETO;
		err = kineto_finish(r->kineto);
	}
	kineto_free(r->kineto);
	return err;
}

/* ---- Perfetto ---- */

static int first_slice(void *ctx, const struct pftrace_slice *s)
{
	(void)s;
	((struct file_reader *)ctx)->f->events++;
	return 0;
}

static int first_clocks(void *ctx, int64_t boot_ns, int64_t real_ns)
{
	struct file_reader *r = ctx;

	if (!link_time_fits(boot_ns) || !link_time_fits(real_ns))
		return 0;
	r->has_clock = true;
	note_time(r->f, boot_ns);
	return link_clock_add(&r->f->clock, boot_ns, real_ns);
}

static int first_time(void *ctx, int64_t boot_ns)
{
	if (link_time_fits(boot_ns))
		note_time(((struct file_reader *)ctx)->f, boot_ns);
	return 0;
}

static bool wants_instant(const char *name)
{
	return pftrace_instant_is_host(name) || !strncmp(name, "message ", 8);
}

/* A file of any program may have instants with such names: what is none of ours is incomplete. */
static int first_instant(void *ctx, const struct pftrace_instant *in)
{
	struct message_event m = { .name = in->name, .ns = in->ns };

	if (pftrace_instant_is_host(in->name)) {
		pftrace_instant_host(in, &((struct file_reader *)ctx)->f->id);
		return 0;
	}
	for (size_t i = 0; i < in->n; i++) {
		if (in->args[i].text)
			message_event_text(&m, in->args[i].name, in->args[i].text);
		else
			message_event_number(&m, in->args[i].name, in->args[i].value);
	}
	return messages_add(&((struct file_reader *)ctx)->f->messages, &m);
}

static int again_slice(void *ctx, const struct pftrace_slice *s)
{
	struct file_reader *r = ctx;

	if (!link_time_fits(s->start_ns) || !link_time_fits(s->end_ns))
		return 0;
	return take_span(r, s->name, s->tid, s->start_ns + r->begin_ns, s->end_ns + r->begin_ns);
}

static void packet_bad(void *ctx, uint64_t offset, const char *why)
{
	struct file_reader *r = ctx;

	if (!r->why[0])
		snprintf(r->why, LINK_WHY_MAX, "byte %llu: %s", (unsigned long long)offset, why);
}

static int read_pftrace(struct file_reader *r, struct json_source *source)
{
	static const struct pftrace_event_ops ops = {
		.slice = first_slice, .clocks = first_clocks, .time = first_time, .instant = first_instant, .wants_instant = wants_instant, .bad = packet_bad
	};
	int err;

	r->f->kind = LINK_PFTRACE;
	err = pftrace_events_read(source, &ops, r, &r->f->torn);
	if (!err && r->why[0])
		err = -EBADMSG;
	if (!err && !r->has_clock) {
		snprintf(r->why, LINK_WHY_MAX, "its clock is unknown: it has no reading of CLOCK_BOOTTIME and CLOCK_REALTIME");
		err = -EINVAL;
	}
	return err;
}

/* ---- all ---- */

static int read_kind(struct file_reader *r, struct json_source *source, bool is_et)
{
	const char *why = NULL;
	char buf[160];
	int err;

	if (is_et) {
		r->f->kind = LINK_ET;
		return 0; /* et.h */
	}
	switch (file_detect(source, buf, sizeof(buf), &why)) {
	case FILE_PROFILE:
		r->f->kind = LINK_PROFILE;
		return 0;
	case FILE_TRACE:
		return read_chrome(r, source);
	default:
		if (pftrace_is(source))
			return read_pftrace(r, source);
		err = -EINVAL;
		snprintf(r->why, LINK_WHY_MAX, "%s", why);
		return err;
	}
}

/* From the clock of the recorder's time namespace to the machine's, which the recordings of all its containers have in common. */
static void leave_namespace(struct link_file *f)
{
	int64_t shift = f->id.shift_ns;

	f->begin_ns -= shift;
	if (f->first_ns <= f->last_ns) {
		f->first_ns -= shift;
		f->last_ns -= shift;
	}
	for (size_t i = 0; i < f->clock.n; i++) {
		f->clock.points[i].own_ns -= shift;
		f->clock.points[i].ahead_ns += shift;
	}
}

static int why_of(int err, char why[LINK_WHY_MAX])
{
	if (err == -ENOMEM)
		snprintf(why, LINK_WHY_MAX, "out of memory");
	else if (err && !why[0])
		snprintf(why, LINK_WHY_MAX, "%s", err == -E2BIG ? "has too many readings of its clocks" : strerror(-err));
	return err;
}

int link_file_read(struct link_file *f, const char *path, const char *host, bool is_et, char why[LINK_WHY_MAX])
{
	struct file_reader r = { .f = f, .why = why };
	struct json_source source;
	struct stat sb;
	int err;

	memset(f, 0, sizeof(*f));
	f->path = path;
	f->given_host = host;
	f->first_ns = INT64_MAX;
	f->last_ns = INT64_MIN;
	why[0] = 0;
	/* a pipe would be empty the second time */
	if (!strcmp(path, "-") || (!stat(path, &sb) && !S_ISREG(sb.st_mode) && !S_ISDIR(sb.st_mode))) {
		snprintf(why, LINK_WHY_MAX, "is read more than once, so it must be a file, and no pipe or device");
		return -ESPIPE;
	}
	err = json_source_open(&source, path);
	if (err)
		snprintf(why, LINK_WHY_MAX, "%s", source.error);
	else
		err = read_kind(&r, &source, is_et);
	json_source_close(&source);
	leave_namespace(f);
	link_clock_sort(&f->clock);
	messages_finish(&f->messages, f->begin_ns);
	if (!err && link_file_timed(f) && f->first_ns > f->last_ns) {
		snprintf(why, LINK_WHY_MAX, "there is nothing in it that has a time");
		err = -ENODATA;
	}
	return why_of(err, why);
}

void link_file_clear(struct link_file *f)
{
	link_clock_clear(&f->clock);
	messages_clear(&f->messages);
	spans_clear(&f->spans);
	numbereds_clear(&f->operators);
	memset(f, 0, sizeof(*f));
}

int link_file_spans(
	const struct link_file *f, const uint64_t *keys, size_t n, int64_t from_ns, int64_t to_ns, struct spans *ret, char why[LINK_WHY_MAX])
{
	static const struct trace_reader_ops chrome = { .event = again_event, .stop = trace_stopped };
	static const struct pftrace_event_ops pftrace = { .slice = again_slice, .bad = packet_bad };
	struct file_reader r = { .keys = keys, .n_keys = n, .from_ns = from_ns, .to_ns = to_ns, .begin_ns = f->begin_ns, .spans = ret, .why = why };
	struct json_source source;
	struct trace_form form;
	bool torn;
	int err;

	why[0] = 0;
	err = json_source_open(&source, f->path);
	if (err)
		snprintf(why, LINK_WHY_MAX, "%s", source.error);
	else if (f->kind == LINK_PFTRACE)
		err = pftrace_events_read(&source, &pftrace, &r, &torn);
	else
		err = trace_read(&source, &chrome, &r, &form);
	json_source_close(&source);
	return why_of(err, why);
}
