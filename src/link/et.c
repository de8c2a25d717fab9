// SPDX-License-Identifier: BSD-2-Clause
#include "link/et.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "read/trace.h"
#include "util/bisect.h"
#include "util/list_room.h"

#define ROOT_NAME "[pytorch|profiler|execution_trace|process]"
#define CYCLE_SHOWN 8

struct node {
	uint64_t id;
	uint32_t deps; /* how many have not been removed yet */
};

/* `from` needs `to` first. */
struct edge {
	uint64_t from, to;
};

struct et_reader {
	const struct link_file *kineto;
	struct et_check *check;
	struct node *nodes;
	struct edge *edges; /* by `to` */
	size_t n_nodes, nodes_size, n_edges, edges_size;
	char *why;
};

static int too_many(struct et_reader *r)
{
	snprintf(r->why, LINK_WHY_MAX, "more than %u nodes or dependencies", ET_NODES_MAX);
	return -E2BIG;
}

static int add_node(struct et_reader *r, uint64_t id)
{
	if (r->n_nodes == ET_NODES_MAX)
		return too_many(r);
	if (list_room((void **)&r->nodes, r->n_nodes, &r->nodes_size, sizeof(*r->nodes)))
		return -ENOMEM;
	r->nodes[r->n_nodes++] = (struct node){ .id = id };
	return 0;
}

static int add_edge(struct et_reader *r, uint64_t from, const struct json_node *to, bool is_root)
{
	if (!node_is(to, JSON_INT) || (is_root && node_u64(to) == from))
		return 0;
	if (r->n_edges == ET_NODES_MAX)
		return too_many(r);
	if (list_room((void **)&r->edges, r->n_edges, &r->edges_size, sizeof(*r->edges)))
		return -ENOMEM;
	r->edges[r->n_edges++] = (struct edge){ from, node_u64(to) };
	return 0;
}

/* PyTorch writes one number, the caller's; Chakra's own tools lists. */
static int add_edges(struct et_reader *r, uint64_t from, const struct json_node *deps, bool is_root)
{
	int err = 0;

	if (!node_is(deps, JSON_ARRAY))
		return add_edge(r, from, deps, is_root);
	json_for_each (to, deps) {
		err = add_edge(r, from, to, is_root);
		if (err)
			break;
	}
	return err;
}

/* The number by which Kineto knows the operator; 0: none. */
static uint64_t record_function(const struct json_node *node)
{
	const struct json_node *attrs = node_get(node, "attrs");
	const char *name;

	if (!node_is(attrs, JSON_ARRAY))
		return node_u64(node_get(node, "rf_id")); /* before schema 1.0.3 */
	json_for_each (attr, attrs) {
		name = node_string(node_get(attr, "name"));
		if (name && !strcmp(name, "rf_id"))
			return node_u64(node_get(attr, "value"));
	}
	return 0;
}

static void compare(struct et_reader *r, uint64_t number, const struct json_node *name)
{
	const struct numbered *theirs;

	if (!number)
		return;
	r->check->operators++;
	theirs = r->kineto ? numbereds_find(&r->kineto->operators, number) : NULL;
	if (!theirs)
		return;
	if (node_string(name) && theirs->name == name_hash(name->text, name->len))
		r->check->found++;
	else
		r->check->renamed++;
}

static int read_node(void *ctx, const struct trace_event *e)
{
	const struct json_node *id = node_get(e->value, "id"), *name = node_get(e->value, "name");
	struct et_reader *r = ctx;
	bool is_root;
	int err;

	if (!node_is(id, JSON_INT)) {
		snprintf(r->why, LINK_WHY_MAX, "line %llu: a node without an id", (unsigned long long)e->line);
		return -EBADMSG;
	}
	is_root = node_string(name) && !strcmp(name->text, ROOT_NAME);
	compare(r, record_function(e->value), name);
	err = add_node(r, node_u64(id));
	if (!err)
		err = add_edges(r, node_u64(id), node_get(e->value, "ctrl_deps"), is_root);
	return err ? err : add_edges(r, node_u64(id), node_get(e->value, "data_deps"), false);
}

static void reading_stopped(void *ctx, const struct trace_stop *stop)
{
	struct et_reader *r = ctx;

	if (r->why[0])
		return;
	if (stop->kind == TRACE_NO_EVENTS)
		snprintf(r->why, LINK_WHY_MAX, "not an execution trace of PyTorch: it has no nodes");
	else
		snprintf(r->why, LINK_WHY_MAX, "line %llu: %s", (unsigned long long)stop->line, stop->why);
}

/* ---- cycles ---- */

static int compare_nodes(const void *x, const void *y)
{
	const struct node *a = x, *b = y;

	return a->id < b->id ? -1 : a->id > b->id;
}

static int compare_edges(const void *x, const void *y)
{
	const struct edge *a = x, *b = y;

	return a->to < b->to ? -1 : a->to > b->to;
}

static struct node *find_node(const struct et_reader *r, uint64_t id)
{
	const struct node wanted = { .id = id };

	return r->n_nodes ? bsearch(&wanted, r->nodes, r->n_nodes, sizeof(wanted), compare_nodes) : NULL;
}

/* The first that depends on the node. */
static size_t edges_from(const struct et_reader *r, uint64_t to)
{
	return bisect(r->n_edges, k, r->edges[k].to < to);
}

static int compare_from(const void *x, const void *y)
{
	const struct edge *a = x, *b = y;

	return a->from < b->from ? -1 : a->from > b->from;
}

/* What is left of what the node needs. The edges are sorted by `from` by now. */
static const struct edge *left_edge(const struct et_reader *r, uint64_t from)
{
	size_t low = bisect(r->n_edges, k, r->edges[k].from < from);

	for (; low < r->n_edges && r->edges[low].from == from; low++) {
		const struct node *to = find_node(r, r->edges[low].to);

		if (to && to->deps)
			return &r->edges[low];
	}
	return NULL;
}

/* Follows what is left, which leads into a cycle, and then says what is in it. */
static void tell_cycle(struct et_reader *r, const struct node *left)
{
	size_t len = (size_t)snprintf(r->why, LINK_WHY_MAX, "its dependencies form a cycle: ");
	uint64_t at = left->id, first;
	const struct edge *e;

	qsort(r->edges, r->n_edges, sizeof(*r->edges), compare_from);
	for (size_t i = 0; i < r->n_nodes && (e = left_edge(r, at)); i++)
		at = e->to;
	first = at;
	for (unsigned int i = 0; i < CYCLE_SHOWN && len < LINK_WHY_MAX; i++) {
		e = left_edge(r, at);
		len += (size_t)snprintf(r->why + len, LINK_WHY_MAX - len, "node %llu needs ", (unsigned long long)at);
		at = e ? e->to : first;
		if (at == first)
			break;
	}
	if (len < LINK_WHY_MAX)
		snprintf(r->why + len, LINK_WHY_MAX - len, at == first ? "node %llu" : "node %llu, ...", (unsigned long long)at);
}

/* Removes nodes that need nothing, again and again: what is left needs itself. */
static int find_cycle(struct et_reader *r)
{
	struct node **ready = malloc((r->n_nodes + 1) * sizeof(*ready));
	size_t n = 0, done = 0;
	int err = 0;

	if (!ready)
		return -ENOMEM;
	for (size_t i = 0; i < r->n_nodes; i++) {
		if (!r->nodes[i].deps)
			ready[n++] = &r->nodes[i];
	}
	while (done < n) {
		uint64_t id = ready[done++]->id;

		for (size_t i = edges_from(r, id); i < r->n_edges && r->edges[i].to == id; i++) {
			struct node *from = find_node(r, r->edges[i].from);

			if (from && from->deps && !--from->deps)
				ready[n++] = from;
		}
	}
	for (size_t i = 0; n < r->n_nodes && i < r->n_nodes; i++) {
		if (!r->nodes[i].deps)
			continue;
		tell_cycle(r, &r->nodes[i]);
		err = -ELOOP;
		break;
	}
	free(ready);
	return err;
}

static int check_nodes(struct et_reader *r)
{
	struct node *from;

	r->check->nodes = r->n_nodes;
	if (r->n_nodes)
		qsort(r->nodes, r->n_nodes, sizeof(*r->nodes), compare_nodes);
	if (r->n_edges)
		qsort(r->edges, r->n_edges, sizeof(*r->edges), compare_edges);
	for (size_t i = 1; i < r->n_nodes; i++) {
		if (r->nodes[i].id != r->nodes[i - 1].id)
			continue;
		snprintf(r->why, LINK_WHY_MAX, "two nodes have the id %llu", (unsigned long long)r->nodes[i].id);
		return -EBADMSG;
	}
	for (size_t i = 0; i < r->n_edges; i++) {
		from = find_node(r, r->edges[i].from);
		if (!find_node(r, r->edges[i].to))
			r->check->missing_deps++;
		else if (from)
			from->deps++;
	}
	return find_cycle(r);
}

int et_check(const struct link_file *f, const struct link_file *kineto, struct et_check *ret, char why[LINK_WHY_MAX])
{
	static const struct trace_reader_ops ops = { .event = read_node, .stop = reading_stopped, .array = "nodes" };
	struct et_reader r = { .kineto = kineto, .check = ret, .why = why };
	struct json_source source;
	struct trace_form form;
	int err;

	memset(ret, 0, sizeof(*ret));
	why[0] = 0;
	err = json_source_open(&source, f->path);
	if (err)
		snprintf(why, LINK_WHY_MAX, "%s", source.error);
	else
		err = trace_read(&source, &ops, &r, &form);
	json_source_close(&source);
	if (!err)
		err = check_nodes(&r);
	if (err == -ENOMEM)
		snprintf(why, LINK_WHY_MAX, "out of memory");
	free(r.nodes);
	free(r.edges);
	return err;
}
