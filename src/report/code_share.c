// SPDX-License-Identifier: BSD-2-Clause
/*
 * What samples say. How long threads were in a state is known exactly, so that only the shares that functions have of it
 * are taken from samples: as many as were taken, whether some were left out or not.
 */
#include <math.h>
#include <string.h>

#include "report/code_inner.h"
#include "util/chance.h"

/* A share of the time in slow and in typical steps. */
#define EVERYWHERE 0.95
/* Typical steps spend so many times as long in a function as in one that calls it: they call it for others, too. */
#define SHARED 1.25

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
	return p > 0 && p < 1 && v->count > 0 && chance_at_least(v->count, w->all.count, p) <= CHANCE_LEAST;
}

/* Whether typical steps spend clearly more time in a function than in another one. All that is called from the other
 * one is part of that one's time, so there are other callers then. */
static bool is_for_others(const struct code_value *inner, const struct code_value *outer)
{
	double more = inner->usual + inner->usual_waited - outer->usual - outer->usual_waited;

	return inner->usual + inner->usual_waited > SHARED * (outer->usual + outer->usual_waited) &&
	       more > CODE_SIGMAS * sqrt(inner->usual_var);
}

/* Of a function in Python: its file's first directory within what is installed, with the slash; an empty one: it is not. */
static size_t package_of(const char *name, const char **ret_package)
{
	const char *place = strrchr(name, '('), *slash = place ? strchr(place, '/') : NULL;

	*ret_package = place;
	return slash ? (size_t)(slash + 1 - place) : 0;
}

static bool is_in_package_of(const struct model *m, uint32_t a, uint32_t b)
{
	const char *package_a, *package_b;
	size_t len_a = package_of(model_text(m, m->code.functions[a].name), &package_a);
	size_t len_b = package_of(model_text(m, m->code.functions[b].name), &package_b);

	return !len_b || (len_a == len_b && !memcmp(package_a, package_b, len_a));
}

/* helper, package: only what calls that function, and not for itself alone; only what is not in the package of that one. */
static uint32_t find_deepest(const struct model *m, const struct function_times *t, const struct code_whole *w,
	uint32_t kinds, const struct function_time *helper, uint32_t package)
{
	double deepest = 0;
	uint32_t best = 0;

	for (size_t i = 0; i < t->n && w->part > 0; i++) {
		const struct function_time *f = &t->of[t->list[i]];

		if (!(kinds >> m->code.functions[t->list[i]].kind & 1) || f->depth <= deepest || !holds_most(w, &f->total) ||
			(is_everywhere(w, &f->total) && !holds_most(w, &f->held)))
			continue;
		if (helper && (f->depth >= helper->depth || !is_for_others(&helper->total, &f->total)))
			continue;
		if (package && (f->depth >= t->of[package].depth || is_in_package_of(m, t->list[i], package)))
			continue;
		deepest = f->depth;
		best = t->list[i];
	}
	return best;
}

uint32_t code_holder(
	const struct model *m, const struct function_times *t, const struct code_whole *w, uint32_t kinds)
{
	return find_deepest(m, t, w, kinds, NULL, 0);
}

uint32_t code_caller(const struct model *m, const struct function_times *t, const struct code_whole *w, uint32_t helper)
{
	return find_deepest(m, t, w, 1u << CODE_PYTHON, &t->of[helper], 0);
}

uint32_t code_user(const struct model *m, const struct function_times *t, const struct code_whole *w, uint32_t function)
{
	return find_deepest(m, t, w, 1u << CODE_PYTHON, NULL, function);
}
