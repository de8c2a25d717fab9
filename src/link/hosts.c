// SPDX-License-Identifier: BSD-2-Clause
#include "link/hosts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "link/link.h"
#include "util/list_room.h"
#include "util/text.h"

/* Two files whose messages are compared, or all those of two hosts: ours and theirs. */
struct compared {
	struct host_messages bounds;
	uint64_t sent, received; /* by us */
	int64_t from_ns, to_ns;  /* of our clock: what the bounds are about */
	const struct linked *ours, *theirs; /* those that are being compared */
	bool from_us;
	struct met {
		struct message_pair pair;
		const struct linked *from, *to;
	} * list; /* by the number of their bounds */
	size_t n, size;
};

static void compared_clear(struct compared *c)
{
	host_messages_clear(&c->bounds);
	free(c->list);
	memset(c, 0, sizeof(*c));
}

static int take_pair(void *arg, const struct message_pair *p)
{
	struct compared *c = arg;
	int64_t ours_ns = c->from_us ? p->sent->from_ns : p->received->to_ns;
	int err;

	if (c->n == 2 * HOST_BOUNDS_MAX)
		return 0;
	if (list_room((void **)&c->list, c->n, &c->size, sizeof(*c->list)))
		return -ENOMEM;
	err = host_messages_add(&c->bounds, c->from_us, p->sent->from_ns, p->received->to_ns, (uint32_t)c->n);
	if (err)
		return err;
	c->list[c->n++] = (struct met){ *p, c->from_us ? c->ours : c->theirs, c->from_us ? c->theirs : c->ours };
	c->from_ns = ours_ns < c->from_ns || c->n == 1 ? ours_ns : c->from_ns;
	c->to_ns = ours_ns > c->to_ns || c->n == 1 ? ours_ns : c->to_ns;
	*(c->from_us ? &c->sent : &c->received) += 1;
	return 0;
}

static int compare_files(struct compared *c, const struct linked *ours, const struct linked *theirs)
{
	int err;

	c->ours = ours;
	c->theirs = theirs;
	c->from_us = true;
	err = messages_match(&ours->file.messages, &theirs->file.messages, take_pair, c);
	c->from_us = false;
	return err ?: messages_match(&theirs->file.messages, &ours->file.messages, take_pair, c);
}

static bool is_of(const struct linked *d, unsigned int host)
{
	return link_file_timed(&d->file) && d->host == host && d->file.messages.n;
}

static int compare_hosts(const struct link *l, unsigned int ours, unsigned int theirs, struct compared *ret)
{
	int err = 0;

	for (size_t i = 0; i < l->n && !err; i++) {
		for (size_t j = 0; is_of(l->list[i], ours) && j < l->n && !err; j++) {
			if (is_of(l->list[j], theirs))
				err = compare_files(ret, l->list[i], l->list[j]);
		}
	}
	return err;
}

/* ---- refusals ---- */

/* "10.0.0.1:80>10.0.0.2:40000, received at 2026-11-20 04:14:50.918". */
static const char *met_text(char buf[LINK_WHY_MAX], const struct met *m)
{
	const char *name = m->from->file.messages.streams[m->pair.sent->stream]->name;
	char text[128], date[40];

	snprintf(buf, LINK_WHY_MAX, "%s, byte %llu, received at %s UTC", text_printable(text, sizeof(text), name),
		(unsigned long long)m->pair.received->position, link_date_text(date, link_file_real(&m->to->file, m->pair.received->to_ns)));
	return buf;
}

static int refuse_contradiction(struct link *l, const struct compared *c, const struct host_clock *clock)
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

static int no_memory(struct link *l, int err)
{
	if (err == -ENOMEM)
		snprintf(l->error, sizeof(l->error), "out of memory");
	return err;
}

/* ---- clocks ---- */

/* The times of a host's recordings, by its clock. */
static void host_times(const struct link *l, unsigned int host, int64_t *ret_first, int64_t *ret_last)
{
	*ret_first = INT64_MAX;
	*ret_last = INT64_MIN;
	for (size_t i = 0; i < l->n; i++) {
		const struct link_file *f = &l->list[i]->file;

		if (!is_of(l->list[i], host))
			continue;
		*ret_first = f->first_ns < *ret_first ? f->first_ns : *ret_first;
		*ret_last = f->last_ns > *ret_last ? f->last_ns : *ret_last;
	}
}

/* For the time in which both were recorded. At first for that of the messages, to learn when that was. */
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

/* Whether host b is better placed by a than by what it is placed by so far. */
static bool is_better(const struct link_host *h, const struct host_clock *clock, int64_t residual_ns)
{
	if (clock->known != HOST_BOTH)
		return h->clock.known == HOST_NOTHING && clock->known != HOST_NOTHING;
	return h->clock.known != HOST_BOTH || residual_ns < h->residual_ns;
}

/* What host a, which is placed, says of all that are not. */
static int relate_to(struct link *l, unsigned int a)
{
	for (unsigned int b = 0; b < l->n_hosts; b++) {
		struct link_host *h = &l->placed[b];
		struct compared c = { 0 };
		struct host_clock clock;
		int64_t residual_ns;
		int err;

		if (h->placed)
			continue;
		err = compare_hosts(l, a, b, &c) ?: find_clock(l, &c, a, b, &clock);
		if (!err && clock.known == HOST_CONTRADICTS)
			err = refuse_contradiction(l, &c, &clock);
		residual_ns = err ? 0 : l->placed[a].residual_ns + clock.residual_ns;
		if (!err && (clock.known == HOST_BOTH || !l->placed[a].hops) && is_better(h, &clock, residual_ns))
			*h = (struct link_host){ .to = a,
				.hops = l->placed[a].hops + 1,
				.clock = clock,
				.sent = c.sent,
				.received = c.received,
				.residual_ns = residual_ns };
		compared_clear(&c);
		if (err)
			return no_memory(l, err);
	}
	return 0;
}

/* The unplaced one with the smallest residual; n_hosts: none can be placed. */
static unsigned int nearest(const struct link *l)
{
	unsigned int best = l->n_hosts;

	for (unsigned int i = 0; i < l->n_hosts; i++) {
		const struct link_host *h = &l->placed[i];

		if (!h->placed && h->clock.known == HOST_BOTH && (best == l->n_hosts || h->residual_ns < l->placed[best].residual_ns))
			best = i;
	}
	return best;
}

/* Files that are taken for those of one clock: no message between them may be received before it was sent. */
static int check_same(struct link *l, const struct linked *a, const struct linked *b)
{
	struct compared c = { 0 };
	char name[2][256], text[LINK_WHY_MAX], early[32];
	int err = compare_files(&c, a, b);

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
	return no_memory(l, err);
}

int hosts_relate(struct link *l)
{
	unsigned int at = l->list[l->reference]->host;
	int err = 0;

	for (size_t i = 0; i < l->n && !err; i++) {
		for (size_t j = i + 1; j < l->n && !err; j++) {
			if (is_of(l->list[i], l->list[j]->host) && is_of(l->list[j], l->list[i]->host))
				err = check_same(l, l->list[i], l->list[j]);
		}
	}
	if (!l->n_hosts)
		return err;
	l->placed[at].to = at;
	while (!err && at < l->n_hosts) {
		l->placed[at].placed = true;
		err = relate_to(l, at);
		at = nearest(l);
	}
	return err;
}

/* Theirs - ours at a time of theirs. The rates differ by a thousandth at most, so each round is a thousand times closer. */
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
		/* what was compared, by the clock of the file; its rate is near enough to that of theirs */
		int64_t from = c->from_ns + c->ahead_ns[0] + ahead, to = c->to_ns + c->ahead_ns[1] + ahead;

		first = first < from ? from : first;
		last = last > to ? to : last;
		ahead += ahead_at_theirs(c, first - ahead);
	}
	last = last < first ? first : last;
	return (struct host_span){ first, last, first + (last - first) / 2, host_ahead(l, d->host, last) - host_ahead(l, d->host, first) };
}
