// SPDX-License-Identifier: BSD-2-Clause
/* How the clocks of the files relate, and whether they are of one run. */
#include "link/link.h"

#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "io/outfile.h"
#include "io/zip_writer.h"
#include "link/hosts.h"
#include "link/ranks.h"
#include "util/clock.h"
#include "util/program.h"
#include "util/text.h"

/* Kineto converts CPU counter values to times by a line through two readings, so parts of a trace may differ by this much. */
#define CONTRADICTION_NS INT64_C(50000)
/* The share of an execution trace's operators that must be in the Kineto trace. */
#define ET_FOUND_MIN 0.5

int link_fail(struct link *l, int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(l->error, sizeof(l->error), fmt, ap);
	va_end(ap);
	return err;
}

static const char *linked_name(const struct linked *d, char buf[256])
{
	return text_printable(buf, 256, d->file.path);
}

int link_add(struct link *l, const char *path, const char *host, bool is_et)
{
	char why[LINK_WHY_MAX], name[256];
	struct linked *d;
	int err;

	if (l->n == LINK_FILES_MAX)
		return link_fail(l, -E2BIG, "more than %d files", LINK_FILES_MAX);
	d = xcalloc(1, sizeof(*d));
	d->host = LINK_NO_HOST;
	d->by = LINK_BY_NOTHING;
	d->residual_ns = -1;
	l->list[l->n++] = d;
	err = link_file_read(&d->file, path, host, is_et, why);
	return err ? link_fail(l, err, "%s: %s", linked_name(d, name), why) : 0;
}

void link_clear(struct link *l)
{
	for (size_t i = 0; i < l->n; i++) {
		link_file_clear(&l->list[i]->file);
		free(l->list[i]);
	}
	memset(l, 0, sizeof(*l));
}

/* ---- when ---- */

static int64_t real_first(const struct linked *d)
{
	return link_file_real(&d->file, d->file.first_ns);
}

static int64_t real_last(const struct linked *d)
{
	return link_file_real(&d->file, d->file.last_ns);
}

/* By the clock that recordings of one host share, or by the wall clock, which may have been set between them. */
static bool linked_overlap(const struct linked *a, const struct linked *b, int64_t slack)
{
	if (place_is_recording(a) && place_is_recording(b) && a->host == b->host && a->file.first_ns <= b->file.last_ns &&
		b->file.first_ns <= a->file.last_ns)
		return true;
	return real_first(a) - slack <= real_last(b) && real_first(b) - slack <= real_last(a);
}

static int refuse_apart(struct link *l, const struct linked *a, const struct linked *b)
{
	const struct linked *early = real_first(b) < real_first(a) ? b : a, *late = early == a ? b : a;
	char from[2][40], to[2][40], name[2][256];

	return link_fail(l, -EINVAL, "no time in common: %s was recorded from %s to %s UTC, %s from %s to %s: they are of different runs",
		linked_name(early, name[0]), link_date_text(from[0], real_first(early)), link_date_text(to[0], real_last(early)),
		linked_name(late, name[1]), link_date_text(from[1], real_first(late)), link_date_text(to[1], real_last(late)));
}

/* Whether the first, which is placed by a clock alone, is of the same run as the other: they overlap, or the other was placed by calls or
 * messages of the first. */
static bool is_same_run(const struct link *l, size_t first, size_t other)
{
	const struct linked *a = l->list[first], *b = l->list[other];

	if (b->by == LINK_BY_CALLS && b->to == first)
		return true;
	if (b->by == LINK_BY_MESSAGES && l->placed[b->host].to == a->host)
		return true;
	return linked_overlap(a, b, 0);
}

/* Each file must be of the same run as another one, if there is any. */
static int check_overlap(struct link *l)
{
	for (size_t i = 0; i < l->n; i++) {
		const struct linked *d = l->list[i], *other = NULL;
		bool alone = true;

		if (!link_file_timed(&d->file) || d->by == LINK_BY_CALLS || d->by == LINK_BY_MESSAGES)
			continue;
		for (size_t j = 0; alone && j < l->n; j++) {
			if (j == i || !link_file_timed(&l->list[j]->file))
				continue;
			other = other ? other : l->list[j];
			alone = !is_same_run(l, i, j);
		}
		if (alone && other)
			return refuse_apart(l, d, other);
	}
	return 0;
}

/* ---- where ---- */

static int64_t ahead_of(const struct linked *d)
{
	return link_clock_ahead(&d->file.clock, d->file.first_ns);
}

static void place_reference(struct link *l)
{
	static const enum link_kind order[] = { LINK_PFTRACE, LINK_CHROME, LINK_KINETO };

	for (size_t k = 0; k < 3; k++) {
		for (size_t i = 0; i < l->n; i++) {
			if (l->list[i]->file.kind == order[k]) {
				l->reference = i;
				return;
			}
		}
	}
}

/* ---- Kineto, by calls that our recording has, too ---- */

/* Matches the calls of a Kineto trace with those of our recording `own`. */
static int match_recording(struct link *l, struct linked *d, const struct linked *own, struct match *ret)
{
	struct spans ours = { 0 }, *theirs = &d->file.spans;
	uint64_t *keys = xmalloc((theirs->names.n + 1) * sizeof(*keys));
	char why[LINK_WHY_MAX], name[256];
	int64_t ahead, spread;
	int err;

	for (size_t i = 0; i < theirs->names.n; i++)
		keys[i] = theirs->names.list[i]->key;
	qsort(keys, theirs->names.n, sizeof(*keys), span_compare_keys);
	ahead = ahead_of(own);
	spread = link_clock_spread(&own->file.clock, own->file.first_ns, own->file.last_ns);
	err = link_file_spans(&own->file, keys, theirs->names.n, d->file.first_ns - ahead - spread - MATCH_WINDOW_NS,
		d->file.last_ns - ahead + spread + MATCH_WINDOW_NS, &ours, why);
	if (err)
		link_fail(l, err, "%s: %s", linked_name(own, name), why);
	for (size_t i = 0; i < ours.n; i++) {
		ours.list[i].start_ns = link_file_real(&own->file, ours.list[i].start_ns);
		ours.list[i].end_ns = link_file_real(&own->file, ours.list[i].end_ns);
	}
	if (!err)
		match_find(&ours, theirs, ret);
	free(keys);
	spans_clear(&ours);
	return err;
}

static int refuse_call_bounds(struct link *l, const struct linked *d, const struct linked *own)
{
	const struct match_part *low = &d->match.parts[d->match.low_part], *high = &d->match.parts[d->match.high_part];
	char name[2][256], by[2][32], apart[32], date[2][40], call[2][64];
	struct match_name **names = d->file.spans.names.list;

	return link_fail(l, -EINVAL,
		"the clocks of %s and %s contradict each other: `%s` at %s UTC needs an offset of at least %s, `%s` at %s one of at most %s, "
		"%s less",
		linked_name(d, name[0]), linked_name(own, name[1]), text_printable(call[0], sizeof(call[0]), names[low->low_name]->text),
		link_date_text(date[0], low->at_ns), link_time_text(by[0], low->low_ns),
		text_printable(call[1], sizeof(call[1]), names[high->high_name]->text), link_date_text(date[1], high->at_ns),
		link_time_text(by[1], high->high_ns), link_time_text(apart, low->low_ns - high->high_ns));
}

/* Relates a Kineto trace to the recording that has most of its calls. */
static int relate_kineto(struct link *l, size_t i)
{
	struct linked *d = l->list[i], *own = NULL;
	bool given = d->file.given_host, known = false;
	struct match match;
	int err;

	if (given)
		d->host = place_name(l, d->file.given_host);
	for (size_t j = 0; j < l->n; j++) {
		if (!place_is_recording(l->list[j]) || !linked_overlap(l->list[j], d, MATCH_WINDOW_NS) || (given && l->list[j]->host != d->host))
			continue;
		err = match_recording(l, d, l->list[j], &match);
		if (err)
			return err;
		known |= own && l->list[j]->host != own->host; /* candidates on two hosts */
		if (!own || match.pairs > d->match.pairs) {
			own = l->list[j];
			d->to = j;
			d->match = match;
		}
	}
	d->by = LINK_BY_WALL;
	if (!own) {
		d->host = given ? d->host : l->n_hosts ? l->list[l->reference]->host
						       : place_name(l, "host 1");
		return 0;
	}
	d->spread_ns = link_clock_spread(&own->file.clock, d->file.first_ns - ahead_of(own), d->file.last_ns - ahead_of(own));
	if (!d->match.pairs && known && !given) {
		char name[256];

		return link_fail(l, -EINVAL, "%s: no recording has its calls, and there are several hosts: name its host (HOST=%s)",
			linked_name(d, name), name);
	}
	d->host = own->host;
	if (!d->match.pairs)
		return 0;
	if (d->match.low_ns - d->match.high_ns > CONTRADICTION_NS + d->spread_ns)
		return refuse_call_bounds(l, d, own);
	d->by = LINK_BY_CALLS;
	d->ahead_ns = d->match.low_ns + (d->match.high_ns - d->match.low_ns) / 2;
	d->residual_ns = llabs(d->match.high_ns - d->match.low_ns) / 2 + 1;
	return 0;
}

/* ---- execution traces ---- */

static int relate_et(struct link *l, struct linked *d)
{
	char why[LINK_WHY_MAX], name[2][256];
	struct et_check check;
	int err;

	for (size_t i = 0; i <= l->n; i++) {
		struct linked *kineto = i < l->n ? l->list[i] : NULL;

		if (kineto && kineto->file.kind != LINK_KINETO && !kineto->file.operators.n)
			continue;
		if (!kineto && d->et_compared)
			break;
		err = et_check(&d->file, kineto ? &kineto->file : NULL, &check, why);
		if (err)
			return link_fail(l, err, "%s: %s", linked_name(d, name[0]), why);
		if (!d->et_compared || check.found > d->et.found) {
			d->et = check;
			d->to = i;
			d->et_compared = kineto;
		}
	}
	if (!d->et_compared || (double)d->et.found >= (double)d->et.operators * ET_FOUND_MIN)
		return 0;
	return link_fail(l, -EINVAL, "%s is of another run than %s: of its %llu operators %llu are in that with their number and name",
		linked_name(d, name[0]), linked_name(l->list[d->to], name[1]), (unsigned long long)d->et.operators,
		(unsigned long long)d->et.found);
}

/* ---- recordings of several hosts ---- */

static void relate_own(struct link *l, struct linked *d)
{
	int64_t middle, ahead;

	if (d->host == l->list[l->reference]->host) {
		d->by = LINK_BY_ITSELF;
	} else if (!l->placed[d->host].placed) {
		d->by = LINK_BY_WALL;
	} else {
		d->by = LINK_BY_MESSAGES;
		/* the wall clock's lead over the reference's, in the middle of the compared time */
		middle = host_span(l, d).middle_ns;
		ahead = host_ahead(l, d->host, middle);
		d->ahead_ns = ahead + link_clock_ahead(&d->file.clock, middle) - link_clock_ahead(&l->list[l->reference]->file.clock, middle - ahead);
		d->residual_ns = l->placed[d->host].residual_ns + llabs(host_span(l, d).change_ns) / 2;
	}
}

int link_relate(struct link *l)
{
	int err;

	place_reference(l);
	err = place_recordings(l) ?: hosts_relate(l);
	if (err)
		return err;
	for (size_t i = 0; i < l->n; i++) {
		struct linked *d = l->list[i];

		if (place_is_recording(d))
			relate_own(l, d);
		if (d->file.kind == LINK_KINETO)
			err = relate_kineto(l, i);
		if (err)
			return err;
	}
	err = check_overlap(l);
	for (size_t i = 0; !err && i < l->n; i++) {
		if (l->list[i]->file.kind == LINK_ET)
			err = relate_et(l, l->list[i]);
	}
	return err;
}

/* The findings, for people. */

const char *link_time_text(char buf[32], int64_t ns)
{
	double abs = ns < 0 ? -(double)ns : (double)ns;

	if (abs < 1e3)
		snprintf(buf, 32, "%lld ns", (long long)ns);
	else if (abs < 1e6)
		snprintf(buf, 32, "%.3f us", (double)ns / 1e3);
	else if (abs < 1e9)
		snprintf(buf, 32, "%.3f ms", (double)ns / 1e6);
	else
		snprintf(buf, 32, "%.6f s", (double)ns / 1e9);
	return buf;
}

const char *link_date_text(char buf[40], int64_t real_ns)
{
	int64_t s = real_ns / (int64_t)NSEC_PER_SEC, ms = real_ns % (int64_t)NSEC_PER_SEC / (int64_t)NSEC_PER_MSEC;
	time_t when = (time_t)(ms < 0 ? s - 1 : s);
	char date[24];
	struct tm tm;

	if (!gmtime_r(&when, &tm) || !strftime(date, sizeof(date), "%F %T", &tm))
		snprintf(buf, 40, "%lld ns", (long long)real_ns);
	else
		snprintf(buf, 40, "%s.%03d", date, (int)(ms < 0 ? ms + 1000 : ms));
	return buf;
}

static void tell_launches(const struct launch_check *c, FILE *out)
{
	char least[32];

	if (c->kernels && !c->early)
		fprintf(out, "; each of %llu kernels and copies begins after its launch (%s at least)", (unsigned long long)c->kernels,
			link_time_text(least, c->least_ns));
	else if (c->kernels)
		fprintf(out, "; %llu of %llu kernels and copies begin before their launch, by up to %s: its own clocks are that far apart",
			(unsigned long long)c->early, (unsigned long long)c->kernels, link_time_text(least, -c->least_ns));
	if (c->unpaired)
		fprintf(out, "; of %llu more the launch is not in it", (unsigned long long)c->unpaired);
	if (c->left_out)
		fprintf(out, "; %llu more were not compared", (unsigned long long)c->left_out);
}

static void tell_kineto(const struct link *l, const struct linked *d, FILE *out)
{
	char ahead[32], residual[32], to[256];

	if (d->by == LINK_BY_CALLS) {
		text_printable(to, sizeof(to), l->list[d->to]->file.path);
		fprintf(out, ", %s %s %s, residual %s: %llu of its %llu calls were found there", link_time_text(ahead, llabs(d->ahead_ns)),
			d->ahead_ns < 0 ? "behind" : "ahead of", to, link_time_text(residual, d->residual_ns),
			(unsigned long long)d->match.pairs, (unsigned long long)d->match.calls);
	} else {
		fputs(", by the wall clock: no recording has its calls, so nothing checks that", out);
	}
	if (d->spread_ns > (int64_t)NSEC_PER_MSEC)
		fprintf(out, "; the wall clock was set by %s meanwhile", link_time_text(ahead, d->spread_ns));
	if (d->file.spans.left_out)
		fprintf(out, "; compared by its first %u calls", SPANS_MAX);
	tell_launches(&d->file.launches, out);
}

static void tell_et(const struct link *l, const struct linked *d, FILE *out)
{
	char kineto[256];

	fprintf(out, ": execution trace, %llu nodes without a cycle", (unsigned long long)d->et.nodes);
	if (!d->et.operators)
		fputs("; none has a number of PyTorch's profiler by which to compare", out);
	else if (d->et_compared)
		fprintf(out, "; %llu of %llu operators are in %s with their number and name", (unsigned long long)d->et.found,
			(unsigned long long)d->et.operators, text_printable(kineto, sizeof(kineto), l->list[d->to]->file.path));
	else
		fputs("; there is no Kineto trace to compare it with", out);
	if (d->et.missing_deps)
		fprintf(out, "; %llu dependencies on nodes that are not in it", (unsigned long long)d->et.missing_deps);
}

/* Tells the bound from messages that all go one way. */
static void tell_one_way(const struct link_host *h, FILE *out)
{
	bool at_least = h->clock.known == HOST_AT_LEAST;
	char text[32];

	fprintf(out, "; %llu messages, all of which go one way, say that its CLOCK_BOOTTIME is %s %s ahead",
		(unsigned long long)(h->sent + h->received), at_least ? "at least" : "at most",
		link_time_text(text, at_least ? h->clock.low_ns[0] : h->clock.high_ns[0]));
}

static void tell_host(const struct link *l, const struct linked *d, FILE *out)
{
	const struct link_host *h = &l->placed[d->host];
	struct host_span span = host_span(l, d);
	int64_t ahead = host_ahead(l, d->host, span.middle_ns);
	double time = (double)(span.last_ns - span.first_ns);
	char wall[32], boot[32], residual[32], to[256], drift[32];

	text_printable(to, sizeof(to), l->list[l->reference]->file.path);
	fprintf(out, ", by messages: its CLOCK_BOOTTIME is %s %s that of %s, residual %s while both were recorded, and its wall clock is %s %s",
		link_time_text(boot, llabs(ahead)), ahead < 0 ? "behind" : "ahead of", to, link_time_text(residual, d->residual_ns),
		link_time_text(wall, llabs(d->ahead_ns)), d->ahead_ns < 0 ? "behind" : "ahead");
	if (time > 0) /* both ends of the line are known to within the residual */
		fprintf(out, "; it gains %.1f ppm, give or take %.1f, which makes %s", (double)span.change_ns * 1e6 / time,
			2 * (double)h->residual_ns * 1e6 / time, link_time_text(drift, span.change_ns));
	fprintf(out, "; compared with %s: %llu messages to it, %llu from it", l->hosts[h->to], (unsigned long long)h->sent,
		(unsigned long long)h->received);
	if (h->hops > 1)
		fprintf(out, ", %u hosts from the timeline's", h->hops);
	if (d->file.messages.left_out)
		fprintf(out, "; %llu more messages were not compared", (unsigned long long)d->file.messages.left_out);
}

/* Tells where given host names contradict boot ids. */
static void tell_boot(const struct link *l, const struct linked *d, FILE *out)
{
	struct boot own = place_boot(d), other;
	enum boot_fit fit;
	char name[256];

	for (size_t i = 0; i < l->n; i++) {
		if (!place_is_recording(d) || !place_is_recording(l->list[i]))
			continue;
		other = place_boot(l->list[i]);
		fit = boot_compare(&own, &other);
		if (fit != (d->host == l->list[i]->host ? BOOT_OTHER : BOOT_SAME))
			continue;
		fprintf(out, fit == BOOT_SAME ? "; its boot id is that of %s, too: without HOST= they are of one machine" : "; its boot id is not that of %s",
			text_printable(name, sizeof(name), l->list[i]->file.path));
		return;
	}
}

static void tell_time(const struct link *l, const struct linked *d, FILE *out)
{
	char from[40], to[40];

	fprintf(out, ": %s, %s to %s UTC", l->hosts[d->host], link_date_text(from, link_file_real(&d->file, d->file.first_ns)),
		link_date_text(to, link_file_real(&d->file, d->file.last_ns)));
	if (d == l->list[l->reference])
		fputs(", whose clock is the timeline's", out);
	if (d->file.kind == LINK_KINETO)
		tell_kineto(l, d, out);
	else if (d->by == LINK_BY_ITSELF && d != l->list[l->reference])
		fputs(", of the same clock", out);
	else if (d->by == LINK_BY_MESSAGES)
		tell_host(l, d, out);
	else if (d->by == LINK_BY_WALL)
		fputs(", by the wall clocks of the hosts, which nothing has checked", out);
	if (d->by == LINK_BY_WALL && l->placed[d->host].clock.known != HOST_NOTHING)
		tell_one_way(&l->placed[d->host], out);
	tell_boot(l, d, out);
	if (d->file.torn)
		fputs("; the recording was cut off", out);
}

void link_tell(const struct link *l, FILE *out)
{
	char name[256];

	for (size_t i = 0; i < l->n; i++) {
		const struct linked *d = l->list[i];

		fputs(text_printable(name, sizeof(name), d->file.path), out);
		if (d->file.kind == LINK_ET)
			tell_et(l, d, out);
		else if (d->file.kind == LINK_PROFILE)
			fputs(": profile: it goes along for inftrace report", out);
		else
			tell_time(l, d, out);
		fputc('\n', out);
	}
}

/* The manifest that tells Perfetto how the files of an archive relate: version 1 of
 * https://perfetto.dev/docs/reference/perfetto-manifest, which is stable. */

static int64_t middle_of(const struct linked *d)
{
	return d->file.first_ns + (d->file.last_ns - d->file.first_ns) / 2;
}

/* Returns the wall clock's lead over BOOTTIME in the recording own, in the middle of d. */
static int64_t real_ahead_at(const struct linked *own, const struct linked *d)
{
	int64_t real = link_file_real(&d->file, middle_of(d));

	return link_clock_ahead(&own->file.clock, real - link_clock_ahead(&own->file.clock, own->file.first_ns));
}

/* Returns a recording of this host; NULL: there is none. */
static const struct linked *host_find_recording(const struct link *l, unsigned int host)
{
	for (size_t i = 0; i < l->n; i++) {
		if (l->list[i]->host == host && place_is_recording(l->list[i]))
			return l->list[i];
	}
	return NULL;
}

/* Returns what to add to the numbers in the file to get the reference's clock. */
static int64_t offset_of(const struct link *l, const struct linked *d)
{
	const struct linked *reference = l->list[l->reference], *own = host_find_recording(l, d->host);
	int64_t ahead = real_ahead_at(reference, d);

	if (d->by == LINK_BY_MESSAGES)
		return d->file.begin_ns - host_ahead(l, d->host, host_span(l, d).middle_ns);
	if (place_is_recording(d))
		return d->file.begin_ns + (d->host == reference->host ? 0 : real_ahead_at(d, d) - ahead);
	if (own && own->by == LINK_BY_MESSAGES) {
		ahead = d->ahead_ns + real_ahead_at(d->by == LINK_BY_CALLS ? l->list[d->to] : own, d);
		return d->file.begin_ns - ahead - host_ahead(l, d->host, middle_of(d) - ahead);
	}
	if (d->by == LINK_BY_CALLS && l->list[d->to]->host == reference->host)
		ahead = real_ahead_at(l->list[d->to], d);
	return d->file.begin_ns - d->ahead_ns - ahead;
}

static struct json_object *clocks_of(const struct link *l, const struct linked *d)
{
	const struct linked *reference = l->list[l->reference];
	struct json_object *clocks = json_object_new_object(), *to = json_object_new_object();
	/* Perfetto takes the numbers in the reference's .pftrace as BOOTTIME, with a time namespace's shift in them */
	int64_t offset = offset_of(l, d) - (reference->file.kind == LINK_PFTRACE ? reference->file.begin_ns : 0);

	if (d->file.kind == LINK_PFTRACE)
		json_object_object_add(clocks, "clock", json_object_new_string("BOOTTIME"));
	json_object_object_add(to, "file", json_object_new_string(reference->member));
	if (reference->file.kind != LINK_KINETO)
		json_object_object_add(to, "clock", json_object_new_string("BOOTTIME"));
	else
		offset = d->file.begin_ns - reference->file.begin_ns;
	json_object_object_add(clocks, "sync_to", to);
	json_object_object_add(clocks, "offset_ns", json_object_new_int64(offset));
	return clocks;
}

/* Whether Perfetto could not tell the file's clock by itself. */
static bool needs_clocks(const struct link *l, const struct linked *d)
{
	const struct linked *reference = l->list[l->reference];

	if (d->file.kind == LINK_PFTRACE)
		return d->host != reference->host || d->file.begin_ns != reference->file.begin_ns;
	return d->file.kind == LINK_CHROME || d != reference;
}

static struct json_object *files_of(const struct link *l)
{
	struct json_object *files = json_object_new_array();

	for (size_t i = 0; i < l->n; i++) {
		const struct linked *d = l->list[i];
		struct json_object *file, *machine;

		if (!link_file_timed(&d->file))
			continue;
		file = json_object_new_object();
		machine = json_object_new_object();
		json_object_object_add(file, "path", json_object_new_string(d->member));
		json_object_object_add(machine, "name", json_object_new_string(l->hosts[d->host]));
		json_object_object_add(file, "machine", machine);
		if (needs_clocks(l, d))
			json_object_object_add(file, "clocks", clocks_of(l, d));
		json_object_array_add(files, file);
	}
	return files;
}

static void add_attribute(struct json_object *attributes, const char *name, const struct linked *d, int64_t value)
{
	char key[sizeof(d->member) + 64];

	snprintf(key, sizeof(key), "inftrace.%s.%s", name, d->member);
	json_object_object_add(attributes, key, json_object_new_int64(value));
}

/* What was measured, as attributes: their values are texts or integers. */
static struct json_object *attributes_of(const struct link *l)
{
#define ADD(member, name) add_attribute(attributes, name, d, place.member);
	struct json_object *attributes = json_object_new_object();
	struct host_place place;
	struct host_span span;

	json_object_object_add(attributes, "inftrace.version", json_object_new_string(INFTRACE_VERSION));
	for (size_t i = 0; i < l->n; i++) {
		const struct linked *d = l->list[i];

		if (d->by != LINK_BY_CALLS && d->by != LINK_BY_MESSAGES)
			continue;
		add_attribute(attributes, "ahead_ns", d, d->ahead_ns);
		add_attribute(attributes, "residual_ns", d, d->residual_ns);
		if (d->by != LINK_BY_MESSAGES)
			continue;
		/* how far its machine's CLOCK_BOOTTIME is ahead of the timeline's at the first and the last instant that was compared */
		span = host_span(l, d);
		place = (struct host_place){ .first_ns = span.first_ns,
			.last_ns = span.last_ns,
			.ahead_first_ns = host_ahead(l, d->host, span.first_ns),
			.ahead_last_ns = host_ahead(l, d->host, span.last_ns),
			.residual_ns = l->placed[d->host].residual_ns };
		HOST_PLACE_ATTRIBUTES(ADD)
	}
	return attributes;
#undef ADD
}

char *link_manifest(const struct link *l)
{
	const struct linked *reference = l->list[l->reference];
	struct json_object *root = json_object_new_object(), *manifest = json_object_new_object(), *time;
	char *ret;

	json_object_object_add(manifest, "version", json_object_new_int(1));
	if (reference->file.kind != LINK_KINETO) {
		time = json_object_new_object();
		json_object_object_add(time, "clock", json_object_new_string("BOOTTIME"));
		json_object_object_add(time, "file", json_object_new_string(reference->member));
		json_object_object_add(manifest, "trace_time", time);
	}
	json_object_object_add(manifest, "files", files_of(l));
	json_object_object_add(manifest, "attributes", attributes_of(l));
	json_object_object_add(root, "perfetto_manifest", manifest);
	ret = xstrdup(json_object_to_json_string_ext(root, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(root);
	return ret;
}

/* The archive. */

/* Copies part of a name; all but ASCII letters, digits and the characters below become "_". Returns its length. */
static size_t member_put_part(char *out, size_t size, const char *part)
{
	size_t n = 0;

	for (; *part && n + 1 < size; part++) {
		bool plain = (*part >= '0' && *part <= '9') || (*part >= 'a' && *part <= 'z') || (*part >= 'A' && *part <= 'Z') ||
			     *part == '-' || *part == '+' || *part == '=' || (*part == '.' && n);

		out[n++] = plain ? *part : '_';
	}
	out[n] = 0;
	return n;
}

static bool member_is_taken(const struct link *l, size_t i)
{
	for (size_t j = 0; j < i; j++) {
		if (!strcmp(l->list[i]->member, l->list[j]->member))
			return true;
	}
	return !strcmp(l->list[i]->member, ARCHIVE_MANIFEST);
}

static void name_member(struct link *l, size_t i)
{
	const char *slash = strrchr(l->list[i]->file.path, '/');
	const char *base = slash ? slash + 1 : l->list[i]->file.path;
	struct linked *d = l->list[i];
	const char *host = link_file_timed(&d->file) ? (l->n_hosts > 1 ? l->hosts[d->host] : NULL) : d->file.given_host;
	size_t n = 0, size = sizeof(d->member);

	if (!link_file_timed(&d->file)) {
		n = sizeof(ARCHIVE_BESIDE) - 1;
		memcpy(d->member, ARCHIVE_BESIDE, n);
	}
	if (host) {
		n += member_put_part(d->member + n, 128, host);
		d->member[n++] = '/';
	}
	member_put_part(d->member + n, size - n, base);
	for (unsigned int k = 2; member_is_taken(l, i) && k <= LINK_FILES_MAX + 2; k++) {
		size_t digits = (size_t)snprintf(d->member + n, size - n, "%u-", k);

		member_put_part(d->member + n + digits, size - n - digits, base);
	}
}

static int zip_add_linked(struct link *l, struct zip_writer *zip, const struct linked *d)
{
	char why[ZIP_WHY_MAX], name[256];
	int err, fd = open(d->file.path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	struct stat sb;

	text_printable(name, sizeof(name), d->file.path);
	if (fd < 0)
		return link_fail(l, -errno, "%s: cannot open: %s", name, strerror(errno));
	err = fstat(fd, &sb) ? -errno : zip_writer_file(zip, d->member, fd, sb.st_mtime, why);
	if (err)
		link_fail(l, err, "%s: %s", name, why);
	close(fd);
	return err;
}

static int zip_add_all(struct link *l, struct zip_writer *zip, const char *name)
{
	char why[ZIP_WHY_MAX], *manifest = link_manifest(l);
	int err;

	err = zip_writer_text(zip, ARCHIVE_MANIFEST, manifest, strlen(manifest), time(NULL), why);
	free(manifest);
	if (err)
		return link_fail(l, err, "cannot write %s: %s", name, why);
	for (size_t i = 0; !err && i < l->n; i++)
		err = zip_add_linked(l, zip, l->list[i]);
	if (err)
		return err;
	err = zip_writer_finish(zip, why);
	return err ? link_fail(l, err, "cannot write %s: %s", name, why) : 0;
}

/* Empties the output. Refuses one of the inputs, and anything but a regular file. */
static int check_output(struct link *l, int fd, const char *name)
{
	struct stat out;

	if (fstat(fd, &out))
		return link_fail(l, -errno, "cannot write %s: %s", name, strerror(errno));
	if (!S_ISREG(out.st_mode))
		return link_fail(l, -EINVAL, "cannot write %s: an archive can only be written to a file", name);
	for (size_t i = 0; i < l->n; i++) {
		if (outfile_is_input(&out, l->list[i]->file.path))
			return link_fail(l, -EINVAL, "cannot write %s: it is one of the files to be linked", name);
	}
	return ftruncate(fd, 0) ? link_fail(l, -errno, "cannot write %s: %s", name, strerror(errno)) : 0;
}

int link_write(struct link *l, const char *path, uint64_t *ret_bytes)
{
	char why[OUTFILE_WHY_MAX], name[256];
	struct zip_writer *zip = NULL;
	bool created, begun = false;
	struct stat sb;
	int fd, err;

	text_printable(name, sizeof(name), path);
	for (size_t i = 0; i < l->n; i++)
		name_member(l, i);
	fd = outfile_open(path, 0, &created, why);
	if (fd < 0)
		return link_fail(l, fd, "cannot write %s: %s", name, why);
	err = check_output(l, fd, name);
	begun = !err;
	if (!err) {
		zip = zip_writer_new(fd);
		err = zip_add_all(l, zip, name);
	}
	if (!err && (fstat(fd, &sb) || fsync(fd)))
		err = link_fail(l, -errno, "cannot write %s: %s", name, strerror(errno));
	zip_writer_free(zip);
	/* leave no half archive behind */
	if (err && created)
		outfile_unlink(path);
	else if (err && begun && ftruncate(fd, 0))
		err = -errno;
	close(fd);
	if (!err)
		*ret_bytes = (uint64_t)sb.st_size;
	return err;
}
