// SPDX-License-Identifier: BSD-2-Clause
#include "link/hosts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "link/link.h"
#include "read/detect.h"
#include "read/pftrace_events.h"
#include "read/trace.h"
#include "util/list.h"
#include "util/text.h"

struct file_reader {
	struct link_file *f; /* NULL: only spans are wanted */
	struct kineto *kineto;
	const uint64_t *keys; /* of the spans, sorted */
	size_t n_keys;
	int64_t from_ns, to_ns, begin_ns;
	struct spans *spans;
	bool has_clock;
	char *why; /* empty: no error yet */
};

static void note_time(struct link_file *f, int64_t ns)
{
	f->first_ns = ns < f->first_ns ? ns : f->first_ns;
	f->last_ns = ns > f->last_ns ? ns : f->last_ns;
}

/* Reads a slice's begin and end. false: not a slice, or damaged. */
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

static void collect_span(struct file_reader *r, const char *name, uint32_t tid, int64_t start_ns, int64_t end_ns)
{
	uint64_t key;

	if (end_ns < r->from_ns || start_ns > r->to_ns)
		return;
	key = span_key(name);
	if (bsearch(&key, r->keys, r->n_keys, sizeof(key), span_compare_keys))
		spans_add(r->spans, name, tid, start_ns, end_ns);
}

/* ---- Chrome JSON ---- */

static bool clock_arg(const struct trace_event *e, const char *key, int64_t *ret)
{
	return link_clock_text(node_string(node_get(e->args, key)), ret);
}

static int scan_clock(struct file_reader *r, const struct trace_event *e)
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

/* Takes a message event of schema/trace_names.h. */
static void scan_message(struct file_reader *r, const struct trace_event *e)
{
	struct message_event m = { .name = node_string(e->name) };

	if (node_us_to_ns(e->ts, &m.ns) < 0 || !link_time_fits(m.ns) || !node_is(e->args, JSON_OBJECT))
		return;
	note_time(r->f, m.ns);
	json_for_each (arg, e->args) {
		if (node_is(arg, JSON_INT))
			message_event_number(&m, arg->key, node_u64(arg));
		else
			message_event_text(&m, arg->key, node_string(arg));
	}
	messages_add(&r->f->messages, &m);
}

static int scan_event(void *ctx, const struct trace_event *e)
{
	const char *ph = node_string(e->ph), *name = node_string(e->name), *cat = node_string(e->cat);
	struct file_reader *r = ctx;
	int64_t start, end;

	r->f->events++;
	if (ph && ph[0] == 'i' && name && !strcmp(name, "inftrace_clock"))
		return scan_clock(r, e);
	if (ph && ph[0] == 'i' && cat && !strcmp(cat, "message")) {
		scan_message(r, e);
	} else if (slice_times(e, &start, &end)) {
		note_time(r->f, start);
		note_time(r->f, end);
		kineto_event(r->kineto, e, start, end);
	}
	return 0;
}

static int scan_base(void *ctx, const struct json_node *value)
{
	struct file_reader *r = ctx;

	if (node_is(value, JSON_INT))
		kineto_base(r->kineto, node_s64(value));
	return 0;
}

static int collect_event(void *ctx, const struct trace_event *e)
{
	struct file_reader *r = ctx;
	int64_t start, end, tid = node_s64(e->tid);

	if (slice_times(e, &start, &end))
		collect_span(r, e->name->text, tid < 0 || tid > UINT32_MAX ? 0 : (uint32_t)tid, start + r->begin_ns, end + r->begin_ns);
	return 0;
}

static void keep_stop_why(void *ctx, const struct trace_stop *stop)
{
	struct file_reader *r = ctx;

	if (!r->why[0])
		snprintf(r->why, LINK_WHY_MAX, "line %llu: %s", (unsigned long long)stop->line, stop->why);
}

static int read_chrome(struct file_reader *r, struct json_source *source)
{
	static const struct trace_reader_ops ops = { .event = scan_event, .stop = keep_stop_why, .member_name = "baseTimeNanoseconds", .member = scan_base };
	struct link_file *f = r->f;
	struct trace_form form = { 0 };
	int err;

	r->kineto = kineto_new(f);
	err = trace_read(source, &ops, r, &form);
	if (!err && !r->has_clock && !kineto_is(r->kineto)) {
		snprintf(r->why, LINK_WHY_MAX,
			"its clock is unknown: it has neither the inftrace_clock of inftrace's traces nor what Kineto's have");
		err = -EINVAL;
	}
	if (!err && r->has_clock) {
		f->kind = LINK_CHROME;
		f->torn = form.open;
		numbereds_sort(&f->operators); /* a trace in Kineto's form has some */
		f->first_ns += f->begin_ns;
		f->last_ns += f->begin_ns;
	} else if (!err) {
		f->kind = LINK_KINETO;
		kineto_finish(r->kineto);
	}
	kineto_free(r->kineto);
	return err;
}

/* ---- Perfetto ---- */

static void scan_slice(void *ctx, const struct pftrace_slice *s)
{
	((struct file_reader *)ctx)->f->events++;
}

static int scan_clocks(void *ctx, int64_t boot_ns, int64_t real_ns)
{
	struct file_reader *r = ctx;

	if (!link_time_fits(boot_ns) || !link_time_fits(real_ns))
		return 0;
	r->has_clock = true;
	note_time(r->f, boot_ns);
	return link_clock_add(&r->f->clock, boot_ns, real_ns);
}

static void scan_time(void *ctx, int64_t boot_ns)
{
	if (link_time_fits(boot_ns))
		note_time(((struct file_reader *)ctx)->f, boot_ns);
}

static bool instant_is_read(const char *name)
{
	return pftrace_instant_is_host(name) || !strncmp(name, "message ", 8);
}

/* Any program may write instants with such names; others than inftrace's lack the arguments and are ignored. */
static void scan_instant(void *ctx, const struct pftrace_instant *in)
{
	struct message_event m = { .name = in->name, .ns = in->ns };

	if (pftrace_instant_is_host(in->name)) {
		pftrace_instant_host(in, &((struct file_reader *)ctx)->f->id);
		return;
	}
	for (size_t i = 0; i < in->n; i++) {
		if (in->args[i].text)
			message_event_text(&m, in->args[i].name, in->args[i].text);
		else
			message_event_number(&m, in->args[i].name, in->args[i].value);
	}
	messages_add(&((struct file_reader *)ctx)->f->messages, &m);
}

static void collect_slice(void *ctx, const struct pftrace_slice *s)
{
	struct file_reader *r = ctx;

	if (link_time_fits(s->start_ns) && link_time_fits(s->end_ns))
		collect_span(r, s->name, s->tid, s->start_ns + r->begin_ns, s->end_ns + r->begin_ns);
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
		.slice = scan_slice, .clocks = scan_clocks, .time = scan_time, .instant = scan_instant, .wants_instant = instant_is_read, .bad = packet_bad
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

	if (is_et) {
		r->f->kind = LINK_ET;
		return 0; /* et.c */
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
		snprintf(r->why, LINK_WHY_MAX, "%s", why);
		return -EINVAL;
	}
}

/* Converts times from the recorder's time namespace to the machine's clock, which the recordings of all its containers share. */
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

static int fill_why(int err, char why[LINK_WHY_MAX])
{
	if (err && !why[0])
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
	return fill_why(err, why);
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
	static const struct trace_reader_ops chrome = { .event = collect_event, .stop = keep_stop_why };
	static const struct pftrace_event_ops pftrace = { .slice = collect_slice, .bad = packet_bad };
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
	return fill_why(err, why);
}

/* Recordings are placed in this order: with a given host, with a boot id, then older ones, which only their clocks tell apart. */
enum order {
	ORDER_NAMED,
	ORDER_BOOT_ID,
	ORDER_CLOCKS,
	ORDERS,
};

bool place_is_recording(const struct linked *d)
{
	return d->file.kind == LINK_PFTRACE || d->file.kind == LINK_CHROME;
}

struct boot place_boot(const struct linked *d)
{
	return (struct boot){ .id = d->file.id, .lead_ns = link_clock_ahead(&d->file.clock, d->file.first_ns) };
}

/* ---- names ---- */

/* Returns the host of this (printable) name; n_hosts: none. */
static unsigned int link_find_host(const struct link *l, const char *name)
{
	unsigned int i = 0;

	while (i < l->n_hosts && strcmp(l->hosts[i], name))
		i++;
	return i;
}

unsigned int place_name(struct link *l, const char *name)
{
	char buf[sizeof(l->hosts[0])];
	unsigned int host;

	host = link_find_host(l, text_printable(buf, sizeof(buf), name));
	if (host == l->n_hosts)
		memcpy(l->hosts[l->n_hosts++], buf, sizeof(buf));
	return host;
}

/* ---- hosts ---- */

static bool recording_is_of_host(const struct linked *d, unsigned int host)
{
	return place_is_recording(d) && d->host == host;
}

static enum boot_fit fit_host(const struct link *l, const struct linked *d, unsigned int host)
{
	struct boot own = place_boot(d), other;
	enum boot_fit fit = BOOT_UNLIKELY, one;

	for (size_t i = 0; i < l->n; i++) {
		if (l->list[i] == d || !recording_is_of_host(l->list[i], host))
			continue;
		other = place_boot(l->list[i]);
		one = boot_compare(&own, &other);
		fit = one > fit ? one : fit;
	}
	return fit;
}

/* Adds a host for a recording: by the recording's own host name, or else as "host N", which HOST= may have given to another file. No real
 * host name has a space. */
static unsigned int add_host(struct link *l, const struct linked *d)
{
	char name[sizeof(l->hosts[0])];
	unsigned int host;

	text_printable(name, sizeof(name), d->file.id.name);
	if (*name && !strchr(name, ' ') && link_find_host(l, name) == l->n_hosts)
		return place_name(l, name);
	do {
		snprintf(name, sizeof(name), "host %u", ++l->n_unnamed);
		host = place_name(l, name);
	} while (fit_host(l, d, host) == BOOT_OTHER);
	return host;
}

static int link_choose_host(struct link *l, struct linked *d)
{
	struct boot_choice choice = { 0 };
	char name[256];

	if (d->file.given_host) {
		d->host = place_name(l, d->file.given_host);
		return 0;
	}
	for (unsigned int i = 0; i < l->n_hosts; i++)
		boot_choose(&choice, i, fit_host(l, d, i));
	if (choice.several)
		return link_fail(l, -EINVAL, "%s may be of several of the hosts, by its %s: name its host (HOST=FILE)",
			text_printable(name, sizeof(name), d->file.path), choice.fit == BOOT_SAME ? "boot id" : "clocks");
	d->host = choice.fit ? choice.host : add_host(l, d);
	return 0;
}

static enum order order_of(const struct linked *d)
{
	if (d->file.given_host)
		return ORDER_NAMED;
	return d->file.id.boot_id[0] ? ORDER_BOOT_ID : ORDER_CLOCKS;
}

/* ---- contradictions ---- */

/* Returns how far the wall clocks of two recordings differ at one CLOCK_BOOTTIME, less what each was set by while recording. */
static int64_t clocks_apart(const struct link_file *a, const struct link_file *b)
{
	int64_t at = a->first_ns > b->first_ns ? a->first_ns : b->first_ns;

	return llabs(link_clock_ahead(&a->clock, at) - link_clock_ahead(&b->clock, at)) - link_clock_spread(&a->clock, a->first_ns, a->last_ns) -
	       link_clock_spread(&b->clock, b->first_ns, b->last_ns);
}

/* Checks two recordings of one host. */
static int check_pair(struct link *l, const struct linked *a, const struct linked *b)
{
	struct boot boots[2] = { place_boot(a), place_boot(b) };
	enum boot_fit fit = boot_compare(&boots[0], &boots[1]);
	int64_t apart = clocks_apart(&a->file, &b->file);
	char name[2][256], text[32];

	if (apart <= BOOT_AGREE_NS || fit < BOOT_OTHER)
		return 0;
	text_printable(name[0], sizeof(name[0]), a->file.path);
	text_printable(name[1], sizeof(name[1]), b->file.path);
	link_time_text(text, apart);
	if (fit == BOOT_OTHER)
		return link_fail(l, -EINVAL, "%s and %s are said to be of %s, but are of two boots (%s and %s), whose clocks are %s apart: give them two names",
			name[0], name[1], l->hosts[a->host], a->file.id.boot_id, b->file.id.boot_id, text);
	if (a->file.given_host && b->file.given_host)
		return 0; /* then the wall clock was set */
	return link_fail(l, -EINVAL,
		"%s and %s have one boot id (%s), but clocks that are %s apart: the wall clock was set, or they are of two copies of a "
		"virtual machine: name the machines (HOST=FILE)",
		name[0], name[1], a->file.id.boot_id, text);
}

int place_recordings(struct link *l)
{
	int err = 0;

	for (enum order order = 0; order < ORDERS; order++) {
		for (size_t i = 0; i < l->n && !err; i++) {
			if (place_is_recording(l->list[i]) && order_of(l->list[i]) == order)
				err = link_choose_host(l, l->list[i]);
		}
	}
	for (size_t i = 0; i < l->n; i++) {
		for (size_t j = 0; j < i && !err; j++) {
			if (place_is_recording(l->list[i]) && recording_is_of_host(l->list[j], l->list[i]->host))
				err = check_pair(l, l->list[j], l->list[i]);
		}
	}
	return err;
}

/* A comparison of the messages of two files, or of all files of two hosts: ours and theirs. */
struct compared {
	struct host_messages bounds;
	uint64_t sent, received;            /* by us */
	int64_t from_ns, to_ns;             /* by our clock: the time of the bounds */
	const struct linked *ours, *theirs; /* the files being compared */
	bool from_us;
	struct met {
		struct message_pair pair;
		const struct linked *from, *to;
	} * list; /* by the message numbers in bounds */
	size_t n, size;
};

static void compared_clear(struct compared *c)
{
	host_messages_clear(&c->bounds);
	free(c->list);
	memset(c, 0, sizeof(*c));
}

static void take_pair(void *arg, const struct message_pair *p)
{
	struct compared *c = arg;
	int64_t ours_ns = c->from_us ? p->sent->from_ns : p->received->to_ns;

	if (c->n == 2 * HOST_BOUNDS_MAX)
		return;
	host_messages_add(&c->bounds, c->from_us, p->sent->from_ns, p->received->to_ns, (uint32_t)c->n);
	*list_push(c->list, c->n, c->size) = (struct met){ *p, c->from_us ? c->ours : c->theirs, c->from_us ? c->theirs : c->ours };
	c->from_ns = ours_ns < c->from_ns || c->n == 1 ? ours_ns : c->from_ns;
	c->to_ns = ours_ns > c->to_ns || c->n == 1 ? ours_ns : c->to_ns;
	*(c->from_us ? &c->sent : &c->received) += 1;
}

static void compare_files(struct compared *c, const struct linked *ours, const struct linked *theirs)
{
	c->ours = ours;
	c->theirs = theirs;
	c->from_us = true;
	messages_match(&ours->file.messages, &theirs->file.messages, take_pair, c);
	c->from_us = false;
	messages_match(&theirs->file.messages, &ours->file.messages, take_pair, c);
}

static bool has_messages_of_host(const struct linked *d, unsigned int host)
{
	return link_file_timed(&d->file) && d->host == host && d->file.messages.n;
}

/* ---- refusals ---- */

/* "10.0.0.1:80>10.0.0.2:40000, byte 1, received at 2026-11-20 04:14:50.918 UTC". */
static const char *met_text(char buf[LINK_WHY_MAX], const struct met *m)
{
	const char *name = m->from->file.messages.streams.list[m->pair.sent->stream]->text;
	char text[128], date[40];

	snprintf(buf, LINK_WHY_MAX, "%s, byte %llu, received at %s UTC", text_printable(text, sizeof(text), name),
		(unsigned long long)m->pair.received->position, link_date_text(date, link_file_real(&m->to->file, m->pair.received->to_ns)));
	return buf;
}

static int refuse_message_bounds(struct link *l, const struct compared *c, const struct host_clock *clock)
{
	const struct met *low = &c->list[clock->low_message], *high = &c->list[clock->high_message];
	char text[2][LINK_WHY_MAX], apart[32], name[2][256];

	snprintf(l->error, sizeof(l->error),
		"the clocks of %s and %s contradict each other: however much they differ and drift, one of two messages was received before "
		"it was sent, by %s in all: %s; %s",
		text_printable(name[0], sizeof(name[0]), low->to->file.path), text_printable(name[1], sizeof(name[1]), low->from->file.path),
		link_time_text(apart, clock->apart_ns), met_text(text[0], low), met_text(text[1], high));
	return -EINVAL;
}

/* ---- clocks ---- */

/* Returns the first and last time of a host's recordings, by its clock. */
static void host_times(const struct link *l, unsigned int host, int64_t *ret_first, int64_t *ret_last)
{
	*ret_first = INT64_MAX;
	*ret_last = INT64_MIN;
	for (size_t i = 0; i < l->n; i++) {
		const struct link_file *f = &l->list[i]->file;

		if (!has_messages_of_host(l->list[i], host))
			continue;
		*ret_first = f->first_ns < *ret_first ? f->first_ns : *ret_first;
		*ret_last = f->last_ns > *ret_last ? f->last_ns : *ret_last;
	}
}

/* Finds their clock over the time in which both hosts were recorded. Solves for the messages' time first, to learn when that was. */
static int find_clock(struct link *l, struct compared *c, unsigned int ours, unsigned int theirs, struct host_clock *ret)
{
	int64_t first, last, their_first, their_last;
	int err = host_clock_find(&c->bounds, c->from_ns, c->to_ns, ret);

	if (err || ret->known != HOST_BOTH)
		return err;
	host_times(l, ours, &first, &last);
	host_times(l, theirs, &their_first, &their_last);
	their_first -= ret->ahead_ns[0];
	their_last -= ret->ahead_ns[1];
	first = their_first > first ? their_first : first;
	last = their_last < last ? their_last : last;
	return host_clock_find(&c->bounds, first < c->from_ns ? first : c->from_ns, last > c->to_ns ? last : c->to_ns, ret);
}

/* Whether this clock places host h better than the one it has so far. */
static bool clock_is_better(const struct link_host *h, const struct host_clock *clock, int64_t residual_ns)
{
	if (clock->known != HOST_BOTH)
		return h->clock.known == HOST_NOTHING && clock->known != HOST_NOTHING;
	return h->clock.known != HOST_BOTH || residual_ns < h->residual_ns;
}

/* Compares host a, which is placed, with all hosts that are not. */
static int relate_hosts_to(struct link *l, unsigned int a)
{
	for (unsigned int b = 0; b < l->n_hosts; b++) {
		struct link_host *h = &l->placed[b];
		struct compared c = { 0 };
		struct host_clock clock;
		int64_t residual_ns;
		int err;

		if (h->placed)
			continue;
		for (size_t i = 0; i < l->n; i++) {
			for (size_t j = 0; has_messages_of_host(l->list[i], a) && j < l->n; j++) {
				if (has_messages_of_host(l->list[j], b))
					compare_files(&c, l->list[i], l->list[j]);
			}
		}
		err = find_clock(l, &c, a, b, &clock);
		if (!err && clock.known == HOST_CONTRADICTS)
			err = refuse_message_bounds(l, &c, &clock);
		residual_ns = err ? 0 : l->placed[a].residual_ns + clock.residual_ns;
		if (!err && (clock.known == HOST_BOTH || !l->placed[a].hops) && clock_is_better(h, &clock, residual_ns))
			*h = (struct link_host){ .to = a,
				.hops = l->placed[a].hops + 1,
				.clock = clock,
				.sent = c.sent,
				.received = c.received,
				.residual_ns = residual_ns };
		compared_clear(&c);
		if (err)
			return err;
	}
	return 0;
}

/* Returns the unplaced host with the smallest residual; n_hosts: none can be placed. */
static unsigned int find_nearest_host(const struct link *l)
{
	unsigned int best = l->n_hosts;

	for (unsigned int i = 0; i < l->n_hosts; i++) {
		const struct link_host *h = &l->placed[i];

		if (!h->placed && h->clock.known == HOST_BOTH && (best == l->n_hosts || h->residual_ns < l->placed[best].residual_ns))
			best = i;
	}
	return best;
}

/* Checks two files that should share a clock: no message between them may be received before it was sent. */
static int check_same_machine(struct link *l, const struct linked *a, const struct linked *b)
{
	struct compared c = { 0 };
	char name[2][256], text[LINK_WHY_MAX], early[32];
	int err = 0;

	compare_files(&c, a, b);
	for (size_t i = 0; i < c.n && !err; i++) {
		const struct message_pair *p = &c.list[i].pair;

		if (p->received->to_ns + 1 >= p->sent->from_ns)
			continue;
		snprintf(l->error, sizeof(l->error),
			"%s and %s are taken for recordings of one machine, but a message (%s) was received %s before it was sent: name the machines "
			"(HOST=FILE)",
			text_printable(name[0], sizeof(name[0]), a->file.path), text_printable(name[1], sizeof(name[1]), b->file.path),
			met_text(text, &c.list[i]), link_time_text(early, p->sent->from_ns - p->received->to_ns));
		err = -EINVAL;
	}
	compared_clear(&c);
	return err;
}

int hosts_relate(struct link *l)
{
	unsigned int at = l->list[l->reference]->host;
	int err = 0;

	for (size_t i = 0; i < l->n && !err; i++) {
		for (size_t j = i + 1; j < l->n && !err; j++) {
			if (has_messages_of_host(l->list[i], l->list[j]->host) && has_messages_of_host(l->list[j], l->list[i]->host))
				err = check_same_machine(l, l->list[i], l->list[j]);
		}
	}
	if (!l->n_hosts)
		return err;
	l->placed[at].to = at;
	while (!err && at < l->n_hosts) {
		l->placed[at].placed = true;
		err = relate_hosts_to(l, at);
		at = find_nearest_host(l);
	}
	return err;
}

/* Returns theirs - ours at a time of their clock. Rates differ by a thousandth at most, so each round is a thousand times closer. */
static int64_t ahead_at_theirs(const struct host_clock *c, int64_t theirs_ns)
{
	int64_t ahead = c->ahead_ns[0];

	for (int i = 0; i < 4; i++)
		ahead = host_clock_ahead(c, theirs_ns - ahead);
	return ahead;
}

int64_t host_ahead(const struct link *l, unsigned int host, int64_t own_ns)
{
	int64_t ahead = 0;

	for (const struct link_host *h = &l->placed[host]; h->hops; h = &l->placed[h->to])
		ahead += ahead_at_theirs(&h->clock, own_ns - ahead);
	return ahead;
}

struct host_span host_span(const struct link *l, const struct linked *d)
{
	int64_t first = d->file.first_ns, last = d->file.last_ns, ahead = 0;

	for (const struct link_host *h = &l->placed[d->host]; h->hops; h = &l->placed[h->to]) {
		const struct host_clock *c = &h->clock;
		/* the compared time by the clock of the file, whose rate is close enough to theirs */
		int64_t from = c->from_ns + c->ahead_ns[0] + ahead, to = c->to_ns + c->ahead_ns[1] + ahead;

		first = first < from ? from : first;
		last = last > to ? to : last;
		ahead += ahead_at_theirs(c, first - ahead);
	}
	last = last < first ? first : last;
	return (struct host_span){ first, last, first + (last - first) / 2, host_ahead(l, d->host, last) - host_ahead(l, d->host, first) };
}
