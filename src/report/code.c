// SPDX-License-Identifier: BSD-2-Clause
#include "report/code.h"

#include <math.h>
#include <string.h>

#include "report/summary.h"
#include "util/chance.h"

/* More than any engine has: the rest is not in tables. */
#define TABLES_MAX 512
/* Lines of one function. */
#define LINES_MAX 64
/* More phases than any engine has, in each state. */
#define DIFFS_MAX 128
/* A share of the time in slow and in typical steps. */
#define EVERYWHERE 0.95
/* Typical steps spend so many times as long in a function as in one that calls it: they call it for others, too. */
#define SHARED 1.25
/* A smaller excess of a state is not worth mentioning, however steady it is. */
#define LONGER_MIN_NS 20000
#define LONGER_SHARE 0.1
/* Fewer steps that are not slow say nothing of what is typical. */
#define COMPARED_MIN 5

#define KINDS_OWN (1u << CODE_NATIVE | 1u << CODE_PYTHON)
#define KINDS_NAMED (KINDS_OWN | 1u << CODE_SYSTEM | 1u << CODE_KERNEL)

/* In these states it does not depend on the code that a thread does nothing, and at barriers it is the other
 * threads'. */
#define NOT_OF_CODE (1u << ST_RUNNABLE | 1u << ST_STOPPED | 1u << ST_IRQ | 1u << ST_BARRIER | 1u << STATE_OTHER)

struct function_time {
	struct code_value held, self, total;
	double depth; /* how deep it was called in slow steps, on average */
	bool listed;
};

/* ---- values of nodes and functions ---- */

void code_value_add(struct code_value *to, const struct code_value *v)
{
	to->sampled += v->sampled;
	to->count += v->count;
	to->waited += v->waited;
	to->usual += v->usual;
	to->usual_var += v->usual_var;
	to->usual_waited += v->usual_waited;
}

int code_values_new(const struct model *m, struct code_values *ret)
{
	size_t n = m->code.n_nodes + 1, n_functions = m->code.n_functions + 1;

	/* of which only what is used takes memory */
	*ret = (struct code_values){
		.m = m,
		.of = calloc(n, sizeof(*ret->of)),
		.has = calloc(n, sizeof(*ret->has)),
		.nodes = malloc(n * sizeof(*ret->nodes)),
		.functions = calloc(n_functions, sizeof(*ret->functions)),
		.list = malloc(n_functions * sizeof(*ret->list)),
	};
	return ret->of && ret->has && ret->nodes && ret->functions && ret->list ? 0 : -ENOMEM;
}

void code_values_free(struct code_values *v)
{
	free(v->of);
	free(v->has);
	free(v->nodes);
	free(v->functions);
	free(v->list);
}

struct code_value *code_values_at(struct code_values *v, uint32_t node)
{
	for (uint32_t i = node; !v->has[i]; i = v->m->code.nodes[i].parent) {
		v->has[i] = true;
		v->nodes[v->n++] = i;
	}
	return &v->of[node];
}

static int compare_numbers(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return cmp_int(*x, *y);
}

void code_values_sort(struct code_values *v)
{
	list_sort(v->nodes, v->n, compare_numbers);
}

void code_values_total(struct code_values *v)
{
	for (size_t k = v->n; k-- > 1;)
		code_value_add(&v->of[v->m->code.nodes[v->nodes[k]].parent], &v->of[v->nodes[k]]);
	v->whole.all = v->of[CODE_ROOT];
}

static struct function_time *time_of(struct code_values *v, uint32_t function)
{
	if (!v->functions[function].listed)
		v->list[v->n_functions++] = function;
	v->functions[function].listed = true;
	return &v->functions[function];
}

/* Sums up the values by function, in the order of their numbers; values become totals. */
static void sum_functions(struct code_values *v)
{
	const struct code_node *nodes = v->m->code.nodes;
	struct function_time *f;

	/* without the root, which is the first */
	for (size_t k = 1; k < v->n; k++) {
		uint32_t i = v->nodes[k];

		code_value_add(&time_of(v, nodes[i].function)->self, &v->of[i]);
		code_value_add(&time_of(v, nodes[i].held_by)->held, &v->of[i]);
	}
	code_values_total(v);
	for (size_t k = 1; k < v->n; k++) {
		const struct code_node *node = &nodes[v->nodes[k]];
		const struct code_value *value = &v->of[v->nodes[k]];

		if (!node->outermost)
			continue;
		f = time_of(v, node->function);
		code_value_add(&f->total, value);
		f->depth += (value->sampled + value->waited) * node->depth;
	}
	for (size_t k = 0; k < v->n_functions; k++) {
		f = &v->functions[v->list[k]];
		if (f->depth > 0)
			f->depth /= f->total.sampled + f->total.waited;
	}
	list_sort(v->list, v->n_functions, compare_numbers);
}

/* The line in which a function in Python was longest; 0: unknown, or no function. */
static uint32_t find_line(const struct code_values *v, uint32_t function)
{
	uint32_t lines[LINES_MAX], line = 0;
	double ns[LINES_MAX], most = 0;
	size_t n = 0, i;

	if (!function || v->m->code.functions[function].kind != CODE_PYTHON)
		return 0;
	for (size_t k = 0; k < v->n; k++) {
		const struct code_node *node = &v->m->code.nodes[v->nodes[k]];
		const struct code_value *of = &v->of[v->nodes[k]];

		if (node->function != function || !node->line)
			continue;
		for (i = 0; i < n && lines[i] != node->line;)
			i++;
		if (i == LINES_MAX)
			continue;
		if (i == n)
			ns[n++] = 0;
		lines[i] = node->line;
		ns[i] += of->sampled + of->waited - of->usual - of->usual_waited;
	}
	for (i = 0; i < n; i++) {
		line = ns[i] > most ? lines[i] : line;
		most = fmax(most, ns[i]);
	}
	return line;
}

/* ---- tables ---- */

void code_add_table(const struct process *p, const struct code_table *table, struct code_values *v)
{
	list_for_each (sum, p->stacks.sums, p->stacks.n_sums) {
		struct code_value *value;

		if (sum->phase != table->phase || sum->wait != table->wait ||
			(table->state != STATES && table->state != sum->state))
			continue;
		value = code_values_at(v, sum->node);
		*(sum->wait ? &value->waited : &value->sampled) += (double)sum->ns;
		value->count += sum->wait ? 0 : (double)sum->samples;
	}
	code_values_sort(v);
}

static int add_to_table(struct code_summary *c, const struct stack_sum *sum, uint8_t state)
{
	struct code_table new = { .phase = sum->phase, .state = state, .wait = sum->wait }, *t;
	size_t i = 0;

	for (; i < c->n_tables; i++) {
		t = &c->tables[i];
		if (t->phase == sum->phase && t->state == state && t->wait == sum->wait)
			break;
	}
	if (i == TABLES_MAX)
		return 0;
	if (i == c->n_tables && list_add(c->tables, c->n_tables, c->tables_size, new))
		return -ENOMEM;
	c->tables[i].ns = ns_add(c->tables[i].ns, sum->ns);
	c->tables[i].samples += sum->samples;
	return 0;
}

static int fill_table(const struct model *m, const struct process *p, struct code_table *table)
{
	const struct waker_sum *waker;
	struct code_values v;

	if (code_values_new(m, &v)) {
		code_values_free(&v);
		return -ENOMEM;
	}
	code_add_table(p, table, &v);
	sum_functions(&v);
	for (size_t i = 0; i < v.n_functions; i++) {
		const struct function_time *f = &v.functions[v.list[i]];
		struct code_row row = {
			.function = v.list[i],
			.held = f->held.sampled + f->held.waited,
			.self = f->self.sampled + f->self.waited,
			.total = f->total.sampled + f->total.waited,
		};

		row.key = table->wait ? row.held : row.self;
		if (row.key > 0)
			list_insert(table->rows, table->n_rows, CODE_ROWS_MAX, key, row);
	}
	for (size_t i = 0; i < table->n_rows; i++) {
		table->rows[i].line = find_line(&v, table->rows[i].function);
		if (!table->wait)
			continue;
		waker = waker_code_find(&p->stacks, table->phase, table->state, table->rows[i].function);
		if (!waker)
			continue;
		table->rows[i].by = waker->by;
		table->rows[i].thread = waker->thread;
		table->rows[i].ended = waker->ns;
	}
	code_values_free(&v);
	return 0;
}

static int compare_tables(const void *a, const void *b)
{
	const struct code_table *x = a, *y = b;
	int order = cmp_int(x->wait, y->wait) ?: cmp_int(x->state != STATES, y->state != STATES);

	return order ?: (cmp_int(y->ns, x->ns) ?: (cmp_int(x->phase, y->phase) ?: cmp_int(x->state, y->state)));
}

/*
 * ---- what samples say ----
 *
 * How long threads were in a state is known exactly, so that only the shares that functions have of it are taken from samples: as
 * many as were taken, whether some were left out or not.
 */

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

/* At most what there is. */
static double more_of(const struct code_whole *w, const struct code_value *v)
{
	return fmin(code_slow(w, v) - code_usual(w, v), w->part);
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

/* Of a function in Python: its file's first directory within what is installed, with the slash; an empty one: it is
 * not. */
static size_t package_of(const struct model *m, uint32_t function, const char **ret_package)
{
	const char *place = strrchr(model_text(m, m->code.functions[function].name), '('),
		*slash = place ? strchr(place, '/') : NULL;

	*ret_package = place;
	return slash ? (size_t)(slash + 1 - place) : 0;
}

static bool is_in_package_of(const struct model *m, uint32_t a, uint32_t b)
{
	const char *package_a, *package_b;
	size_t len_a = package_of(m, a, &package_a), len_b = package_of(m, b, &package_b);

	return !len_b || (len_a == len_b && !memcmp(package_a, package_b, len_a));
}

/*
 * The function that holds most of the additional time; of several, which then call one another, the one that is
 * called by the others. Of a kind in the mask. helper: only of what calls that function, which typical steps call for
 * others as well; package: only of what calls that one from another file or package. 0: none.
 *
 * It holds most if it would be strange otherwise: if half of the additional time were what it holds, fewer than one
 * recording in 40 would show as many samples of it in the slow steps. With nothing else in a step, that takes six
 * samples of six. Waits are measured, and not sampled: there it holds most if it has more than half. A function that
 * nearly all stacks have, as they have main(), is named only for what it does itself.
 */
static uint32_t find_deepest(const struct code_values *v, uint32_t kinds, uint32_t helper, uint32_t package)
{
	const struct function_time *functions = v->functions;
	const struct code_whole *w = &v->whole;
	double deepest = 0;
	uint32_t best = 0;

	for (size_t i = 0; i < v->n_functions && w->part > 0; i++) {
		const struct function_time *f = &functions[v->list[i]];

		if (!(kinds >> v->m->code.functions[v->list[i]].kind & 1) || f->depth <= deepest ||
			!holds_most(w, &f->total) || (is_everywhere(w, &f->total) && !holds_most(w, &f->held)))
			continue;
		if (helper && (f->depth >= functions[helper].depth || !is_for_others(&functions[helper].total, &f->total)))
			continue;
		if (package && (f->depth >= functions[package].depth || is_in_package_of(v->m, v->list[i], package)))
			continue;
		deepest = f->depth;
		best = v->list[i];
	}
	return best;
}

/*
 * Which function holds most of the additional time; the one in Python by way of which it does, if it is not in Python
 * itself, or typical steps call it for many: a slow function that multiplies matrices calls Linear.forward(), and so
 * do all others; and the one that used the package of these.
 */
static void find_blame(const struct code_values *v, struct code_blame *ret)
{
	const uint32_t python = 1u << CODE_PYTHON;
	uint32_t holder, from;

	ret->function = find_deepest(v, KINDS_OWN, 0, 0) ?: find_deepest(v, KINDS_NAMED, 0, 0);
	if (!ret->function)
		return;
	holder = find_deepest(v, python, 0, 0);
	ret->caller = holder ? find_deepest(v, python, holder, 0) : 0;
	if (!ret->caller && holder != ret->function)
		ret->caller = holder;
	from = ret->caller ?: ret->function;
	if (v->m->code.functions[from].kind == CODE_PYTHON)
		ret->user = find_deepest(v, python, 0, from);
	ret->line = find_line(v, ret->function);
	ret->caller_line = find_line(v, ret->caller);
	ret->user_line = find_line(v, ret->user);
}

/* ---- what slow steps did more than the steps that they are compared with ---- */

/* Whether code can be the reason for more time in a state. */
static bool is_of_code(uint8_t state)
{
	return state < STATES && !(NOT_OF_CODE >> state & 1);
}

/* Whether all stacks of a step were taken. */
static bool has_stacks(const struct process *p, size_t step)
{
	return !(steps_get(&p->steps, step, STEP_LEFT_OUT) >> SHED_SAMPLES & 1);
}

static const struct typical *typical_at(const struct process *p, size_t step)
{
	return &p->typicals[steps_get(&p->steps, step, STEP_TYPICAL)];
}

/* Which rows of steps count, and how much. */
struct choice {
	uint8_t state;
	uint32_t tid;            /* if not 0: of this thread only */
	float *own, *others;     /* of the calling thread and of the others; by step, below 0 for typical ones; either may be NULL */
	uint64_t samples, waits; /* in the slow steps */
	double usual;            /* samples in the others */
};

/* The weight of a row; 0: it does not count. */
static double row_weight(const struct process *p, const struct choice *c, size_t step, const struct stack_row *row)
{
	const float *weights = row->tid == (uint32_t)steps_get(&p->steps, step, STEP_TID) ? c->own : c->others;

	return weights && row->state == c->state && (!c->tid || row->tid == c->tid) ? (double)weights[step] : 0;
}

/* Adds the rows of a step. */
static void add_rows(const struct process *p, size_t step, struct choice *c, struct code_values *values)
{
	for (uint32_t i = p->stacks.first[step]; i < p->stacks.first[step + 1]; i++) {
		const struct stack_row *row = &p->stacks.rows[i];
		double weight = row_weight(p, c, step, row), ns = fabs(weight) * (double)row->ns;
		struct code_value *v;

		if (weight == 0)
			continue;
		v = code_values_at(values, row->node);
		if (weight > 0 && row->wait) {
			v->waited += ns;
			c->waits += row->samples;
		} else if (weight > 0) {
			v->sampled += ns;
			v->count += row->samples;
			c->samples += row->samples;
		} else if (row->wait) {
			v->usual_waited += ns;
		} else {
			v->usual += ns;
			v->usual_var += ns * (ns / row->samples);
			c->usual -= weight * row->samples;
		}
	}
}

/* Gives the steps that slow ones are compared with their weights, which are below 0. size: the sum of the sizes of
 * the slow steps. Returns whether there are enough. */
static bool weigh_compared(const struct process *p, const struct typical *t, double size, float *weights)
{
	const uint32_t *steps = p->grouped + t->first;
	uint32_t n = 0;

	for (uint32_t i = 0; i < t->compared; i++)
		n += !p->stacks.slow[steps[i]] && has_stacks(p, steps[i]);
	for (uint32_t i = 0; i < t->compared && n >= COMPARED_MIN; i++) {
		if (!p->stacks.slow[steps[i]] && has_stacks(p, steps[i]))
			weights[steps[i]] -= (float)(size / n / steps_size(&p->steps, steps[i]));
	}
	return n >= COMPARED_MIN;
}

/* Which of a slow step's threads were longer in the state that made it slow; second: in the second state, which is
 * one of the calling thread. */
static enum code_who who_was_longer(const struct slow_step *slow, bool second)
{
	const struct cause *c = &slow->cause;

	if (slow->gap || !c->compared || c->where == WHERE_NONE || c->unseen || (second && c->second == STATE_NONE))
		return CODE_NOBODY;
	return second || c->where == WHERE_OWN ? CODE_CALLER : CODE_OTHERS;
}

/* Adds what is known of the threads of a slow step. */
static void whole_add(const struct process *p, size_t step, enum code_who who, uint8_t state, struct code_whole *w)
{
	const struct typical *t = typical_at(p, step);
	double slow = (double)steps_get(&p->steps, step, (who == CODE_OTHERS ? STEP_WORKERS : STEP_OWN) + state);
	double usual = (who == CODE_OTHERS ? t->workers : t->own)[state] * steps_size(&p->steps, step);

	w->slow += slow;
	w->usual += usual;
	w->part += slow - usual;
}

/* Finds the weights of all steps. A typical is shared by many steps, so that it is looked at once for all slow ones
 * among them. Returns 0 or -ENOMEM. */
static int weigh_steps(const struct process *p, struct code_diff *diff, struct choice *c, struct code_whole *w)
{
	double *sizes = calloc(2 * (p->n_typicals + 1), sizeof(*sizes)); /* of the calling threads, of the others */

	if (!sizes)
		return -ENOMEM;
	/* first the sizes; then, of those for which there are steps to compare with, the slow steps themselves */
	for (int pass = 0; pass < 2; pass++) {
		for (const struct code_longer *l = p->stacks.longer; l < p->stacks.longer + p->stacks.n_longer; l++) {
			size_t slot = 2 * (size_t)steps_get(&p->steps, l->step, STEP_TYPICAL) + (l->who == CODE_OTHERS);

			if (l->state != diff->state || (uint32_t)steps_get(&p->steps, l->step, STEP_PHASE) != diff->phase)
				continue;
			if (!pass)
				sizes[slot] += steps_size(&p->steps, l->step);
			if (!pass || sizes[slot] <= 0)
				continue;
			(l->who == CODE_OTHERS ? c->others : c->own)[l->step] = 1;
			diff->steps++;
			whole_add(p, l->step, l->who, diff->state, w);
		}
		for (size_t i = 0; i < 2 * p->n_typicals && !pass; i++) {
			if (sizes[i] > 0 && !weigh_compared(p, &p->typicals[i / 2], sizes[i], i % 2 ? c->others : c->own))
				sizes[i] = 0;
		}
	}
	free(sizes);
	return 0;
}

/* Also counts what there is of the difference. */
static int add_diff(const struct process *p, struct code_diff *diff, struct code_values *v)
{
	struct choice c = { .state = diff->state };
	int err = -ENOMEM;

	diff->steps = 0;
	c.own = calloc(p->steps.len + 1, sizeof(*c.own));
	c.others = calloc(p->steps.len + 1, sizeof(*c.others));
	if (c.own && c.others)
		err = weigh_steps(p, diff, &c, &v->whole);
	for (size_t i = 0; !err && i < p->steps.len; i++) {
		if (c.own[i] != 0 || c.others[i] != 0)
			add_rows(p, i, &c, v);
	}
	code_values_sort(v);
	diff->part = v->whole.part > 0 ? (int64_t)fmin(v->whole.part, 9e18) : 0;
	diff->samples = c.samples;
	diff->waits = c.waits;
	diff->usual = c.usual;
	free(c.own);
	free(c.others);
	return err;
}

int code_add_diff(const struct process *p, const struct code_diff *diff, struct code_values *v)
{
	struct code_diff again = *diff;

	return add_diff(p, &again, v);
}

static int fill_diff(const struct model *m, const struct process *p, struct code_diff *diff)
{
	struct code_values v;
	int err;

	err = code_values_new(m, &v) ?: add_diff(p, diff, &v);
	if (!err) {
		sum_functions(&v);
		find_blame(&v, &diff->of);
		diff->clear = diff->of.function != 0;
	}
	for (size_t i = 0; i < v.n_functions; i++) {
		const struct function_time *f = &v.functions[v.list[i]];
		struct code_row row = {
			.function = v.list[i],
			.held = more_of(&v.whole, &f->held),
			.self = more_of(&v.whole, &f->self),
			.total = more_of(&v.whole, &f->total),
			.deviation = code_deviation(&v.whole, &f->total),
			.held_deviation = code_deviation(&v.whole, &f->held),
		};

		row.key = row.function == diff->of.function ? INFINITY : row.held;
		if (row.key > 0)
			list_insert(diff->rows, diff->n_rows, CODE_ROWS_MAX, key, row);
	}
	for (size_t i = 0; i < diff->n_rows; i++)
		diff->rows[i].line = find_line(&v, diff->rows[i].function);
	code_values_free(&v);
	return err;
}

static int need_diff(struct code_summary *c, uint32_t phase, uint8_t state)
{
	struct code_diff diff = { .phase = phase, .state = state };

	for (size_t i = 0; i < c->n_diffs; i++) {
		if (c->diffs[i].phase == phase && c->diffs[i].state == state)
			return 0;
	}
	return c->n_diffs == DIFFS_MAX ? 0 : list_add(c->diffs, c->n_diffs, c->diffs_size, diff);
}

static int compare_diffs(const void *a, const void *b)
{
	const struct code_diff *x = a, *y = b;

	return cmp_int(y->part, x->part) ?: (cmp_int(x->phase, y->phase) ?: cmp_int(x->state, y->state));
}

static int longer_add(struct process *p, size_t step, uint8_t state, enum code_who who)
{
	struct code_longer longer = { .step = (uint32_t)step, .state = state, .who = (uint8_t)who };
	struct stack_times *s = &p->stacks;

	if (!has_stacks(p, step))
		return 0;
	s->slow[step] = true;
	return list_add(s->longer, s->n_longer, s->longer_size, longer);
}

/* Whether the calling thread of a step was longer in a state than usual, whether the step was slow or not: where
 * others use the CPUs, too, waits for these hide it. */
static bool is_longer(const struct process *p, size_t step, uint8_t state)
{
	const struct typical *t = typical_at(p, step);
	double size = steps_size(&p->steps, step);
	double more = (double)steps_get(&p->steps, step, STEP_OWN + state) - t->own[state] * size;
	/* what it usually takes without others on its CPUs */
	double usual = (t->total - t->own[ST_RUNNABLE]) * size;

	return t->compared && more > LONGER_MIN_NS && more > LONGER_SHARE * usual && more > t->own_noise[state] * size &&
	       !steps_get(&p->steps, step, STEP_UNFINISHED);
}

/* Finds the steps that were longer in a state than those that they are compared with, and which of their threads
 * were. */
static int find_longer(struct process *p, const struct slow_step *slow, size_t n_slow)
{
	uint8_t *by_cause = calloc(p->steps.len + 1, sizeof(*by_cause)); /* 1 + the state */
	int err = by_cause ? 0 : -ENOMEM;
	uint32_t states = 0; /* that stacks are of */

	for (size_t i = 0; i < p->stacks.n_sums; i++)
		states |= 1u << p->stacks.sums[i].state;
	for (size_t i = 0; !err && i < n_slow; i++) {
		enum code_who who = who_was_longer(&slow[i], false);
		uint8_t state = slow[i].cause.state;

		/* slow for whatever reason, it is no example of what is usual */
		p->stacks.slow[slow[i].step] |= !slow[i].gap;
		if (who == CODE_NOBODY || !is_of_code(state))
			continue;
		by_cause[slow[i].step] = 1 + state;
		err = longer_add(p, slow[i].step, state, who);
	}
	for (uint8_t state = 0; !err && state < STATES; state++) {
		if (!(states >> state & 1) || !is_of_code(state) || steps_all_zero(&p->steps, STEP_OWN + state))
			continue;
		for (size_t i = 0; !err && i < p->steps.len; i++) {
			if (by_cause[i] != 1 + state && is_longer(p, i, state))
				err = longer_add(p, i, state, CODE_CALLER);
		}
	}
	free(by_cause);
	return err;
}

static int make_diffs(const struct model *m, struct process *p, const struct slow_step *slow, size_t n_slow,
	struct code_summary *c)
{
	size_t kept = 0;
	int err;

	if (!p->stacks.first)
		return 0;
	p->stacks.slow = calloc(p->steps.len + 1, sizeof(*p->stacks.slow));
	if (!p->stacks.slow)
		return -ENOMEM;
	err = find_longer(p, slow, n_slow);
	for (size_t i = 0; !err && i < p->stacks.n_longer; i++)
		err = need_diff(c, (uint32_t)steps_get(&p->steps, p->stacks.longer[i].step, STEP_PHASE), p->stacks.longer[i].state);
	for (size_t i = 0; !err && i < c->n_diffs; i++) {
		err = fill_diff(m, p, &c->diffs[i]);
		if (c->diffs[i].samples || c->diffs[i].waits)
			c->diffs[kept++] = c->diffs[i];
	}
	c->n_diffs = kept;
	list_sort(c->diffs, kept, compare_diffs);
	return err;
}

/* ---- of one slow step ---- */

/* The samples of a function in a step, times the step's weight. */
static double count_samples(const struct model *m, const struct process *p, size_t step, const struct choice *c,
	uint32_t function)
{
	double n = 0;

	for (uint32_t i = p->stacks.first[step]; i < p->stacks.first[step + 1]; i++) {
		const struct stack_row *row = &p->stacks.rows[i];
		double weight = row->wait ? 0 : row_weight(p, c, step, row);

		if (weight != 0 && code_is_called(&m->code, row->node, function))
			n += fabs(weight) * row->samples;
	}
	return n;
}

/* Finds the function once all rows are added. part: how much longer the step was in the state. */
static void find_hot(const struct process *p, const struct slow_step *slow, const struct choice *c, double part,
	struct code_values *v, struct code_hot *hot)
{
	const struct typical *t = typical_at(p, slow->step);
	const uint32_t *compared = p->grouped + t->first;

	code_values_sort(v);
	sum_functions(v);
	whole_add(p, slow->step, c->others ? CODE_OTHERS : CODE_CALLER, c->state, &v->whole);
	if (c->tid) {
		/* of a single worker only the samples are known */
		v->whole.slow = v->whole.all.sampled + v->whole.all.waited;
		v->whole.usual = -1;
	}
	v->whole.part = fmin(v->whole.part, part);
	find_blame(v, &hot->of);
	if (!hot->of.function)
		return;
	hot->ns = (int64_t)fmax(0, more_of(&v->whole, &v->functions[hot->of.function].total));
	hot->samples = (uint64_t)count_samples(v->m, p, slow->step, c, hot->of.function);
	for (uint32_t i = 0; i < t->compared; i++) {
		if (compared[i] != slow->step)
			hot->usual += count_samples(v->m, p, compared[i], c, hot->of.function);
	}
}

int code_find_hot(const struct model *m, const struct process *p, const struct slow_step *slow, bool second,
	struct code_hot *ret)
{
	const struct typical *t = typical_at(p, slow->step);
	struct choice c = { .state = second ? slow->cause.second : slow->cause.state };
	enum code_who who = who_was_longer(slow, second);
	struct code_values v;
	float *weights;
	int err;

	memset(ret, 0, sizeof(*ret));
	if (!p->stacks.slow || !is_of_code(c.state) || who == CODE_NOBODY || !has_stacks(p, slow->step) ||
		p->stacks.first[slow->step] == p->stacks.first[slow->step + 1])
		return 0;
	c.tid = who == CODE_OTHERS ? slow->cause.tid : 0;
	weights = calloc(p->steps.len + 1, sizeof(*weights));
	*(who == CODE_OTHERS ? &c.others : &c.own) = weights;
	err = code_values_new(m, &v) || !weights ? -ENOMEM : 0;
	if (!err && weigh_compared(p, t, steps_size(&p->steps, slow->step), weights)) {
		weights[slow->step] = 1;
		add_rows(p, slow->step, &c, &v);
		for (uint32_t i = 0; i < t->compared; i++) {
			if (p->grouped[t->first + i] != slow->step)
				add_rows(p, p->grouped[t->first + i], &c, &v);
		}
		find_hot(p, slow, &c, (double)(second ? slow->cause.second_part : slow->cause.part), &v, ret);
	}
	free(weights);
	code_values_free(&v);
	return err;
}

/* ---- all of a process ---- */

int code_summary_make(
	const struct model *m, struct process *p, const struct slow_step *slow, size_t n_slow, struct code_summary *ret)
{
	int err = 0;

	memset(ret, 0, sizeof(*ret));
	if (!p->stacks.n_sums)
		return 0;
	for (size_t i = 0; !err && i < p->stacks.n_sums; i++) {
		const struct stack_sum *sum = &p->stacks.sums[i];

		err = (sum->wait ? 0 : add_to_table(ret, sum, STATES)) ?: add_to_table(ret, sum, sum->state);
	}
	list_sort(ret->tables, ret->n_tables, compare_tables);
	for (size_t i = 0; !err && i < ret->n_tables; i++)
		err = fill_table(m, p, &ret->tables[i]);
	return err ?: make_diffs(m, p, slow, n_slow, ret);
}

void code_summary_free(struct code_summary *c)
{
	free(c->tables);
	free(c->diffs);
	memset(c, 0, sizeof(*c));
}
