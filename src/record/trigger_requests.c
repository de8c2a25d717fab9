// SPDX-License-Identifier: BSD-2-Clause
/* Triggers about a request, in a batch with others or alone. It is named by its sequence, since numbers of requests
 * belong to a file and start again in each dump. */
#include <inttypes.h>
#include <string.h>

#include "record/trigger_set.h"

static bool is_wanted(const struct trigger_set *set, enum trigger_kind kind)
{
	for (size_t i = 0; i < set->n; i++) {
		if (set->list[i].kind == kind)
			return true;
	}
	return false;
}

/* The first trigger of a kind whose limit is exceeded; NULL: none. */
static struct trigger *find_past(struct trigger_set *set, enum trigger_kind kind, uint64_t ns, bool judged)
{
	struct trigger *past = NULL;

	for (size_t i = 0; i < set->n; i++) {
		struct trigger *t = &set->list[i];

		if (t->kind != kind)
			continue;
		t->judged += judged;
		if (!past && ns > t->limit)
			past = t;
	}
	return past;
}

static void remove_at(struct trigger_set *set, size_t i)
{
	set->n_no_token--;
	memmove(&set->no_token[i], &set->no_token[i + 1], (set->n_no_token - i) * sizeof(set->no_token[i]));
}

void trigger_queue(struct trigger_set *set)
{
	struct queued_request q;
	char spent[TIME_TEXT_MAX];

	while (set->queue && queue_watch_next(set->queue, &q)) {
		uint64_t ns = q.to > q.from ? q.to - q.from : 0;
		struct trigger *t = find_past(set, KIND_QUEUE, ns, true);

		if (t && trigger_is_told(set, t, q.to, q.tgid))
			trigger_tell(set, t, "a request was queued for %s before it began as sequence %" PRIu64 " of pid %u",
				trigger_time(spent, ns), q.sequence, q.tgid);
	}
}

void trigger_request_begin(struct trigger_set *set, const struct step_request *r)
{
	if (set->queue)
		queue_watch_begin(set->queue, r);
	if (!is_wanted(set, KIND_REQUEST_TTFT))
		return;
	/* another request has begun in its place */
	for (size_t i = set->n_no_token; i-- > 0;) {
		const struct no_token *n = &set->no_token[i];

		if (n->tgid == r->tgid && n->context == r->context && n->sequence == r->sequence)
			remove_at(set, i);
	}
	if (r->began_before)
		return;
	if (set->n_no_token == NO_TOKEN_MAX)
		remove_at(set, 0);
	set->no_token[set->n_no_token++] = (struct no_token){
		.from = r->start,
		.context = r->context,
		.sequence = r->sequence,
		.serial = r->serial,
		.tgid = r->tgid,
	};
}

static bool take(struct trigger_set *set, const struct step_request *r, struct no_token *ret)
{
	for (size_t i = 0; i < set->n_no_token; i++) {
		if (set->no_token[i].serial != r->serial)
			continue;
		*ret = set->no_token[i];
		remove_at(set, i);
		return true;
	}
	return false;
}

void trigger_request_mixed(struct trigger_set *set, const struct step_request *r)
{
	struct no_token none;

	take(set, r, &none);
}

void trigger_request_first(struct trigger_set *set, const struct step_request *r)
{
	char spent[TIME_TEXT_MAX];
	struct no_token waited;
	struct trigger *t;
	uint64_t ns;

	if (set->queue)
		queue_watch_first(set->queue, r);
	if (!take(set, r, &waited) || r->lost)
		return;
	ns = r->first_output - waited.from;
	t = find_past(set, KIND_REQUEST_TTFT, ns, true);
	if (t && !waited.told && trigger_is_told(set, t, r->first_output, r->tgid))
		trigger_tell(set, t, "the request of sequence %" PRIu64 " of pid %u had its first token after %s, in step %u",
			r->sequence, r->tgid, trigger_time(spent, ns), r->prefill_step);
}

/* Requests that still wait need not have rows in the step. */
void trigger_request_step(struct trigger_set *set, const struct step_seen *s)
{
	char spent[TIME_TEXT_MAX];

	for (size_t i = 0; i < set->n_no_token; i++) {
		struct no_token *n = &set->no_token[i];
		struct trigger *t;

		if (n->told || n->tgid != s->tgid || n->context != s->context || s->end <= n->from)
			continue;
		t = find_past(set, KIND_REQUEST_TTFT, s->end - n->from, false);
		if (!t)
			continue;
		n->told = true;
		if (trigger_is_told(set, t, s->end, n->tgid))
			trigger_tell(set, t,
				"the request of sequence %" PRIu64 " of pid %u had no token after %s, at the end of step %u",
				n->sequence, n->tgid, trigger_time(spent, s->end - n->from), s->number);
	}
}

void trigger_request_token(
	struct trigger_set *set, const struct step_request *r, const struct step_seen *s, uint64_t ns)
{
	struct trigger *t = r->mixed || r->lost ? NULL : find_past(set, KIND_REQUEST_TPOT, ns, true);
	char spent[TIME_TEXT_MAX];

	if (t && trigger_is_told(set, t, s->end, r->tgid))
		trigger_tell(set, t, "a token of sequence %" PRIu64 " of pid %u took %s, up to the end of step %u",
			r->sequence, r->tgid, trigger_time(spent, ns), s->number);
}
