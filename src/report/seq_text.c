// SPDX-License-Identifier: BSD-2-Clause
/* The requests in batches, on a terminal. */
#include "report/seq_words.h"
#include "report/text_page.h"

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
