// SPDX-License-Identifier: BSD-2-Clause
/*
 * What samples say. How long threads were in a state is known exactly, so that only the shares that functions have of it
 * are taken from samples: as many as were taken, whether some were left out or not.
 */
#include <math.h>

#include "report/code_inner.h"

/* From this number on a binomial distribution is taken for a normal one. */
#define EXACT_MAX 2000
/* A share of the time in slow and in typical steps. */
#define EVERYWHERE 0.95

/* The time in slow steps that samples stand for. */
static double sampled_time(const struct code_whole *w)
{
	return fmax(0, w->slow - w->all.waited);
}

static double usual_time(const struct code_whole *w)
{
	return w->usual < 0 ? w->all.usual : fmax(0, w->usual - w->all.usual_waited);
}

static double share(double part, double whole)
{
	return whole > 0 ? part / whole : 0;
}

double code_slow(const struct code_whole *w, const struct code_value *v)
{
	return v->waited + sampled_time(w) * share(v->sampled, w->all.sampled);
}

double code_usual(const struct code_whole *w, const struct code_value *v)
{
	/* without samples in the slow steps nothing is known of what is usual of them either */
	return v->usual_waited + (w->all.sampled > 0 ? usual_time(w) * share(v->usual, w->all.usual) : 0);
}

double code_deviation(const struct code_whole *w, const struct code_value *v)
{
	double n = w->all.count, p, usual;

	if (n <= 0)
		return 0;
	/* also where all samples, or none, are of it, another one might not be */
	p = (v->count + 1) / (n + 2);
	usual = share(usual_time(w), w->all.usual);
	return sqrt(sampled_time(w) * sampled_time(w) * p * (1 - p) / n + v->usual_var * usual * usual);
}

/* How likely k or more of n are, if each is with the probability p. */
static double chance_of(double k, double n, double p)
{
	double sum = 0;

	if (n > EXACT_MAX)
		return erfc((k - 0.5 - n * p) / sqrt(2 * n * p * (1 - p))) / 2;
	for (double i = k; i <= n; i++)
		sum += exp(lgamma(n + 1) - lgamma(i + 1) - lgamma(n - i + 1) + i * log(p) + (n - i) * log1p(-p));
	return sum;
}

/* Whether nearly all stacks have it, as they have main(): that says nothing. */
static bool is_everywhere(const struct code_whole *w, const struct code_value *v)
{
	double all = w->all.sampled + w->all.waited + w->all.usual + w->all.usual_waited;

	return v->sampled + v->waited + v->usual + v->usual_waited > EVERYWHERE * all;
}

/* Whether a function holds most of the additional time. */
static bool holds_most(const struct code_whole *w, const struct code_value *v)
{
	/* what half of it would need besides the waits */
	double need = w->part / 2 - (v->waited - v->usual_waited), p;

	if (w->all.count <= 0 || need < 0)
		return need < 0;
	p = share(need + code_usual(w, v) - v->usual_waited, sampled_time(w));
	return p > 0 && p < 1 && v->count > 0 && chance_of(v->count, w->all.count, p) <= CODE_CHANCE;
}

uint32_t code_holder(
	const struct model *m, const struct function_times *t, const struct code_whole *w, uint32_t kinds)
{
	double deepest = 0;
	uint32_t best = 0;

	for (size_t i = 0; i < t->n && w->part > 0; i++) {
		const struct function_time *f = &t->of[t->list[i]];

		if (!(kinds >> m->code.functions[t->list[i]].kind & 1) || f->depth <= deepest || !holds_most(w, &f->total) ||
			(is_everywhere(w, &f->total) && !holds_most(w, &f->held)))
			continue;
		deepest = f->depth;
		best = t->list[i];
	}
	return best;
}
