// SPDX-License-Identifier: BSD-2-Clause
#include "report/seq_object.h"

#include <stdio.h>
#include <stdlib.h>

#include "report/object.h"
#include "report/seq_words.h"

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
