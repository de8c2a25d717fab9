// SPDX-License-Identifier: BSD-2-Clause
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/model.h"
#include "report/output.h"
#include "report/words.h"

#define WAITS_SHOWN 3
/* A typical time below this share of one is not mentioned. */
#define TYPICAL_SHARE 0.1
/* A wait with a smaller share of the time for others counts among "others". */
#define WAIT_SHARE 0.1

static const char *seq_words_part(enum seq_part part)
{
	static const char *const names[SEQ_PARTS] = {
		[SEQ_QUEUED] = "queued",
		[SEQ_OWN_PREFILL] = "own prefill",
		[SEQ_OWN_DECODE] = "own decode",
		[SEQ_OTHERS] = "work for others",
		[SEQ_BETWEEN] = "between steps",
	};

	return names[part];
}

static void add_recording(struct text *t, const struct process *p, uint32_t recording)
{
	if (p->recordings > 1)
		add(t, "recording %u, ", recording + 1);
}

static void add_tokens(struct text *t, const struct seq_request *r, const char *separator)
{
	add(t, "%s%u prompt token%s", separator, r->prompt_tokens, r->prompt_tokens == 1 ? "" : "s");
}

static void add_request(struct text *t, const struct process *p, const struct seq_request *r)
{
	add_recording(t, p, r->recording);
	add(t, "request %u (sequence %u", r->number, r->sequence);
	/* how long the prompt was that began before the recording is not known */
	if (!(r->flags & SEQ_BEGAN_BEFORE))
		add_tokens(t, r, ", ");
	add(t, ")");
}

/* Puts the longest waits within the time of the verdict into ret, longest first. */
static unsigned int longest_waits(const struct process *p, const struct seq_request *r, enum seq_kind kind, int64_t least,
	struct seq_wait ret[WAITS_SHOWN + 1])
{
	unsigned int n = 0, k;

	for (unsigned int i = 0; i < r->n_waits; i++) {
		struct seq_wait wait = p->seqs.waits[r->first_wait + i];

		wait.ns = seq_late_wait(r, &wait, kind);
		if (wait.ns < least)
			continue;
		for (k = n; k && ret[k - 1].ns < wait.ns; k--)
			ret[k] = ret[k - 1];
		ret[k] = wait;
		n += n < WAITS_SHOWN;
	}
	return n;
}

/* "310 ms for request 21 (2048 prompt tokens), 120 ms for request 22 and 40.1 ms for others" */
static void add_waits(struct text *t, const struct process *p, const struct seq_request *r, enum seq_kind kind, int64_t ns)
{
	struct seq_wait waits[WAITS_SHOWN + 1];
	int64_t least = (int64_t)(WAIT_SHARE * (double)ns) + 1, others = ns;
	unsigned int n = longest_waits(p, r, kind, least, waits);
	char d[DURATION_MAX];

	for (unsigned int i = 0; i < n; i++) {
		const struct seq_request *other = seq_find(&p->seqs, r->recording, waits[i].number);

		add(t, "%s%s for request %u", i ? ", " : "", words_duration(d, waits[i].ns), waits[i].number);
		if (other && other->prompt_tokens) {
			add_tokens(t, other, " (");
			add(t, ")");
		}
		others -= waits[i].ns;
	}
	if (!n)
		add(t, "%s for other requests", words_duration(d, ns));
	else if (others >= least)
		add(t, " and %s for others", words_duration(d, others));
}

static void add_instead(struct text *t, const struct seq_late_part *part)
{
	char d[DURATION_MAX];

	if ((double)part->typical >= TYPICAL_SHARE * (double)part->ns)
		add(t, part->part == SEQ_OTHERS ? " (typical: %s)" : " instead of %s", words_duration(d, part->typical));
}

static void add_part(struct text *t, const struct process *p, const struct seq_request *r, enum seq_kind kind,
	const struct seq_late_part *part)
{
	char d[DURATION_MAX], phrase[PHRASE_MAX];

	switch (part->part) {
	case SEQ_QUEUED:
		add(t, "%s queued", words_duration(d, part->ns));
		break;
	case SEQ_OTHERS:
		add_waits(t, p, r, kind, part->ns);
		break;
	case SEQ_BETWEEN:
		add(t, "%s between steps", words_duration(d, part->ns));
		break;
	case SEQ_OWN_PREFILL:
	case SEQ_OWN_DECODE:
		add(t, "its own %s took %s", part->part == SEQ_OWN_PREFILL ? "prefill" : "decode steps",
			words_duration(d, part->ns));
		break;
	case SEQ_PARTS:
		break;
	}
	add_instead(t, part);
	if (part->state != STATE_NONE)
		add(t, " (the calling thread %s)", words_phrase(phrase, part->state, part->state_ns));
}

/* One printable sentence: "request 17 (sequence 3, 512 prompt tokens), first token after 1.90 s instead of 240 ms:
 * 1.40 s queued; 310 ms for request 21 (2048 prompt tokens)". Returns buf. */
static const char *seq_words_late(const struct process *p, const struct seq_request *r, const struct seq_late *late,
	char buf[SENTENCE_MAX])
{
	struct text t = { .buf = buf, .size = SENTENCE_MAX };
	char d[DURATION_MAX];

	buf[0] = '\0';
	add_request(&t, p, r);
	switch (late->kind) {
	case SEQ_LATE_FIRST:
		add(&t, ", first token after %s", words_duration(d, late->value));
		break;
	case SEQ_LATE_TOKENS:
		add(&t, ", %s per token", words_duration(d, late->value));
		break;
	case SEQ_LATE_NONE:
		add(&t, r->flags & SEQ_CANCELLED ? ", cancelled without a token after %s" : ", no token after %s",
			words_duration(d, late->value));
		break;
	case SEQ_LATE_ANSWER:
		add(&t, ", answer written %s after its last step", words_duration(d, late->value));
		break;
	case SEQ_KINDS:
		break;
	}
	if (late->compared)
		add(&t, " instead of %s", words_duration(d, late->typical));
	/* half of it at least, as for states */
	if (late->kind == SEQ_LATE_ANSWER && 2 * late->held >= late->excess)
		add(&t, ": %s waiting in calls that write it, as for a client that reads slowly", words_duration(d, late->held));
	if (late->kind == SEQ_LATE_TOKENS)
		add(&t, " over %u", r->output_tokens - 1);
	for (uint32_t i = 0; i < late->n_parts; i++) {
		add(&t, i ? "; " : ": ");
		add_part(&t, p, r, late->kind, &late->parts[i]);
	}
	return buf;
}

/* "request 21 (sequence 3, 2048 prompt tokens): 1.93 s, by 7 requests (310 ms by request 17)". Returns buf. */
static const char *seq_words_culprit(const struct process *p, const struct seq_culprit *c, char buf[SENTENCE_MAX])
{
	const struct seq_request *r = seq_find(&p->seqs, c->recording, c->number);
	struct text t = { .buf = buf, .size = SENTENCE_MAX };
	char d[DURATION_MAX];

	buf[0] = '\0';
	if (r) {
		add_request(&t, p, r);
	} else {
		add_recording(&t, p, c->recording);
		add(&t, "request %u", c->number);
	}
	add(&t, ": %s, by ", words_duration(d, c->ns));
	if (c->victims > 1)
		add(&t, "%llu requests (%s by request %u)", (unsigned long long)c->victims, words_duration(d, c->worst),
			p->seqs.requests[c->worst_of].number);
	else
		add(&t, "request %u", p->seqs.requests[c->worst_of].number);
	return buf;
}

/* "goodput 91.2 % (912 of 1000 requests, 3.21 per s) with ttft <= 500 ms, tpot <= 50 ms; ...". Returns buf. */
static const char *seq_words_slo(const struct slo_result *r, char buf[SENTENCE_MAX])
{
	struct text t = { .buf = buf, .size = SENTENCE_MAX };
	char d[DURATION_MAX];

	buf[0] = '\0';
	add(&t, "goodput");
	if (r->judged)
		add(&t, " %.1f %% (%llu of %llu requests", 100 * (double)r->kept / (double)r->judged,
			(unsigned long long)r->kept, (unsigned long long)r->judged);
	if (r->judged && r->time)
		add(&t, ", %s per s", words_rate(d, (double)r->kept * 1e9 / (double)r->time));
	add(&t, r->judged ? ") with" : " not known, with");
	if (r->slo.ttft)
		add(&t, " ttft <= %s", words_duration(d, r->slo.ttft));
	if (r->slo.tpot)
		add(&t, "%s tpot <= %s", r->slo.ttft ? "," : "", words_duration(d, r->slo.tpot));
	if (r->missed_ttft)
		add(&t, "; %llu missed ttft", (unsigned long long)r->missed_ttft);
	if (r->missed_tpot)
		add(&t, "; %llu missed tpot", (unsigned long long)r->missed_tpot);
	if (r->unknown)
		add(&t, "; of %llu it is not known", (unsigned long long)r->unknown);
	return buf;
}

/* ---- The requests in batches, on a terminal. ---- */

#define CULPRITS_SHOWN 5
#define STATES_SHOWN 3

static void put_count(const struct page *page, const char *what, uint64_t n, bool *any)
{
	if (n)
		fprintf(page->out, "%s%s: %llu", *any ? "; " : "  ", what, (unsigned long long)n);
	*any |= n != 0;
}

static void put_counts(const struct page *page, const struct seq_summary *sum)
{
	bool any = false;

	put_count(page, "more prompt tokens from the cache", sum->cached_tokens, &any);
	put_count(page, "cancelled requests", sum->cancelled, &any);
	put_count(page, "requests whose end was not recorded", sum->unfinished, &any);
	if (any)
		fputc('\n', page->out);
}

/* The states that took most of a part. */
static void put_states(const struct page *page, const int64_t *states, int64_t whole)
{
	int64_t below = INT64_MAX, best;
	unsigned int shown = 0, state;

	for (; shown < STATES_SHOWN; shown++, below = best) {
		best = 0;
		state = STATE_NONE;
		for (unsigned int s = 0; s < STATES; s++) {
			if (states[s] > best && states[s] < below) {
				best = states[s];
				state = s;
			}
		}
		if (state == STATE_NONE || page_share(best, whole) < 0.01)
			return;
		fprintf(page->out, "%s%s %.0f %%", shown ? ", " : "", words_state(state), 100 * page_share(best, whole));
	}
}

static void put_partition(const struct page *page, const struct seq_summary *sum)
{
	unsigned int order[SEQ_PARTS], n = 0, k;
	uint64_t whole = sum->count - sum->unparted;
	char d[DURATION_MAX], title[80];

	for (unsigned int i = 0; i < SEQ_PARTS; i++) {
		if (!sum->parts[i])
			continue;
		for (k = n++; k && sum->parts[order[k - 1]] < sum->parts[i]; k--)
			order[k] = order[k - 1];
		order[k] = i;
	}
	snprintf(title, sizeof(title), "Where the time of requests went");
	if (sum->unjoined) /* their queue is not known */
		snprintf(title, sizeof(title), "Where the time of %llu of %llu requests went", (unsigned long long)whole,
			(unsigned long long)sum->count);
	if (n)
		fprintf(page->out, "\n%-54s%s\n", title, "of which");
	for (unsigned int i = 0; i < n; i++) {
		double part = page_share(sum->parts[order[i]], sum->parts_total);

		fprintf(page->out, "  %-15s%6.2f %% ", seq_words_part((enum seq_part)order[i]), 100 * part);
		page_bar(page, part, PAGE_BAR);
		fprintf(page->out, "%8s ", words_duration(d, sum->parts[order[i]] / (int64_t)whole));
		put_states(page, sum->states[order[i]], sum->parts[order[i]]);
		fputc('\n', page->out);
	}
}

static void put_late(const struct page *page, const struct process *p, const struct seq_summary *sum, uint32_t slowest)
{
	char sentence[SENTENCE_MAX];
	struct seq_late late;

	if (!sum->n_late || !slowest)
		return;
	fprintf(page->out, "\nThe slowest requests:\n");
	for (size_t i = 0; i < sum->n_late && i < slowest; i++) {
		const struct seq_request *r = &p->seqs.requests[sum->late[i].request];

		if (seq_late_find(p, &sum->typicals, r, sum->late[i].kind, &late))
			fprintf(page->out, "  %s\n", seq_words_late(p, r, &late, sentence));
	}
}

static void put_culprits(const struct page *page, const struct process *p, const struct seq_summary *sum)
{
	char sentence[SENTENCE_MAX], d[DURATION_MAX];

	if (!sum->n_culprits)
		return;
	fprintf(page->out, "\nRequests waited %s while steps worked for others, longest for\n",
		words_duration(d, sum->parts[SEQ_OTHERS]));
	for (size_t i = 0; i < sum->n_culprits && i < CULPRITS_SHOWN; i++)
		fprintf(page->out, "  %s\n", seq_words_culprit(p, &sum->culprits[i], sentence));
	if (sum->n_culprits > CULPRITS_SHOWN)
		fprintf(page->out, "  and %zu more\n", sum->n_culprits - CULPRITS_SHOWN);
}

static void put_occupancy(const struct page *page, const struct seq_summary *sum)
{
	int64_t total = 0;
	char d[DURATION_MAX], name[32];

	if (sum->max_sequences < 2)
		return;
	for (unsigned int i = 0; i < OCCUPANCY_ROWS; i++)
		total = ns_add(total, sum->occupancy[i].time);
	fprintf(page->out, "\n%-26s%9s %10s %10s\n", "Sequences in a step", "steps", "rows each", "each");
	for (unsigned int i = 0; i < OCCUPANCY_ROWS; i++) {
		const struct occupancy_row *row = &sum->occupancy[i];

		if (!row->steps)
			continue;
		if (row->to == UINT32_MAX)
			snprintf(name, sizeof(name), "%u or more", row->from);
		else if (row->from == row->to)
			snprintf(name, sizeof(name), "%u", row->from);
		else
			snprintf(name, sizeof(name), "%u to %u", row->from, row->to);
		fprintf(page->out, "  %-24s%9llu %10.1f %10s  %6.2f %% ", name, (unsigned long long)row->steps,
			(double)row->rows / (double)row->steps, words_duration(d, row->time / (int64_t)row->steps),
			100 * page_share(row->time, total));
		page_bar(page, page_share(row->time, total), PAGE_BAR - 8);
		fputc('\n', page->out);
	}
}

void page_requests(const struct page *page, const struct process *p, const struct seq_summary *sum, uint32_t slowest)
{
	char sentence[SENTENCE_MAX];

	if (sum->slo.slo.ttft || sum->slo.slo.tpot)
		fprintf(page->out, "  %s\n", seq_words_slo(&sum->slo, sentence));
	if (!sum->count)
		return;
	put_counts(page, sum);
	put_partition(page, sum);
	put_late(page, p, sum, slowest);
	put_culprits(page, p, sum);
	put_occupancy(page, sum);
}

/* ---- seq_object.c ---- */

/* The number of requests that are drawn, and of those chosen because they were late. */
#define PLOT_MAX 1500
#define PLOT_LATE 300

static struct json_object *parts_object(struct json_build *b, const struct seq_summary *sum)
{
	struct json_object *o = json_new_object(b);

	json_put_us(b, o, "total", sum->parts_total);
	for (unsigned int i = 0; i < SEQ_PARTS; i++)
		json_put_us(b, o, seq_part_name((enum seq_part)i), sum->parts[i]);
	return o;
}

/* For the parts whose states are known. */
static struct json_object *part_states_object(struct json_build *b, const struct seq_summary *sum)
{
	struct json_object *o = json_new_object(b);

	for (unsigned int i = 0; i < SEQ_PARTS; i++) {
		int64_t total = 0;

		for (unsigned int s = 0; s < STATES; s++)
			total = ns_add(total, sum->states[i][s]);
		if (total)
			json_put(b, o, seq_part_name((enum seq_part)i), object_states(b, sum->states[i], total));
	}
	return o;
}

static struct json_object *late_parts_array(struct json_build *b, const struct seq_late *late)
{
	struct json_object *array = json_new_array(b), *o;

	for (uint32_t i = 0; i < late->n_parts; i++) {
		const struct seq_late_part *part = &late->parts[i];

		o = json_new_object(b);
		json_put_text(b, o, "part", seq_part_name(part->part));
		json_put_us(b, o, "us", part->ns);
		json_put_us(b, o, "typical_us", part->typical);
		if (part->state != STATE_NONE) {
			json_put_text(b, o, "state", words_state(part->state));
			json_put_us(b, o, "state_us", part->state_ns);
		}
		json_append(b, array, o);
	}
	return array;
}

static struct json_object *waits_array(struct json_build *b, const struct process *p, const struct seq_request *r)
{
	struct json_object *array = json_new_array(b), *o;

	for (unsigned int i = 0; i < r->n_waits; i++) {
		const struct seq_wait *wait = &p->seqs.waits[r->first_wait + i];

		o = json_new_object(b);
		json_put_u64(b, o, "request", wait->number);
		if (wait->sequence != SEQ_UNKNOWN)
			json_put_u64(b, o, "sequence", wait->sequence);
		json_put_us(b, o, "us", wait->ns);
		if (wait->first >= 0)
			json_put_us(b, o, "ttft_us", wait->first);
		json_append(b, array, o);
	}
	return array;
}

static struct json_object *late_object(struct json_build *b, const struct process *p, const struct seq_request *r,
	const struct seq_late *late)
{
	struct json_object *o = json_new_object(b);
	char sentence[SENTENCE_MAX];

	json_put_u64(b, o, "request", r->number);
	json_put_u64(b, o, "recording", r->recording);
	json_put_u64(b, o, "sequence", r->sequence);
	json_put_us(b, o, "ts_us", r->ts);
	json_put_us(b, o, "total_us", r->total);
	json_put_text(b, o, "kind", seq_kind_name(late->kind));
	json_put_us(b, o, "us", late->value);
	if (late->compared)
		json_put_us(b, o, "typical_us", late->typical);
	json_put_us(b, o, "excess_us", late->excess);
	json_put_u64(b, o, "compared", late->compared);
	if (late->kind == SEQ_LATE_ANSWER)
		json_put_us(b, o, "write_blocked_us", late->held);
	json_put(b, o, "parts", late_parts_array(b, late));
	json_put(b, o, "waited_for", waits_array(b, p, r));
	json_put_text(b, o, "text", seq_words_late(p, r, late, sentence));
	return o;
}

static struct json_object *slowest_array(
	struct json_build *b, const struct process *p, const struct seq_summary *sum, uint32_t slowest)
{
	struct json_object *array = json_new_array(b);
	struct seq_late late;

	for (size_t i = 0; i < sum->n_late && i < slowest; i++) {
		const struct seq_request *r = &p->seqs.requests[sum->late[i].request];

		if (seq_late_find(p, &sum->typicals, r, sum->late[i].kind, &late))
			json_append(b, array, late_object(b, p, r, &late));
	}
	return array;
}

static struct json_object *culprits_array(
	struct json_build *b, const struct process *p, const struct seq_summary *sum, uint32_t slowest)
{
	struct json_object *array = json_new_array(b), *o;
	char sentence[SENTENCE_MAX];

	for (size_t i = 0; i < sum->n_culprits && i < slowest; i++) {
		const struct seq_culprit *c = &sum->culprits[i];

		o = json_new_object(b);
		json_put_u64(b, o, "request", c->number);
		json_put_u64(b, o, "recording", c->recording);
		if (c->sequence != SEQ_UNKNOWN)
			json_put_u64(b, o, "sequence", c->sequence);
		json_put_us(b, o, "us", c->ns);
		json_put_u64(b, o, "requests", c->victims);
		json_put_u64(b, o, "longest_by", p->seqs.requests[c->worst_of].number);
		json_put_us(b, o, "longest_us", c->worst);
		json_put_text(b, o, "text", seq_words_culprit(p, c, sentence));
		json_append(b, array, o);
	}
	return array;
}

static struct json_object *pairs_array(struct json_build *b, const struct process *p, const struct seq_summary *sum)
{
	struct json_object *array = json_new_array(b), *o;

	for (size_t i = 0; i < sum->n_pairs; i++) {
		const struct seq_pair *pair = &sum->pairs[i];
		const struct seq_request *r = &p->seqs.requests[pair->request];

		o = json_new_object(b);
		json_put_u64(b, o, "request", r->number);
		json_put_u64(b, o, "for", pair->number);
		json_put_u64(b, o, "recording", r->recording);
		json_put_us(b, o, "us", pair->ns);
		json_append(b, array, o);
	}
	return array;
}

static struct json_object *occupancy_array(struct json_build *b, const struct seq_summary *sum)
{
	struct json_object *array = json_new_array(b), *o;

	for (unsigned int i = 0; i < OCCUPANCY_ROWS; i++) {
		const struct occupancy_row *row = &sum->occupancy[i];

		if (!row->steps)
			continue;
		o = json_new_object(b);
		json_put_u64(b, o, "from", row->from);
		if (row->to != UINT32_MAX)
			json_put_u64(b, o, "to", row->to);
		json_put_u64(b, o, "steps", row->steps);
		json_put_u64(b, o, "sequences", row->sequences);
		json_put_u64(b, o, "rows", row->rows);
		json_put_us(b, o, "us", row->time);
		json_append(b, array, o);
	}
	return array;
}

static void put_slo(struct json_build *b, struct json_object *o, const struct slo_result *r)
{
	struct json_object *v = json_new_object(b);
	char sentence[SENTENCE_MAX];

	if (r->slo.ttft)
		json_put_us(b, v, "ttft_us", r->slo.ttft);
	if (r->slo.tpot)
		json_put_us(b, v, "tpot_us", r->slo.tpot);
	json_put_u64(b, v, "kept", r->kept);
	json_put_u64(b, v, "judged", r->judged);
	json_put_u64(b, v, "missed_ttft", r->missed_ttft);
	json_put_u64(b, v, "missed_tpot", r->missed_tpot);
	json_put_u64(b, v, "unknown", r->unknown);
	if (r->judged)
		json_put_double(b, v, "share", (double)r->kept / (double)r->judged);
	if (r->judged && r->time)
		json_put_double(b, v, "per_s", (double)r->kept * 1e9 / (double)r->time);
	json_put_text(b, v, "text", seq_words_slo(r, sentence));
	json_put(b, o, "goodput", v);
}

void seq_put(struct json_build *b, struct json_object *o, const struct process *p, const struct seq_summary *sum,
	uint32_t slowest)
{
	struct json_object *v;

	if (sum->slo.slo.ttft || sum->slo.slo.tpot)
		put_slo(b, o, &sum->slo);
	if (!sum->count)
		return;
	v = json_new_object(b);
	json_put_u64(b, v, "count", sum->count);
	json_put_u64(b, v, "prompt_tokens", sum->prompt_tokens);
	json_put_u64(b, v, "cached_tokens", sum->cached_tokens);
	json_put_u64(b, v, "output_tokens", sum->output_tokens);
	json_put_u64(b, v, "cancelled", sum->cancelled);
	json_put_u64(b, v, "began_before", sum->began_before);
	json_put_u64(b, v, "not_ended", sum->unfinished);
	json_put_u64(b, v, "lost_steps", sum->lost);
	object_percentiles(b, v, "tpot_us", &sum->tpot);
	object_percentiles(b, v, "total_us", &sum->total);
	object_percentiles(b, v, "queued_us", &sum->queued);
	json_put(b, v, "parts_us", parts_object(b, sum));
	json_put(b, v, "parts_states_us", part_states_object(b, sum));
	json_put(b, v, "slowest", slowest_array(b, p, sum, slowest));
	json_put(b, v, "waited_for", culprits_array(b, p, sum, slowest));
	json_put_us(b, v, "waited_for_unnamed_us", sum->unnamed);
	json_put(b, v, "pairs", pairs_array(b, p, sum));
	json_put(b, v, "occupancy", occupancy_array(b, sum));
	json_put_u64(b, v, "max_sequences", sum->max_sequences);
	json_put(b, o, "batch_requests", v);
}

static void append_ms(struct json_build *b, struct json_object *array, int64_t ns)
{
	char text[32];
	double ms = (double)ns / 1e6;

	snprintf(text, sizeof(text), "%.3f", ms);
	json_append(b, array, json_object_new_double_s(ms, text));
}

static void append_u64(struct json_build *b, struct json_object *array, uint64_t v)
{
	json_append(b, array, json_object_new_uint64(v));
}

static struct json_object *plot_row(struct json_build *b, const struct seq_request *r, int64_t start)
{
	struct json_object *row = json_new_array(b);

	append_u64(b, row, r->number);
	append_u64(b, row, r->sequence);
	append_u64(b, row, r->recording);
	append_ms(b, row, r->at - start);
	append_ms(b, row, r->total);
	if (r->ttft < 0)
		json_append(b, row, json_object_new_int(-1));
	else
		append_ms(b, row, seq_first_token(r));
	append_u64(b, row, r->prompt_tokens);
	append_u64(b, row, r->output_tokens);
	append_u64(b, row, r->flags);
	for (unsigned int i = 0; i < SEQ_PARTS; i++)
		append_ms(b, row, r->parts[i]);
	return row;
}

/* Marks those that are drawn: the slowest, and a selection of the others, spread evenly. */
static void choose(const struct process *p, const struct seq_summary *sum, bool *chosen)
{
	size_t n = p->seqs.len, room = PLOT_MAX;

	if (n > PLOT_MAX) {
		for (size_t i = 0; i < sum->n_late && i < PLOT_LATE; i++) {
			room -= !chosen[sum->late[i].request];
			chosen[sum->late[i].request] = true;
		}
	} else {
		room = n;
	}
	for (size_t i = 0; i < room; i++)
		chosen[i * n / room] = true;
}

/* A sentence for each of the slowest; of two about one request the one about the longer time. */
static void put_sentences(struct json_build *b, struct json_object *o, const struct process *p,
	const struct seq_summary *sum, const uint32_t *rows)
{
	char sentence[SENTENCE_MAX], key[16];
	struct seq_late late;

	for (size_t i = 0; i < sum->n_late && i < PLOT_LATE; i++) {
		const struct seq_late_ref *ref = &sum->late[i];

		snprintf(key, sizeof(key), "%u", rows[ref->request]);
		if (json_object_object_get_ex(o, key, NULL) ||
			!seq_late_find(p, &sum->typicals, &p->seqs.requests[ref->request], ref->kind, &late))
			continue;
		json_put_text(b, o, key, seq_words_late(p, &p->seqs.requests[ref->request], &late, sentence));
	}
}

struct json_object *seq_plot_object(struct json_build *b, const struct process *p, const struct seq_summary *sum)
{
	struct json_object *o, *rows, *text, *parts;
	uint32_t *places;
	bool *chosen;
	uint32_t n = 0;

	if (!sum->count)
		return NULL;
	o = json_new_object(b);
	rows = json_new_array(b);
	text = json_new_object(b);
	parts = json_new_array(b);
	chosen = calloc(p->seqs.len, sizeof(*chosen));
	places = calloc(p->seqs.len, sizeof(*places));
	if (chosen && places) {
		choose(p, sum, chosen);
		for (size_t i = 0; i < p->seqs.len; i++) {
			const struct seq_request *r = &p->seqs.requests[i];

			if (!chosen[i] || !seq_told_apart(r))
				continue;
			places[i] = n++;
			json_append(b, rows, plot_row(b, r, p->seqs.requests[0].at));
		}
		put_sentences(b, text, p, sum, places);
	} else {
		b->failed = true;
	}
	free(chosen);
	free(places);
	for (unsigned int i = 0; i < SEQ_PARTS; i++)
		json_append(b, parts, json_object_new_string(seq_words_part((enum seq_part)i)));
	json_put_u64(b, o, "count", sum->count);
	json_put(b, o, "parts", parts);
	json_put(b, o, "rows", rows);
	json_put(b, o, "text", text);
	return o;
}
