// SPDX-License-Identifier: BSD-2-Clause
/* The functions in which threads ran and waited: on a terminal, as JSON, and as the trees that the page draws. */
#include <math.h>
#include <string.h>

#include "report/output.h"

#define ROWS_SHOWN 10
#define WAIT_ROWS_SHOWN 3
#define DIFF_ROWS_SHOWN 5
#define NAME_WIDTH 46
/* Functions with a smaller share are left out. */
#define LEAST_SHARE 0.005

/* A flame graph has the nodes with the most time; the others are merged in one beside them. */
#define FLAME_NODES_MAX 1200
#define FLAME_LEAST_SHARE 0.0005
#define FLAMES_MAX 24
/* A call that is not drawn. */
#define SMALL (-1)

/* ---- on a terminal ---- */

/* Padded by characters, not bytes; what is longer takes its room. */
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

/* "woken by release (pool.py) of worker": whoever ended the most of it. */
static void put_waker(const struct page *page, const struct code_row *row)
{
	if (!row->by && !row->thread)
		return;
	page_put(page, "    woken by %s%s%s: %.0f %%\n", row->by ? FUNCTION(page->m, row->by, 0) : "",
		row->by && row->thread ? " of " : "", NAME(page->m, row->thread),
		row->held > 0 ? 100 * fmin(1, (double)row->ended / row->held) : 0);
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
			put_waker(page, row);
		}
	}
}

static void put_diff_row(const struct page *page, const struct code_row *row, bool sampled)
{
	put_function(page, row);
	page_put(page, "%10s", DURATION((int64_t)row->total));
	if (sampled)
		page_put(page, " %s %-8s", page->utf8 ? "±" : "+-", DURATION((int64_t)row->deviation));
	else
		page_put(page, "%11s", "");
	page_put(page, "%10s\n", DURATION((int64_t)row->held));
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

		if ((i || !diff->clear) && row->held <= CODE_SIGMAS * row->held_deviation)
			continue;
		if (!shown++)
			page_put(page, "%-*s%10s%11s%10s\n", NAME_WIDTH + 2, "", "more", "", "in itself");
		put_diff_row(page, row, diff->samples != 0);
		if (!i && diff->of.caller)
			page_put(page, "    called from %s\n", FUNCTION(page->m, diff->of.caller, diff->of.caller_line));
		if (!i && diff->of.user)
			page_put(page, "    for %s\n", FUNCTION(page->m, diff->of.user, diff->of.user_line));
	}
}

void page_code(const struct page *page, const struct code_summary *c)
{
	for (size_t i = 0; i < c->n_tables; i++) {
		uint32_t phase = c->tables[i].phase;
		size_t first = 0;

		while (c->tables[first].phase != phase)
			first++;
		for (size_t k = 0; k < c->n_tables && first == i; k++) {
			if (c->tables[k].phase == phase && c->tables[k].state == STATES)
				put_samples(page, &c->tables[k]);
		}
		if (first == i)
			put_waits(page, c, phase);
	}
	for (size_t i = 0; i < c->n_diffs; i++)
		put_diff(page, &c->diffs[i]);
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

static void put_code_function(struct json_build *b, struct json_object *o, const char *key, const char *line_key,
	uint32_t function, uint32_t line)
{
	if (function)
		json_put_text(b, o, key, model_text(b->m, b->m->code.functions[function].name));
	if (function && line)
		json_put_u64(b, o, line_key, line);
}

static void put_ns(struct json_build *b, struct json_object *o, const char *key, double ns)
{
	json_put_us(b, o, key, (int64_t)fmax(-9e18, fmin(9e18, ns)));
}

static void put_row(struct json_build *b, struct json_object *o, const struct code_row *row)
{
	static const char *const kinds[] = {
		[CODE_NATIVE] = "native",
		[CODE_PYTHON] = "python",
		[CODE_KERNEL] = "kernel",
		[CODE_SYSTEM] = "system",
		[CODE_UNKNOWN] = "unknown",
	};

	json_put_name(b, o, "function", b->m->code.functions[row->function].name);
	json_put_text(b, o, "kind", kinds[b->m->code.functions[row->function].kind]);
	if (row->line)
		json_put_u64(b, o, "line", row->line);
	put_ns(b, o, "held_us", row->held);
	put_ns(b, o, "total_us", row->total);
}

static void put_table(struct json_build *b, struct json_object *o, const struct code_table *table)
{
	struct json_object *waker;

	json_put_name(b, o, "phase", table->phase);
	json_put_text(b, o, "kind", table->wait ? "wait" : "sample");
	if (table->state != STATES)
		json_put_text(b, o, "state", words_state(table->state));
	json_put_u64(b, o, "count", table->samples);
	json_put_us(b, o, "total_us", table->ns);
	json_put_list (b, o, "functions", one, row, table->rows, table->n_rows) {
		put_row(b, one, row);
		put_ns(b, one, "self_us", row->self);
		if (!row->by && !row->thread)
			continue;
		waker = json_put_object(b, one, "woken_by");
		put_code_function(b, waker, "function", NULL, row->by, 0);
		json_put_name(b, waker, "thread", row->thread);
		json_put_us(b, waker, "total_us", row->ended);
	}
}

static void put_code_diff(struct json_build *b, struct json_object *o, const struct code_diff *diff)
{
	json_put_name(b, o, "phase", diff->phase);
	json_put_text(b, o, "state", words_state(diff->state));
	json_put_u64(b, o, "steps", diff->steps);
	json_put_us(b, o, "excess_us", diff->part);
	json_put_u64(b, o, "samples", diff->samples);
	json_put_double(b, o, "usual_samples", diff->usual);
	json_put_u64(b, o, "waits", diff->waits);
	json_put(b, o, "clear", json_object_new_boolean(diff->clear));
	json_put_list (b, o, "functions", one, row, diff->rows, diff->n_rows) {
		put_row(b, one, row);
		put_ns(b, one, "deviation_us", row->deviation);
		if (row != diff->rows)
			continue;
		put_code_function(b, one, "called_from", "called_from_line", diff->of.caller, diff->of.caller_line);
		put_code_function(b, one, "used_by", "used_by_line", diff->of.user, diff->of.user_line);
	}
}

void json_put_code(struct json_build *b, struct json_object *o, const struct code_summary *c)
{
	if (!c->n_tables)
		return;
	json_put_list (b, o, "code", one, table, c->tables, c->n_tables)
		put_table(b, one, table);
	json_put_list (b, o, "slow_code", one, diff, c->diffs, c->n_diffs)
		put_code_diff(b, one, diff);
}

void json_put_hot(struct json_build *b, struct json_object *o, const struct process *p, const struct slow_step *slow)
{
	struct json_object *v;
	struct code_hot hot;

	for (int second = 0; second < 2 && !b->failed; second++) {
		b->failed |= code_find_hot(b->m, p, slow, second, &hot) != 0;
		if (b->failed || !hot.of.function)
			continue;
		v = json_put_object(b, o, second ? "second_code" : "code");
		put_code_function(b, v, "function", "line", hot.of.function, hot.of.line);
		put_code_function(b, v, "called_from", "called_from_line", hot.of.caller, hot.of.caller_line);
		put_code_function(b, v, "used_by", "used_by_line", hot.of.user, hot.of.user_line);
		json_put_us(b, v, "us", hot.ns);
		if (!hot.samples)
			continue;
		json_put_u64(b, v, "samples", hot.samples);
		json_put_double(b, v, "usual_samples", hot.usual);
	}
}

void json_put_code_left_out(struct json_build *b, struct json_object *o)
{
	const struct code_tree *t = &b->m->code;
	struct json_object *v;

	if (!t->unknown && !t->cut_deep && !t->cut_nodes && !t->cut_rows)
		return;
	v = json_put_object(b, o, "stacks_left_out");
	json_put_u64(b, v, "unknown", t->unknown);
	json_put_u64(b, v, "too_deep", t->cut_deep);
	json_put_u64(b, v, "too_many", t->cut_nodes);
	json_put_u64(b, v, "not_compared", t->cut_rows);
}

/* ---- flame graphs ---- */

struct flame {
	struct json_build *b;
	const struct process *p;
	const struct code_table *table; /* or */
	const struct code_diff *diff;
	struct code_values values; /* totals, without lines */
	uint32_t *first, *next;    /* the calls of each node, by node: 0: none */
	double least;              /* nodes with less are not drawn */
	struct json_object *list;
	struct json_object *names;
	uint32_t *name_of; /* by function: 1 + its index among the names */
	uint32_t n_names;
};

static double node_size(const struct flame *f, uint32_t node)
{
	const struct code_value *v = &f->values.of[node];

	return f->diff ? code_slow(&f->values.whole, v) + code_usual(&f->values.whole, v) : v->sampled + v->waited;
}

/* Moves what is at nodes with lines to those without. */
static void drop_lines(struct code_values *v)
{
	for (size_t k = 0, n = v->n; k < n; k++) {
		uint32_t i = v->nodes[k], plain = v->m->code.nodes[i].plain;

		if (plain == i)
			continue;
		code_value_add(code_values_at(v, plain), &v->of[i]);
		memset(&v->of[i], 0, sizeof(v->of[i]));
	}
	code_values_sort(v);
}

static int compare_sizes(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return cmp_int(*y, *x);
}

/* A limit that leaves FLAME_NODES_MAX nodes, and links the calls of each node. */
static int link_calls(struct flame *f)
{
	double *sizes = malloc((f->values.n + 1) * sizeof(*sizes));
	size_t n = 0;

	if (!sizes)
		return -ENOMEM;
	f->least = FLAME_LEAST_SHARE * node_size(f, CODE_ROOT);
	for (size_t k = f->values.n; k-- > 1;) {
		uint32_t i = f->values.nodes[k], parent = f->b->m->code.nodes[i].parent;

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
	return 0;
}

static void append_number(struct flame *f, double v)
{
	json_put(f->b, f->list, NULL, json_object_new_int64(v > 9e15 ? (int64_t)9e15 : (int64_t)llround(v)));
}

static double name_index(struct flame *f, uint32_t function)
{
	const struct code_function *of = &f->b->m->code.functions[function];
	struct json_object *name;

	if (!f->name_of[function]) {
		name = json_put_array(f->b, f->names, NULL);
		json_put_text(f->b, name, NULL, model_text(f->b->m, of->name));
		json_put_u64(f->b, name, NULL, of->kind);
		f->name_of[function] = ++f->n_names;
	}
	return f->name_of[function] - 1;
}

/* depth, name, time in us; of a difference also what is usual and the deviation by chance */
static void append_node(struct flame *f, uint32_t depth, double name, const struct code_value *v)
{
	append_number(f, depth);
	append_number(f, name);
	append_number(f, (f->diff ? code_slow(&f->values.whole, v) : v->sampled + v->waited) / 1000);
	if (!f->diff)
		return;
	append_number(f, code_usual(&f->values.whole, v) / 1000);
	append_number(f, code_deviation(&f->values.whole, v) / 1000);
}

/* A node, then its calls. The depth is at most STACK_DEPTH_MAX. */
static void append_calls(struct flame *f, uint32_t node, uint32_t depth)
{
	struct code_value small = { 0 };
	bool any = false;

	append_node(f, depth, name_index(f, f->b->m->code.nodes[node].function), &f->values.of[node]);
	for (uint32_t i = f->first[node]; i; i = f->next[i]) {
		if (node_size(f, i) > f->least) {
			append_calls(f, i, depth + 1);
			continue;
		}
		code_value_add(&small, &f->values.of[i]);
		any = true;
	}
	if (any)
		append_node(f, depth + 1, SMALL, &small);
}

/* The nodes of the table or of the difference become a list of numbers. Returns 0 or -ENOMEM. */
static int flame_fill(struct flame *f)
{
	const struct model *m = f->b->m;
	int err;

	f->first = calloc(m->code.n_nodes + 1, sizeof(*f->first));
	f->next = calloc(m->code.n_nodes + 1, sizeof(*f->next));
	err = code_values_new(m, &f->values);
	if (!f->first || !f->next)
		err = -ENOMEM;
	else if (!err && f->table)
		code_add_table(f->p, f->table, &f->values);
	else if (!err)
		err = code_add_diff(f->p, f->diff, &f->values);
	if (!err) {
		drop_lines(&f->values);
		code_values_total(&f->values);
				err = link_calls(f);
	}
	if (!err)
		append_calls(f, CODE_ROOT, 0);
	free(f->first);
	free(f->next);
	code_values_free(&f->values);
	return err;
}

static void append_flame(struct flame *f, struct json_object *graphs)
{
	const struct code_table *table = f->table;
	uint8_t state = table ? table->state : f->diff->state;
	const char *kind = table && table->wait ? "wait" : "sample";
	struct json_object *o;

	if (json_object_array_length(graphs) >= FLAMES_MAX)
		return;
	o = json_put_object(f->b, graphs, NULL);
	json_put_name(f->b, o, "phase", table ? table->phase : f->diff->phase);
	if (state != STATES)
		json_put_text(f->b, o, "state", words_state(state));
	json_put_text(f->b, o, "kind", table ? kind : "slow");
	json_put_u64(f->b, o, "count", table ? table->samples : f->diff->samples + f->diff->waits);
	if (!table)
		json_put_u64(f->b, o, "steps", f->diff->steps);
	f->list = json_put_array(f->b, o, "nodes");
	f->b->failed |= flame_fill(f) != 0;
}

void json_put_flames(struct json_build *b, struct json_object *o, const struct process *p, const struct code_summary *c)
{
	struct flame f = { .b = b, .p = p };
	struct json_object *graphs;

	if (!c->n_tables)
		return;
	o = json_put_object(b, o, "flames");
	f.names = json_put_array(b, o, "names");
	graphs = json_put_array(b, o, "graphs");
	f.name_of = calloc(b->m->code.n_functions + 1, sizeof(*f.name_of));
	b->failed |= !f.name_of;
	for (size_t i = 0; !b->failed && i < c->n_diffs + c->n_tables; i++) {
		f.diff = i < c->n_diffs ? &c->diffs[i] : NULL;
		f.table = f.diff ? NULL : &c->tables[i - c->n_diffs];
		append_flame(&f, graphs);
	}
	free(f.name_of);
}
