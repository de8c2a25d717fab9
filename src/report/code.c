// SPDX-License-Identifier: BSD-2-Clause
#include "report/code.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "report/code_inner.h"
#include "report/waker_code.h"

/* More than any engine has: the rest is not in tables. */
#define TABLES_MAX 512
/* Lines of one function. */
#define LINES_MAX 64

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
	size_t n = m->code.n_nodes + 1;

	/* of which only what is used takes memory */
	ret->of = calloc(n, sizeof(*ret->of));
	ret->has = calloc(n, sizeof(*ret->has));
	ret->nodes = malloc(n * sizeof(*ret->nodes));
	ret->n = 0;
	return ret->of && ret->has && ret->nodes ? 0 : -ENOMEM;
}

void code_values_free(struct code_values *v)
{
	free(v->of);
	free(v->has);
	free(v->nodes);
	memset(v, 0, sizeof(*v));
}

struct code_value *code_values_at(const struct model *m, struct code_values *v, uint32_t node)
{
	for (uint32_t i = node; !v->has[i]; i = m->code.nodes[i].parent) {
		v->has[i] = true;
		v->nodes[v->n++] = i;
	}
	return &v->of[node];
}

static int compare_numbers(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

void code_values_sort(struct code_values *v)
{
	if (v->n)
		qsort(v->nodes, v->n, sizeof(*v->nodes), compare_numbers);
}

void code_values_total(const struct model *m, struct code_values *v)
{
	for (size_t k = v->n; k-- > 1;)
		code_value_add(&v->of[m->code.nodes[v->nodes[k]].parent], &v->of[v->nodes[k]]);
}

void function_times_free(struct function_times *t)
{
	free(t->of);
	free(t->list);
	memset(t, 0, sizeof(*t));
}

static struct function_time *time_of(struct function_times *t, uint32_t function)
{
	if (!t->of[function].listed)
		t->list[t->n++] = function;
	t->of[function].listed = true;
	return &t->of[function];
}

int code_times(const struct model *m, struct code_values *v, struct function_times *ret)
{
	const struct code_node *nodes = m->code.nodes;
	struct function_time *f;

	ret->of = calloc(m->code.n_functions + 1, sizeof(*ret->of));
	ret->list = malloc((m->code.n_functions + 1) * sizeof(*ret->list));
	ret->n = 0;
	if (!ret->of || !ret->list)
		return -ENOMEM;
	/* without the root, which is the first */
	for (size_t k = 1; k < v->n; k++) {
		uint32_t i = v->nodes[k];

		code_value_add(&time_of(ret, nodes[i].function)->self, &v->of[i]);
		code_value_add(&time_of(ret, nodes[i].held_by)->held, &v->of[i]);
	}
	code_values_total(m, v);
	for (size_t k = 1; k < v->n; k++) {
		const struct code_node *node = &nodes[v->nodes[k]];
		const struct code_value *value = &v->of[v->nodes[k]];

		if (!node->outermost)
			continue;
		f = time_of(ret, node->function);
		code_value_add(&f->total, value);
		f->depth += (value->sampled + value->waited) * node->depth;
	}
	for (size_t k = 0; k < ret->n; k++) {
		f = &ret->of[ret->list[k]];
		if (f->depth > 0)
			f->depth /= f->total.sampled + f->total.waited;
	}
	if (ret->n)
		qsort(ret->list, ret->n, sizeof(*ret->list), compare_numbers);
	return 0;
}

/* The lines in which one function was. */
struct lines {
	struct {
		uint32_t line;
		double ns;
	} of[LINES_MAX];
	size_t n;
};

static void lines_add(struct lines *l, uint32_t line, double ns)
{
	size_t i = 0;

	while (i < l->n && l->of[i].line != line)
		i++;
	if (i == LINES_MAX)
		return;
	if (i == l->n) {
		l->of[l->n].line = line;
		l->of[l->n++].ns = 0;
	}
	l->of[i].ns += ns;
}

uint32_t code_line(const struct model *m, const struct code_values *totals, uint32_t function)
{
	struct lines lines = { .n = 0 };
	uint32_t line = 0;
	double most = 0;

	if (m->code.functions[function].kind != CODE_PYTHON)
		return 0;
	for (size_t k = 0; k < totals->n; k++) {
		const struct code_node *node = &m->code.nodes[totals->nodes[k]];
		const struct code_value *v = &totals->of[totals->nodes[k]];

		if (node->function == function && node->line)
			lines_add(&lines, node->line, v->sampled + v->waited - v->usual - v->usual_waited);
	}
	for (size_t i = 0; i < lines.n; i++) {
		if (lines.of[i].ns <= most)
			continue;
		most = lines.of[i].ns;
		line = lines.of[i].line;
	}
	return line;
}

void code_rows_add(struct code_row rows[CODE_ROWS_MAX], double keys[CODE_ROWS_MAX], size_t *n, const struct code_row *row,
	double key)
{
	size_t at = *n;

	if (key <= 0)
		return;
	while (at > 0 && keys[at - 1] < key) {
		at--;
		if (at + 1 < CODE_ROWS_MAX) {
			rows[at + 1] = rows[at];
			keys[at + 1] = keys[at];
		}
	}
	if (at == CODE_ROWS_MAX)
		return;
	rows[at] = *row;
	keys[at] = key;
	*n += *n < CODE_ROWS_MAX;
}

void code_add_table(const struct model *m, const struct process *p, const struct code_table *table, struct code_values *v)
{
	for (size_t i = 0; i < p->stacks.n_sums; i++) {
		const struct stack_sum *sum = &p->stacks.sums[i];
		struct code_value *value;

		if (sum->phase != table->phase || sum->wait != table->wait ||
			(table->state != STATES && table->state != sum->state))
			continue;
		value = code_values_at(m, v, sum->node);
		if (sum->wait) {
			value->waited += (double)sum->ns;
		} else {
			value->sampled += (double)sum->ns;
			value->count += (double)sum->samples;
		}
	}
	code_values_sort(v);
}

static int add_to_table(struct code_summary *c, const struct stack_sum *sum, uint8_t state)
{
	struct code_table *table = NULL;
	size_t i = 0;

	for (; i < c->n_tables && !table; i++) {
		if (c->tables[i].phase == sum->phase && c->tables[i].state == state && c->tables[i].wait == sum->wait)
			table = &c->tables[i];
	}
	if (!table) {
		if (c->n_tables == TABLES_MAX)
			return 0;
		if (array_reserve(&c->tables, c->n_tables + 1, &c->tables_size, sizeof(*c->tables)))
			return -ENOMEM;
		table = &c->tables[c->n_tables++];
		memset(table, 0, sizeof(*table));
		table->phase = sum->phase;
		table->state = state;
		table->wait = sum->wait;
	}
	table->ns = ns_add(table->ns, sum->ns);
	table->samples += sum->samples;
	return 0;
}

static void find_waker(const struct process *p, const struct code_table *table, struct code_row *row)
{
	const struct waker_sum *w = waker_code_find(&p->stacks, table->phase, table->state, row->function);

	if (!w)
		return;
	row->by = w->by;
	row->thread = w->thread;
	row->ended = w->ns;
}

static int fill_table(const struct model *m, const struct process *p, struct code_table *table)
{
	struct function_times times = { 0 };
	struct code_values values = { 0 };
	double keys[CODE_ROWS_MAX];
	int err;

	err = code_values_new(m, &values);
	if (!err) {
		code_add_table(m, p, table, &values);
		err = code_times(m, &values, &times);
	}
	for (size_t i = 0; !err && i < times.n; i++) {
		const struct function_time *f = &times.of[times.list[i]];
		struct code_row row = {
			.function = times.list[i],
			.held = f->held.sampled + f->held.waited,
			.self = f->self.sampled + f->self.waited,
			.total = f->total.sampled + f->total.waited,
		};

		code_rows_add(table->rows, keys, &table->n_rows, &row, table->wait ? row.held : row.self);
	}
	for (size_t i = 0; i < table->n_rows; i++) {
		table->rows[i].line = code_line(m, &values, table->rows[i].function);
		if (table->wait)
			find_waker(p, table, &table->rows[i]);
	}
	function_times_free(&times);
	code_values_free(&values);
	return err;
}

static int compare_tables(const void *a, const void *b)
{
	const struct code_table *x = a, *y = b;

	if (x->wait != y->wait)
		return x->wait ? 1 : -1;
	if ((x->state == STATES) != (y->state == STATES))
		return x->state == STATES ? -1 : 1;
	if (x->ns != y->ns)
		return x->ns < y->ns ? 1 : -1;
	if (x->phase != y->phase)
		return x->phase < y->phase ? -1 : 1;
	return x->state < y->state ? -1 : x->state > y->state;
}

int code_summary_make(
	const struct model *m, struct process *p, const struct slow_step *slow, size_t n_slow, struct code_summary *ret)
{
	int err = 0;

	memset(ret, 0, sizeof(*ret));
	if (!p->stacks.n_sums)
		return 0;
	for (size_t i = 0; !err && i < p->stacks.n_sums; i++) {
		const struct stack_sum *sum = &p->stacks.sums[i];

		err = sum->wait ? 0 : add_to_table(ret, sum, STATES);
		if (!err)
			err = add_to_table(ret, sum, sum->state);
	}
	if (!err)
		qsort(ret->tables, ret->n_tables, sizeof(*ret->tables), compare_tables);
	for (size_t i = 0; !err && i < ret->n_tables; i++)
		err = fill_table(m, p, &ret->tables[i]);
	return err ? err : code_diffs_make(m, p, slow, n_slow, ret);
}

void code_summary_free(struct code_summary *c)
{
	free(c->tables);
	free(c->diffs);
	memset(c, 0, sizeof(*c));
}
