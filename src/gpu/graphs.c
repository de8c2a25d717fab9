// SPDX-License-Identifier: BSD-2-Clause
#include "gpu/join.h"

#include <stdlib.h>

#include "util/list.h"

struct graph_call {
	struct launch l;
	uint32_t op; /* operator; 0: none was seen */
};

struct graph_capture {
	uint32_t number;
	bool ended;
	uint64_t from_ns, to_ns;
	struct graph_call *calls; /* sorted by start */
	size_t n, cap;
};

struct node {
	uint64_t number;
	uint32_t position, op; /* position: from 1 on */
	/* as of the launch that gave its position */
	uint32_t activity, grid[3], block[3];
	uint64_t bytes;
};

struct graph {
	uint32_t number, correlation; /* of its last launch */
	uint64_t used;
	bool learning;      /* more nodes of its first launch may come */
	struct node *nodes; /* sorted by number */
	size_t n, cap;
};

struct gpu_graphs {
	struct graph_capture captures[GRAPHS_CAPTURES_MAX]; /* oldest first */
	size_t n_captures, n_calls;
	uint64_t to_ns; /* latest end of a captured call */
	struct graph graphs[GRAPHS_MAX];
	size_t n_graphs, n_nodes;
	uint64_t uses;
};

struct gpu_graphs *gpu_graphs_new(void)
{
	return xcalloc(1, sizeof(struct gpu_graphs));
}

void gpu_graphs_free(struct gpu_graphs *g)
{
	if (!g)
		return;
	for (size_t i = 0; i < g->n_captures; i++)
		free(g->captures[i].calls);
	for (size_t i = 0; i < g->n_graphs; i++)
		free(g->graphs[i].nodes);
	free(g);
}

/* ---- captures ---- */

static void drop_oldest_capture(struct gpu_graphs *g)
{
	g->n_calls -= g->captures[0].n;
	free(g->captures[0].calls);
	memmove(g->captures, g->captures + 1, --g->n_captures * sizeof(*g->captures));
}

static struct graph_capture *get_capture(struct gpu_graphs *g, uint32_t number)
{
	for (size_t i = g->n_captures; i-- > 0;) {
		if (g->captures[i].number == number)
			return &g->captures[i];
	}
	if (g->n_captures == GRAPHS_CAPTURES_MAX)
		drop_oldest_capture(g);
	g->captures[g->n_captures] = (struct graph_capture){ .number = number, .to_ns = UINT64_MAX };
	return &g->captures[g->n_captures++];
}

void gpu_graphs_captured(struct gpu_graphs *g, uint32_t number, const struct launch *l)
{
	struct graph_capture *c;
	size_t i;

	while (g->n_calls >= GRAPHS_CAPTURED_MAX)
		drop_oldest_capture(g);
	c = get_capture(g, number);
	for (i = c->n; i && c->calls[i - 1].l.start_ns > l->start_ns; i--)
		;
	/* an inner call replaces the outer one */
	if (i && launch_is_within(l, &c->calls[i - 1].l)) {
		c->calls[i - 1].l = *l;
		return;
	}
	list_push(c->calls, c->n, c->cap);
	memmove(c->calls + i + 1, c->calls + i, (c->n - 1 - i) * sizeof(*c->calls));
	c->calls[i] = (struct graph_call){ .l = *l };
	g->n_calls++;
	c->from_ns = c->calls[0].l.start_ns;
	if (l->end_ns > g->to_ns)
		g->to_ns = l->end_ns;
}

void gpu_graphs_capture_ended(struct gpu_graphs *g, uint32_t number, uint64_t ns)
{
	struct graph_capture *c = get_capture(g, number);

	while (c->n && c->calls[c->n - 1].l.start_ns >= ns) {
		c->n--;
		g->n_calls--;
	}
	c->to_ns = ns;
	c->ended = true;
}

/* Returns the index of the first call that began then or later. */
static size_t capture_find_call(const struct graph_capture *c, uint64_t ns)
{
	return bisect(c->n, k, c->calls[k].l.start_ns < ns);
}

bool gpu_graphs_has_captured(const struct gpu_graphs *g, uint32_t tid, uint64_t start_ns, uint64_t end_ns)
{
	if (start_ns > g->to_ns)
		return false;
	for (size_t i = g->n_captures; i-- > 0;) {
		const struct graph_capture *c = &g->captures[i];

		if (c->from_ns > end_ns || c->to_ns < start_ns)
			continue;
		for (size_t k = capture_find_call(c, start_ns); k < c->n && c->calls[k].l.start_ns <= end_ns; k++) {
			if (c->calls[k].l.tid == tid && !c->calls[k].op)
				return true;
		}
	}
	return false;
}

void gpu_graphs_operator(struct gpu_graphs *g, uint32_t tid, uint64_t start_ns, uint64_t end_ns, uint32_t op)
{
	for (size_t i = g->n_captures; i-- > 0;) {
		struct graph_capture *c = &g->captures[i];

		for (size_t k = capture_find_call(c, start_ns); k < c->n && c->calls[k].l.start_ns <= end_ns; k++) {
			if (c->calls[k].l.tid == tid && !c->calls[k].op)
				c->calls[k].op = op;
		}
	}
}

/* ---- graphs ---- */

static void drop_least_used_graph(struct gpu_graphs *g)
{
	struct graph *least = g->graphs;

	for (size_t i = 1; i < g->n_graphs; i++) {
		if (g->graphs[i].used < least->used)
			least = &g->graphs[i];
	}
	g->n_nodes -= least->n;
	free(least->nodes);
	*least = g->graphs[--g->n_graphs];
}

static struct graph *get_graph(struct gpu_graphs *g, uint32_t number)
{
	for (size_t i = 0; i < g->n_graphs; i++) {
		if (g->graphs[i].number == number)
			return &g->graphs[i];
	}
	while (g->n_graphs == GRAPHS_MAX || (g->n_graphs && g->n_nodes >= GRAPHS_NODES_MAX))
		drop_least_used_graph(g);
	g->graphs[g->n_graphs] = (struct graph){ .number = number };
	return &g->graphs[g->n_graphs++];
}

static void forget_nodes(struct gpu_graphs *g, struct graph *of)
{
	g->n_nodes -= of->n;
	of->n = 0;
	of->learning = false;
}

static int node_compare_numbers(const void *a, const void *b)
{
	const struct node *x = a, *y = b;

	return (x->number > y->number) - (x->number < y->number);
}

static int node_compare_positions(const void *a, const void *b)
{
	const struct node *x = a, *y = b;

	return (x->position > y->position) - (x->position < y->position);
}

static bool capture_fits_graph(const struct graph_capture *c, const struct graph *of)
{
	if (!c->ended || c->n != of->n)
		return false;
	for (size_t i = 0; i < c->n; i++) {
		const struct node *n = &of->nodes[i];

		if (!launch_fits(&c->calls[i].l, n->activity == GPU_KERNEL, n->grid, n->block, n->bytes))
			return false;
	}
	return true;
}

/* Gives the nodes, in their current order, the operators of the matching captures, 0 where these differ. Returns whether any match. */
static bool take_operators(const struct gpu_graphs *g, struct graph *of, uint64_t before_ns)
{
	bool any = false;

	for (size_t i = g->n_captures; i-- > 0;) {
		const struct graph_capture *c = &g->captures[i];

		if (c->to_ns > before_ns || !capture_fits_graph(c, of))
			continue;
		for (size_t k = 0; k < of->n; k++) {
			if (!any)
				of->nodes[k].op = c->calls[k].op;
			else if (of->nodes[k].op != c->calls[k].op)
				of->nodes[k].op = 0;
		}
		any = true;
	}
	return any;
}

/* The capture order is that of the first launch, or, with parallel branches, that of the node numbers. */
static void graph_match_captures(const struct gpu_graphs *g, struct graph *of, uint64_t launch_ns)
{
	for (size_t i = 0; i < of->n; i++)
		of->nodes[i].op = 0;
	qsort(of->nodes, of->n, sizeof(*of->nodes), node_compare_positions);
	if (take_operators(g, of, launch_ns)) {
		qsort(of->nodes, of->n, sizeof(*of->nodes), node_compare_numbers);
		return;
	}
	qsort(of->nodes, of->n, sizeof(*of->nodes), node_compare_numbers);
	if (!take_operators(g, of, launch_ns))
		return;
	for (size_t i = 0; i < of->n; i++)
		of->nodes[i].position = (uint32_t)i + 1;
}

/* Returns false if the graph is too large, or has one node twice. */
static bool add_nodes(struct gpu_graphs *g, struct graph *of, const struct rec_gpu *list, size_t n)
{
	size_t before = of->n;

	if (of->n + n > GRAPHS_NODES_MAX / 2)
		return false;
	if (of->n + n > of->cap) {
		of->cap = of->n + n;
		of->nodes = xreallocarray(of->nodes, of->cap, sizeof(*of->nodes));
	}
	for (size_t i = 0; i < n; i++) {
		struct node *new = &of->nodes[before + i];

		*new = (struct node){
			.number = list[i].graph_node, .position = (uint32_t)(before + i + 1), .activity = list[i].h.id, .bytes = list[i].bytes
		};
		memcpy(new->grid, list[i].grid, sizeof(new->grid));
		memcpy(new->block, list[i].block, sizeof(new->block));
	}
	of->n += n;
	g->n_nodes += n;
	qsort(of->nodes, of->n, sizeof(*of->nodes), node_compare_numbers);
	for (size_t i = 1; i < of->n; i++) {
		if (of->nodes[i].number == of->nodes[i - 1].number)
			return false;
	}
	graph_match_captures(g, of, list[0].launch_ns);
	return true;
}

/* Sets the position and operator of each record; false: some have none, and none is set. */
static bool graph_place_records(const struct graph *of, struct rec_gpu *list, size_t n)
{
	const struct node *node = of->nodes, *end = of->nodes + of->n;

	for (size_t i = 0; i < n; i++, node++) {
		const struct node key = { .number = list[i].graph_node };

		/* numbers mostly increase with positions */
		if (node >= end || node->number != key.number)
			node = bsearch(&key, of->nodes, of->n, sizeof(key), node_compare_numbers);
		if (!node)
			break;
		list[i].graph_position = node->position;
		list[i].captured_in = node->op;
		if (i == n - 1)
			return true;
	}
	for (size_t i = 0; i < n; i++)
		list[i].graph_position = list[i].captured_in = 0;
	return false;
}

void gpu_graphs_launched(struct gpu_graphs *g, struct rec_gpu *list, size_t n)
{
	struct graph *of = get_graph(g, list[0].graph);
	bool is_new = !of->used || of->correlation != list[0].correlation;

	of->used = ++g->uses;
	of->correlation = list[0].correlation;
	if (is_new)
		of->learning = false;
	if ((of->n && !of->learning && graph_place_records(of, list, n)) || (!is_new && !of->learning))
		return;
	if (is_new) /* its nodes differ from those known */
		forget_nodes(g, of);
	/* without its launch call, the beginning of the graph may be missing */
	of->learning = list[0].launch_tid && add_nodes(g, of, list, n) && graph_place_records(of, list, n);
	if (!of->learning)
		forget_nodes(g, of);
}

void gpu_graphs_lost(struct gpu_graphs *g)
{
	for (size_t i = 0; i < g->n_graphs; i++) {
		if (g->graphs[i].learning)
			forget_nodes(g, &g->graphs[i]);
	}
}
