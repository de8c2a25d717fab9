// SPDX-License-Identifier: BSD-2-Clause
/* Field numbers: schema/protobuf/et_def.proto of mlcommons/chakra. */
#include "read/etrace.h"

#include <stdio.h>
#include <stdlib.h>

#include "read/json_source.h"
#include "read/trace.h"
#include "util/list.h"
#include "util/text.h"

#define MESSAGE_MAX (UINT64_C(16) << 20)
#define CYCLE_SHOWN 8

enum { METADATA_VERSION = 1,
	METADATA_ATTR = 2 };
enum { ATTR_NAME = 1,
	ATTR_STRING = 29 };
enum { NODE_ID = 1,
	NODE_NAME = 2,
	NODE_TYPE = 3,
	NODE_CTRL_DEPS = 4,
	NODE_DATA_DEPS = 5,
	NODE_INPUTS = 8,
	NODE_OUTPUTS = 9,
	NODE_ATTR = 10 };

struct etrace_reader {
	struct etrace *t;
	int (*node)(void *ctx, const struct etrace_node *node);
	void *ctx;
};

static void etrace_add_node(struct etrace *t, uint64_t id)
{
	*list_push(t->nodes, t->n_nodes, t->nodes_size) = (struct etrace_place){ .id = id };
}

static void etrace_add_edge(struct etrace *t, uint64_t from, uint64_t to, bool control)
{
	*list_push(t->edges, t->n_edges, t->edges_size) = (struct etrace_edge){ from, to, control };
}

/* ---- protobuf ---- */

int etrace_metadata(struct proto_bytes in, bool *ret_own)
{
	bool own = false, tool, named;
	struct proto_field f, attr;
	int ret, n = 0;

	while ((ret = proto_next(&in, &f)) == 1) {
		named = f.number == METADATA_VERSION && !f.value;
		tool = false;
		while (f.number == METADATA_ATTR && (ret = proto_next(&f.bytes, &attr)) == 1) {
			named |= attr.number == ATTR_NAME && proto_len(attr.bytes);
			tool |= attr.number == ATTR_NAME && proto_is(attr.bytes, "tool");
			own |= tool && attr.number == ATTR_STRING && proto_is(attr.bytes, "inftrace");
		}
		/* a node has other fields, and its field 1 is a number */
		if (ret < 0 || !named)
			return -EBADMSG;
		n++;
	}
	*ret_own = own;
	return ret < 0 ? ret : n;
}

/* Adds the edges of a repeated number field, packed or not. */
static void read_deps(struct etrace *t, const struct proto_field *f, struct etrace_node *n)
{
	struct proto_bytes in = f->bytes;
	uint64_t to;

	if (in.p == in.end)
		etrace_add_edge(t, 0, f->value, f->number == NODE_CTRL_DEPS);
	while (in.p < in.end && proto_read_varint(&in, &to) == 1)
		etrace_add_edge(t, 0, to, f->number == NODE_CTRL_DEPS);
	if (in.p < in.end)
		n->wrong = "a list of dependencies is damaged";
}

/* Reads Kineto's id of the operator. The kernels that it launched have the same id: *kernel. */
static void read_attr(struct proto_bytes in, uint64_t *rf_id, bool *kernel)
{
	struct proto_bytes name = { NULL, NULL };
	struct proto_field f;
	uint64_t value = 0;

	while (proto_next(&in, &f) == 1) {
		if (f.number == ATTR_NAME)
			name = f.bytes;
		else
			value = f.value;
	}
	if (proto_is(name, "rf_id"))
		*rf_id = value;
	else if (proto_is(name, "is_cpu_op") && !value)
		*kernel = true;
}

static int etrace_read_message(struct etrace_reader *r, struct proto_bytes in, uint64_t number)
{
	struct etrace_node n = { .number = number };
	size_t first = r->t->n_edges;
	struct proto_field f;
	bool kernel = false;
	int ret;

	while ((ret = proto_next(&in, &f)) == 1) {
		if (f.number == NODE_ID) {
			n.id = f.value;
		} else if (f.number == NODE_NAME) {
			n.name = (const char *)f.bytes.p;
			n.name_len = proto_len(f.bytes);
		} else if (f.number == NODE_TYPE) {
			n.type = f.value;
		} else if (f.number == NODE_CTRL_DEPS || f.number == NODE_DATA_DEPS) {
			read_deps(r->t, &f, &n);
		} else if (f.number == NODE_INPUTS) {
			n.inputs = f.bytes;
		} else if (f.number == NODE_OUTPUTS) {
			n.outputs = f.bytes;
		} else if (f.number == NODE_ATTR) {
			read_attr(f.bytes, &n.rf_id, &kernel);
		}
	}
	if (ret < 0)
		n.wrong = "is damaged";
	if (kernel)
		n.rf_id = 0;
	for (size_t i = first; i < r->t->n_edges; i++)
		r->t->edges[i].from = n.id;
	etrace_add_node(r->t, n.id);
	return r->node(r->ctx, &n);
}

/* Returns 1 and the next message, which stays in the source's buffer until the caller moves pos; 0 at the end; -errno with t->why. */
static int next_message(struct etrace *t, struct json_source *source, uint64_t at, struct proto_bytes *ret_message)
{
	for (;;) {
		struct proto_bytes in = { source->pos, source->end };
		uint64_t len;
		int ret = proto_read_varint(&in, &len);

		if (ret < 0 || (ret && len > MESSAGE_MAX)) {
			snprintf(t->why, sizeof(t->why), "at byte %llu: no message begins there, or one of more than 16 MB",
				(unsigned long long)at);
			return -EBADMSG;
		}
		if (ret && proto_len(in) >= len) {
			*ret_message = (struct proto_bytes){ in.p, in.p + len };
			return 1;
		}
		ret = json_source_fill(source);
		if (ret < 0)
			snprintf(t->why, sizeof(t->why), "%s", source->error);
		t->torn = !ret && source->pos != source->end;
		if (ret <= 0)
			return ret;
	}
}

static int read_messages(struct etrace_reader *r, struct json_source *source)
{
	uint64_t n = 0, at = 0;
	struct proto_bytes in;
	const char *why = NULL;
	int ret, err = 0;

	while (!err && (ret = next_message(r->t, source, at, &in)) == 1) {
		if (n++)
			err = etrace_read_message(r, in, n);
		else if (etrace_metadata(in, &r->t->own) < 0)
			why = "message 1 is not the GlobalMetadata with which an execution trace begins";
		if (why)
			break;
		at += (uint64_t)(in.end - source->pos);
		source->pos += in.end - source->pos;
	}
	if (err || ret < 0)
		return err ? err : ret;
	if (!n)
		why = r->t->torn ? "has no whole message; is this an execution trace?" : "is empty";
	if (why)
		snprintf(r->t->why, sizeof(r->t->why), "%s", why);
	return why ? -EBADMSG : 0;
}

/* ---- JSON ---- */

static const struct keys {
	const char *array, *id, *name, *type, *control, *data;
} json_keys[] = {
	[FILE_ET_PYTORCH] = { "nodes", "id", "name", "", "ctrl_deps", "data_deps" },
	[FILE_ET_FEEDER] = { "workload_graph", "Id", "Name", "NodeType", "ctrlDeps", "data_deps" },
	[FILE_ET_JSONIZER] = { NULL, "id", "name", "type", "ctrlDeps", "dataDeps" },
};

const char *const etrace_types[ETRACE_TYPES] = { NULL, "METADATA", "MEM_LOAD", "MEM_STORE", "COMP", "COMM_SEND", "COMM_RECV", "COMM_COLL" };

static uint64_t json_type(const struct json_node *type)
{
	const char *text = node_string(type);
	size_t len;

	for (size_t i = 1; text && i < ETRACE_TYPES; i++) {
		len = strlen(etrace_types[i]);
		if (!strncmp(text, etrace_types[i], len) && !strcmp(text + len, "_NODE"))
			return i;
	}
	return node_u64(type);
}

/* Reads an id. Protobuf's JSON writes 64-bit numbers as strings. */
static bool json_id(const struct json_node *id, uint64_t *ret)
{
	bool text = node_is(id, JSON_STRING) && id->text[0] >= '0' && id->text[0] <= '9';

	if (!text && !node_is(id, JSON_INT))
		return false;
	*ret = text ? strtoull(id->text, NULL, 10) : node_u64(id);
	return true;
}

/* Whether it is the process's node, which PyTorch writes as its own caller. */
static bool is_process(const struct etrace_node *n)
{
	static const char begin[] = "[pytorch|profiler|execution_";

	return n->name && !strncmp(n->name, begin, sizeof(begin) - 1) && text_has_suffix(n->name, "|process]");
}

static void json_edge(struct etrace *t, const struct etrace_node *n, const struct json_node *to, bool control)
{
	uint64_t id;

	if (json_id(to, &id) && !(control && id == n->id && is_process(n)))
		etrace_add_edge(t, n->id, id, control);
}

/* PyTorch writes one id, the caller's; Chakra's own tools write lists. */
static void json_edges(struct etrace *t, const struct etrace_node *n, const struct json_node *deps, bool control)
{
	if (!node_is(deps, JSON_ARRAY)) {
		json_edge(t, n, deps, control);
		return;
	}
	json_for_each (to, deps)
		json_edge(t, n, to, control);
}

static uint64_t record_function(const struct json_node *node)
{
	const struct json_node *attrs = node_get(node, "attrs");
	const char *name;

	if (node_get(node, "cat")) /* a kernel that the linker has added: a copy of its operator's node */
		return 0;
	if (!node_is(attrs, JSON_ARRAY))
		return node_u64(node_get(node, "rf_id")); /* before schema 1.0.3 */
	json_for_each (attr, attrs) {
		name = node_string(node_get(attr, "name"));
		if (name && !strcmp(name, "rf_id"))
			return node_u64(node_get(attr, "value"));
	}
	return 0;
}

static int read_json(struct etrace_reader *r, const struct json_node *value, uint64_t line)
{
	const struct keys *k = &json_keys[r->t->kind];
	const struct json_node *id = node_get(value, k->id), *name = node_get(value, k->name), *control = node_get(value, k->control);
	struct etrace_node n = { .number = line, .rf_id = record_function(value) };
	int err;

	if (!control)
		control = node_get(value, "parent"); /* before schema 1.0.2 */
	n.has_control = control;
	n.type = json_type(node_get(value, k->type));
	if (node_string(name)) {
		n.name = name->text;
		n.name_len = name->len;
	}
	/* protobuf's JSON omits members that are 0 */
	if (!json_id(id, &n.id) && (id || r->t->kind != FILE_ET_JSONIZER || !node_is(value, JSON_OBJECT)))
		n.wrong = "a node without an id";
	else
		etrace_add_node(r->t, n.id);
	err = r->node(r->ctx, &n);
	if (err || n.wrong)
		return err;
	json_edges(r->t, &n, control, true);
	json_edges(r->t, &n, node_get(value, k->data), false);
	return 0;
}

static int etrace_take_event(void *ctx, const struct trace_event *e)
{
	return read_json(ctx, e->value, e->line);
}

static int read_schema(void *ctx, const struct json_node *value)
{
	((struct etrace_reader *)ctx)->t->schema = node_is(value, JSON_STRING) && value->len;
	return 0;
}

static void etrace_explain_stop(void *ctx, const struct trace_stop *stop)
{
	struct etrace *t = ((struct etrace_reader *)ctx)->t;

	if (stop->kind == TRACE_NO_EVENTS)
		snprintf(t->why, sizeof(t->why), "not an execution trace of PyTorch: it has no nodes");
	else if (stop->kind == TRACE_UNREADABLE) /* why says where */
		snprintf(t->why, sizeof(t->why), "%s", stop->why);
	else
		snprintf(t->why, sizeof(t->why), "line %llu: %s", (unsigned long long)stop->line, stop->why);
}

/* Reads one JSON object per message, as Chakra's jsonizer writes them. */
static int read_objects(struct etrace_reader *r, struct json_source *source)
{
	const struct json_node *value;
	struct json_reader json;
	bool first = true;
	int err;

	json_reader_init(&json, source);
	for (;; first = false) {
		err = json_reader_peek(&json);
		if (err == -ENODATA) {
			err = 0;
			break;
		}
		if (err >= 0)
			err = json_reader_value(&json, &value);
		if (err)
			snprintf(r->t->why, sizeof(r->t->why), "%s", err == -ENODATA ? "the file ends inside a node" : json.error);
		else if (!first)
			err = read_json(r, value, json.value_line);
		if (err)
			break;
	}
	json_reader_free(&json);
	return err;
}

int etrace_read(struct etrace *t, struct json_source *source, int (*node)(void *ctx, const struct etrace_node *node), void *ctx)
{
	const struct trace_reader_ops ops = { etrace_take_event, etrace_explain_stop, json_keys[t->kind].array, "schema", read_schema };
	struct etrace_reader r = { t, node, ctx };
	struct trace_form form;

	if (t->kind == FILE_EXECUTION_TRACE)
		return read_messages(&r, source);
	if (t->kind == FILE_ET_JSONIZER)
		return read_objects(&r, source);
	return trace_read(source, &ops, &r, &form);
}

void etrace_clear(struct etrace *t)
{
	free(t->nodes);
	free(t->edges);
}

/* ---- cycles ---- */

static int compare_node_ids(const void *x, const void *y)
{
	return cmp_int(((const struct etrace_place *)x)->id, ((const struct etrace_place *)y)->id);
}

static int compare_from(const void *x, const void *y)
{
	return cmp_int(((const struct etrace_edge *)x)->from, ((const struct etrace_edge *)y)->from);
}

static int compare_edge_ends(const void *x, const void *y)
{
	const struct etrace_edge *a = x, *b = y;

	return cmp_int(a->to, b->to) ?: cmp_int(a->from, b->from) ?
								  : cmp_int(a->control, b->control);
}

void etrace_sort(struct etrace *t)
{
	list_sort(t->nodes, t->n_nodes, compare_node_ids);
	list_sort(t->edges, t->n_edges, compare_edge_ends);
}

struct etrace_place *etrace_find(const struct etrace *t, uint64_t id)
{
	const struct etrace_place wanted = { .id = id };

	return t->n_nodes ? bsearch(&wanted, t->nodes, t->n_nodes, sizeof(wanted), compare_node_ids) : NULL;
}

/*
 * Whether an edge counts for cycles. Chakra's feeder waits for data only, and runs files to the end whose control dependencies
 * form cycles with data. Traces of PyTorch and inftrace may have no cycle at all.
 */
static bool edge_is_counted(const struct etrace *t, const struct etrace_edge *e)
{
	return !e->control || t->own || t->kind == FILE_ET_PYTORCH;
}

/* Returns an unmet dependency of the node, NULL if there is none. The edges are sorted by `from`. */
static const struct etrace_edge *find_unmet_edge(const struct etrace *t, uint64_t from)
{
	size_t low = bisect(t->n_edges, k, t->edges[k].from < from);

	for (; low < t->n_edges && t->edges[low].from == from; low++) {
		const struct etrace_place *to = etrace_find(t, t->edges[low].to);

		if (to && to->waits && edge_is_counted(t, &t->edges[low]))
			return &t->edges[low];
	}
	return NULL;
}

/* Follows unmet dependencies from `left` into a cycle, and describes the cycle in t->why. */
static void tell_cycle(struct etrace *t, const struct etrace_place *left)
{
	size_t len = (size_t)snprintf(t->why, sizeof(t->why), "its dependencies form a cycle: ");
	uint64_t at = left->id, first;
	const struct etrace_edge *e;

	qsort(t->edges, t->n_edges, sizeof(*t->edges), compare_from);
	for (size_t i = 0; i < t->n_nodes && (e = find_unmet_edge(t, at)); i++)
		at = e->to;
	first = at;
	for (unsigned int i = 0; i < CYCLE_SHOWN && len < sizeof(t->why); i++) {
		e = find_unmet_edge(t, at);
		len += (size_t)snprintf(t->why + len, sizeof(t->why) - len, "node %llu needs ", (unsigned long long)at);
		at = e ? e->to : first;
		if (at == first)
			break;
	}
	if (len < sizeof(t->why))
		snprintf(t->why + len, sizeof(t->why) - len, at == first ? "node %llu" : "node %llu, ...", (unsigned long long)at);
}

/* Removes nodes without dependencies, again and again, as a simulator does: the rest is in a cycle or needs one. */
int etrace_find_cycle(struct etrace *t)
{
	struct etrace_place **ready = xreallocarray(NULL, t->n_nodes + 1, sizeof(struct etrace_place *));
	size_t n = 0, done = 0;
	int err = 0;

	/* count the dependencies on nodes that exist */
	for (size_t i = 0; i < t->n_edges; i++) {
		struct etrace_place *from = etrace_find(t, t->edges[i].from);

		if (from && edge_is_counted(t, &t->edges[i]) && etrace_find(t, t->edges[i].to))
			from->waits++;
	}
	for (size_t i = 0; i < t->n_nodes; i++) {
		if (!t->nodes[i].waits)
			ready[n++] = &t->nodes[i];
	}
	while (done < n) {
		uint64_t id = ready[done++]->id;

		for (size_t i = bisect(t->n_edges, k, t->edges[k].to < id); i < t->n_edges && t->edges[i].to == id; i++) {
			struct etrace_place *from = etrace_find(t, t->edges[i].from);

			if (from && edge_is_counted(t, &t->edges[i]) && from->waits && !--from->waits)
				ready[n++] = from;
		}
	}
	for (size_t i = 0; n < t->n_nodes && i < t->n_nodes; i++) {
		if (!t->nodes[i].waits)
			continue;
		tell_cycle(t, &t->nodes[i]);
		err = -ELOOP;
		break;
	}
	free(ready);
	return err;
}
