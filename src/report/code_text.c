// SPDX-License-Identifier: BSD-2-Clause
/* On a terminal: the functions in which threads ran and waited. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/code.h"
#include "report/output.h"
#include "report/words.h"
#include "util/text.h"

#define ROWS_SHOWN 10
#define WAIT_ROWS_SHOWN 3
#define DIFF_ROWS_SHOWN 5
#define NAME_WIDTH 46
/* Functions with a smaller share are left out. */
#define LEAST_SHARE 0.005

static const char *printable(char buf[64], const struct page *page, uint32_t name)
{
	return name ? text_printable(buf, 64, model_text(page->m, name)) : "";
}

/* Pads by characters, not bytes; what is longer takes its room. */
static void put_padded(const struct page *page, const char *text, int width)
{
	int columns = 0;

	for (const char *p = text; *p; p++)
		columns += ((unsigned char)*p & 0xc0) != 0x80;
	fprintf(page->out, "%s%*s", text, columns < width ? width - columns : 0, "");
}

static void put_function(const struct page *page, const struct code_row *row)
{
	char name[FUNCTION_MAX];

	fputs("  ", page->out);
	put_padded(page, words_function(page->m, row->function, row->line, name), NAME_WIDTH);
}

static void put_samples(const struct page *page, const struct code_table *table)
{
	char name[64], title[128];
	double all = (double)table->ns;

	if (table->phase)
		snprintf(title, sizeof(title), "Code of %s: %llu sample%s", printable(name, page, table->phase),
			(unsigned long long)table->samples, table->samples == 1 ? "" : "s");
	else
		snprintf(title, sizeof(title), "Code outside of steps: %llu sample%s",
			(unsigned long long)table->samples, table->samples == 1 ? "" : "s");
	fprintf(page->out, "\n%-*s%10s%10s\n", NAME_WIDTH + 2, title, "self", "total");
	for (size_t i = 0; i < table->n_rows && i < ROWS_SHOWN; i++) {
		const struct code_row *row = &table->rows[i];

		if (row->self < LEAST_SHARE * all)
			break;
		put_function(page, row);
		fprintf(page->out, "%8.2f %%%8.2f %% ", 100 * row->self / all, 100 * row->total / all);
		page_bar(page, row->self / all, PAGE_BAR / 2);
		fputc('\n', page->out);
	}
}

/* Where it was preempted says nothing about a thread. */
static bool wait_is_shown(const struct code_table *table)
{
	return table->wait && table->state != ST_RUNNABLE && table->state != ST_STOPPED;
}

/* "woken by release (pool.py) of worker": whoever ended the most of it. */
static void put_waker(const struct page *page, const struct code_row *row)
{
	char function[FUNCTION_MAX], name[64];

	if (!row->by && !row->thread)
		return;
	fputs("    woken by ", page->out);
	if (row->by)
		fputs(words_function(page->m, row->by, 0, function), page->out);
	if (row->thread)
		fprintf(page->out, "%s%s", row->by ? " of " : "", printable(name, page, row->thread));
	fprintf(page->out, ": %.0f %%\n", row->held > 0 ? 100 * fmin(1, (double)row->ended / row->held) : 0);
}

static void put_waits(const struct page *page, const struct code_summary *c, uint32_t phase)
{
	bool first = true;
	char name[64], d[DURATION_MAX];

	for (size_t i = 0; i < c->n_tables; i++) {
		const struct code_table *table = &c->tables[i];

		if (table->phase != phase || !wait_is_shown(table))
			continue;
		if (first && phase)
			fprintf(page->out, "\nWaits of %s\n", printable(name, page, phase));
		else if (first)
			fprintf(page->out, "\nWaits outside of steps\n");
		first = false;
		fprintf(page->out, "  %s: %llu, %s\n", words_state(table->state), (unsigned long long)table->samples,
			words_duration(d, table->ns));
		for (size_t k = 0; k < table->n_rows && k < WAIT_ROWS_SHOWN; k++) {
			const struct code_row *row = &table->rows[k];

			if (row->held < LEAST_SHARE * (double)table->ns)
				break;
			put_function(page, row);
			fprintf(page->out, "%8.2f %%%10s\n", 100 * row->held / (double)table->ns,
				words_duration(d, (int64_t)row->held));
			put_waker(page, row);
		}
	}
}

static void put_diff_row(const struct page *page, const struct code_row *row, bool sampled)
{
	char d[DURATION_MAX], d2[DURATION_MAX], d3[DURATION_MAX];

	put_function(page, row);
	fprintf(page->out, "%10s", words_duration(d, (int64_t)row->total));
	if (sampled)
		fprintf(page->out, " %s %-8s", page->utf8 ? "±" : "+-",
			words_duration(d2, (int64_t)row->deviation));
	else
		fprintf(page->out, "%11s", "");
	fprintf(page->out, "%10s\n", words_duration(d3, (int64_t)row->held));
}

static void put_diff(const struct page *page, const struct code_diff *diff)
{
	char name[64], d[DURATION_MAX], caller[FUNCTION_MAX];

	fprintf(page->out, "\nCode of slow%s%s steps: %llu took %s more in %s", diff->phase ? " " : "",
		printable(name, page, diff->phase), (unsigned long long)diff->steps, words_duration(d, diff->part),
		words_state(diff->state));
	if (diff->samples)
		fprintf(page->out, "; %llu sample%s, usually %.1f", (unsigned long long)diff->samples,
			diff->samples == 1 ? "" : "s", diff->usual);
	if (diff->waits)
		fprintf(page->out, "; %llu wait%s", (unsigned long long)diff->waits, diff->waits == 1 ? "" : "s");
	fputc('\n', page->out);
	if (!diff->clear)
		fprintf(page->out, "  %s\n",
			diff->samples ? "these samples do not show that one function holds most of it"
				      : "no function holds most of it");
	for (size_t i = 0, shown = 0; i < diff->n_rows && shown < DIFF_ROWS_SHOWN; i++) {
		const struct code_row *row = &diff->rows[i];

		if ((i || !diff->clear) && row->held <= CODE_SIGMAS * row->held_deviation)
			continue;
		if (!shown++)
			fprintf(page->out, "%-*s%10s%11s%10s\n", NAME_WIDTH + 2, "", "more", "", "in itself");
		put_diff_row(page, row, diff->samples != 0);
		if (!i && diff->caller)
			fprintf(page->out, "    called from %s\n",
				words_function(page->m, diff->caller, diff->caller_line, caller));
		if (!i && diff->user)
			fprintf(page->out, "    for %s\n", words_function(page->m, diff->user, diff->user_line, caller));
	}
}

static void put_phase(const struct page *page, const struct code_summary *c, uint32_t phase)
{
	for (size_t i = 0; i < c->n_tables; i++) {
		if (c->tables[i].phase == phase && c->tables[i].state == STATES)
			put_samples(page, &c->tables[i]);
	}
	put_waits(page, c, phase);
}

void page_code(const struct page *page, const struct code_summary *c)
{
	for (size_t i = 0; i < c->n_tables; i++) {
		bool first = true;

		for (size_t k = 0; k < i; k++)
			first &= c->tables[k].phase != c->tables[i].phase;
		if (first)
			put_phase(page, c, c->tables[i].phase);
	}
	for (size_t i = 0; i < c->n_diffs; i++)
		put_diff(page, &c->diffs[i]);
}

void page_code_left_out(const struct page *page)
{
	const struct code_tree *t = &page->m->code;

	if (t->unknown)
		fprintf(page->out, "Stacks: %llu lines have one that is not in the file\n", (unsigned long long)t->unknown);
	if (t->cut_deep)
		fprintf(page->out, "Stacks: of %llu that were deeper, only the innermost %d calls are told apart\n",
			(unsigned long long)t->cut_deep, STACK_DEPTH_MAX);
	if (t->cut_nodes)
		fprintf(page->out, "Stacks: %llu were too many, and are `[left out]`\n", (unsigned long long)t->cut_nodes);
	if (t->cut_rows)
		fprintf(page->out, "Stacks: %llu samples and waits behind the first %u lines with a step count for no slow step\n",
			(unsigned long long)t->cut_rows, STACK_ROWS_MAX);
}

/* ---- The functions in which threads ran and waited: as JSON, and as the trees that the page draws. ---- */

/* A flame graph has the nodes with the most time; the others are merged in one beside them. */
#define FLAME_NODES_MAX 1200
#define FLAME_LEAST_SHARE 0.0005
#define FLAMES_MAX 24
/* A call that is not drawn. */
#define SMALL (-1)

static const char *kind_name(uint8_t kind)
{
	static const char *const names[] = {
		[CODE_NATIVE] = "native",
		[CODE_PYTHON] = "python",
		[CODE_KERNEL] = "kernel",
		[CODE_SYSTEM] = "system",
		[CODE_UNKNOWN] = "unknown",
	};

	return names[kind];
}

static const char *function_text(const struct model *m, uint32_t function)
{
	return model_text(m, m->code.functions[function].name);
}

static void put_ns(struct json_build *b, struct json_object *o, const char *key, double ns)
{
	json_put_us(b, o, key, (int64_t)fmax(-9e18, fmin(9e18, ns)));
}

static struct json_object *row_object(struct json_build *b, const struct model *m, const struct code_row *row)
{
	struct json_object *o = json_new_object(b);

	json_put_text(b, o, "function", function_text(m, row->function));
	json_put_text(b, o, "kind", kind_name(m->code.functions[row->function].kind));
	if (row->line)
		json_put_u64(b, o, "line", row->line);
	put_ns(b, o, "held_us", row->held);
	put_ns(b, o, "total_us", row->total);
	return o;
}

static void json_put_waker(struct json_build *b, struct json_object *o, const struct model *m, const struct code_row *row)
{
	struct json_object *waker;

	if (!row->by && !row->thread)
		return;
	waker = json_new_object(b);
	if (row->by)
		json_put_text(b, waker, "function", function_text(m, row->by));
	if (row->thread)
		json_put_text(b, waker, "thread", model_text(m, row->thread));
	json_put_us(b, waker, "total_us", row->ended);
	json_put(b, o, "woken_by", waker);
}

static void json_put_phase(struct json_build *b, struct json_object *o, const struct model *m, uint32_t phase)
{
	if (phase)
		json_put_text(b, o, "phase", model_text(m, phase));
}

static struct json_object *table_object(struct json_build *b, const struct model *m, const struct code_table *table)
{
	struct json_object *o = json_new_object(b), *rows = json_new_array(b), *row;

	json_put_phase(b, o, m, table->phase);
	json_put_text(b, o, "kind", table->wait ? "wait" : "sample");
	if (table->state != STATES)
		json_put_text(b, o, "state", words_state(table->state));
	json_put_u64(b, o, "count", table->samples);
	json_put_us(b, o, "total_us", table->ns);
	for (size_t i = 0; i < table->n_rows; i++) {
		row = row_object(b, m, &table->rows[i]);
		put_ns(b, row, "self_us", table->rows[i].self);
		json_put_waker(b, row, m, &table->rows[i]);
		json_append(b, rows, row);
	}
	json_put(b, o, "functions", rows);
	return o;
}

static struct json_object *diff_object(struct json_build *b, const struct model *m, const struct code_diff *diff)
{
	struct json_object *o = json_new_object(b), *rows = json_new_array(b), *row;

	json_put_phase(b, o, m, diff->phase);
	json_put_text(b, o, "state", words_state(diff->state));
	json_put_u64(b, o, "steps", diff->steps);
	json_put_us(b, o, "excess_us", diff->part);
	json_put_u64(b, o, "samples", diff->samples);
	json_put_double(b, o, "usual_samples", diff->usual);
	json_put_u64(b, o, "waits", diff->waits);
	json_put(b, o, "clear", json_object_new_boolean(diff->clear));
	for (size_t i = 0; i < diff->n_rows; i++) {
		row = row_object(b, m, &diff->rows[i]);
		put_ns(b, row, "deviation_us", diff->rows[i].deviation);
		if (!i && diff->caller)
			json_put_text(b, row, "called_from", function_text(m, diff->caller));
		if (!i && diff->caller_line)
			json_put_u64(b, row, "called_from_line", diff->caller_line);
		if (!i && diff->user)
			json_put_text(b, row, "used_by", function_text(m, diff->user));
		if (!i && diff->user_line)
			json_put_u64(b, row, "used_by_line", diff->user_line);
		json_append(b, rows, row);
	}
	json_put(b, o, "functions", rows);
	return o;
}

void code_put(struct json_build *b, struct json_object *o, const struct model *m, const struct code_summary *c)
{
	struct json_object *array;

	if (!c->n_tables)
		return;
	array = json_new_array(b);
	for (size_t i = 0; i < c->n_tables; i++)
		json_append(b, array, table_object(b, m, &c->tables[i]));
	json_put(b, o, "code", array);
	array = json_new_array(b);
	for (size_t i = 0; i < c->n_diffs; i++)
		json_append(b, array, diff_object(b, m, &c->diffs[i]));
	json_put(b, o, "slow_code", array);
}

static int put_hot(struct json_build *b, struct json_object *o, const struct model *m, const struct process *p,
	const struct slow_step *slow, bool second)
{
	struct json_object *v;
	struct code_hot hot;
	int err;

	err = code_find_hot(m, p, slow, second, &hot);
	if (err || !hot.function)
		return err;
	v = json_new_object(b);
	json_put_text(b, v, "function", function_text(m, hot.function));
	if (hot.line)
		json_put_u64(b, v, "line", hot.line);
	if (hot.caller)
		json_put_text(b, v, "called_from", function_text(m, hot.caller));
	if (hot.caller_line)
		json_put_u64(b, v, "called_from_line", hot.caller_line);
	if (hot.user)
		json_put_text(b, v, "used_by", function_text(m, hot.user));
	if (hot.user_line)
		json_put_u64(b, v, "used_by_line", hot.user_line);
	json_put_us(b, v, "us", hot.ns);
	if (hot.samples) {
		json_put_u64(b, v, "samples", hot.samples);
		json_put_double(b, v, "usual_samples", hot.usual);
	}
	json_put(b, o, second ? "second_code" : "code", v);
	return 0;
}

int code_put_hot(struct json_build *b, struct json_object *o, const struct model *m, const struct process *p,
	const struct slow_step *slow)
{
	int err = put_hot(b, o, m, p, slow, false);

	return err ?: put_hot(b, o, m, p, slow, true);
}

void code_put_left_out(struct json_build *b, struct json_object *o, const struct model *m)
{
	const struct code_tree *t = &m->code;
	struct json_object *v;

	if (!t->unknown && !t->cut_deep && !t->cut_nodes && !t->cut_rows)
		return;
	v = json_new_object(b);
	json_put_u64(b, v, "unknown", t->unknown);
	json_put_u64(b, v, "too_deep", t->cut_deep);
	json_put_u64(b, v, "too_many", t->cut_nodes);
	json_put_u64(b, v, "not_compared", t->cut_rows);
	json_put(b, o, "stacks_left_out", v);
}

/* ---- flame graphs ---- */

struct flame {
	struct json_build *b;
	const struct model *m;
	struct code_values values; /* totals, without lines */
	struct code_whole whole;   /* of a difference */
	uint32_t *first, *next;    /* the calls of each node, by node: 0: none */
	double least;              /* nodes with less are not drawn */
	bool diff;
	struct json_object *list;
	struct json_object *names;
	uint32_t *name_of; /* by function: 1 + its index among the names */
	uint32_t n_names;
};

static double node_slow(const struct flame *f, uint32_t node)
{
	const struct code_value *v = &f->values.of[node];

	return f->diff ? code_slow(&f->whole, v) : v->sampled + v->waited;
}

static double node_usual(const struct flame *f, uint32_t node)
{
	return f->diff ? code_usual(&f->whole, &f->values.of[node]) : 0;
}

static double node_size(const struct flame *f, uint32_t node)
{
	return node_slow(f, node) + node_usual(f, node);
}

/* Moves what is at nodes with lines to those without. */
static void drop_lines(const struct model *m, struct code_values *v)
{
	for (size_t k = 0, n = v->n; k < n; k++) {
		uint32_t i = v->nodes[k], plain = m->code.nodes[i].plain;

		if (plain == i)
			continue;
		code_value_add(code_values_at(m, v, plain), &v->of[i]);
		memset(&v->of[i], 0, sizeof(v->of[i]));
	}
	code_values_sort(v);
}

static int compare_sizes(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x < *y) - (*x > *y);
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
		uint32_t i = f->values.nodes[k], parent = f->m->code.nodes[i].parent;

		if (node_size(f, i) <= 0)
			continue;
		f->next[i] = f->first[parent];
		f->first[parent] = i;
		sizes[n++] = node_size(f, i);
	}
	if (n > FLAME_NODES_MAX) {
		list_sort(sizes, n, compare_sizes);
		if (sizes[FLAME_NODES_MAX] > f->least)
			f->least = sizes[FLAME_NODES_MAX];
	}
	free(sizes);
	return 0;
}

static void append_number(struct flame *f, double v)
{
	json_append(f->b, f->list, json_object_new_int64(v > 9e15 ? (int64_t)9e15 : (int64_t)llround(v)));
}

static int64_t name_index(struct flame *f, uint32_t function)
{
	struct json_object *name;

	if (!f->name_of[function]) {
		name = json_new_array(f->b);
		json_append(f->b, name, json_object_new_string(function_text(f->m, function)));
		json_append(f->b, name, json_object_new_int(f->m->code.functions[function].kind));
		json_append(f->b, f->names, name);
		f->name_of[function] = ++f->n_names;
	}
	return f->name_of[function] - 1;
}

/* depth, name, time in us; of a difference also what is usual and the deviation by chance */
static void append_node(struct flame *f, uint32_t depth, int64_t name, const struct code_value *v)
{
	append_number(f, depth);
	json_append(f->b, f->list, json_object_new_int64(name));
	if (!f->diff) {
		append_number(f, (v->sampled + v->waited) / 1000);
		return;
	}
	append_number(f, code_slow(&f->whole, v) / 1000);
	append_number(f, code_usual(&f->whole, v) / 1000);
	append_number(f, code_deviation(&f->whole, v) / 1000);
}

/* A node, then its calls. The depth is at most STACK_DEPTH_MAX. */
static void append_calls(struct flame *f, uint32_t node, uint32_t depth)
{
	struct code_value small = { 0 };
	bool any = false;

	append_node(f, depth, name_index(f, f->m->code.nodes[node].function), &f->values.of[node]);
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

/* The nodes of a table or of a difference become a list of numbers. Returns 0 or -ENOMEM. */
static int flame_fill(struct flame *f, const struct process *p, const struct code_table *table, const struct code_diff *diff)
{
	int err;

	f->first = calloc(f->m->code.n_nodes + 1, sizeof(*f->first));
	f->next = calloc(f->m->code.n_nodes + 1, sizeof(*f->next));
	f->whole = (struct code_whole){ 0 };
	err = code_values_new(f->m, &f->values);
	if (!f->first || !f->next)
		err = -ENOMEM;
	else if (!err && table)
		code_add_table(f->m, p, table, &f->values);
	else if (!err)
		err = code_add_diff(f->m, p, diff, &f->values, &f->whole);
	if (!err) {
		drop_lines(f->m, &f->values);
		code_values_total(f->m, &f->values);
		f->whole.all = f->values.of[CODE_ROOT];
		err = link_calls(f);
	}
	if (!err)
		append_calls(f, CODE_ROOT, 0);
	free(f->first);
	free(f->next);
	code_values_free(&f->values);
	return err;
}

static void append_flame(struct flame *f, struct json_object *graphs, const struct process *p,
	const struct code_table *table, const struct code_diff *diff)
{
	struct json_object *o;
	uint8_t state = table ? table->state : diff->state;

	if (json_object_array_length(graphs) >= FLAMES_MAX)
		return;
	o = json_new_object(f->b);
	f->list = json_new_array(f->b);
	f->diff = !table;
	json_put_phase(f->b, o, f->m, table ? table->phase : diff->phase);
	if (state != STATES)
		json_put_text(f->b, o, "state", words_state(state));
	if (table)
		json_put_text(f->b, o, "kind", table->wait ? "wait" : "sample");
	else
		json_put_text(f->b, o, "kind", "slow");
	json_put_u64(f->b, o, "count", table ? table->samples : diff->samples + diff->waits);
	if (diff)
		json_put_u64(f->b, o, "steps", diff->steps);
	f->b->failed |= flame_fill(f, p, table, diff) != 0;
	json_put(f->b, o, "nodes", f->list);
	json_append(f->b, graphs, o);
}

struct json_object *code_flames(
	struct json_build *b, const struct model *m, const struct process *p, const struct summary *sum)
{
	struct flame f = { .b = b, .m = m };
	struct json_object *o, *graphs;

	if (!sum->code.n_tables)
		return NULL;
	o = json_new_object(b);
	graphs = json_new_array(b);
	f.names = json_new_array(b);
	f.name_of = calloc(m->code.n_functions + 1, sizeof(*f.name_of));
	b->failed |= !f.name_of;
	for (size_t i = 0; !b->failed && i < sum->code.n_diffs; i++)
		append_flame(&f, graphs, p, NULL, &sum->code.diffs[i]);
	for (size_t i = 0; !b->failed && i < sum->code.n_tables; i++)
		append_flame(&f, graphs, p, &sum->code.tables[i], NULL);
	free(f.name_of);
	json_put(b, o, "names", f.names);
	json_put(b, o, "graphs", graphs);
	return o;
}
