// SPDX-License-Identifier: BSD-2-Clause
/* How the clocks of the files relate, and whether they are of one run. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "link/link.h"
#include "link/place.h"
#include "util/text.h"

/* Kineto turns the counter of the CPU into a time by a line through two readings: parts of a trace may differ by that. */
#define CONTRADICTION_NS INT64_C(50000)
/* Of the operators of an execution trace so many must be in the Kineto trace. */
#define ET_FOUND_MIN 0.5

int link_fail(struct link *l, int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(l->error, sizeof(l->error), fmt, ap);
	va_end(ap);
	return err;
}

static const char *name_of(const struct linked *d, char buf[256])
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
	d = calloc(1, sizeof(*d));
	if (!d)
		return link_fail(l, -ENOMEM, "out of memory");
	d->host = LINK_NO_HOST;
	d->by = LINK_BY_NOTHING;
	d->residual_ns = -1;
	l->list[l->n++] = d;
	err = link_file_read(&d->file, path, host, is_et, why);
	return err ? link_fail(l, err, "%s: %s", name_of(d, name), why) : 0;
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

/* By the wall clock, which may have been set between them, or by the clock that recordings of one host have in common. */
static bool overlap(const struct linked *a, const struct linked *b, int64_t slack)
{
	if (place_is_recording(a) && place_is_recording(b) && a->host == b->host && a->file.first_ns <= b->file.last_ns &&
		b->file.first_ns <= a->file.last_ns)
		return true;
	return real_first(a) - slack <= real_last(b) && real_first(b) - slack <= real_last(a);
}

/* They have no time in common. */
static int refuse_apart(struct link *l, const struct linked *a, const struct linked *b)
{
	const struct linked *early = real_first(b) < real_first(a) ? b : a, *late = early == a ? b : a;
	char from[2][40], to[2][40], name[2][256];

	return link_fail(l, -EINVAL, "no time in common: %s was recorded from %s to %s UTC, %s from %s to %s: they are of different runs",
		name_of(early, name[0]), link_date_text(from[0], real_first(early)), link_date_text(to[0], real_last(early)),
		name_of(late, name[1]), link_date_text(from[1], real_first(late)), link_date_text(to[1], real_last(late)));
}

/* Whether the first, which is on the timeline by a clock alone, is of the same run as the other: they have some time in common, or the other
 * was placed by calls or messages of the first. */
static bool is_same_run(const struct link *l, size_t first, size_t other)
{
	const struct linked *a = l->list[first], *b = l->list[other];

	if (b->by == LINK_BY_CALLS && b->to == first)
		return true;
	if (b->by == LINK_BY_MESSAGES && l->placed[b->host].to == a->host)
		return true;
	return overlap(a, b, 0);
}

/* Each file must be of the same run as another one, if there is another one. */
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

/* ---- Kineto, by the calls that it and our recording have ---- */

/* own: what the reading of own calls starts from. */
static int match_with(struct link *l, struct linked *d, const struct linked *own, struct match *ret)
{
	struct spans ours = { 0 }, *theirs = &d->file.spans;
	uint64_t *keys = malloc((theirs->n_names + 1) * sizeof(*keys));
	char why[LINK_WHY_MAX], name[256];
	int64_t ahead, spread;
	int err;

	if (!keys)
		return link_fail(l, -ENOMEM, "out of memory");
	for (uint32_t i = 0; i < theirs->n_names; i++)
		keys[i] = theirs->names[i]->key;
	qsort(keys, theirs->n_names, sizeof(*keys), span_compare_keys);
	ahead = ahead_of(own);
	spread = link_clock_spread(&own->file.clock, own->file.first_ns, own->file.last_ns);
	err = link_file_spans(&own->file, keys, theirs->n_names, d->file.first_ns - ahead - spread - MATCH_WINDOW_NS,
		d->file.last_ns - ahead + spread + MATCH_WINDOW_NS, &ours, why);
	if (err)
		link_fail(l, err, "%s: %s", name_of(own, name), why);
	for (size_t i = 0; i < ours.n; i++) {
		ours.list[i].start_ns = link_file_real(&own->file, ours.list[i].start_ns);
		ours.list[i].end_ns = link_file_real(&own->file, ours.list[i].end_ns);
	}
	if (!err) {
		err = match_find(&ours, theirs, ret);
		if (err)
			link_fail(l, err, "out of memory");
	}
	free(keys);
	spans_clear(&ours);
	return err;
}

static int refuse_contradiction(struct link *l, const struct linked *d, const struct linked *own)
{
	const struct match_part *low = &d->match.parts[d->match.low_part], *high = &d->match.parts[d->match.high_part];
	char name[2][256], by[2][32], apart[32], date[2][40], call[2][64];
	struct span_name **names = d->file.spans.names;

	return link_fail(l, -EINVAL,
		"the clocks of %s and %s contradict each other: `%s` at %s UTC needs an offset of at least %s, `%s` at %s one of at most %s, "
		"%s less",
		name_of(d, name[0]), name_of(own, name[1]), text_printable(call[0], sizeof(call[0]), names[low->low_name]->text),
		link_date_text(date[0], low->at_ns), link_time_text(by[0], low->low_ns),
		text_printable(call[1], sizeof(call[1]), names[high->high_name]->text), link_date_text(date[1], high->at_ns),
		link_time_text(by[1], high->high_ns), link_time_text(apart, low->low_ns - high->high_ns));
}

/* With the recording that has most of its calls. */
static int relate_kineto(struct link *l, size_t i)
{
	struct linked *d = l->list[i], *own = NULL;
	bool given = d->file.given_host, known = false;
	struct match match;
	int err;

	if (given)
		d->host = place_name(l, d->file.given_host);
	for (size_t j = 0; j < l->n; j++) {
		if (!place_is_recording(l->list[j]) || !overlap(l->list[j], d, MATCH_WINDOW_NS) || (given && l->list[j]->host != d->host))
			continue;
		err = match_with(l, d, l->list[j], &match);
		if (err)
			return err;
		known |= own && l->list[j]->host != own->host; /* two hosts */
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
			name_of(d, name), name);
	}
	d->host = own->host;
	if (!d->match.pairs)
		return 0;
	if (d->match.low_ns - d->match.high_ns > CONTRADICTION_NS + d->spread_ns)
		return refuse_contradiction(l, d, own);
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

		if (kineto && kineto->file.kind != LINK_KINETO)
			continue;
		if (!kineto && d->et_compared)
			break;
		err = et_check(&d->file, kineto ? &kineto->file : NULL, &check, why);
		if (err)
			return link_fail(l, err, "%s: %s", name_of(d, name[0]), why);
		if (!d->et_compared || check.found > d->et.found) {
			d->et = check;
			d->to = i;
			d->et_compared = kineto;
		}
	}
	if (!d->et_compared || (double)d->et.found >= (double)d->et.operators * ET_FOUND_MIN)
		return 0;
	return link_fail(l, -EINVAL, "%s is of another run than %s: of its %llu operators %llu are in that with their number and name",
		name_of(d, name[0]), name_of(l->list[d->to], name[1]), (unsigned long long)d->et.operators,
		(unsigned long long)d->et.found);
}

/* ---- recordings of several hosts ---- */

/* The lead of the file's wall clock over the reference's, in the middle of what was compared. */
static int64_t wall_ahead(const struct link *l, const struct linked *d)
{
	int64_t middle = host_span(l, d).middle_ns, ahead = host_ahead(l, d->host, middle);

	return ahead + link_clock_ahead(&d->file.clock, middle) - link_clock_ahead(&l->list[l->reference]->file.clock, middle - ahead);
}

static void relate_own(struct link *l, struct linked *d)
{
	if (d->host == l->list[l->reference]->host) {
		d->by = LINK_BY_ITSELF;
	} else if (!l->placed[d->host].placed) {
		d->by = LINK_BY_WALL;
	} else {
		d->by = LINK_BY_MESSAGES;
		d->ahead_ns = wall_ahead(l, d);
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
