// SPDX-License-Identifier: BSD-2-Clause
#include "link/match.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/bisect.h"

#define BIN_NS INT64_C(20000)
#define BINS (2 * MATCH_WINDOW_NS / BIN_NS + 2)
#define SAMPLES 256     /* calls of a part that vote */
#define SAMPLES_MIN 8   /* fewer say nothing */
#define VOTERS_MIN 0.25 /* of the samples must agree */
#define REFINED 3
#define PART_CALLS_MIN 64
/* Of the pairs of a part that many may be wrong, as where a call was lost and its neighbour took its place. */
#define WRONG_MAX 0.02

struct call {
	uint64_t key; /* span_class(); with the thread if both recordings number threads alike */
	int64_t start_ns, end_ns;
	uint32_t name;
};

struct calls {
	struct call *list;
	size_t n;
};

struct matcher {
	const struct spans *ours, *theirs;
	uint64_t *ours_classes, *theirs_classes; /* by name */
	struct calls a, b;                       /* of ours and theirs, by key and time */
	uint32_t *votes;
	struct bound *bounds;
};

struct bound {
	int64_t low_ns, high_ns;
	uint32_t name;
};

static int compare_calls(const void *x, const void *y)
{
	const struct call *a = x, *b = y;

	if (a->key != b->key)
		return a->key < b->key ? -1 : 1;
	if (a->start_ns != b->start_ns)
		return a->start_ns < b->start_ns ? -1 : 1;
	return 0;
}

static int compare_spans(const void *x, const void *y)
{
	const struct span *a = x, *b = y;

	return a->start_ns < b->start_ns ? -1 : a->start_ns > b->start_ns;
}

static int compare_numbers(const void *x, const void *y)
{
	uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;

	return a < b ? -1 : a > b;
}

static size_t list_threads(const struct spans *s, uint32_t *tids)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n; i++)
		tids[i] = s->list[i].tid;
	qsort(tids, s->n, sizeof(*tids), compare_numbers);
	for (size_t i = 0; i < s->n; i++) {
		if (!n || tids[n - 1] != tids[i])
			tids[n++] = tids[i];
	}
	return n;
}

/* In a container Kineto sees other numbers than a tracer outside: then the names have to do. */
static int share_threads(const struct spans *a, const struct spans *b, bool *ret)
{
	uint32_t *x = malloc((a->n + 1) * sizeof(*x)), *y = malloc((b->n + 1) * sizeof(*y));
	size_t n = 0, m = 0, i = 0, j = 0;

	if (x && y) {
		n = list_threads(a, x);
		m = list_threads(b, y);
		while (i < n && j < m && x[i] != y[j]) {
			if (x[i] < y[j])
				i++;
			else
				j++;
		}
		*ret = i < n && j < m;
	}
	free(x);
	free(y);
	return x && y ? 0 : -ENOMEM;
}

/* classes: by name; 0: calls of that name are left out. */
static int calls_make(
	const struct spans *s, size_t from, size_t to, const uint64_t *classes, bool threads, struct calls *ret)
{
	struct call *c = malloc((to - from + 1) * sizeof(*c));
	size_t n = 0;

	if (!c)
		return -ENOMEM;
	for (size_t i = from; i < to; i++) {
		const struct span *span = &s->list[i];
		uint64_t key = classes[span->name];

		if (!key)
			continue;
		if (threads)
			key ^= span->tid * UINT64_C(0x9e3779b97f4a7c15);
		c[n++] = (struct call){ key, span->start_ns, span->end_ns, span->name };
	}
	qsort(c, n, sizeof(*c), compare_calls);
	*ret = (struct calls){ c, n };
	return 0;
}

/* The class of a name of ours: that of theirs which explains most of it, so that mul__Tensor is mul_ and not mul. */
static uint64_t class_of_ours(const struct spans *theirs, const struct span_name *name)
{
	const char *best = NULL;

	for (uint32_t i = 0; i < theirs->n_names; i++) {
		const struct span_name *other = theirs->names[i];

		if (other->key == name->key && span_relate(name->text, other->text) != SPAN_UNRELATED &&
			(!best || strlen(other->text) > strlen(best)))
			best = other->text;
	}
	return best ? span_class(best) : 0;
}

static int classes_make(struct matcher *m)
{
	m->ours_classes = calloc(m->ours->n_names + 1, sizeof(*m->ours_classes));
	m->theirs_classes = calloc(m->theirs->n_names + 1, sizeof(*m->theirs_classes));
	if (!m->ours_classes || !m->theirs_classes)
		return -ENOMEM;
	for (uint32_t i = 0; i < m->ours->n_names; i++)
		m->ours_classes[i] = class_of_ours(m->theirs, m->ours->names[i]);
	for (uint32_t i = 0; i < m->theirs->n_names; i++)
		m->theirs_classes[i] = span_class(m->theirs->names[i]->text);
	return 0;
}

/* The first that is not before (key, ns). */
static size_t calls_from(const struct calls *c, uint64_t key, int64_t ns)
{
	const struct call wanted = { .key = key, .start_ns = ns };

	return bisect(c->n, k, compare_calls(&c->list[k], &wanted) < 0);
}

/* ---- roughly: each of some calls votes for the distances to all that it may be ---- */

static void vote(struct matcher *m, const struct call *sample, bool of_theirs)
{
	const struct calls *others = of_theirs ? &m->a : &m->b;
	size_t i = calls_from(others, sample->key, sample->start_ns - MATCH_WINDOW_NS);
	int64_t distance, last = -1, bin;

	for (; i < others->n && others->list[i].key == sample->key; i++) {
		distance = others->list[i].start_ns - sample->start_ns;
		if (distance > MATCH_WINDOW_NS)
			break;
		bin = ((of_theirs ? -distance : distance) + MATCH_WINDOW_NS) / BIN_NS;
		if (bin != last) /* one vote for each distance */
			m->votes[bin]++;
		last = bin;
	}
}

/* Two neighbouring bins count together, since what is equal may lie on both sides of a limit. Of those that are about as
 * good the one that is closest to what the clocks say: engines repeat themselves. */
static bool best_distance(const struct matcher *m, uint32_t samples, int64_t *ret_ns)
{
	const int64_t middle = MATCH_WINDOW_NS / BIN_NS;
	uint32_t best = 0, score;
	int64_t at = -1;

	for (int64_t i = 0; i + 1 < BINS; i++) {
		score = m->votes[i] + m->votes[i + 1];
		if (score > best)
			best = score;
	}
	if (best < SAMPLES_MIN || best < (uint32_t)(samples * VOTERS_MIN))
		return false;
	for (int64_t i = 0; i + 1 < BINS; i++) {
		score = m->votes[i] + m->votes[i + 1];
		if (score * 10 >= best * 9 && (at < 0 || llabs(i - middle) < llabs(at - middle)))
			at = i;
	}
	*ret_ns = (at + 1) * BIN_NS - MATCH_WINDOW_NS;
	return true;
}

static bool find_distance(struct matcher *m, int64_t *ret_ns)
{
	bool of_theirs = m->b.n <= m->a.n;
	const struct calls *c = of_theirs ? &m->b : &m->a;
	size_t step = c->n / SAMPLES + 1;
	uint32_t samples = 0;

	memset(m->votes, 0, BINS * sizeof(*m->votes));
	for (size_t i = step / 2; i < c->n; i += step) {
		vote(m, &c->list[i], of_theirs);
		samples++;
	}
	return best_distance(m, samples, ret_ns);
}

/* ---- exactly: what each pair allows ---- */

/* The call of `others` with this key that begins closest to ns; NULL: none. */
static const struct call *closest(const struct calls *others, uint64_t key, int64_t ns)
{
	size_t i = calls_from(others, key, ns);
	const struct call *after = i < others->n && others->list[i].key == key ? &others->list[i] : NULL;
	const struct call *before = i && others->list[i - 1].key == key ? &others->list[i - 1] : NULL;

	if (!after || !before)
		return after ? after : before;
	return after->start_ns - ns < ns - before->start_ns ? after : before;
}

static bool bound_of(const struct matcher *m, const struct call *ours, const struct call *theirs, struct bound *ret)
{
	int64_t starts = theirs->start_ns - ours->start_ns, ends = theirs->end_ns - ours->end_ns;

	switch (span_relate(m->ours->names[ours->name]->text, m->theirs->names[theirs->name]->text)) {
	case SPAN_AROUND:
		*ret = (struct bound){ ends, starts, theirs->name };
		break;
	case SPAN_WITHIN:
		*ret = (struct bound){ starts, ends, theirs->name };
		break;
	default:
		return false;
	}
	return ret->low_ns <= ret->high_ns;
}

/* The pairs at this distance: of calls that are each other's closest. */
static size_t find_pairs(struct matcher *m, int64_t distance)
{
	size_t n = 0;

	for (size_t i = 0; i < m->b.n; i++) {
		const struct call *theirs = &m->b.list[i];
		const struct call *ours = closest(&m->a, theirs->key, theirs->start_ns - distance);

		if (!ours || llabs(theirs->start_ns - ours->start_ns - distance) > 4 * BIN_NS ||
			closest(&m->b, ours->key, ours->start_ns + distance) != theirs)
			continue;
		n += bound_of(m, ours, theirs, &m->bounds[n]);
	}
	return n;
}

static int compare_low(const void *x, const void *y)
{
	const struct bound *a = x, *b = y;

	return a->low_ns < b->low_ns ? -1 : a->low_ns > b->low_ns;
}

static int compare_high(const void *x, const void *y)
{
	const struct bound *a = x, *b = y;

	return a->high_ns < b->high_ns ? -1 : a->high_ns > b->high_ns;
}

/* Between the bounds that half of the pairs set. */
static int64_t median_of(struct bound *bounds, size_t n)
{
	int64_t high;

	qsort(bounds, n, sizeof(*bounds), compare_high);
	high = bounds[n / 2].high_ns;
	qsort(bounds, n, sizeof(*bounds), compare_low);
	return bounds[n / 2].low_ns + (high - bounds[n / 2].low_ns) / 2;
}

/*
 * What the pairs allow. Pairs that are wrong would leave nothing: as few as possible are left out, each time the one that
 * is furthest off the middle of the others.
 */
static bool intersect(struct bound *bounds, size_t n, struct match_part *part)
{
	size_t wrong = (size_t)((double)n * WRONG_MAX), i, j;
	int64_t middle = median_of(bounds, n);

	qsort(bounds, n, sizeof(*bounds), compare_low);
	for (i = n; i && bounds[i - 1].low_ns > middle; i--)
		;
	if (n - i > wrong || !i)
		return false;
	part->low_ns = bounds[i - 1].low_ns;
	part->low_name = bounds[i - 1].name;
	n = i;
	qsort(bounds, n, sizeof(*bounds), compare_high);
	for (j = 0; j < n && bounds[j].high_ns < middle; j++)
		;
	if (j > wrong || j == n)
		return false;
	part->high_ns = bounds[j].high_ns;
	part->high_name = bounds[j].name;
	part->pairs = n - j;
	return true;
}

static int match_part(struct matcher *m, size_t from, size_t to, bool threads, struct match *ret)
{
	struct match_part *part = &ret->parts[ret->n_parts];
	int64_t distance;
	size_t n;
	int err;

	err = calls_make(m->theirs, from, to, m->theirs_classes, threads, &m->b);
	if (err)
		return err;
	n = find_distance(m, &distance) ? find_pairs(m, distance) : 0;
	/* a neighbour may have been closer at the rough distance, but not mostly */
	for (unsigned int i = 0; n >= SAMPLES_MIN && i < REFINED; i++) {
		distance = median_of(m->bounds, n);
		n = find_pairs(m, distance);
	}
	if (n >= SAMPLES_MIN && intersect(m->bounds, n, part)) {
		part->at_ns = m->theirs->list[from + (to - from) / 2].start_ns;
		ret->pairs += part->pairs;
		ret->n_parts++;
	}
	free(m->b.list);
	m->b.list = NULL;
	return 0;
}

static void join_parts(struct match *ret)
{
	for (size_t i = 0; i < ret->n_parts; i++) {
		if (ret->parts[i].low_ns > ret->parts[ret->low_part].low_ns)
			ret->low_part = i;
		if (ret->parts[i].high_ns < ret->parts[ret->high_part].high_ns)
			ret->high_part = i;
	}
	if (ret->n_parts) {
		ret->low_ns = ret->parts[ret->low_part].low_ns;
		ret->high_ns = ret->parts[ret->high_part].high_ns;
	}
}

int match_find(struct spans *ours, struct spans *theirs, struct match *ret)
{
	struct matcher m = { .ours = ours, .theirs = theirs };
	size_t parts = theirs->n / PART_CALLS_MIN;
	bool threads = false;
	int err;

	memset(ret, 0, sizeof(*ret));
	ret->calls = theirs->n;
	if (!ours->n || !theirs->n)
		return 0;
	parts = parts > MATCH_PARTS ? MATCH_PARTS : parts ? parts
							  : 1;
	qsort(theirs->list, theirs->n, sizeof(*theirs->list), compare_spans);
	m.votes = malloc(BINS * sizeof(*m.votes));
	m.bounds = malloc((theirs->n / parts + parts) * sizeof(*m.bounds));
	err = m.votes && m.bounds ? share_threads(ours, theirs, &threads) : -ENOMEM;
	if (!err)
		err = classes_make(&m);
	if (!err)
		err = calls_make(ours, 0, ours->n, m.ours_classes, threads, &m.a);
	for (size_t i = 0; !err && i < parts; i++)
		err = match_part(&m, theirs->n * i / parts, theirs->n * (i + 1) / parts, threads, ret);
	join_parts(ret);
	free(m.a.list);
	free(m.ours_classes);
	free(m.theirs_classes);
	free(m.votes);
	free(m.bounds);
	return err;
}
