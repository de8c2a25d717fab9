// SPDX-License-Identifier: BSD-2-Clause
#include "report/code.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "report/code_inner.h"

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

void code_values_total(const struct model *m, struct code_value *values)
{
	for (size_t i = m->code.n_nodes; i-- > 1;)
		code_value_add(&values[m->code.nodes[i].parent], &values[i]);
}

int code_times(const struct model *m, struct code_value *values, struct function_time **ret_times)
{
	const struct code_tree *t = &m->code;
	struct function_time *times = calloc(t->n_functions + 1, sizeof(*times));

	if (!times)
		return -ENOMEM;
	for (size_t i = 1; i < t->n_nodes; i++) {
		code_value_add(&times[t->nodes[i].function].self, &values[i]);
		code_value_add(&times[t->nodes[i].held_by].held, &values[i]);
	}
	code_values_total(m, values);
	for (size_t i = 1; i < t->n_nodes; i++) {
		struct function_time *f = &times[t->nodes[i].function];

		if (!t->nodes[i].outermost)
			continue;
		code_value_add(&f->total, &values[i]);
		f->depth += (values[i].sampled + values[i].waited) * t->nodes[i].depth;
	}
	for (size_t i = 0; i < t->n_functions; i++) {
		double slow = times[i].total.sampled + times[i].total.waited;

		times[i].depth = slow > 0 ? times[i].depth / slow : 0;
	}
	*ret_times = times;
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

uint32_t code_line(const struct model *m, const struct code_value *totals, uint32_t function)
{
	struct lines lines = { .n = 0 };
	uint32_t line = 0;
	double most = 0;

	if (m->code.functions[function].kind != CODE_PYTHON)
		return 0;
	for (size_t i = 1; i < m->code.n_nodes; i++) {
		const struct code_node *node = &m->code.nodes[i];
		const struct code_value *v = &totals[i];

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

void code_add_table(const struct process *p, const struct code_table *table, struct code_value *values)
{
	for (size_t i = 0; i < p->stacks.n_sums; i++) {
		const struct stack_sum *sum = &p->stacks.sums[i];

		if (sum->phase != table->phase || sum->wait != table->wait ||
			(table->state != STATES && table->state != sum->state))
			continue;
		if (sum->wait) {
			values[sum->node].waited += (double)sum->ns;
		} else {
			values[sum->node].sampled += (double)sum->ns;
			values[sum->node].count += (double)sum->samples;
		}
	}
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

static int fill_table(const struct model *m, const struct process *p, struct code_table *table)
{
	struct code_value *values = calloc(m->code.n_nodes + 1, sizeof(*values));
	struct function_time *times = NULL;
	double keys[CODE_ROWS_MAX];
	int err = -ENOMEM;

	if (values) {
		code_add_table(p, table, values);
		err = code_times(m, values, &times);
	}
	for (uint32_t i = 1; !err && i < m->code.n_functions; i++) {
		const struct function_time *f = &times[i];
		struct code_row row = {
			.function = i,
			.held = f->held.sampled + f->held.waited,
			.self = f->self.sampled + f->self.waited,
			.total = f->total.sampled + f->total.waited,
		};

		code_rows_add(table->rows, keys, &table->n_rows, &row, table->wait ? row.held : row.self);
	}
	for (size_t i = 0; i < table->n_rows; i++)
		table->rows[i].line = code_line(m, values, table->rows[i].function);
	free(times);
	free(values);
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
