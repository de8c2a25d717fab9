// SPDX-License-Identifier: BSD-2-Clause
/* The requests in batches: in words, on a terminal, as JSON (docs/report.md), and what the page draws of them. */
#include <string.h>

#include "report/output.h"

#define WAITS_SHOWN 3
#define CULPRITS_SHOWN 5
#define STATES_SHOWN 3
/* A typical time below this share of one is not mentioned. */
#define TYPICAL_SHARE 0.1
/* A wait with a smaller share of the time for others counts among "others". */
#define WAIT_SHARE 0.1

/* The number of requests that are drawn, and of those chosen because they were late. */
#define PLOT_MAX 1500
#define PLOT_LATE 300

static const char *const part_words[TIME_PARTS] = {
	[TIME_QUEUED] = "queued",
	[TIME_OWN_PREFILL] = "own prefill",
	[TIME_OWN_DECODE] = "own decode",
	[TIME_OTHERS] = "work for others",
	[TIME_BETWEEN] = "between steps",
};

/* ---- in words ---- */

/* "request 21 (sequence 3, 2048 prompt tokens)", or with the engine's id in place of the sequence; r NULL: nothing else is known of
 * it. */
static void text_add_request(struct text *t, const struct model *m, const struct process *p, uint32_t recording, uint32_t number,
	const struct request *r)
{
	char id[FUNC_STR_LEN];

	if (p->recordings > 1)
		text_add(t, "recording %u, ", recording + 1);
	text_add(t, "request %u", number);
	if (!r)
		return;
	if (*model_text(m, r->id))
		text_add(t, " (%s", text_printable(id, sizeof(id), model_text(m, r->id)));
	else
		text_add(t, " (sequence %u", r->sequence);
	/* the length of a prompt that began before the recording is not known */
	if (!(r->flags & REQUEST_BEGAN_BEFORE))
		text_add(t, ", %u prompt token%s", r->prompt_tokens, r->prompt_tokens == 1 ? "" : "s");
	text_add(t, ")");
}

/* Stores the longest waits within the time of the verdict in ret, longest first; returns their number. */
static unsigned int longest_waits(const struct process *p, const struct request *r, enum request_late_kind kind,
	int64_t least, struct request_wait ret[WAITS_SHOWN])
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < r->n_waits; i++) {
		struct request_wait wait = p->served.waits[r->first_wait + i];

		wait.ns = request_late_wait(r, &wait, kind);
		if (wait.ns >= least)
			list_insert(ret, n, WAITS_SHOWN, ns, wait);
	}
	return n;
}

/* "310 ms for request 21 (2048 prompt tokens), 120 ms for request 22 and 40.1 ms for others" */
static void text_add_waits(struct text *t, const struct process *p, const struct request *r, enum request_late_kind kind,
	int64_t ns)
{
	struct request_wait waits[WAITS_SHOWN];
	int64_t least = (int64_t)(WAIT_SHARE * (double)ns) + 1, others = ns;
	unsigned int n = longest_waits(p, r, kind, least, waits);

	for (unsigned int i = 0; i < n; i++) {
		const struct request *other = served_find(&p->served, r->recording, waits[i].number);

		text_add(t, "%s%s for request %u", i ? ", " : "", DURATION(waits[i].ns), waits[i].number);
		if (other && other->prompt_tokens)
			text_add(t, " (%u prompt token%s)", other->prompt_tokens, other->prompt_tokens == 1 ? "" : "s");
		others -= waits[i].ns;
	}
	if (!n)
		text_add(t, "%s for other requests", DURATION(ns));
	else if (others >= least)
		text_add(t, " and %s for others", DURATION(others));
}

static const struct {
	const char *key, *phrase, *column;
} refusal_words[REFUSALS] = {
#define REFUSAL_WORDS(name, key, phrase, column) { #key, phrase, column },
	REFUSALS_ALL(REFUSAL_WORDS)
};

/* " (the KV cache was full for 7.10 s, all slots were taken for 2.01 s)". Returns whether there is anything to say. */
static bool text_add_refusals(struct text *t, const struct request *r)
{
	unsigned int order[REFUSALS];
	size_t n = page_order(r->refused, NULL, REFUSALS, order), shown = 0;

	while (shown < n && (double)r->refused[order[shown]] >= WAIT_SHARE * (double)r->parts[TIME_QUEUED])
		shown++;
	for (size_t i = 0; i < shown; i++)
		text_add(t, "%s%s for %s", i ? ", " : " (", refusal_words[order[i]].phrase, DURATION(r->refused[order[i]]));
	if (shown)
		text_add(t, ")");
	return shown;
}

static void json_put_refusals(struct json_object *o, const int64_t ns[REFUSALS])
{
	struct json_object *refused = NULL;

	for (unsigned int i = 0; i < REFUSALS; i++) {
		if (!ns[i])
			continue;
		refused = refused ?: json_put_object(o, "refused_us");
		json_put_us(refused, refusal_words[i].key, ns[i]);
	}
}

/* "; preempted 2 times, for 310 ms, and 512 tokens computed once more", if that is a part of what is late. */
static void text_add_preemptions(struct text *t, const struct request *r, const struct request_late *late)
{
	bool first = late->kind == REQUEST_LATE_FIRST;
	int64_t ns = first ? r->first_preempted : ns_add(r->preempted, r->recompute);

	if (!r->preemptions || (double)ns < WAIT_SHARE * (double)late->excess)
		return;
	if (first) { /* it may be preempted again later */
		text_add(t, "; preempted for %s", DURATION(ns));
		return;
	}
	text_add(t, "; preempted %s", r->preemptions == 1 ? "once" : "");
	if (r->preemptions > 1)
		text_add(t, "%u times", r->preemptions);
	text_add(t, ", for %s", DURATION(r->preempted));
	if (r->recomputed_tokens)
		text_add(t, ", and %u token%s computed once more", r->recomputed_tokens, r->recomputed_tokens == 1 ? "" : "s");
}

static void json_put_preemptions(struct json_object *o, uint64_t n, uint64_t tokens, int64_t preempted, int64_t recompute)
{
	if (!n)
		return;
	json_put_u64(o, "preemptions", n);
	json_put_us(o, "preempted_us", preempted);
	json_put_u64(o, "recomputed_tokens", tokens);
	json_put_us(o, "recompute_us", recompute);
}

/* " (all 4 slots were taken, for 9.20 s; longest by requests 97, 98, 101 and 104, of 12; 7 later ones were taken first)" */
static void text_add_slots(struct text *t, const struct process *p, const struct request *r)
{
	int64_t queued = r->parts[TIME_QUEUED];
	struct slot_holders holders;

	if ((double)r->full < WAIT_SHARE * (double)queued)
		return;
	slot_holders_find(p, r, &holders);
	if (r->slots > 1)
		text_add(t, " (all %u slots were taken", r->slots);
	else
		text_add(t, " (the only slot was taken");
	if ((double)r->full < (1 - WAIT_SHARE) * (double)queued)
		text_add(t, " for %s", DURATION(r->full));
	text_add(t, holders.n > holders.n_longest ? ", longest by request%s" : " by request%s", holders.n_longest == 1 ? "" : "s");
	for (unsigned int i = 0; i < holders.n_longest; i++)
		text_add(t, "%s%u", !i ? " " : i + 1 < holders.n_longest ? ", "
									 : " and ",
			holders.longest[i].number);
	if (holders.n > holders.n_longest)
		text_add(t, " of %u", holders.n);
	if (holders.overtook)
		text_add(t, "; %u later one%s first", holders.overtook, holders.overtook == 1 ? " was taken" : "s were taken");
	text_add(t, ")");
}

/* The largest cause of the time in which no step ran, if surely most of this part is its: it is that of the whole queue and of
 * all time between the steps. */
static void text_add_gap_cause(struct text *t, const struct model *m, const struct request *r, const struct request_late_part *part)
{
	int64_t rest = ns_add(r->parts[TIME_QUEUED], r->parts[TIME_BETWEEN]) - part->ns;

	if (r->gap_by.name && r->gap_by.ns - rest > part->ns / 2)
		text_add(t, ", mostly by `%s`", GAP_NAME(m, r->gap_by.name));
}

/* The largest cause of the time until the answer began, if surely most of what is late is its; an answer that came late may have begun
 * only then. */
static void text_add_answer_cause(struct text *t, const struct model *m, const struct request *r, const struct request_late *late)
{
	int64_t rest = late->kind == REQUEST_LATE_ANSWER ? request_written(r) - (r->ttft_client - r->total) : 0;

	if (late->kind != REQUEST_LATE_WRITTEN && (late->kind != REQUEST_LATE_ANSWER || rest < 0 || r->ttft_client < r->total))
		return;
	if (r->answer_by.name && r->answer_by.ns - rest > late->excess / 2)
		text_add(t, ", mostly by `%s`", GAP_NAME(m, r->answer_by.name));
}

static void text_add_late_part(struct text *t, const struct model *m, const struct process *p, const struct request *r,
	enum request_late_kind kind, const struct request_late_part *part)
{
	char phrase[PHRASE_MAX];

	if (part->part == TIME_OTHERS)
		text_add_waits(t, p, r, kind, part->ns);
	else if (part->part == TIME_QUEUED || part->part == TIME_BETWEEN)
		text_add(t, "%s %s", DURATION(part->ns), part_words[part->part]);
	else
		text_add(t, "its own %s took %s", part->part == TIME_OWN_PREFILL ? "prefill" : "decode steps",
			DURATION(part->ns));
	if (part->part == TIME_QUEUED && 2 * r->unread >= part->ns)
		text_add(t, " (the server had not read it for %s)", DURATION(r->unread));
	else if (part->part == TIME_QUEUED && 2 * r->to_engine >= part->ns)
		text_add(t, " (the engine did not have it for %s)", DURATION(r->to_engine));
	else if (part->part == TIME_QUEUED && !text_add_refusals(t, r))
		text_add_slots(t, p, r);
	if (part->part == TIME_QUEUED || part->part == TIME_BETWEEN)
		text_add_gap_cause(t, m, r, part);
	if ((double)part->typical >= TYPICAL_SHARE * (double)part->ns)
		text_add(t, part->part == TIME_OTHERS ? " (typical: %s)" : " instead of %s", DURATION(part->typical));
	if (part->state != STATE_NONE)
		text_add(t, " (the calling thread %s)", words_phrase(phrase, part->state, part->state_ns));
}

/* One printable sentence: "request 17 (sequence 3, 512 prompt tokens), first token after 1.90 s instead of 240 ms:
 * 1.40 s queued; 310 ms for request 21 (2048 prompt tokens)". Returns buf. */
static const char *straggler_sentence(const struct model *m, const struct process *p, const struct request *r,
	const struct request_late *late, char buf[SENTENCE_MAX])
{
	static const char *const kinds[REQUEST_LATE_KINDS] = {
		[REQUEST_LATE_FIRST] = ", first token after %s",
		[REQUEST_LATE_TOKENS] = ", %s per token",
		[REQUEST_LATE_NONE] = ", no token after %s",
		[REQUEST_LATE_WRITTEN] = ", first token written %s after the step that gave it",
		[REQUEST_LATE_ANSWER] = ", answer written %s after its last step",
	};
	struct text t = text_in(buf, SENTENCE_MAX);
	const char *what = kinds[late->kind];

	text_add_request(&t, m, p, r->recording, r->number, r);
	if (late->kind == REQUEST_LATE_NONE && r->flags & REQUEST_CANCELLED)
		what = ", cancelled without a token after %s";
	text_add(&t, what, DURATION(late->value));
	if (late->compared)
		text_add(&t, " instead of %s", DURATION(late->typical));
	/* half of it at least, as for states */
	if (late->kind == REQUEST_LATE_ANSWER && 2 * late->held >= late->excess)
		text_add(&t, ": %s waiting in calls that write it, as for a client that reads slowly",
			DURATION(late->held));
	text_add_answer_cause(&t, m, r, late);
	if (late->kind == REQUEST_LATE_TOKENS)
		text_add(&t, " over %u", r->output_tokens - 1);
	for (uint32_t i = 0; i < late->n_parts; i++) {
		text_add(&t, i ? "; " : ": ");
		text_add_late_part(&t, m, p, r, late->kind, &late->parts[i]);
	}
	text_add_preemptions(&t, r, late);
	return buf;
}

/* "request 21 (sequence 3, 2048 prompt tokens): 1.93 s, by 7 requests (310 ms by request 17)". Returns buf. */
static const char *culprit_sentence(const struct model *m, const struct process *p, const struct request_culprit *c, char buf[SENTENCE_MAX])
{
	struct text t = text_in(buf, SENTENCE_MAX);
	uint32_t worst = p->served.requests[c->worst_of].number;

	text_add_request(&t, m, p, c->recording, c->number, served_find(&p->served, c->recording, c->number));
	text_add(&t, ": %s, by ", DURATION(c->ns));
	if (c->victims > 1)
		text_add(&t, "%llu requests (%s by request %u)", LLU(c->victims), DURATION(c->worst), worst);
	else
		text_add(&t, "request %u", worst);
	return buf;
}

/* "goodput 91.2 % (912 of 1000 requests, 3.21 per s) with ttft <= 500 ms, tpot <= 50 ms; ...". Returns buf. */
static const char *slo_sentence(const struct slo_result *r, char buf[SENTENCE_MAX])
{
	struct text t = text_in(buf, SENTENCE_MAX);
	char d[DURATION_MAX];

	text_add(&t, "goodput");
	if (r->judged)
		text_add(&t, " %.1f %% (%llu of %llu requests", 100 * (double)r->kept / (double)r->judged,
			LLU(r->kept), LLU(r->judged));
	if (r->judged && r->time)
		text_add(&t, ", %s per s", words_rate(d, (double)r->kept * 1e9 / (double)r->time));
	text_add(&t, r->judged ? ") with" : " not known, with");
	if (r->slo.ttft)
		text_add(&t, " ttft <= %s", DURATION(r->slo.ttft));
	if (r->slo.tpot)
		text_add(&t, "%s tpot <= %s", r->slo.ttft ? "," : "", DURATION(r->slo.tpot));
	if (r->missed_ttft)
		text_add(&t, "; %llu missed ttft", LLU(r->missed_ttft));
	if (r->missed_tpot)
		text_add(&t, "; %llu missed tpot", LLU(r->missed_tpot));
	if (r->unknown)
		text_add(&t, "; of %llu it is not known", LLU(r->unknown));
	return buf;
}

/* ---- on a terminal ---- */

static void put_counts(const struct page *page, const struct batch_summary *sum)
{
	const struct {
		const char *what;
		uint64_t n;
	} counts[] = {
		{ "more prompt tokens from the cache", sum->cached_tokens },
		{ "cancelled requests", sum->cancelled },
		{ "requests whose end was not recorded", sum->unfinished },
	};
	bool any = false;

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		if (counts[i].n)
			page_put(page, "%s%s: %llu", any ? "; " : "  ", counts[i].what, LLU(counts[i].n));
		any |= counts[i].n != 0;
	}
	if (any)
		page_put(page, "\n");
}

/* "KV cache full 61 %, all slots taken 20 %", of the time in queues. */
static void put_refusals(const struct page *page, const struct batch_summary *sum, int64_t queued)
{
	unsigned int order[REFUSALS];
	size_t n = page_order(sum->refused, NULL, REFUSALS, order);

	for (size_t i = 0; i < n && page_share(sum->refused[order[i]], queued) >= 0.01; i++)
		page_put(page, "%s%s %.0f %%", i ? ", " : "", refusal_words[order[i]].column,
			100 * page_share(sum->refused[order[i]], queued));
}

static void put_preemptions(const struct page *page, const struct batch_summary *sum)
{
	if (sum->preemptions)
		page_put(page, "  preempted: %llu of %llu requests, %llu times in all, for %s; %llu tokens were computed once more for that, in %s\n", LLU(sum->preempted),
			LLU(sum->count - sum->unparted), LLU(sum->preemptions), DURATION(sum->preempted_time), LLU(sum->recomputed_tokens), DURATION(sum->recompute));
}

static void put_partition(const struct page *page, const struct batch_summary *sum)
{
	unsigned int order[TIME_PARTS], states[STATES];
	size_t n = page_order(sum->parts, NULL, TIME_PARTS, order);
	uint64_t whole = sum->count - sum->unparted;
	char title[80] = "Where the time of requests went";

	if (sum->unjoined) /* their queue is not known */
		snprintf(title, sizeof(title), "Where the time of %llu of %llu requests went", LLU(whole),
			LLU(sum->count));
	if (n)
		page_put(page, "\n%-54s%s\n", title, "of which");
	for (size_t i = 0; i < n; i++) {
		const int64_t part = sum->parts[order[i]], *of = sum->states[order[i]];
		size_t shown = least_of(page_order(of, NULL, STATES, states), STATES_SHOWN);

		page_part(page, part_words[order[i]], part, sum->parts_total, part / (int64_t)whole);
		page_put(page, " ");
		if (order[i] == TIME_QUEUED && page_share(sum->full, part) >= 0.01)
			page_put(page, "all slots taken %.0f %%", 100 * page_share(sum->full, part));
		if (order[i] == TIME_QUEUED)
			put_refusals(page, sum, part);
		for (size_t k = 0; k < shown && page_share(of[states[k]], part) >= 0.01; k++)
			page_put(page, "%s%s %.0f %%", k ? ", " : "", words_state(states[k]), 100 * page_share(of[states[k]], part));
		page_put(page, "\n");
	}
}

static void put_occupancy(const struct page *page, const struct batch_summary *sum)
{
	int64_t total = 0;
	char name[32];

	if (sum->max_sequences < 2)
		return;
	for (unsigned int i = 0; i < OCCUPANCY_ROWS; i++)
		total = ns_add(total, sum->occupancy[i].time);
	page_put(page, "\n%-26s%9s %10s %10s\n", "Sequences in a step", "steps", "rows each", "each");
	list_for_each (row, sum->occupancy, OCCUPANCY_ROWS) {
		if (!row->steps)
			continue;
		snprintf(name, sizeof(name), row->from == row->to ? "%u" : "%u to %u", row->from, row->to);
		if (row->to == UINT32_MAX)
			snprintf(name, sizeof(name), "%u or more", row->from);
		page_put(page, "  %-24s%9llu %10.1f %10s  %6.2f %% ", name, LLU(row->steps),
			(double)row->rows / (double)row->steps, DURATION(row->time / (int64_t)row->steps),
			100 * page_share(row->time, total));
		page_bar(page, page_share(row->time, total), PAGE_BAR - 8);
		page_put(page, "\n");
	}
}

void page_requests(const struct page *page, const struct process *p, const struct batch_summary *sum)
{
	struct request_late late;

	if (sum->slo.slo.ttft || sum->slo.slo.tpot)
		page_put(page, "  %s\n", slo_sentence(&sum->slo, SENTENCE));
	if (!sum->count)
		return;
	put_counts(page, sum);
	put_preemptions(page, sum);
	put_partition(page, sum);
	if (sum->n_late && page->slowest)
		page_put(page, "\nThe slowest requests:\n");
	list_for_each (ref, sum->late, least_of(sum->n_late, page->slowest)) {
		const struct request *r = &p->served.requests[ref->request];

		if (request_late_find(p, &sum->typicals, r, ref->kind, &late))
			page_put(page, "  %s\n", straggler_sentence(page->m, p, r, &late, SENTENCE));
	}
	if (page->brief)
		return;
	if (sum->n_culprits)
		page_put(page, "\nRequests waited %s while steps worked for others, longest for\n",
			DURATION(sum->parts[TIME_OTHERS]));
	list_for_each (c, sum->culprits, least_of(sum->n_culprits, CULPRITS_SHOWN))
		page_put(page, "  %s\n", culprit_sentence(page->m, p, c, SENTENCE));
	if (sum->n_culprits > CULPRITS_SHOWN)
		page_put(page, "  and %zu more\n", sum->n_culprits - CULPRITS_SHOWN);
	put_occupancy(page, sum);
}

/* ---- as JSON ---- */

static void put_late(struct json_object *o, const struct model *m, const struct process *p, const struct request *r,
	const struct request_late *late)
{
	static const char *const kinds[REQUEST_LATE_KINDS] = {
		[REQUEST_LATE_FIRST] = "ttft",
		[REQUEST_LATE_TOKENS] = "tpot",
		[REQUEST_LATE_NONE] = "no_token",
		[REQUEST_LATE_WRITTEN] = "ttft_written",
		[REQUEST_LATE_ANSWER] = "answer",
	};
	const struct request_wait *waits = p->served.waits + r->first_wait;
	struct slot_holders holders;
	struct json_object *slots;

	json_put_u64(o, "request", r->number);
	json_put_u64(o, "recording", r->recording);
	json_put_u64(o, "sequence", r->sequence);
	if (*model_text(m, r->id))
		json_put_text(o, "request_id", model_text(m, r->id));
	json_put_us(o, "ts_us", r->ts);
	json_put_us(o, "total_us", r->total);
	json_put_text(o, "kind", kinds[late->kind]);
	json_put_us(o, "us", late->value);
	if (late->compared)
		json_put_us(o, "typical_us", late->typical);
	json_put_us(o, "excess_us", late->excess);
	json_put_u64(o, "compared", late->compared);
	if (late->kind == REQUEST_LATE_ANSWER)
		json_put_us(o, "write_blocked_us", late->held);
	json_put_list (o, "parts", one, part, late->parts, late->n_parts) {
		json_put_text(one, "part", request_time_name(part->part));
		json_put_us(one, "us", part->ns);
		json_put_us(one, "typical_us", part->typical);
		if (part->state != STATE_NONE) {
			json_put_text(one, "state", words_state(part->state));
			json_put_us(one, "state_us", part->state_ns);
		}
	}
	json_put_refusals(o, r->refused);
	json_put_preemptions(o, r->preemptions, r->recomputed_tokens, r->preempted, r->recompute);
	if (r->full) {
		slots = json_put_object(o, "slots");
		slot_holders_find(p, r, &holders);
		json_put_u64(slots, "count", r->slots);
		json_put_us(slots, "all_taken_us", r->full);
		json_put_u64(slots, "requests", holders.n);
		json_put_u64(slots, "later_taken_first", holders.overtook);
		json_put_list (slots, "longest", one, held, holders.longest, holders.n_longest) {
			json_put_u64(one, "request", held->number);
			json_put_u64(one, "sequence", held->sequence);
			json_put_us(one, "us", held->ns);
		}
	}
	json_put_list (o, "waited_for", one, wait, waits, r->n_waits) {
		json_put_u64(one, "request", wait->number);
		if (wait->sequence != SEQUENCE_UNKNOWN)
			json_put_u64(one, "sequence", wait->sequence);
		json_put_us(one, "us", wait->ns);
		if (wait->first >= 0)
			json_put_us(one, "ttft_us", wait->first);
	}
	json_put_text(o, "text", straggler_sentence(m, p, r, late, SENTENCE));
}

/* Who was late, for whom, and how many sequences were in a step. */
static void put_lists(const struct page *page, struct json_object *o, const struct process *p,
	const struct batch_summary *sum)
{
	struct json_object *array = json_put_array(o, "slowest"), *steps;
	struct request_late late;

	list_for_each (ref, sum->late, least_of(sum->n_late, page->slowest)) {
		const struct request *r = &p->served.requests[ref->request];

		if (request_late_find(p, &sum->typicals, r, ref->kind, &late))
			put_late(json_put_object(array, NULL), page->m, p, r, &late);
	}
	json_put_list (o, "waited_for", one, c, sum->culprits, least_of(sum->n_culprits, page->slowest)) {
		json_put_u64(one, "request", c->number);
		json_put_u64(one, "recording", c->recording);
		if (c->sequence != SEQUENCE_UNKNOWN)
			json_put_u64(one, "sequence", c->sequence);
		json_put_us(one, "us", c->ns);
		json_put_u64(one, "requests", c->victims);
		json_put_u64(one, "longest_by", p->served.requests[c->worst_of].number);
		json_put_us(one, "longest_us", c->worst);
		json_put_text(one, "text", culprit_sentence(page->m, p, c, SENTENCE));
	}
	json_put_us(o, "waited_for_unnamed_us", sum->unnamed);
	json_put_list (o, "pairs", one, pair, sum->pairs, sum->n_pairs) {
		const struct request *r = &p->served.requests[pair->request];

		json_put_u64(one, "request", r->number);
		json_put_u64(one, "for", pair->number);
		json_put_u64(one, "recording", r->recording);
		json_put_us(one, "us", pair->ns);
	}
	array = json_put_array(o, "occupancy");
	list_for_each (row, sum->occupancy, OCCUPANCY_ROWS) {
		if (!row->steps)
			continue;
		steps = json_put_object(array, NULL);
		json_put_u64(steps, "from", row->from);
		if (row->to != UINT32_MAX)
			json_put_u64(steps, "to", row->to);
		json_put_u64(steps, "steps", row->steps);
		json_put_u64(steps, "sequences", row->sequences);
		json_put_u64(steps, "rows", row->rows);
		json_put_us(steps, "us", row->time);
	}
}

static void put_slo(struct json_object *o, const struct slo_result *r)
{
	if (r->slo.ttft)
		json_put_us(o, "ttft_us", r->slo.ttft);
	if (r->slo.tpot)
		json_put_us(o, "tpot_us", r->slo.tpot);
	json_put_u64(o, "kept", r->kept);
	json_put_u64(o, "judged", r->judged);
	json_put_u64(o, "missed_ttft", r->missed_ttft);
	json_put_u64(o, "missed_tpot", r->missed_tpot);
	json_put_u64(o, "unknown", r->unknown);
	if (r->judged)
		json_put_double(o, "share", (double)r->kept / (double)r->judged);
	if (r->judged && r->time)
		json_put_double(o, "per_s", (double)r->kept * 1e9 / (double)r->time);
	json_put_text(o, "text", slo_sentence(r, SENTENCE));
}

void json_put_requests(const struct page *page, struct json_object *o, const struct process *p,
	const struct batch_summary *sum)
{
	struct json_object *parts;

	if (sum->slo.slo.ttft || sum->slo.slo.tpot)
		put_slo(json_put_object(o, "goodput"), &sum->slo);
	if (!sum->count)
		return;
	o = json_put_object(o, "batch_requests");
	json_put_u64(o, "count", sum->count);
	json_put_u64(o, "prompt_tokens", sum->prompt_tokens);
	json_put_u64(o, "cached_tokens", sum->cached_tokens);
	json_put_u64(o, "output_tokens", sum->output_tokens);
	json_put_u64(o, "cancelled", sum->cancelled);
	json_put_u64(o, "began_before", sum->began_before);
	json_put_u64(o, "not_ended", sum->unfinished);
	json_put_u64(o, "lost_steps", sum->lost);
	json_put_percentiles(o, "tpot_us", &sum->tpot);
	json_put_percentiles(o, "total_us", &sum->total);
	json_put_percentiles(o, "queued_us", &sum->queued);
	parts = json_put_object(o, "parts_us");
	json_put_us(parts, "total", sum->parts_total);
	for (unsigned int i = 0; i < TIME_PARTS; i++)
		json_put_us(parts, request_time_name((enum request_time)i), sum->parts[i]);
	json_put_us(o, "all_slots_taken_us", sum->full);
	json_put_refusals(o, sum->refused);
	json_put_preemptions(o, sum->preemptions, sum->recomputed_tokens, sum->preempted_time, sum->recompute);
	parts = json_put_object(o, "parts_states_us");
	for (unsigned int i = 0; i < TIME_PARTS; i++) {
		int64_t total = 0;

		for (unsigned int s = 0; s < STATES; s++)
			total = ns_add(total, sum->states[i][s]);
		if (total)
			json_put_states(parts, request_time_name((enum request_time)i), sum->states[i], total);
	}
	put_lists(page, o, p, sum);
	json_put_u64(o, "max_sequences", sum->max_sequences);
}

/* ---- what the page draws ---- */

static void append_ms(struct json_object *array, int64_t ns)
{
	json_put_number(array, NULL, (double)ns / 1e6, "%.3f");
}

static void append_plot_row(struct json_object *rows, const struct request *r, int64_t start)
{
	struct json_object *row = json_put_array(rows, NULL);

	json_put_u64(row, NULL, r->number);
	json_put_u64(row, NULL, r->sequence);
	json_put_u64(row, NULL, r->recording);
	append_ms(row, r->at - start);
	append_ms(row, r->total);
	if (r->ttft < 0)
		json_put(row, NULL, json_object_new_int(-1));
	else
		append_ms(row, request_first_token(r));
	json_put_u64(row, NULL, r->prompt_tokens);
	json_put_u64(row, NULL, r->output_tokens);
	json_put_u64(row, NULL, r->flags);
	for (unsigned int i = 0; i < TIME_PARTS; i++)
		append_ms(row, r->parts[i]);
}

/* Marks the requests to draw: the slowest, and a selection of the others, spread evenly. */
static void plot_choose_requests(const struct process *p, const struct batch_summary *sum, bool *chosen)
{
	size_t n = p->served.len, room = n < PLOT_MAX ? n : PLOT_MAX;

	for (size_t i = 0; i < sum->n_late && i < PLOT_LATE && n > PLOT_MAX; i++) {
		room -= !chosen[sum->late[i].request];
		chosen[sum->late[i].request] = true;
	}
	for (size_t i = 0; i < room; i++)
		chosen[i * n / room] = true;
}

void json_put_requests_plot(struct json_object *o, const struct model *m, const struct process *p, const struct batch_summary *sum)
{
	struct json_object *rows, *parts, *texts;
	struct request_late late;
	uint32_t *places, n = 0;
	bool *chosen;
	char key[16];

	if (!sum->count)
		return;
	o = json_put_object(o, "requests_plot");
	json_put_u64(o, "count", sum->count);
	parts = json_put_array(o, "parts");
	for (unsigned int i = 0; i < TIME_PARTS; i++)
		json_put_text(parts, NULL, part_words[i]);
	rows = json_put_array(o, "rows");
	places = xcalloc(p->served.len, sizeof(*places));
	chosen = xcalloc(p->served.len, sizeof(*chosen));
	plot_choose_requests(p, sum, chosen);
	for (size_t i = 0; i < p->served.len; i++) {
		if (!chosen[i] || !request_told_apart(&p->served.requests[i]))
			continue;
		places[i] = n++;
		append_plot_row(rows, &p->served.requests[i], p->served.requests[0].at);
	}
	/* a sentence for each of the slowest requests: of several the one about the longest time */
	texts = json_put_object(o, "text");
	list_for_each (ref, sum->late, least_of(sum->n_late, PLOT_LATE)) {
		const struct request *r = &p->served.requests[ref->request];

		snprintf(key, sizeof(key), "%u", places[ref->request]);
		if (!json_object_object_get_ex(texts, key, NULL) && request_late_find(p, &sum->typicals, r, ref->kind, &late))
			json_put_text(texts, key, straggler_sentence(m, p, r, &late, SENTENCE));
	}
	free(chosen);
	free(places);
}
