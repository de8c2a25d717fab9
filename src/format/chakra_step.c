// SPDX-License-Identifier: BSD-2-Clause
/* The operators of a step: when they ran, and which results each needed. */
#include "format/chakra.h"

#include <stdlib.h>
#include <string.h>

#include "engine/check.h"
#include "engine/spec.h"
#include "util/bytes.h"
#include "util/map.h"

static const char *enum_text(const struct enum_table *t, uint32_t v)
{
	return v < t->n ? t->names[v] : NULL;
}

/* The preset was checked: its offsets lie within the copy. */
static void read_tensor(const uint8_t *node, uint64_t addr, const struct node_fields *f, struct et_tensor *t)
{
	memset(t, 0, sizeof(*t));
	t->addr = addr;
	t->view = u64_at(node, f->view);
	t->source = f->layout.n_sources ? u64_at(node, f->layout.sources) : 0;
	t->op = u32_at(node, f->op);
	t->op_name = enum_text(f->ops, t->op);
	t->type = enum_text(f->types, u32_at(node, f->type));
	for (unsigned int i = 0; i < ET_DIMENSIONS; i++)
		t->shape[i] = u64_at(node, (uint16_t)(f->shape + 8 * i));
	/* the bytes that it spans: the largest product of shape and stride */
	for (unsigned int i = 0; i < ET_DIMENSIONS; i++) {
		uint64_t bytes;

		if (!__builtin_mul_overflow(t->shape[i], u64_at(node, (uint16_t)(f->stride + 8 * i)), &bytes) &&
			bytes > t->bytes)
			t->bytes = bytes;
	}
	memcpy(t->name, node + f->name, ET_NAME_LEN - 1);
}

bool et_node_read(const struct rec_node *r, const struct node_fields *f, struct et_node *ret_node)
{
	unsigned int n = 0;

	if (!r->n || r->n > NODES_MAX || r->unread & 1)
		return false;
	memset(ret_node, 0, sizeof(*ret_node));
	ret_node->tid = r->h.tid;
	ret_node->seen_ns = r->h.start_ns;
	read_tensor(r->nodes[0], r->at[0], f, &ret_node->t);
	for (unsigned int i = 1; i < r->n; i++) {
		struct et_tensor *t = &ret_node->sources[n++];

		if (!(r->unread & 1u << i)) {
			read_tensor(r->nodes[i], r->at[i], f, t);
			continue;
		}
		memset(t, 0, sizeof(*t)); /* its address still says what it depends on */
		t->addr = r->at[i];
	}
	ret_node->n_sources = n;
	return true;
}

/* ---- times ---- */

static int nodes_by_seen(const void *a, const void *b)
{
	const struct et_node *x = a, *y = b;

	return x->seen_ns < y->seen_ns ? -1 : x->seen_ns > y->seen_ns;
}

static int calls_by_thread(const void *a, const void *b)
{
	const struct et_call *x = a, *y = b;

	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return x->end_ns > y->end_ns ? -1 : x->end_ns < y->end_ns; /* the outer one first */
}

/* The calls of one thread. */
static struct et_call *step_thread_calls(const struct et_step *s, uint32_t tid, size_t *ret_n)
{
	size_t from = 0, to;

	while (from < s->n_calls && s->calls[from].tid != tid)
		from++;
	for (to = from; to < s->n_calls && s->calls[to].tid == tid;)
		to++;
	*ret_n = to - from;
	return s->calls + from;
}

/* All threads of an engine call the same operators in the same order, so the nth call of each thread is the nth operator,
 * which ends with the last of these calls. Threads with another number of calls are left out. */
static uint64_t calls_last_end(const struct et_step *s, size_t nth, size_t n_calls, uint64_t end)
{
	size_t to;

	for (size_t from = 0; from < s->n_calls; from = to) {
		for (to = from; to < s->n_calls && s->calls[to].tid == s->calls[from].tid;)
			to++;
		if (to - from == n_calls && s->calls[from + nth].end_ns > end)
			end = s->calls[from + nth].end_ns;
	}
	return end;
}

static bool node_has_source(const struct et_node *n, const struct et_node *other)
{
	for (unsigned int i = 0; i < n->n_sources; i++) {
		if (n->sources[i].addr == other->t.addr)
			return true;
	}
	return false;
}

/* Sorts the nodes of one call so that sources come before their users: each node is copied by its own program, in any order. */
static void order_nodes(struct et_node *nodes, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		for (size_t k = i; k && node_has_source(&nodes[k - 1], &nodes[k]); k--) {
			struct et_node swapped = nodes[k];

			nodes[k] = nodes[k - 1];
			nodes[k - 1] = swapped;
		}
	}
}

/* Times the nodes of one call: the last one did the work of all. */
static void time_nodes(const struct et_step *s, struct et_node *nodes, size_t n, size_t nth, const struct et_call *calls,
	size_t n_calls)
{
	struct et_node *last = &nodes[n - 1];
	const struct et_call *c = &calls[nth];

	order_nodes(nodes, n);
	if (c->op != ET_NO_OP && c->op != last->t.op)
		return;
	last->timed = true;
	last->start_ns = c->start_ns;
	last->dur_ns = calls_last_end(s, nth, n_calls, c->end_ns) - c->start_ns;
	for (size_t i = 0; i + 1 < n; i++) {
		nodes[i].timed = true;
		nodes[i].start_ns = c->start_ns;
		nodes[i].fused_into = n - 1 - i;
	}
}

/*
 * A node is copied where its call begins, but by another program. The kernel decides whether that runs before or after the one
 * that records the begin, for all calls alike.
 */
static void time_step(struct et_step *s)
{
	size_t n_calls, at = 0, first = 0;
	struct et_call *calls;
	bool before;

	if (!s->n_nodes)
		return;
	qsort(s->calls, s->n_calls, sizeof(*s->calls), calls_by_thread);
	calls = step_thread_calls(s, s->nodes[0].tid, &n_calls);
	if (!n_calls)
		return;
	before = s->nodes[0].seen_ns < calls[0].start_ns;
	for (size_t i = 0; i < n_calls; i++) {
		uint64_t until = before ? calls[i].start_ns + 1 : i + 1 < n_calls ? calls[i + 1].start_ns
										  : UINT64_MAX;

		while (at < s->n_nodes && s->nodes[at].seen_ns < until && s->nodes[at].tid == calls[i].tid)
			at++;
		if (at > first)
			time_nodes(s, s->nodes + first, at - first, i, calls, n_calls);
		first = at;
	}
}

/* Some operators are called even for results without elements, such as the outputs of a part of a batch that has none; most
 * are not. */
static void drop_empty_calls(struct et_step *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n_nodes; i++) {
		bool empty = false;

		for (unsigned int d = 0; d < ET_DIMENSIONS; d++)
			empty |= !s->nodes[i].t.shape[d];
		if (!empty && n++ != i)
			s->nodes[n - 1] = s->nodes[i];
	}
	s->n_nodes = n;
}

/* ---- operators without nodes, known by their calls ---- */

void et_calls_resolve(struct et_step *s, uint64_t id, uint64_t before)
{
	qsort(s->calls, s->n_calls, sizeof(*s->calls), calls_by_thread);
	for (size_t i = 0; i < s->n_calls; i++) {
		struct et_call *c = &s->calls[i], *last = i && c[-1].tid == c->tid ? &c[-1] : NULL, *outer = last;

		c->id = id + i;
		c->own_ns = c->end_ns - c->start_ns;
		c->after = last ? last->id : before;
		while (outer && outer->end_ns < c->end_ns)
			outer = outer->parent ? &s->calls[outer->parent - id] : NULL;
		if (!outer)
			continue;
		c->parent = outer->id;
		outer->own_ns -= c->own_ns < outer->own_ns ? c->own_ns : outer->own_ns;
	}
}

/* ---- dependencies ---- */

/* The last operator so far whose result is at an address, or in the memory of the tensor there. */
struct result {
	uint64_t addr, id;
	UT_hash_handle hh;
};

struct results {
	struct result *list; /* room for two per node */
	size_t n;
	struct result *by_addr, *by_view;
};

static uint64_t result_find_id(const struct result *in, uint64_t addr)
{
	struct result *r = NULL;

	if (addr)
		HASH_FIND(hh, in, &addr, sizeof(addr), r);
	return r ? r->id : 0;
}

static void result_put_id(struct results *rs, struct result **in, uint64_t addr, uint64_t id)
{
	struct result *r = NULL;

	HASH_FIND(hh, *in, &addr, sizeof(addr), r);
	if (r) {
		r->id = id;
		return;
	}
	r = &rs->list[rs->n++];
	r->addr = addr;
	r->id = id;
	HASH_ADD(hh, *in, addr, sizeof(r->addr), r);
}

static void ids_add_once(uint64_t *list, unsigned int *n, uint64_t id)
{
	for (unsigned int i = 0; i < *n; i++) {
		if (list[i] == id)
			return;
	}
	list[(*n)++] = id;
}

/*
 * Adds the dependency on the operator whose result a source is: the source's own, or that of the tensor it was made from,
 * since no function is called for views and reshapes. Memory that outlives a step, such as a KV cache, is no result: an
 * operator that wrote to it in this step becomes a control dependency.
 */
static void node_add_dependency(struct et_node *n, const struct et_tensor *source, const struct results *rs)
{
	uint64_t id = result_find_id(rs->by_addr, source->addr), written;

	if (!id)
		id = result_find_id(rs->by_addr, source->source);
	written = result_find_id(rs->by_view, source->view ? source->view : source->addr);
	if (!id && result_find_id(rs->by_addr, source->view)) {
		id = result_find_id(rs->by_addr, source->view);
		if (written > id)
			id = written;
	}
	if (id)
		ids_add_once(n->data, &n->n_data, id);
	else if (written)
		ids_add_once(n->control, &n->n_control, written);
}

static void step_resolve_nodes(struct et_step *s, struct results *rs, uint64_t before)
{
	for (size_t i = 0; i < s->n_nodes; i++) {
		struct et_node *n = &s->nodes[i];

		for (unsigned int k = 0; k < n->n_sources; k++)
			node_add_dependency(n, &n->sources[k], rs);
		if (before && !n->n_data && !n->n_control)
			n->control[n->n_control++] = before;
		result_put_id(rs, &rs->by_addr, n->t.addr, n->id);
		if (n->t.view)
			result_put_id(rs, &rs->by_view, n->t.view, n->id);
	}
}

void et_step_resolve(struct et_step *s, uint64_t id, uint64_t before)
{
	struct results rs = { .list = xcalloc(s->n_nodes ? 2 * s->n_nodes : 1, sizeof(*rs.list)) };

	qsort(s->nodes, s->n_nodes, sizeof(*s->nodes), nodes_by_seen);
	time_step(s);
	drop_empty_calls(s);
	for (size_t i = 0; i < s->n_nodes; i++) {
		s->nodes[i].id = id + i;
		if (s->nodes[i].fused_into)
			s->nodes[i].fused_into += id + i;
	}
	step_resolve_nodes(s, &rs, before);
	HASH_CLEAR(hh, rs.by_addr);
	HASH_CLEAR(hh, rs.by_view);
	free(rs.list);
}

/* ---- collectives: calls of NCCL, and of RCCL, which has the same names ---- */

/* NodeType and CollectiveCommType of schema/protobuf/et_def.proto of mlcommons/chakra. */
enum { SEND_NODE = 5,
	RECV_NODE = 6,
	COLL_NODE = 7 };

static const struct {
	const char *symbol;
	uint8_t node_type, coll;
} calls[] = {
	{ "ncclAllReduce", COLL_NODE, 0 },
	{ "ncclReduce", COLL_NODE, 1 },
	{ "ncclAllGather", COLL_NODE, 2 },
	{ "ncclGather", COLL_NODE, 3 },
	{ "ncclScatter", COLL_NODE, 4 },
	{ "ncclBroadcast", COLL_NODE, 5 },
	{ "ncclBcast", COLL_NODE, 5 },
	{ "ncclAlltoAll", COLL_NODE, 6 },
	{ "ncclReduceScatter", COLL_NODE, 7 },
	{ "ncclSend", SEND_NODE, 0 },
	{ "ncclRecv", RECV_NODE, 0 },
};

bool et_comm_read(const struct probe_spec *s, const struct rec_function *r, struct et_comm *ret_comm)
{
	size_t i = 0, n = sizeof(calls) / sizeof(*calls);
	uint64_t peer = 0;

	while (i < n && (!s->symbol || strcmp(s->symbol, calls[i].symbol)))
		i++;
	if (i == n)
		return false;
	*ret_comm = (struct et_comm){
		.name = calls[i].symbol,
		.node_type = calls[i].node_type,
		.coll = calls[i].coll,
		.start_ns = r->h.start_ns,
		.call_ns = r->h.dur_ns,
		.tid = r->h.tid,
	};
	ret_comm->has_bytes = bytes_of_call(s, r->vals, &ret_comm->bytes);
	ret_comm->has_comm = check_value(s, r->vals, "comm", &ret_comm->comm);
	ret_comm->has_peer = check_value(s, r->vals, calls[i].node_type == COLL_NODE ? "root" : "peer", &peer);
	ret_comm->peer = (uint32_t)peer;
	return true;
}

static int comms_by_start(const void *a, const void *b)
{
	const struct et_comm *x = a, *y = b;

	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

void et_comms_resolve(struct et_step *s, uint64_t id, uint64_t before)
{
	if (s->n_comms)
		qsort(s->comms, s->n_comms, sizeof(*s->comms), comms_by_start);
	for (size_t i = 0; i < s->n_comms; i++) {
		struct et_comm *c = &s->comms[i];
		size_t last = i;

		c->id = id + i;
		while (last && s->comms[last - 1].comm != c->comm)
			last--;
		c->after = last ? s->comms[last - 1].id : before;
	}
}
