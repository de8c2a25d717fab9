// SPDX-License-Identifier: BSD-2-Clause
#include "report/typical.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "report/stats.h"

/* Steps that share one typical, and how many of these blocks before and after they are compared
 * with. A step is compared with some 160 around it: few enough to follow a context that grows,
 * enough that a disturbance over dozens of steps does not become the norm. */
#define BLOCK 32
#define NEAR 2
/* If the near steps are all slower than these, they are the anomaly. */
#define FAR 32
/* Below this number nothing is typical. */
#define COMPARED_MIN 5

#define EXACT_MAX 8 /* tokens */

/* By chance: in a normal distribution one step in 10^9 exceeds it; measured times have longer
 * tails, so also a tenth of the median. */
#define NOISE_SIGMAS 6.0
#define NOISE_SHARE 0.1
/* By how much the near steps must be slower than the far ones. */
#define SLOWER_SHARE 0.25

/* With a new prompt the context starts again: this many consecutive steps are not compared with
 * others. */
#define RUN_MIN 64

struct group_entry {
	uint32_t lane, phase, class;
	uint32_t row; /* consecutive steps of one phase in their lane */
	uint32_t step;
};

struct typical_finder {
	struct process *p;
	struct group_entry *entries; /* sorted by group and time */
	double *totals;              /* of these, per unit */
	double *values;              /* of one window */
};

static double larger(double a, double b)
{
	return a > b ? a : b;
}

static double size_of_tokens(int64_t n_tokens)
{
	return n_tokens > EXACT_MAX ? (double)n_tokens : 1;
}

double step_size(const struct step *s)
{
	return size_of_tokens(s->n_tokens);
}

double steps_size(const struct steps *s, size_t i)
{
	return size_of_tokens(steps_get(s, i, STEP_N_TOKENS));
}

uint32_t tokens_class(uint32_t n_tokens)
{
	uint32_t octave;
	bool upper;

	if (n_tokens <= EXACT_MAX)
		return n_tokens;
	octave = 31 - (uint32_t)__builtin_clz(n_tokens);
	upper = (uint64_t)n_tokens * n_tokens >= 2ULL << 2 * octave;
	return EXACT_MAX + 1 + 2 * octave + upper;
}

/* Without barriers, waits at them count as work: such steps are compared with one another. */
static uint32_t step_class(const struct steps *s, size_t i)
{
	uint32_t class = tokens_class((uint32_t)steps_get(s, i, STEP_N_TOKENS));

	return 2 * class + (steps_get(s, i, STEP_LEFT_OUT) >> SHED_BARRIERS & 1);
}

static int compare_entries(const void *a, const void *b)
{
	const struct group_entry *x = a, *y = b;

	if (x->lane != y->lane)
		return x->lane < y->lane ? -1 : 1;
	if (x->phase != y->phase)
		return x->phase < y->phase ? -1 : 1;
	if (x->class != y->class)
		return x->class < y->class ? -1 : 1;
	return x->step < y->step ? -1 : x->step > y->step;
}

static bool same_group(const struct group_entry *a, const struct group_entry *b)
{
	return a->lane == b->lane && a->phase == b->phase && a->class == b->class;
}

/* A run of steps of one group. */
struct span {
	const struct group_entry *entries;
	size_t len;
};

static size_t gather_gaps(struct typical_finder *f, const struct span *span)
{
	size_t n = 0;

	for (size_t i = 0; i < span->len; i++) {
		int64_t gap = steps_get(&f->p->steps, span->entries[i].step, STEP_GAP);

		if (gap >= 0)
			f->values[n++] = (double)gap;
	}
	return n;
}

/* ret_deviation: where the deviation goes, or NULL. */
static double median_column(
	struct typical_finder *f, const struct span *span, enum step_column column, double *ret_deviation)
{
	const struct steps *steps = &f->p->steps;
	bool any = false;
	double median;

	for (size_t i = 0; i < span->len && !steps_all_zero(steps, column); i++) {
		size_t step = span->entries[i].step;
		int64_t ns = steps_get(steps, step, column);

		any |= ns != 0;
		f->values[i] = (double)ns / steps_size(steps, step);
	}
	median = any ? median_of(f->values, span->len) : 0;
	if (ret_deviation)
		*ret_deviation = any ? mad_of(f->values, span->len, median) : 0;
	return median;
}

static double *gather_totals(struct typical_finder *f, const struct span *span)
{
	return memcpy(f->values, f->totals + (span->entries - f->entries),
		span->len * sizeof(*f->values));
}

static double total_median(struct typical_finder *f, const struct span *span)
{
	return median_of(gather_totals(f, span), span->len);
}

static double total_deviation(struct typical_finder *f, const struct span *span, double median)
{
	return mad_of(gather_totals(f, span), span->len, median);
}

/* Up to blocks * BLOCK steps before and after a block; at the ends of a group as many on one
 * side. */
static struct span window(const struct span *group, size_t block, size_t blocks)
{
	size_t len = (2 * blocks + 1) * BLOCK, from;

	if (len > group->len)
		len = group->len;
	from = block > blocks * BLOCK ? block - blocks * BLOCK : 0;
	if (from > group->len - len)
		from = group->len - len;
	return (struct span){ group->entries + from, len };
}

static int add_typical(struct process *p, const struct typical *t)
{
	if (array_reserve(&p->typicals, p->n_typicals + 1, &p->typicals_size, sizeof(*p->typicals)))
		return -ENOMEM;
	p->typicals[p->n_typicals++] = *t;
	return 0;
}

/*
 * The steps from an index in the group on that are to be compared among themselves: RUN_MIN or more
 * in a row, or all up to the next such row. len is 0 at the end.
 */
static struct span next_run(const struct span *group, size_t from)
{
	struct span run = { group->entries + from, 0 };
	size_t row;

	while (from + run.len < group->len) {
		const struct group_entry *e = run.entries + run.len;

		for (row = 1; from + run.len + row < group->len && e[row].row == e->row;)
			row++;
		if (row >= RUN_MIN && run.len)
			break;
		run.len += row;
		if (row >= RUN_MIN)
			break;
	}
	return run;
}

/* The near steps, unless compared with the far ones they are all slow. */
static struct span choose_span(struct typical_finder *f, const struct span *near,
	const struct span *far, struct typical *t)
{
	double far_median, far_deviation, deviation, limit;
	const struct span *span = near;

	t->total = total_median(f, near);
	deviation = total_deviation(f, near, t->total);
	if (far->len > near->len) {
		far_median = total_median(f, far);
		far_deviation = total_deviation(f, far, far_median);
		limit = larger(SLOWER_SHARE * far_median, NOISE_SIGMAS * far_deviation);
		if (t->total > far_median + limit) {
			span = far;
			t->total = far_median;
			deviation = far_deviation;
		}
	}
	t->least = NOISE_SHARE * t->total;
	t->noise = larger(NOISE_SIGMAS * deviation, t->least);
	return *span;
}

static void find_block(struct typical_finder *f, const struct span *near, const struct span *far,
	struct typical *t)
{
	struct span span = choose_span(f, near, far, t);
	double deviation;
	size_t n;

	for (unsigned int s = 0; s < STATES; s++) {
		t->own[s] = median_column(f, &span, STEP_OWN + s, &deviation);
		t->own_noise[s] = NOISE_SIGMAS * deviation;
		t->workers[s] = median_column(f, &span, STEP_WORKERS + s, NULL);
	}
	n = gather_gaps(f, &span);
	t->gap = median_of(f->values, n);
	n = gather_gaps(f, &span);
	/* a pause matters if it is long compared with a step */
	t->gap_noise = larger(NOISE_SIGMAS * mad_of(f->values, n, t->gap), NOISE_SHARE * t->total);
	t->compared = (uint32_t)span.len;
	t->first = (uint32_t)(span.entries - f->entries);
}

static int find_run(struct typical_finder *f, const struct span *group, const struct span *run)
{
	const struct span *among = run->len < RUN_MIN ? group : run;
	size_t from = (size_t)(run->entries - group->entries), end;
	struct process *p = f->p;
	int err;

	for (size_t block = 0; block < run->len; block = end) {
		struct typical t = { 0 };
		struct span near, far;

		end = run->len - block < 2 * BLOCK ? run->len : block + BLOCK;
		near = window(among, among == run ? block : from + block, NEAR);
		far = window(group, from + block, FAR);
		if (group->len >= COMPARED_MIN)
			find_block(f, &near, &far, &t);
		err = 0;
		for (size_t i = block; i < end && !err; i++)
			err = steps_set(&p->steps, run->entries[i].step, STEP_TYPICAL, (int64_t)p->n_typicals);
		if (!err)
			err = add_typical(p, &t);
		if (err)
			return err;
	}
	return 0;
}

static int find_group(struct typical_finder *f, const struct span *group)
{
	int err = 0;

	for (size_t at = 0; !err && at < group->len;) {
		struct span run = next_run(group, at);

		err = find_run(f, group, &run);
		at += run.len;
	}
	return err;
}

/* All steps except those whose end was not seen. */
static size_t make_entries(struct typical_finder *f)
{
	struct process *p = f->p;
	uint32_t row = 0;
	size_t n = 0;

	for (size_t i = 0; i < p->steps.len; i++) {
		uint32_t phase = (uint32_t)steps_get(&p->steps, i, STEP_PHASE);

		row += i && phase != (uint32_t)steps_get(&p->steps, i - 1, STEP_PHASE);
		if (!steps_get(&p->steps, i, STEP_UNFINISHED))
			f->entries[n++] = (struct group_entry){ (uint32_t)steps_get(&p->steps, i, STEP_LANE), phase,
				step_class(&p->steps, i), row, (uint32_t)i };
	}
	qsort(f->entries, n, sizeof(*f->entries), compare_entries);
	for (size_t i = 0; i < n; i++) {
		size_t step = f->entries[i].step;

		f->totals[i] = (double)steps_get(&p->steps, step, STEP_TOTAL) / steps_size(&p->steps, step);
		p->grouped[i] = (uint32_t)step;
	}
	return n;
}

int typical_find(struct process *p)
{
	struct typical_finder f = { .p = p };
	const struct typical none = { 0 };
	struct span group;
	size_t n;
	int err = -ENOMEM;

	p->grouped = malloc((p->steps.len + 1) * sizeof(*p->grouped));
	f.entries = malloc((p->steps.len + 1) * sizeof(*f.entries));
	f.totals = malloc((p->steps.len + 1) * sizeof(*f.totals));
	f.values = malloc((p->steps.len + 1) * sizeof(*f.values));
	if (!p->grouped || !f.entries || !f.totals || !f.values)
		goto out;
	/* for steps that are in no group */
	err = add_typical(p, &none);
	n = make_entries(&f);
	for (group.entries = f.entries; !err && n; group.entries += group.len, n -= group.len) {
		group.len = 1;
		while (group.len < n && same_group(group.entries, group.entries + group.len))
			group.len++;
		err = find_group(&f, &group);
	}
out:
	free(f.entries);
	free(f.totals);
	free(f.values);
	return err;
}
