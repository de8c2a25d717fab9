// SPDX-License-Identifier: BSD-2-Clause
#include "report/seq_summary.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void seq_summary_free(struct seq_summary *s)
{
	seq_typicals_free(&s->typicals);
	free(s->late);
	free(s->culprits);
	memset(s, 0, sizeof(*s));
}

static void sum_request(const struct process *p, const struct seq_request *r, struct seq_summary *sum)
{
	sum->count++;
	sum->prompt_tokens += r->prompt_tokens;
	sum->cached_tokens += r->cached_tokens;
	sum->output_tokens += r->output_tokens;
	sum->cancelled += (r->flags & SEQ_CANCELLED) != 0;
	sum->began_before += (r->flags & SEQ_BEGAN_BEFORE) != 0;
	sum->unfinished += (r->flags & (SEQ_UNFINISHED | SEQ_END_NOT_SEEN)) != 0;
	sum->lost += (r->flags & SEQ_LOST) != 0;
	if (!(r->flags & SEQ_PARTED) || (p->seqs.joined && !(r->flags & SEQ_JOINED))) {
		sum->unparted++;
		sum->unjoined += (r->flags & SEQ_PARTED) != 0;
		return;
	}
	sum->parts_total = ns_add(sum->parts_total, r->total);
	for (unsigned int i = 0; i < SEQ_PARTS; i++)
		sum->parts[i] = ns_add(sum->parts[i], r->parts[i]);
	for (unsigned int i = 0; i < r->n_states; i++) {
		const struct seq_state *s = &p->seqs.states[r->first_state + i];

		sum->states[s->part][s->state] = ns_add(sum->states[s->part][s->state], s->ns);
	}
}

static void sum_requests(const struct process *p, struct seq_summary *sum, int64_t *values)
{
	const struct seq_request *requests = p->seqs.requests;
	size_t n;

#define PERCENTILES(member, value)                                  \
	do {                                                        \
		n = 0;                                              \
		for (size_t i = 0; i < p->seqs.len; i++) {          \
			const struct seq_request *r = &requests[i]; \
			if (seq_told_apart(r) && (value) >= 0)      \
				values[n++] = (value);              \
		}                                                   \
		sum->member = percentiles_of(values, n);            \
	} while (0)

	for (size_t i = 0; i < p->seqs.len; i++) {
		if (seq_told_apart(&requests[i]))
			sum_request(p, &requests[i], sum);
	}
	PERCENTILES(tpot, r->tpot);
	/* only if it was seen completely */
	PERCENTILES(total,
		r->flags & (SEQ_BEGAN_BEFORE | SEQ_UNFINISHED | SEQ_END_NOT_SEEN | SEQ_LOST) ? -1 : r->total);
	PERCENTILES(queued, r->parts[SEQ_QUEUED] ? r->parts[SEQ_QUEUED] : -1);
#undef PERCENTILES
}

static int compare_late(const void *a, const void *b)
{
	const struct seq_late_ref *x = a, *y = b;

	if (x->excess != y->excess)
		return x->excess < y->excess ? 1 : -1;
	if (x->request != y->request)
		return x->request < y->request ? -1 : 1;
	return x->kind < y->kind ? -1 : x->kind > y->kind;
}

static int find_late(const struct process *p, struct seq_summary *sum)
{
	struct seq_late late;

	for (size_t i = 0; i < p->seqs.len; i++) {
		for (unsigned int kind = 0; kind < SEQ_KINDS; kind++) {
			if (!seq_late_find(p, &sum->typicals, &p->seqs.requests[i], (enum seq_kind)kind, &late))
				continue;
			if (array_reserve(&sum->late, sum->n_late + 1, &sum->late_size, sizeof(*sum->late)))
				return -ENOMEM;
			sum->late[sum->n_late++] = (struct seq_late_ref){ late.excess, (uint32_t)i, late.kind };
		}
	}
	if (sum->n_late)
		qsort(sum->late, sum->n_late, sizeof(*sum->late), compare_late);
	return 0;
}

/* Keeps the longest ones, sorted. */
static void add_pair(struct seq_summary *sum, const struct seq_pair *pair)
{
	size_t k;

	if (sum->n_pairs == SEQ_PAIRS_MAX && pair->ns <= sum->pairs[SEQ_PAIRS_MAX - 1].ns)
		return;
	k = sum->n_pairs < SEQ_PAIRS_MAX ? sum->n_pairs++ : SEQ_PAIRS_MAX - 1;
	for (; k && sum->pairs[k - 1].ns < pair->ns; k--)
		sum->pairs[k] = sum->pairs[k - 1];
	sum->pairs[k] = *pair;
}

static int add_culprit(struct seq_summary *sum, struct idmap *by_number, const struct seq_request *r, uint32_t place,
	const struct seq_wait *wait)
{
	uint64_t key = (uint64_t)r->recording << 32 | wait->number;
	struct seq_culprit *c;
	uint32_t i;

	if (!idmap_get(by_number, key, &i)) {
		i = (uint32_t)sum->n_culprits;
		if (array_reserve(&sum->culprits, sum->n_culprits + 1, &sum->culprits_size, sizeof(*sum->culprits)) ||
			idmap_set(by_number, key, i))
			return -ENOMEM;
		sum->culprits[sum->n_culprits++] = (struct seq_culprit){
			.number = wait->number, .recording = r->recording, .sequence = wait->sequence
		};
	}
	c = &sum->culprits[i];
	c->ns = ns_add(c->ns, wait->ns);
	c->victims++;
	if (wait->ns > c->worst) {
		c->worst = wait->ns;
		c->worst_of = place;
	}
	return 0;
}

static int compare_culprits(const void *a, const void *b)
{
	const struct seq_culprit *x = a, *y = b;

	if (x->ns != y->ns)
		return x->ns < y->ns ? 1 : -1;
	if (x->recording != y->recording)
		return x->recording < y->recording ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

static int find_culprits(const struct process *p, struct seq_summary *sum)
{
	struct idmap by_number = { 0 };
	int err = 0;

	for (size_t i = 0; i < p->seqs.len && !err; i++) {
		const struct seq_request *r = &p->seqs.requests[i];
		int64_t named = 0;

		if (!(r->flags & SEQ_PARTED))
			continue;
		for (unsigned int k = 0; k < r->n_waits && !err; k++) {
			const struct seq_wait *wait = &p->seqs.waits[r->first_wait + k];

			named += wait->ns;
			add_pair(sum, &(struct seq_pair){ wait->ns, (uint32_t)i, wait->number, wait->sequence });
			err = add_culprit(sum, &by_number, r, (uint32_t)i, wait);
		}
		sum->unnamed = ns_add(sum->unnamed, r->parts[SEQ_OTHERS] - named);
	}
	idmap_free(&by_number);
	if (sum->n_culprits)
		qsort(sum->culprits, sum->n_culprits, sizeof(*sum->culprits), compare_culprits);
	return err;
}

static void find_occupancy(const struct process *p, struct seq_summary *sum)
{
	for (unsigned int i = 0; i < OCCUPANCY_ROWS; i++) {
		sum->occupancy[i].from = i ? (1u << (i - 1)) + 1 : 1;
		sum->occupancy[i].to = i + 1 < OCCUPANCY_ROWS ? 1u << i : UINT32_MAX;
	}
	for (size_t i = 0; i < p->steps.len; i++) {
		/* 1 + the number, if they could be read */
		int64_t n = steps_get(&p->steps, i, STEP_ROWS + ROW_N_SEQUENCES) - 1;
		unsigned int k = 0;

		if (n <= 0 || steps_get(&p->steps, i, STEP_UNFINISHED))
			continue;
		while (n > sum->occupancy[k].to)
			k++;
		sum->batches++;
		if ((uint64_t)n > sum->max_sequences)
			sum->max_sequences = (uint64_t)n;
		sum->occupancy[k].steps++;
		sum->occupancy[k].sequences += (uint64_t)n;
		sum->occupancy[k].rows += (uint64_t)steps_get(&p->steps, i, STEP_N_TOKENS);
		sum->occupancy[k].time = ns_add(sum->occupancy[k].time, steps_get(&p->steps, i, STEP_TOTAL));
	}
}

int seq_summary_make(const struct process *p, struct seq_summary *ret)
{
	int64_t *values;
	int err;

	memset(ret, 0, sizeof(*ret));
	if (!p->seqs.in_batches)
		return 0;
	values = malloc(p->seqs.len * sizeof(*values));
	if (!values)
		return -ENOMEM;
	sum_requests(p, ret, values);
	free(values);
	find_occupancy(p, ret);
	err = seq_typicals_find(p, &ret->typicals);
	if (!err)
		err = find_late(p, ret);
	return err ? err : find_culprits(p, ret);
}
