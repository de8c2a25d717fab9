// SPDX-License-Identifier: BSD-2-Clause
/*
 * Checks execution traces, of whatever program: docs/execution-trace.md. Field numbers and types of nodes:
 * schema/protobuf/et_def.proto of mlcommons/chakra.
 */
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "read/proto.h"
#include "util/bisect.h"
#include "util/list_room.h"
#include "util/map.h"
#include "util/text.h"
#include "validate/check.h"

#define MESSAGE_MAX (UINT64_C(16) << 20)

enum { METADATA_VERSION = 1 };
enum { NODE_ID = 1,
	NODE_NAME = 2,
	NODE_TYPE = 3,
	NODE_CTRL_DEPS = 4,
	NODE_DATA_DEPS = 5,
	NODE_INPUTS = 8,
	NODE_OUTPUTS = 9 };
enum { IO_VALUES = 1,
	IO_TYPES = 3 };

static const char *const node_types[] = { NULL, "METADATA", "MEM_LOAD", "MEM_STORE", "COMP", "COMM_SEND", "COMM_RECV", "COMM_COLL" };
#define TYPES_N (sizeof(node_types) / sizeof(*node_types))

struct et_dep {
	uint64_t on;   /* its id, and later its index */
	uint64_t node; /* index of the node that depends */
};

/* What is kept of a node. */
struct et_seen {
	uint64_t id, index;
	uint64_t waits; /* for so many others */
	UT_hash_handle hh;
};

struct et_check {
	struct check_report *report;
	uint64_t messages, at, types[TYPES_N];
	struct et_seen **nodes, *by_id;
	size_t n_nodes, nodes_cap;
	struct et_dep *deps;
	size_t n_deps, deps_cap;
	bool torn;
};

static int add_dep(struct et_check *c, uint64_t on)
{
	int err = list_room((void **)&c->deps, c->n_deps, &c->deps_cap, sizeof(*c->deps));

	if (!err)
		c->deps[c->n_deps++] = (struct et_dep){ .on = on, .node = c->n_nodes };
	return err;
}

/* A repeated number: packed, or one at a time. */
static int add_deps(struct et_check *c, const struct proto_field *f)
{
	struct proto_bytes in = f->bytes;
	uint64_t id;
	int ret = 0, err = 0;

	if (in.p == in.end)
		return add_dep(c, f->value);
	while (!err && in.p < in.end && (ret = proto_read_varint(&in, &id)) == 1)
		err = add_dep(c, id);
	if (!err && in.p < in.end)
		check_problem(c->report, "message %" PRIu64 ": a list of dependencies is damaged", c->messages);
	return err;
}

/* Three texts, each a JSON array with an element for each tensor. */
static void check_tensors(struct et_check *c, struct proto_bytes in, const char *what)
{
	size_t len[IO_TYPES + 1] = { 0 };
	struct proto_field f;

	while (proto_next(&in, &f) == 1) {
		struct json_tokener *tokener;
		struct json_object *list = NULL;

		if (f.number < IO_VALUES || f.number > IO_TYPES)
			continue;
		tokener = json_tokener_new();
		if (tokener)
			list = json_tokener_parse_ex(tokener, (const char *)f.bytes.p, (int)proto_len(f.bytes));
		if (json_object_is_type(list, json_type_array))
			len[f.number] = json_object_array_length(list);
		else
			check_problem(c->report, "message %" PRIu64 ": %s: field %" PRIu64 " is not a JSON array", c->messages, what, f.number);
		json_object_put(list);
		json_tokener_free(tokener);
	}
	if (len[1] != len[2] || len[1] != len[3])
		check_problem(c->report, "message %" PRIu64 ": %s: %zu values, %zu shapes and %zu types", c->messages, what, len[1], len[2],
			len[3]);
}

static int add_node(struct et_check *c, uint64_t id)
{
	struct et_seen *n = NULL;
	int err = list_room((void **)&c->nodes, c->n_nodes, &c->nodes_cap, sizeof(struct et_seen *));

	HASH_FIND(hh, c->by_id, &id, sizeof(id), n);
	if (n)
		check_problem(c->report, "message %" PRIu64 ": node %" PRIu64 " is in the file twice", c->messages, id);
	n = err ? NULL : calloc(1, sizeof(*n));
	if (!n)
		return -ENOMEM;
	n->id = id;
	n->index = c->n_nodes;
	HASH_ADD(hh, c->by_id, id, sizeof(n->id), n);
	if (!n->hh.tbl) {
		free(n);
		return -ENOMEM;
	}
	c->nodes[c->n_nodes++] = n;
	return 0;
}

static int check_node(struct et_check *c, struct proto_bytes in)
{
	uint64_t id = 0, type = 0;
	bool named = false;
	struct proto_field f;
	int ret, err = 0;

	while (!err && (ret = proto_next(&in, &f)) == 1) {
		if (f.number == NODE_ID)
			id = f.value;
		else if (f.number == NODE_NAME)
			named = proto_len(f.bytes);
		else if (f.number == NODE_TYPE)
			type = f.value;
		else if (f.number == NODE_CTRL_DEPS || f.number == NODE_DATA_DEPS)
			err = add_deps(c, &f);
		else if (f.number == NODE_INPUTS || f.number == NODE_OUTPUTS)
			check_tensors(c, f.bytes, f.number == NODE_INPUTS ? "inputs" : "outputs");
	}
	if (err)
		return err;
	if (ret < 0)
		check_problem(c->report, "message %" PRIu64 ": is damaged", c->messages);
	if (!named)
		check_problem(c->report, "message %" PRIu64 ": node %" PRIu64 " has no name", c->messages, id);
	if (type && type < TYPES_N)
		c->types[type]++;
	else
		check_problem(c->report, "message %" PRIu64 ": node %" PRIu64 " has the type %" PRIu64 ", which there is not", c->messages, id,
			type);
	return add_node(c, id);
}

static void check_metadata(struct et_check *c, struct proto_bytes in)
{
	struct proto_field f;
	bool version = false;
	int ret;

	while ((ret = proto_next(&in, &f)) == 1)
		version |= f.number == METADATA_VERSION && proto_len(f.bytes);
	if (ret < 0 || !version)
		check_problem(c->report, "message 1: no version; is this an execution trace?");
}

/* The next message, which stays in the source's buffer until the caller moves on. 1, 0: there is none, -errno. */
static int read_message(struct et_check *c, struct json_source *source, struct proto_bytes *ret_message)
{
	for (;;) {
		struct proto_bytes in = { source->pos, source->end };
		uint64_t len;
		int ret = proto_read_varint(&in, &len);

		if (ret < 0 || (ret && len > MESSAGE_MAX)) {
			check_problem(c->report, "at byte %" PRIu64 ": no message begins there, or one of more than 16 MB", c->at);
			return 0;
		}
		if (ret && proto_len(in) >= len) {
			*ret_message = (struct proto_bytes){ in.p, in.p + len };
			return 1;
		}
		ret = json_source_fill(source);
		if (ret < 0) {
			check_problem(c->report, "%s", source->error);
			return 0;
		}
		if (!ret) {
			c->torn = source->pos != source->end;
			return 0;
		}
	}
}

static int read_all(struct et_check *c, struct json_source *source)
{
	struct proto_bytes in;
	int err = 0;

	while (!err && read_message(c, source, &in)) {
		if (!c->messages++)
			check_metadata(c, in);
		else
			err = check_node(c, in);
		c->at += (uint64_t)(in.end - source->pos);
		source->pos += in.end - source->pos;
	}
	return err;
}

/* Dependencies by the index of what they are on; those on nodes that are not there are problems, and left out. */
static void find_nodes(struct et_check *c)
{
	size_t kept = 0;

	for (size_t i = 0; i < c->n_deps; i++) {
		struct et_seen *n = NULL;
		uint64_t id = c->deps[i].on;

		HASH_FIND(hh, c->by_id, &id, sizeof(id), n);
		if (!n) {
			check_problem(c->report, "node %" PRIu64 " depends on %" PRIu64 ", which is not in the file", c->nodes[c->deps[i].node]->id, id);
			continue;
		}
		c->nodes[c->deps[i].node]->waits++;
		c->deps[kept++] = (struct et_dep){ .on = n->index, .node = c->deps[i].node };
	}
	c->n_deps = kept;
}

static int by_on(const void *a, const void *b)
{
	const struct et_dep *x = a, *y = b;

	return x->on < y->on ? -1 : x->on > y->on;
}

/* The first of the dependencies on a node. */
static size_t first_on(const struct et_check *c, uint64_t index)
{
	return bisect(c->n_deps, k, c->deps[k].on < index);
}

/* Issues what waits for nothing, and then what waited for that only, as a simulator does. What is left waits for itself. */
static int check_cycles(struct et_check *c)
{
	uint64_t *ready = calloc(c->n_nodes + 1, sizeof(*ready));
	size_t n = 0;

	if (!ready)
		return -ENOMEM;
	find_nodes(c);
	if (c->n_deps)
		qsort(c->deps, c->n_deps, sizeof(*c->deps), by_on);
	for (size_t i = 0; i < c->n_nodes; i++) {
		if (!c->nodes[i]->waits)
			ready[n++] = i;
	}
	for (size_t i = 0; i < n; i++) {
		for (size_t d = first_on(c, ready[i]); d < c->n_deps && c->deps[d].on == ready[i]; d++) {
			if (!--c->nodes[c->deps[d].node]->waits)
				ready[n++] = c->deps[d].node;
		}
	}
	for (size_t i = 0; i < c->n_nodes && n < c->n_nodes; i++) {
		if (!c->nodes[i]->waits)
			continue;
		check_problem(c->report, "%zu nodes depend on one another in a circle, or on such nodes; node %" PRIu64 " is one of them",
			c->n_nodes - n, c->nodes[i]->id);
		break;
	}
	free(ready);
	return 0;
}

static void summary_print(const struct et_check *c, const char *path, FILE *out)
{
	const char *between = ": ";

	fprintf(out, "%s: execution trace, %zu nodes, %zu dependencies", path, c->n_nodes, c->n_deps);
	for (size_t i = 0; i < TYPES_N; i++) {
		if (!c->types[i])
			continue;
		fprintf(out, "%s%s %" PRIu64, between, node_types[i], c->types[i]);
		between = ", ";
	}
	if (c->torn)
		fputs("; the last message is cut off, as of a recording that goes on or was killed", out);
	check_summary_end(c->report, out);
}

static void check_clear(struct et_check *c)
{
	HASH_CLEAR(hh, c->by_id);
	for (size_t i = 0; i < c->n_nodes; i++)
		free(c->nodes[i]);
	free(c->nodes);
	free(c->deps);
}

void check_execution_trace(struct json_source *source, const char *path, struct check_report *report, FILE *out)
{
	struct et_check c = { .report = report };
	int err = read_all(&c, source);

	if (!err)
		err = check_cycles(&c);
	if (err)
		check_problem(report, "%s", strerror(-err));
	else if (!c.messages && !report->problems)
		check_problem(report, c.torn ? "has no whole message; is this an execution trace?" : "is empty");
	else if (c.messages)
		summary_print(&c, path, out);
	check_clear(&c);
}
