// SPDX-License-Identifier: BSD-2-Clause
#include "record/queue_watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sink/request_join.h"
#include "util/clock.h"

#define DECIDE_NS (NSEC_PER_SEC / 2) /* between two looks for requests that belong together */
#define KEPT_NS (30 * NSEC_PER_SEC)  /* what ended this long before the latest can no longer be joined */

struct sequence {
	struct join_sequence s;
	uint64_t sequence;
	uint32_t serial;
};

struct queue_watch {
	struct join *join;
	struct join_socket sockets[JOIN_SOCKETS]; /* if full, the oldest are dropped */
	struct sequence sequences[JOIN_SEQUENCES];
	size_t n_sockets, n_sequences;
	struct join_sequence given[JOIN_SEQUENCES];
	struct join_answer of_sockets[JOIN_SOCKETS], of_sequences[JOIN_SEQUENCES];
	struct queued_request found[JOIN_SOCKETS];
	size_t n_found;
	uint64_t latest, decided; /* instants */
	bool news;
};

int queue_watch_new(struct queue_watch **ret_watch)
{
	struct queue_watch *w = calloc(1, sizeof(*w));
	int err = w ? join_new(&w->join) : -ENOMEM;

	if (err) {
		free(w);
		return err;
	}
	*ret_watch = w;
	return 0;
}

void queue_watch_free(struct queue_watch *w)
{
	if (!w)
		return;
	join_free(w->join);
	free(w);
}

static void set_latest(struct queue_watch *w, uint64_t ns)
{
	w->news = true;
	if (ns > w->latest)
		w->latest = ns;
}

static struct sequence *find(struct queue_watch *w, const struct step_request *r)
{
	for (size_t i = w->n_sequences; i-- > 0;) {
		if (w->sequences[i].serial == r->serial)
			return &w->sequences[i];
	}
	return NULL;
}

void queue_watch_begin(struct queue_watch *w, const struct step_request *r)
{
	if (w->n_sequences == JOIN_SEQUENCES)
		memmove(w->sequences, w->sequences + 1, --w->n_sequences * sizeof(*w->sequences));
	w->sequences[w->n_sequences++] = (struct sequence){
		.s = { .tgid = r->tgid, .open = true, .vague = r->began_before || r->lost, .start = r->start },
		.sequence = r->sequence,
		.serial = r->serial,
	};
}

void queue_watch_first(struct queue_watch *w, const struct step_request *r)
{
	struct sequence *s = find(w, r);

	if (s)
		s->s.first = r->first_output;
}

void queue_watch_done(struct queue_watch *w, const struct step_request *r)
{
	struct sequence *s = find(w, r);

	if (!s)
		return;
	s->s.open = false;
	s->s.vague |= r->began_before || r->lost || r->mixed;
	s->s.first = r->first_output;
	s->s.last = r->last_end;
	s->s.outputs = step_request_tokens(r);
	set_latest(w, r->last_end);
}

void queue_watch_socket(struct queue_watch *w, const struct rec_request *r)
{
	if (w->n_sockets == JOIN_SOCKETS)
		memmove(w->sockets, w->sockets + 1, --w->n_sockets * sizeof(*w->sockets));
	w->sockets[w->n_sockets++] = (struct join_socket){
		.tgid = r->h.tgid,
		.chunks = r->chunks,
		.start = r->h.start_ns,
		.first = r->first_chunk_ns,
		.last = r->last_chunk_ns,
	};
	set_latest(w, r->h.start_ns + r->h.dur_ns);
}

static bool is_old(const struct queue_watch *w, uint64_t end)
{
	return end + KEPT_NS < w->latest;
}

/* Forgets joined requests, and those that have become too old. */
static void forget(struct queue_watch *w)
{
	size_t n = 0;

	for (size_t i = 0; i < w->n_sockets; i++) {
		uint64_t end = w->sockets[i].last ? w->sockets[i].last : w->sockets[i].start;

		if (w->of_sockets[i].result != JOIN_DONE && !is_old(w, end))
			w->sockets[n++] = w->sockets[i];
	}
	w->n_sockets = n;
	n = 0;
	for (size_t i = 0; i < w->n_sequences; i++) {
		const struct join_sequence *s = &w->sequences[i].s;

		if (w->of_sequences[i].result != JOIN_DONE && (s->open || !is_old(w, s->last)))
			w->sequences[n++] = w->sequences[i];
	}
	w->n_sequences = n;
}

static void decide(struct queue_watch *w)
{
	for (size_t i = 0; i < w->n_sequences; i++)
		w->given[i] = w->sequences[i].s;
	join_decide(w->join, w->sockets, w->n_sockets, w->given, w->n_sequences, w->of_sockets, w->of_sequences);
	for (size_t i = 0; i < w->n_sockets; i++) {
		const struct sequence *s;

		if (w->of_sockets[i].result != JOIN_DONE)
			continue;
		s = &w->sequences[w->of_sockets[i].with];
		w->found[w->n_found++] =
			(struct queued_request){ w->sockets[i].start, s->s.start, s->sequence, s->s.tgid };
	}
	forget(w);
	w->decided = w->latest;
	w->news = false;
}

bool queue_watch_next(struct queue_watch *w, struct queued_request *ret)
{
	if (!w->n_found && w->news && w->n_sockets && w->latest - w->decided >= DECIDE_NS)
		decide(w);
	if (!w->n_found)
		return false;
	*ret = w->found[--w->n_found];
	return true;
}
