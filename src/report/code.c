// SPDX-License-Identifier: BSD-2-Clause
/* The functions in which threads ran and waited; on a terminal, as JSON, and as the trees that the page draws. */
#include <math.h>
#include <string.h>

#include "report/output.h"
#include "util/chance.h"

/* More than any engine has: the rest is not in tables. */
#define TABLES_MAX 512
/* Lines of one function. */
#define LINES_MAX 64
/* More phases than any engine has, in each state. */
#define DIFFS_MAX 128
/* A function with more than this share of the time in slow and typical steps is in nearly all stacks. */
#define EVERYWHERE 0.95
/* A function has other callers, too, if typical steps spend this many times as long in it as in its caller. */
#define SHARED 1.25
/* A smaller excess of a state is not worth mentioning, however steady it is. */
#define LONGER_MIN_NS 20000
#define LONGER_SHARE 0.1
/* Fewer steps that are not slow say nothing of what is typical. */
#define COMPARED_MIN 5

#define KINDS_OWN (1u << CODE_NATIVE | 1u << CODE_PYTHON)
#define KINDS_NAMED (KINDS_OWN | 1u << CODE_SYSTEM | 1u << CODE_KERNEL)

/* Time in these states is not due to the thread's own code; at barriers it is due to the code of other threads. */
#define NOT_OF_CODE (1u << ST_RUNNABLE | 1u << ST_STOPPED | 1u << ST_IRQ | 1u << ST_BARRIER | 1u << STATE_OTHER)

/* By chance, only one case in 40 differs by more standard deviations: see util/chance.h, too. */
#define SIGMAS 2.0

/* ---- values of nodes and functions ---- */

/* Times of a node of the tree, or of a function, in ns. */
struct code_value {
	double sampled, count; /* count: of samples */
	double waited;
	double usual, usual_var; /* sampled in typical steps, and the variance of that */
	double usual_waited;
};

/* Of a diff: the exact time of threads in a state, whatever samples say. */
struct code_whole {
	double slow;  /* in slow steps */
	double usual; /* in as many typical ones; below 0: not known, as of one worker */
	double part;  /* the additional time to explain: slow - usual, or less */
	struct code_value all;
};

struct function_time {
	struct code_value held, self, total;
	double depth; /* how deep it was called in slow steps, on average */
	bool listed;
};

/* Values of the nodes in use, since a slow step has few of all nodes, and of functions. */
struct code_values {
	const struct model *m;
	struct code_value *of; /* by node */
	bool *has;
	uint32_t *nodes; /* each behind its parent, once they are sorted */
	size_t n;
	struct code_whole whole;         /* of a difference */
	struct function_time *functions; /* by function */
	uint32_t *list;                  /* functions with a time, by number */
	size_t n_functions;
};

static void value_add(struct code_value *to, const struct code_value *v)
{
	to->sampled += v->sampled;
	to->count += v->count;
	to->waited += v->waited;
	to->usual += v->usual;
	to->usual_var += v->usual_var;
	to->usual_waited += v->usual_waited;
}

static struct code_values values_new(const struct model *m)
{
	/* only the pages that are used take memory */
	return (struct code_values){
		.m = m,
		.of = xcalloc(m->code.n_nodes, sizeof(struct code_value)),
		.has = xcalloc(m->code.n_nodes, sizeof(bool)),
		.nodes = xcalloc(m->code.n_nodes, sizeof(uint32_t)),
		.functions = xcalloc(m->code.n_functions, sizeof(struct function_time)),
		.list = xcalloc(m->code.n_functions, sizeof(uint32_t)),
	};
}

static void values_free(struct code_values *v)
{
	free(v->of);
	free(v->has);
	free(v->nodes);
	free(v->functions);
	free(v->list);
}

/* The value of a node; its callers have one, too. */
static struct code_value *values_at(struct code_values *v, uint32_t node)
{
	for (uint32_t i = node; !v->has[i]; i = v->m->code.nodes[i].parent) {
		v->has[i] = true;
		v->nodes[v->n++] = i;
	}
	return &v->of[node];
}

ORDER(compare_numbers, uint32_t, cmp_int(*x, *y))

/* Adds the values of each node's calls to its own. */
static void values_total(struct code_values *v)
{
	for (size_t k = v->n; k-- > 1;)
		value_add(&v->of[v->m->code.nodes[v->nodes[k]].parent], &v->of[v->nodes[k]]);
	v->whole.all = v->of[CODE_ROOT];
}

static struct function_time *values_get_function(struct code_values *v, uint32_t function)
{
	if (!v->functions[function].listed)
		v->list[v->n_functions++] = function;
	v->functions[function].listed = true;
	return &v->functions[function];
}

/* Sums up the values by function, sorts v->list, and turns the values of nodes into totals. */
static void sum_functions(struct code_values *v)
{
	const struct code_node *nodes = v->m->code.nodes;
	struct function_time *f;

	/* without the root, which is the first */
	for (size_t k = 1; k < v->n; k++) {
		uint32_t i = v->nodes[k];

		value_add(&values_get_function(v, nodes[i].function)->self, &v->of[i]);
		value_add(&values_get_function(v, nodes[i].held_by)->held, &v->of[i]);
	}
	values_total(v);
	for (size_t k = 1; k < v->n; k++) {
		const struct code_node *node = &nodes[v->nodes[k]];
		const struct code_value *value = &v->of[v->nodes[k]];

		if (!node->outermost)
			continue;
		f = values_get_function(v, node->function);
		value_add(&f->total, value);
		f->depth += (value->sampled + value->waited) * node->depth;
	}
	for (size_t k = 0; k < v->n_functions; k++) {
		f = &v->functions[v->list[k]];
		if (f->depth > 0)
			f->depth /= f->total.sampled + f->total.waited;
	}
	list_sort(v->list, v->n_functions, compare_numbers);
}

/* The hottest line of a Python function, in a diff by its additional time; 0: unknown, or not Python. */
static uint32_t values_find_line(const struct code_values *v, uint32_t function)
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
		i = list_find(n, at, lines[at] == node->line);
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

static void add_table(const struct process *p, const struct code_table *table, struct code_values *v)
{
	list_for_each (sum, p->stacks.sums, p->stacks.n_sums) {
		struct code_value *value;

		if (sum->phase != table->phase || sum->wait != table->wait ||
			(table->state != STATES && table->state != sum->state))
			continue;
		value = values_at(v, sum->node);
		*(sum->wait ? &value->waited : &value->sampled) += (double)sum->ns;
		value->count += sum->wait ? 0 : (double)sum->samples;
	}
	list_sort(v->nodes, v->n, compare_numbers);
}

static void add_to_table(struct code_summary *c, const struct stack_sum *sum, uint8_t state)
{
	struct code_table new = { .phase = sum->phase, .state = state, .wait = sum->wait };
	size_t at = list_find(c->n_tables, i,
		c->tables[i].phase == sum->phase && c->tables[i].state == state && c->tables[i].wait == sum->wait);

	if (at == TABLES_MAX)
		return;
	if (at == c->n_tables)
		*list_add(c, tables) = new;
	c->tables[at].ns = ns_add(c->tables[at].ns, sum->ns);
	c->tables[at].samples += sum->samples;
}

static void fill_table(const struct model *m, const struct process *p, struct code_table *table)
{
	const struct waker_sum *waker;
	struct code_values v = values_new(m);

	add_table(p, table, &v);
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
	list_for_each (row, table->rows, table->n_rows) {
		row->line = values_find_line(&v, row->function);
		waker = table->wait ? waker_code_find(&p->stacks, table->phase, table->state, row->function) : NULL;
		if (!waker)
			continue;
		row->by = waker->by;
		row->thread = waker->thread;
		row->ended = waker->ns;
	}
	values_free(&v);
}

ORDER(compare_tables, struct code_table, RISING(wait), cmp_int(x->state != STATES, y->state != STATES), FALLING(ns), RISING(phase), RISING(state))

/*
 * ---- what samples say ----
 *
 * The time of threads in a state is known exactly. Samples only give the functions' shares of it, so that it does not matter
 * whether some were left out.
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

static double part_share(double part, double whole)
{
	return whole > 0 ? part / whole : 0;
}

/* The time of a value in slow steps. */
static double value_slow_ns(const struct code_whole *w, const struct code_value *v)
{
	return v->waited + sampled_time(w) * part_share(v->sampled, w->all.sampled);
}

/* Its time in as many typical steps. */
static double value_usual_ns(const struct code_whole *w, const struct code_value *v)
{
	/* without samples in the slow steps their usual share is unknown, too */
	return v->usual_waited + (w->all.sampled > 0 ? usual_time(w) * part_share(v->usual, w->all.usual) : 0);
}

/* Its additional time in slow steps, at most w->part. */
static double value_excess_ns(const struct code_whole *w, const struct code_value *v)
{
	return fmin(value_slow_ns(w, v) - value_usual_ns(w, v), w->part);
}

/* The standard deviation of that difference. */
static double value_deviation_ns(const struct code_whole *w, const struct code_value *v)
{
	double n = w->all.count, p, usual;

	if (n <= 0)
		return 0;
	/* rule of succession: even if all samples, or none, are of it, another one might not be */
	p = (v->count + 1) / (n + 2);
	usual = part_share(usual_time(w), w->all.usual);
	return sqrt(sampled_time(w) * sampled_time(w) * p * (1 - p) / n + v->usual_var * usual * usual);
}

/* Whether it is in nearly all stacks, like main(), which says nothing. */
static bool is_everywhere(const struct code_whole *w, const struct code_value *v)
{
	double all = w->all.sampled + w->all.waited + w->all.usual + w->all.usual_waited;

	return v->sampled + v->waited + v->usual + v->usual_waited > EVERYWHERE * all;
}

/* Whether a function holds most of the additional time. */
static bool holds_most(const struct code_whole *w, const struct code_value *v)
{
	/* the sampled time that half of it needs besides the waits */
	double need = w->part / 2 - (v->waited - v->usual_waited), p;

	if (w->all.count <= 0 || need < 0)
		return need < 0;
	p = part_share(need + value_usual_ns(w, v) - v->usual_waited, sampled_time(w));
	return p > 0 && p < 1 && v->count > 0 && chance_at_least(v->count, w->all.count, p) <= CHANCE_LEAST;
}

/* Whether `inner` has callers besides `outer`: typical steps spend clearly more time in it, although outer's time includes
 * all that it calls. */
static bool has_other_callers(const struct code_value *inner, const struct code_value *outer)
{
	double more = inner->usual + inner->usual_waited - outer->usual - outer->usual_waited;

	return inner->usual + inner->usual_waited > SHARED * (outer->usual + outer->usual_waited) &&
	       more > SIGMAS * sqrt(inner->usual_var);
}

/* The length of "(package/", the first directory of a Python function's file within what is installed; 0: it has none. */
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
 * The function, of a kind in the mask, that holds most of the additional time; 0: none. Several of them call one another:
 * then it is the innermost. helper: only callers of that function, if typical steps call it for others as well. package:
 * only callers of that function from another package.
 *
 * It holds most if chance is unlikely: if it held only half of the additional time, fewer than one recording in 40 would
 * show as many samples of it in the slow steps. With nothing else in a step, that takes six samples of six. Waits are
 * measured, not sampled: more than half is enough. A function that nearly all stacks have, like main(), is named only for
 * what it does itself.
 */
static uint32_t values_find_deepest(const struct code_values *v, uint32_t kinds, uint32_t helper, uint32_t package)
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
		if (helper && (f->depth >= functions[helper].depth || !has_other_callers(&functions[helper].total, &f->total)))
			continue;
		if (package && (f->depth >= functions[package].depth || is_in_package_of(v->m, v->list[i], package)))
			continue;
		deepest = f->depth;
		best = v->list[i];
	}
	return best;
}

/*
 * The function that holds most of the additional time. The caller: the function in Python that called it, if it is not in
 * Python itself or has many callers in typical steps, as Linear.forward() has. The user: the function that used their package.
 */
static void find_blame(const struct code_values *v, struct code_blame *ret)
{
	const uint32_t python = 1u << CODE_PYTHON;
	uint32_t holder, from;

	ret->function = values_find_deepest(v, KINDS_OWN, 0, 0) ?: values_find_deepest(v, KINDS_NAMED, 0, 0);
	if (!ret->function)
		return;
	holder = values_find_deepest(v, python, 0, 0);
	ret->caller = holder ? values_find_deepest(v, python, holder, 0) : 0;
	if (!ret->caller && holder != ret->function)
		ret->caller = holder;
	from = ret->caller ?: ret->function;
	if (v->m->code.functions[from].kind == CODE_PYTHON)
		ret->user = values_find_deepest(v, python, 0, from);
	ret->line = values_find_line(v, ret->function);
	ret->caller_line = values_find_line(v, ret->caller);
	ret->user_line = values_find_line(v, ret->user);
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
	uint32_t tid;           /* if not 0: of this thread only */
	float *own, *others;    /* weights by step, below 0 for typical ones, of the caller and the others; either may be NULL */
	struct code_diff *diff; /* counts the samples and waits */
};

/* The weight of a row; 0: it does not count. */
static double row_weight(const struct process *p, const struct choice *c, size_t step, const struct stack_row *row)
{
	const float *weights = row->tid == (uint32_t)steps_get(&p->steps, step, STEP_TID) ? c->own : c->others;

	return weights && row->state == c->state && (!c->tid || row->tid == c->tid) ? (double)weights[step] : 0;
}

static void add_rows(const struct process *p, size_t step, struct choice *c, struct code_values *values)
{
	for (uint32_t i = p->stacks.first[step]; i < p->stacks.first[step + 1]; i++) {
		const struct stack_row *row = &p->stacks.rows[i];
		double weight = row_weight(p, c, step, row), ns = fabs(weight) * (double)row->ns;
		struct code_value *v;

		if (weight == 0)
			continue;
		v = values_at(values, row->node);
		if (weight > 0 && row->wait) {
			v->waited += ns;
			c->diff->waits += row->samples;
		} else if (weight > 0) {
			v->sampled += ns;
			v->count += row->samples;
			c->diff->samples += row->samples;
		} else if (row->wait) {
			v->usual_waited += ns;
		} else {
			v->usual += ns;
			v->usual_var += ns * (ns / row->samples);
			c->diff->usual -= weight * row->samples;
		}
	}
}

/* Gives the baseline steps negative weights. size: of all slow steps. Returns false if there are too few. */
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

/* Which of a slow step's threads were longer in the state that made it slow; second: in the second state, which is the
 * calling thread's. */
static enum code_who find_longer_threads(const struct slow_step *slow, bool second)
{
	const struct cause *c = &slow->cause;

	if (slow->gap || !c->compared || c->where == WHERE_NONE || c->unseen || (second && c->second == STATE_NONE))
		return CODE_NOBODY;
	return second || c->where == WHERE_OWN ? CODE_CALLER : CODE_OTHERS;
}

/* Adds the exact times of a slow step's threads, and the typical ones. */
static void whole_add(const struct process *p, size_t step, enum code_who who, uint8_t state, struct code_whole *w)
{
	const struct typical *t = typical_at(p, step);
	double slow = (double)steps_get(&p->steps, step, (who == CODE_OTHERS ? STEP_WORKERS : STEP_OWN) + state);
	double usual = (who == CODE_OTHERS ? t->workers : t->own)[state] * steps_size(&p->steps, step);

	w->slow += slow;
	w->usual += usual;
	w->part += slow - usual;
}

/* Finds the weights of all steps. Many steps share a typical, so each typical is handled once for all its slow steps. */
static void weigh_steps(const struct process *p, struct code_diff *diff, struct choice *c, struct code_whole *w)
{
	double *sizes = xcalloc(2 * p->n_typicals, sizeof(*sizes)); /* of the calling threads, of the others */

	/* pass 0 sums up the sizes, pass 1 adds the slow steps for which there are steps to compare with */
	for (int pass = 0; pass < 2; pass++) {
		list_for_each (l, p->stacks.longer, p->stacks.n_longer) {
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
}

/* Adds the rows of a difference to the values, and fills in its numbers. */
static void add_diff(const struct process *p, struct code_diff *diff, struct code_values *v)
{
	struct choice c = {
		.state = diff->state,
		.own = xcalloc(p->steps.len, sizeof(*c.own)),
		.others = xcalloc(p->steps.len, sizeof(*c.others)),
		.diff = diff,
	};

	weigh_steps(p, diff, &c, &v->whole);
	for (size_t i = 0; i < p->steps.len; i++) {
		if (c.own[i] != 0 || c.others[i] != 0)
			add_rows(p, i, &c, v);
	}
	list_sort(v->nodes, v->n, compare_numbers);
	diff->part = v->whole.part > 0 ? (int64_t)fmin(v->whole.part, 9e18) : 0;
	free(c.own);
	free(c.others);
}

static void fill_diff(const struct model *m, const struct process *p, struct code_diff *diff)
{
	struct code_values v = values_new(m);

	add_diff(p, diff, &v);
	sum_functions(&v);
	find_blame(&v, &diff->of);
	diff->clear = diff->of.function != 0;
	for (size_t i = 0; i < v.n_functions; i++) {
		const struct function_time *f = &v.functions[v.list[i]];
		struct code_row row = {
			.function = v.list[i],
			.held = value_excess_ns(&v.whole, &f->held),
			.self = value_excess_ns(&v.whole, &f->self),
			.total = value_excess_ns(&v.whole, &f->total),
			.deviation = value_deviation_ns(&v.whole, &f->total),
			.held_deviation = value_deviation_ns(&v.whole, &f->held),
		};

		row.key = row.function == diff->of.function ? INFINITY : row.held;
		if (row.key > 0)
			list_insert(diff->rows, diff->n_rows, CODE_ROWS_MAX, key, row);
	}
	list_for_each (row, diff->rows, diff->n_rows)
		row->line = values_find_line(&v, row->function);
	values_free(&v);
}

ORDER(compare_diffs, struct code_diff, FALLING(part), RISING(phase), RISING(state))

static void longer_add(struct process *p, size_t step, uint8_t state, enum code_who who)
{
	if (!has_stacks(p, step))
		return;
	p->stacks.slow[step] = true;
	*list_add(&p->stacks, longer) = (struct code_longer){ .step = (uint32_t)step, .state = state, .who = (uint8_t)who };
}

/* Whether a step's calling thread was longer than usual in a state. The step need not be slow: waits for busy CPUs hide it. */
static bool step_is_longer(const struct process *p, size_t step, uint8_t state)
{
	const struct typical *t = typical_at(p, step);
	double size = steps_size(&p->steps, step);
	double more = (double)steps_get(&p->steps, step, STEP_OWN + state) - t->own[state] * size;
	/* what it usually takes without others on its CPUs */
	double usual = (t->total - t->own[ST_RUNNABLE]) * size;

	return t->compared && more > LONGER_MIN_NS && more > LONGER_SHARE * usual && more > t->own_noise[state] * size &&
	       !steps_get(&p->steps, step, STEP_UNFINISHED);
}

/* Finds the steps that were longer in a state than is typical, and the threads and the code behind it. */
static void make_diffs(const struct model *m, struct process *p, struct summary *sum)
{
	struct code_summary *c = &sum->code;
	uint8_t *by_cause = xcalloc(p->steps.len, sizeof(*by_cause)); /* 1 + the state */
	uint32_t states = 0;                                          /* that stacks were taken in */
	size_t kept = 0;

	p->stacks.slow = xcalloc(p->steps.len, sizeof(*p->stacks.slow));
	list_for_each (row, p->stacks.sums, p->stacks.n_sums)
		states |= 1u << row->state;
	list_for_each (s, sum->slow, sum->n_slow) {
		enum code_who who = find_longer_threads(s, false);

		/* slow for whatever reason, it is no example of what is usual */
		p->stacks.slow[s->step] |= !s->gap;
		if (who == CODE_NOBODY || !is_of_code(s->cause.state))
			continue;
		by_cause[s->step] = 1 + s->cause.state;
		longer_add(p, s->step, s->cause.state, who);
	}
	for (uint8_t state = 0; state < STATES; state++) {
		if (!(states >> state & 1) || !is_of_code(state) || steps_all_zero(&p->steps, STEP_OWN + state))
			continue;
		for (size_t i = 0; i < p->steps.len; i++) {
			if (by_cause[i] != 1 + state && step_is_longer(p, i, state))
				longer_add(p, i, state, CODE_CALLER);
		}
	}
	free(by_cause);
	list_for_each (l, p->stacks.longer, p->stacks.n_longer) {
		uint32_t phase = (uint32_t)steps_get(&p->steps, l->step, STEP_PHASE);

		if (list_find(c->n_diffs, i, c->diffs[i].phase == phase && c->diffs[i].state == l->state) == c->n_diffs &&
			c->n_diffs < DIFFS_MAX)
			*list_add(c, diffs) = (struct code_diff){ .phase = phase, .state = l->state };
	}
	list_for_each (diff, c->diffs, c->n_diffs) {
		fill_diff(m, p, diff);
		if (diff->samples || diff->waits)
			c->diffs[kept++] = *diff;
	}
	c->n_diffs = kept;
	list_sort(c->diffs, kept, compare_diffs);
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

	list_sort(v->nodes, v->n, compare_numbers);
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
	hot->ns = (int64_t)fmax(0, value_excess_ns(&v->whole, &v->functions[hot->of.function].total));
	hot->samples = (uint64_t)count_samples(v->m, p, slow->step, c, hot->of.function);
	for (uint32_t i = 0; i < t->compared; i++) {
		if (compared[i] != slow->step)
			hot->usual += count_samples(v->m, p, compared[i], c, hot->of.function);
	}
}

struct code_hot code_find_hot(const struct model *m, const struct process *p, const struct slow_step *slow, bool second)
{
	const struct typical *t = typical_at(p, slow->step);
	struct choice c = { .state = second ? slow->cause.second : slow->cause.state, .diff = &(struct code_diff){ 0 } };
	enum code_who who = find_longer_threads(slow, second);
	struct code_hot hot = { 0 };
	struct code_values v;
	float *weights;

	if (!p->stacks.slow || !is_of_code(c.state) || who == CODE_NOBODY || !has_stacks(p, slow->step) ||
		p->stacks.first[slow->step] == p->stacks.first[slow->step + 1])
		return hot;
	c.tid = who == CODE_OTHERS ? slow->cause.tid : 0;
	weights = xcalloc(p->steps.len, sizeof(*weights));
	*(who == CODE_OTHERS ? &c.others : &c.own) = weights;
	v = values_new(m);
	if (weigh_compared(p, t, steps_size(&p->steps, slow->step), weights)) {
		weights[slow->step] = 1;
		add_rows(p, slow->step, &c, &v);
		for (uint32_t i = 0; i < t->compared; i++) {
			if (p->grouped[t->first + i] != slow->step)
				add_rows(p, p->grouped[t->first + i], &c, &v);
		}
		find_hot(p, slow, &c, (double)(second ? slow->cause.second_part : slow->cause.part), &v, &hot);
	}
	free(weights);
	values_free(&v);
	return hot;
}

/* ---- all of a process ---- */

void code_summary_make(const struct model *m, struct process *p, struct summary *sum)
{
	struct code_summary *c = &sum->code;

	list_for_each (row, p->stacks.sums, p->stacks.n_sums) {
		if (!row->wait)
			add_to_table(c, row, STATES);
		add_to_table(c, row, row->state);
	}
	list_sort(c->tables, c->n_tables, compare_tables);
	list_for_each (table, c->tables, c->n_tables)
		fill_table(m, p, table);
	if (p->stacks.n_sums && p->stacks.first)
		make_diffs(m, p, sum);
}

/* ---- on a terminal ---- */

#define ROWS_SHOWN 10
#define WAIT_ROWS_SHOWN 3
#define DIFF_ROWS_SHOWN 5
#define NAME_WIDTH 46
/* Functions with a smaller share are left out. */
#define LEAST_SHARE 0.005

/* Pads by characters, not bytes; a longer name is not cut. */
static void put_function(const struct page *page, const struct code_row *row)
{
	const char *name = FUNCTION(page->m, row->function, row->line);
	int columns = 0;

	for (const char *p = name; *p; p++)
		columns += ((unsigned char)*p & 0xc0) != 0x80;
	page_put(page, "  %s%*s", name, columns < NAME_WIDTH ? NAME_WIDTH - columns : 0, "");
}

static void put_samples(const struct page *page, const struct code_table *table)
{
	double all = (double)table->ns;
	char title[128];

	snprintf(title, sizeof(title), "Code %s%s: %llu sample%s", table->phase ? "of " : "outside of steps",
		NAME(page->m, table->phase), LLU(table->samples), table->samples == 1 ? "" : "s");
	page_put(page, "\n%-*s%10s%10s\n", NAME_WIDTH + 2, title, "self", "total");
	list_for_each (row, table->rows, least_of(table->n_rows, ROWS_SHOWN)) {
		if (row->self < LEAST_SHARE * all)
			break;
		put_function(page, row);
		page_put(page, "%8.2f %%%8.2f %% ", 100 * row->self / all, 100 * row->total / all);
		page_bar(page, row->self / all, PAGE_BAR / 2);
		page_put(page, "\n");
	}
}

static void put_waits(const struct page *page, const struct code_summary *c, uint32_t phase)
{
	bool first = true;

	list_for_each (table, c->tables, c->n_tables) {
		/* where it was preempted says nothing about a thread */
		if (table->phase != phase || !table->wait || table->state == ST_RUNNABLE || table->state == ST_STOPPED)
			continue;
		if (first)
			page_put(page, "\nWaits %s%s\n", phase ? "of " : "outside of steps", NAME(page->m, phase));
		first = false;
		page_put(page, "  %s: %llu, %s\n", words_state(table->state), LLU(table->samples), DURATION(table->ns));
		list_for_each (row, table->rows, least_of(table->n_rows, WAIT_ROWS_SHOWN)) {
			if (row->held < LEAST_SHARE * (double)table->ns)
				break;
			put_function(page, row);
			page_put(page, "%8.2f %%%10s\n", 100 * row->held / (double)table->ns,
				DURATION((int64_t)row->held));
			/* "woken by release (pool.py) of worker": who ended most of it */
			if (row->by || row->thread)
				page_put(page, "    woken by %s%s%s: %.0f %%\n", row->by ? FUNCTION(page->m, row->by, 0) : "",
					row->by && row->thread ? " of " : "", NAME(page->m, row->thread),
					row->held > 0 ? 100 * fmin(1, (double)row->ended / row->held) : 0);
		}
	}
}

static void put_diff(const struct page *page, const struct code_diff *diff)
{
	page_put(page, "\nCode of slow%s%s steps: %llu took %s more in %s", diff->phase ? " " : "",
		NAME(page->m, diff->phase), LLU(diff->steps), DURATION(diff->part), words_state(diff->state));
	if (diff->samples)
		page_put(page, "; %llu sample%s, usually %.1f", LLU(diff->samples), diff->samples == 1 ? "" : "s",
			diff->usual);
	if (diff->waits)
		page_put(page, "; %llu wait%s", LLU(diff->waits), diff->waits == 1 ? "" : "s");
	page_put(page, "\n");
	if (!diff->clear)
		page_put(page, "  %s holds most of it\n",
			diff->samples ? "these samples do not show that one function" : "no function");
	for (size_t i = 0, shown = 0; i < diff->n_rows && shown < DIFF_ROWS_SHOWN; i++) {
		const struct code_row *row = &diff->rows[i];

		if ((i || !diff->clear) && row->held <= SIGMAS * row->held_deviation)
			continue;
		if (!shown++)
			page_put(page, "%-*s%10s%11s%10s\n", NAME_WIDTH + 2, "", "more", "", "in itself");
		put_function(page, row);
		page_put(page, "%10s", DURATION((int64_t)row->total));
		if (diff->samples)
			page_put(page, " %s %-8s", page->utf8 ? "±" : "+-", DURATION((int64_t)row->deviation));
		else
			page_put(page, "%11s", "");
		page_put(page, "%10s\n", DURATION((int64_t)row->held));
		if (!i && diff->of.caller)
			page_put(page, "    called from %s\n", FUNCTION(page->m, diff->of.caller, diff->of.caller_line));
		if (!i && diff->of.user)
			page_put(page, "    for %s\n", FUNCTION(page->m, diff->of.user, diff->of.user_line));
	}
}

void page_code(const struct page *page, const struct code_summary *c)
{
	list_for_each (t, c->tables, c->n_tables) {
		/* each phase once */
		if (c->tables + list_find(c->n_tables, i, c->tables[i].phase == t->phase) != t)
			continue;
		list_for_each (all, c->tables, c->n_tables) {
			if (all->phase == t->phase && all->state == STATES)
				put_samples(page, all);
		}
		put_waits(page, c, t->phase);
	}
	list_for_each (diff, c->diffs, c->n_diffs)
		put_diff(page, diff);
}

void page_code_left_out(const struct page *page)
{
	const struct code_tree *t = &page->m->code;

	if (t->unknown)
		page_put(page, "Stacks: %llu lines have one that is not in the file\n", LLU(t->unknown));
	if (t->cut_deep)
		page_put(page, "Stacks: of %llu that were deeper, only the innermost %d calls are told apart\n",
			LLU(t->cut_deep), STACK_DEPTH_MAX);
	if (t->cut_nodes)
		page_put(page, "Stacks: %llu were too many, and are `[left out]`\n", LLU(t->cut_nodes));
	if (t->cut_rows)
		page_put(page,
			"Stacks: %llu samples and waits behind the first %u lines with a step count for no slow step\n", LLU(t->cut_rows), STACK_ROWS_MAX);
}

/* ---- as JSON ---- */

static void put_code_function(const struct page *page, struct json_object *o, const char *key, const char *line_key,
	uint32_t function, uint32_t line)
{
	if (function)
		json_put_text(o, key, model_text(page->m, page->m->code.functions[function].name));
	if (function && line)
		json_put_u64(o, line_key, line);
}

static void put_ns(struct json_object *o, const char *key, double ns)
{
	json_put_us(o, key, (int64_t)fmax(-9e18, fmin(9e18, ns)));
}

static void put_callers(const struct page *page, struct json_object *o, const struct code_blame *of)
{
	put_code_function(page, o, "called_from", "called_from_line", of->caller, of->caller_line);
	put_code_function(page, o, "used_by", "used_by_line", of->user, of->user_line);
}

static void put_code_row(const struct page *page, struct json_object *o, const struct code_row *row)
{
	static const char *const kinds[] = {
		[CODE_NATIVE] = "native",
		[CODE_PYTHON] = "python",
		[CODE_KERNEL] = "kernel",
		[CODE_SYSTEM] = "system",
		[CODE_UNKNOWN] = "unknown",
	};

	json_put_name(page, o, "function", page->m->code.functions[row->function].name);
	json_put_text(o, "kind", kinds[page->m->code.functions[row->function].kind]);
	if (row->line)
		json_put_u64(o, "line", row->line);
	put_ns(o, "held_us", row->held);
	put_ns(o, "total_us", row->total);
}

static void put_code_table(const struct page *page, struct json_object *o, const struct code_table *table)
{
	struct json_object *waker;

	json_put_name(page, o, "phase", table->phase);
	json_put_text(o, "kind", table->wait ? "wait" : "sample");
	json_put_text(o, "state", table->state == STATES ? NULL : words_state(table->state));
	json_put_u64(o, "count", table->samples);
	json_put_us(o, "total_us", table->ns);
	json_put_list (o, "functions", one, row, table->rows, table->n_rows) {
		put_code_row(page, one, row);
		put_ns(one, "self_us", row->self);
		if (!row->by && !row->thread)
			continue;
		waker = json_put_object(one, "woken_by");
		put_code_function(page, waker, "function", NULL, row->by, 0);
		json_put_name(page, waker, "thread", row->thread);
		json_put_us(waker, "total_us", row->ended);
	}
}

static void put_code_diff(const struct page *page, struct json_object *o, const struct code_diff *diff)
{
	json_put_name(page, o, "phase", diff->phase);
	json_put_text(o, "state", words_state(diff->state));
	json_put_u64(o, "steps", diff->steps);
	json_put_us(o, "excess_us", diff->part);
	json_put_u64(o, "samples", diff->samples);
	json_put_double(o, "usual_samples", diff->usual);
	json_put_u64(o, "waits", diff->waits);
	json_put(o, "clear", json_object_new_boolean(diff->clear));
	json_put_list (o, "functions", one, row, diff->rows, diff->n_rows) {
		put_code_row(page, one, row);
		put_ns(one, "deviation_us", row->deviation);
		if (row == diff->rows)
			put_callers(page, one, &diff->of);
	}
}

void json_put_code(const struct page *page, struct json_object *o, const struct code_summary *c)
{
	if (!c->n_tables)
		return;
	json_put_list (o, "code", one, table, c->tables, c->n_tables)
		put_code_table(page, one, table);
	json_put_list (o, "slow_code", one, diff, c->diffs, c->n_diffs)
		put_code_diff(page, one, diff);
}

void json_put_hot(const struct page *page, struct json_object *o, const struct process *p, const struct slow_step *slow)
{
	struct json_object *v;

	for (int second = 0; second < 2; second++) {
		struct code_hot hot = code_find_hot(page->m, p, slow, second);

		if (!hot.of.function)
			continue;
		v = json_put_object(o, second ? "second_code" : "code");
		put_code_function(page, v, "function", "line", hot.of.function, hot.of.line);
		put_callers(page, v, &hot.of);
		json_put_us(v, "us", hot.ns);
		if (!hot.samples)
			continue;
		json_put_u64(v, "samples", hot.samples);
		json_put_double(v, "usual_samples", hot.usual);
	}
}

void json_put_code_left_out(const struct page *page, struct json_object *o)
{
	const struct code_tree *t = &page->m->code;
	struct json_object *v;

	if (!t->unknown && !t->cut_deep && !t->cut_nodes && !t->cut_rows)
		return;
	v = json_put_object(o, "stacks_left_out");
	json_put_u64(v, "unknown", t->unknown);
	json_put_u64(v, "too_deep", t->cut_deep);
	json_put_u64(v, "too_many", t->cut_nodes);
	json_put_u64(v, "not_compared", t->cut_rows);
}

/* ---- flame graphs ---- */

/* A flame graph has the nodes with the most time; the others are merged in one beside them. */
#define FLAME_NODES_MAX 1200
#define FLAME_LEAST_SHARE 0.0005
#define FLAMES_MAX 24
/* The name of merged calls that are not drawn one by one. */
#define SMALL (-1)

struct flame {
	const struct page *page;
	const struct process *p;
	const struct code_table *table; /* or */
	const struct code_diff *diff;
	struct code_values values; /* totals, without lines */
	uint32_t *first, *next;    /* lists of each node's calls, by node; 0: end */
	double least;              /* nodes with less are not drawn */
	struct json_object *list;
	struct json_object *names;
	uint32_t *name_of; /* by function: 1 + its index among the names */
	uint32_t n_names;
};

static double node_size(const struct flame *f, uint32_t node)
{
	const struct code_value *v = &f->values.of[node];

	return f->diff ? value_slow_ns(&f->values.whole, v) + value_usual_ns(&f->values.whole, v) : v->sampled + v->waited;
}

/* Moves the values of nodes with lines to those without. */
static void drop_lines(struct code_values *v)
{
	for (size_t k = 0, n = v->n; k < n; k++) {
		uint32_t i = v->nodes[k], plain = v->m->code.nodes[i].plain;

		if (plain == i)
			continue;
		value_add(values_at(v, plain), &v->of[i]);
		memset(&v->of[i], 0, sizeof(v->of[i]));
	}
	list_sort(v->nodes, v->n, compare_numbers);
}

ORDER(compare_sizes, double, cmp_int(*y, *x))

/* Links the calls of each node, and sets a limit that leaves FLAME_NODES_MAX nodes. */
static void link_calls(struct flame *f)
{
	double *sizes = xcalloc(f->values.n, sizeof(*sizes));
	size_t n = 0;

	f->least = FLAME_LEAST_SHARE * node_size(f, CODE_ROOT);
	for (size_t k = f->values.n; k-- > 1;) {
		uint32_t i = f->values.nodes[k], parent = f->page->m->code.nodes[i].parent;

		if (node_size(f, i) <= 0)
			continue;
		f->next[i] = f->first[parent];
		f->first[parent] = i;
		sizes[n++] = node_size(f, i);
	}
	if (n > FLAME_NODES_MAX) {
		list_sort(sizes, n, compare_sizes);
		f->least = fmax(f->least, sizes[FLAME_NODES_MAX]);
	}
	free(sizes);
}

static void flame_append_number(struct flame *f, double v)
{
	json_put(f->list, NULL, json_object_new_int64(v > 9e15 ? (int64_t)9e15 : (int64_t)llround(v)));
}

static double name_index(struct flame *f, uint32_t function)
{
	const struct code_function *of = &f->page->m->code.functions[function];
	struct json_object *name;

	if (!f->name_of[function]) {
		name = json_put_array(f->names, NULL);
		json_put_text(name, NULL, model_text(f->page->m, of->name));
		json_put_u64(name, NULL, of->kind);
		f->name_of[function] = ++f->n_names;
	}
	return f->name_of[function] - 1;
}

/* depth, name, time in us; of a difference also what is usual and the deviation by chance */
static void append_node(struct flame *f, uint32_t depth, double name, const struct code_value *v)
{
	flame_append_number(f, depth);
	flame_append_number(f, name);
	flame_append_number(f, (f->diff ? value_slow_ns(&f->values.whole, v) : v->sampled + v->waited) / 1000);
	if (!f->diff)
		return;
	flame_append_number(f, value_usual_ns(&f->values.whole, v) / 1000);
	flame_append_number(f, value_deviation_ns(&f->values.whole, v) / 1000);
}

/* A node, then its calls. The depth is at most STACK_DEPTH_MAX. */
static void append_calls(struct flame *f, uint32_t node, uint32_t depth)
{
	struct code_value small = { 0 };
	bool any = false;

	append_node(f, depth, name_index(f, f->page->m->code.nodes[node].function), &f->values.of[node]);
	for (uint32_t i = f->first[node]; i; i = f->next[i]) {
		if (node_size(f, i) > f->least) {
			append_calls(f, i, depth + 1);
			continue;
		}
		value_add(&small, &f->values.of[i]);
		any = true;
	}
	if (any)
		append_node(f, depth + 1, SMALL, &small);
}

/* Writes the nodes of the table or the diff as a list of numbers. */
static void flame_fill(struct flame *f)
{
	const struct model *m = f->page->m;

	f->first = xcalloc(m->code.n_nodes, sizeof(*f->first));
	f->next = xcalloc(m->code.n_nodes, sizeof(*f->next));
	f->values = values_new(m);
	if (f->table)
		add_table(f->p, f->table, &f->values);
	else
		add_diff(f->p, &(struct code_diff){ .phase = f->diff->phase, .state = f->diff->state }, &f->values);
	drop_lines(&f->values);
	values_total(&f->values);
	link_calls(f);
	append_calls(f, CODE_ROOT, 0);
	free(f->first);
	free(f->next);
	values_free(&f->values);
}

void json_put_flames(const struct page *page, struct json_object *o, const struct process *p, const struct code_summary *c)
{
	struct flame f = { .page = page, .p = p };
	struct json_object *graphs, *one;

	if (!c->n_tables)
		return;
	o = json_put_object(o, "flames");
	f.names = json_put_array(o, "names");
	graphs = json_put_array(o, "graphs");
	f.name_of = xcalloc(page->m->code.n_functions, sizeof(*f.name_of));
	for (size_t i = 0; i < least_of(c->n_diffs + c->n_tables, FLAMES_MAX); i++) {
		const struct code_diff *diff = f.diff = i < c->n_diffs ? &c->diffs[i] : NULL;
		const struct code_table *table = f.table = diff ? NULL : &c->tables[i - c->n_diffs];
		uint8_t state = diff ? diff->state : table->state;
		const char *kind = diff ? "slow" : "sample";

		one = json_put_object(graphs, NULL);
		json_put_name(page, one, "phase", diff ? diff->phase : table->phase);
		json_put_text(one, "state", state == STATES ? NULL : words_state(state));
		json_put_text(one, "kind", table && table->wait ? "wait" : kind);
		json_put_u64(one, "count", diff ? diff->samples + diff->waits : table->samples);
		if (diff)
			json_put_u64(one, "steps", diff->steps);
		f.list = json_put_array(one, "nodes");
		flame_fill(&f);
	}
	free(f.name_of);
}
