// SPDX-License-Identifier: BSD-2-Clause
/* What was found, for people. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "link/link.h"
#include "link/place.h"
#include "util/clock.h"
#include "util/text.h"

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

/* What the messages say, all of which go one way. */
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

/* Where the names of hosts, which were given, and boot ids are at odds. */
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
