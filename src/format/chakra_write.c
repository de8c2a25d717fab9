// SPDX-License-Identifier: BSD-2-Clause
/*
 * Messages of an execution trace: GlobalMetadata and then Nodes, each length-prefixed. Field numbers:
 * schema/protobuf/et_def.proto of mlcommons/chakra.
 */
#include "format/chakra.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "format/derive.h"
#include "format/inputs.h"
#include "io/writer.h"
#include "schema/proto.h"
#include "util/clock.h"
#include "util/fmt.h"
#include "util/names.h"

enum metadata_field { METADATA_VERSION = 1,
	METADATA_ATTR = 2 };

enum node_field {
	NODE_ID = 1,
	NODE_NAME = 2,
	NODE_TYPE = 3,
	NODE_CTRL_DEPS = 4,
	NODE_DATA_DEPS = 5,
	NODE_START_MICROS = 6,
	NODE_DURATION_MICROS = 7,
	NODE_INPUTS = 8,
	NODE_OUTPUTS = 9,
	NODE_ATTR = 10,
};

enum attr_field { ATTR_NAME = 1,
	ATTR_INT32 = 7,
	ATTR_INT64 = 9,
	ATTR_UINT64 = 13,
	ATTR_BOOL = 27,
	ATTR_STRING = 29 };

#define COMP_NODE 4
#define COLL_NODE 7
#define SEND_NODE 5
#define VERSION "0.0.4"

/* A byte of a name takes at most six, an id ten. */
_Static_assert((ET_SOURCES_MAX + 1) * (FMT_JSON_STR_MAX(ET_NAME_LEN) + ET_DIMENSIONS * 22 + 80) + 2 * ET_SOURCES_MAX * 10 + 1024 <=
		       WRITER_EVENT_MAX,
	"a node fits an event");

static char *attr_u64(char *p, uint32_t field, const char *name, uint32_t kind, uint64_t v)
{
	char *mark;

	p = proto_open(p, field, &mark);
	p = proto_text(p, ATTR_NAME, name, strlen(name));
	p = proto_u64(p, kind, v);
	return proto_close(mark, p);
}

static char *attr_text(char *p, uint32_t field, const char *name, const char *v)
{
	char *mark;

	p = proto_open(p, field, &mark);
	p = proto_text(p, ATTR_NAME, name, strlen(name));
	p = proto_text(p, ATTR_STRING, v, strlen(v));
	return proto_close(mark, p);
}

char *et_write_metadata(char *p, const char *engine)
{
	char *begin = p;

	p += 2;
	p = proto_text(p, METADATA_VERSION, VERSION, strlen(VERSION));
	p = attr_text(p, METADATA_ATTR, "tool", "inftrace");
	if (engine)
		p = attr_text(p, METADATA_ATTR, "engine", engine);
	return proto_close(begin, p);
}

static char *write_packed_ids(char *p, uint32_t field, const uint64_t *ids, unsigned int n)
{
	char *mark;

	if (!n)
		return p;
	p = proto_open(p, field, &mark);
	for (unsigned int i = 0; i < n; i++)
		p = proto_varint(p, ids[i]);
	return proto_close(mark, p);
}

static char *write_shape_of(char *p, const struct et_tensor *t)
{
	for (unsigned int d = 0; d < ET_DIMENSIONS; d++)
		p = fmt_u64(fmt_str(p, d ? "," : "[", 1), t->shape[d]);
	return fmt_lit(p, "]");
}

/* Writes the values, shapes and types of tensors, each a list as text. */
static char *write_tensors(char *p, uint32_t field, const struct et_tensor *t, unsigned int n)
{
	char *mark, *text;

	p = proto_open(p, field, &mark);
	for (enum input_list list = INPUT_VALUES; list <= INPUT_TYPES; list++) {
		p = fmt_lit(proto_open(p, list, &text), "[");
		for (unsigned int i = 0; i < n; i++) {
			const char *type = t[i].type ? t[i].type : "unknown";

			if (i)
				*p++ = ',';
			if (list == INPUT_VALUES)
				p = fmt_json_str(p, t[i].name, strlen(t[i].name));
			else if (list == INPUT_SHAPES)
				p = write_shape_of(p, &t[i]);
			else /* from a preset: at most 63 bytes, nothing to escape */
				p = fmt_lit(fmt_str(fmt_lit(p, "\""), type, strnlen(type, 63)), "\"");
		}
		p = proto_close(text, fmt_lit(p, "]"));
	}
	return proto_close(mark, p);
}

static char *write_context(char *p, const struct et_context *c, uint32_t tid)
{
	p = attr_u64(p, NODE_ATTR, "step", ATTR_UINT64, c->step);
	p = attr_text(p, NODE_ATTR, "phase", c->phase);
	p = attr_u64(p, NODE_ATTR, "pid", ATTR_UINT64, c->tgid);
	return attr_u64(p, NODE_ATTR, "tid", ATTR_UINT64, tid);
}

char *et_write_node(char *p, const struct et_node *n, const struct et_context *c)
{
	const char *op = n->t.op_name ? n->t.op_name : "unknown", *name = *n->t.name ? n->t.name : op;
	char *begin = p;

	p += 2;
	p = proto_u64(p, NODE_ID, n->id);
	p = proto_text(p, NODE_NAME, name, strlen(name));
	p = proto_u64(p, NODE_TYPE, COMP_NODE);
	p = write_packed_ids(p, NODE_CTRL_DEPS, n->control, n->n_control);
	p = write_packed_ids(p, NODE_DATA_DEPS, n->data, n->n_data);
	if (n->timed) {
		p = proto_u64(p, NODE_START_MICROS, (n->start_ns + c->real_ns) / 1000);
		p = proto_u64(p, NODE_DURATION_MICROS, (n->dur_ns + 500) / 1000);
	}
	p = write_tensors(p, NODE_INPUTS, n->sources, n->n_sources);
	p = write_tensors(p, NODE_OUTPUTS, &n->t, 1);
	p = attr_u64(p, NODE_ATTR, "is_cpu_op", ATTR_BOOL, true);
	p = attr_text(p, NODE_ATTR, "op", op);
	p = attr_u64(p, NODE_ATTR, "tensor_size", ATTR_UINT64, n->t.bytes);
	p = attr_u64(p, NODE_ATTR, "address", ATTR_UINT64, n->t.addr);
	p = write_context(p, c, n->tid);
	if (n->fused_into)
		p = attr_u64(p, NODE_ATTR, "fused_into", ATTR_UINT64, n->fused_into);
	else if (n->timed)
		p = attr_u64(p, NODE_ATTR, "duration_ns", ATTR_UINT64, n->dur_ns);
	return proto_close(begin, p);
}

/* A call on the host. Its duration excludes the calls inside it, so that all durations add up to the time of their thread. */
char *et_write_call(char *p, const struct et_call *call, const struct et_context *c)
{
	const uint64_t after[] = { call->after, call->parent };
	size_t len;
	const char *name = operator_name(call->declared, call->name, &len);
	char *begin = p, *inputs, *text;

	p += 2;
	p = proto_u64(p, NODE_ID, call->id);
	p = proto_text(p, NODE_NAME, name, len);
	p = proto_u64(p, NODE_TYPE, COMP_NODE);
	p = write_packed_ids(p, NODE_CTRL_DEPS, after, (call->after != 0) + (call->parent && call->parent != call->after));
	p = proto_u64(p, NODE_START_MICROS, (call->start_ns + c->real_ns) / 1000);
	if (call->end_ns > call->start_ns) {
		p = proto_u64(p, NODE_DURATION_MICROS, (call->own_ns + 500) / 1000);
		p = attr_u64(p, NODE_ATTR, "duration_ns", ATTR_UINT64, call->end_ns - call->start_ns);
		p = attr_u64(p, NODE_ATTR, "own_ns", ATTR_UINT64, call->own_ns);
	}
	if (call->args.n) {
		p = proto_open(p, NODE_INPUTS, &inputs);
		for (enum input_list list = INPUT_VALUES; list <= INPUT_TYPES; list++) {
			p = proto_open(p, list, &text);
			p = proto_close(text, inputs_write(p, &call->args, call->shapes, list));
		}
		p = proto_close(inputs, p);
	}
	p = attr_u64(p, NODE_ATTR, "is_cpu_op", ATTR_BOOL, true);
	p = attr_text(p, NODE_ATTR, "op", call->name);
	if (call->declared)
		p = attr_text(p, NODE_ATTR, "op_schema", call->declared);
	if (call->parent)
		p = attr_u64(p, NODE_ATTR, "parent", ATTR_UINT64, call->parent);
	p = write_context(p, c, call->tid);
	return proto_close(begin, p);
}

/* Attribute names and kinds are those that the feeder of mlcommons/chakra reads. No duration: the call only enqueues work,
 * which the GPU does later. */
char *et_write_comm(char *p, const struct et_comm *m, const struct et_context *c)
{
	const char *peer = m->node_type == SEND_NODE ? "comm_dst" : "comm_src";
	char *begin = p, group[2 + 16 + 1];

	*fmt_hex(group, m->comm) = '\0';
	p += 2;
	p = proto_u64(p, NODE_ID, m->id);
	p = proto_text(p, NODE_NAME, m->name, strlen(m->name));
	p = proto_u64(p, NODE_TYPE, m->node_type);
	p = write_packed_ids(p, NODE_CTRL_DEPS, &m->after, m->after != 0);
	p = proto_u64(p, NODE_START_MICROS, (m->start_ns + c->real_ns) / 1000);
	p = attr_u64(p, NODE_ATTR, "is_cpu_op", ATTR_BOOL, false);
	if (m->node_type == COLL_NODE)
		p = attr_u64(p, NODE_ATTR, "comm_type", ATTR_INT64, m->coll);
	if (m->has_bytes)
		p = attr_u64(p, NODE_ATTR, "comm_size", ATTR_INT64, m->bytes);
	if (m->has_peer)
		p = attr_u64(p, NODE_ATTR, m->node_type == COLL_NODE ? "root" : peer, ATTR_INT32, m->peer);
	if (m->has_comm)
		p = attr_text(p, NODE_ATTR, "pg_name", group);
	p = attr_u64(p, NODE_ATTR, "call_ns", ATTR_UINT64, m->call_ns);
	p = write_context(p, c, m->tid);
	return proto_close(begin, p);
}

/*
 * ---- PyTorch's own form, as its ExecutionTraceObserver writes it ----
 *
 * JSON: each node names its caller, and its attribute rf_id is the number of the same call in a Kineto trace.
 */
#define SCHEMA "1.1.0-chakra.0.0.4"
#define ROOT_NAME "[pytorch|profiler|execution_trace|process]"
#define THREAD_NAME "[pytorch|profiler|execution_trace|thread]"
#define SCOPE_USER 7 /* RecordScope: not a function */

static char *json_write_attr(char *p, const char *name, const char *type, uint64_t v)
{
	p = fmt_str(fmt_lit(p, ",{\"name\":\""), name, strlen(name));
	p = fmt_str(fmt_lit(p, "\",\"type\":\""), type, strlen(type));
	return fmt_lit(fmt_u64(fmt_lit(p, "\",\"value\":"), v), "}");
}

static char *json_write_node(char *p, uint64_t id, const char *name, size_t len, uint64_t parent, const struct et_call *c)
{
	p = fmt_u64(fmt_lit(p, "{\"id\":"), id);
	p = fmt_json_str(fmt_lit(p, ",\"name\":"), name, len);
	p = fmt_u64(fmt_lit(p, ",\"ctrl_deps\":"), parent);
	p = inputs_write(fmt_lit(p, ",\"inputs\":{\"values\":"), &c->args, c->shapes, INPUT_VALUES);
	p = inputs_write(fmt_lit(p, ",\"shapes\":"), &c->args, c->shapes, INPUT_SHAPES);
	p = inputs_write(fmt_lit(p, ",\"types\":"), &c->args, c->shapes, INPUT_TYPES);
	p = fmt_lit(p, "},\"outputs\":{\"values\":[],\"shapes\":[],\"types\":[]},\"attrs\":[");
	p = fmt_lit(p, "{\"name\":\"seq_id\",\"type\":\"int64\",\"value\":-1}");
	p = json_write_attr(p, "rf_id", "uint64", c->number);
	p = json_write_attr(p, "fw_parent", "uint64", 0);
	p = json_write_attr(p, "scope", "uint64", c->name ? 0 : SCOPE_USER);
	p = json_write_attr(p, "tid", "uint64", c->tid);
	p = json_write_attr(p, "fw_tid", "uint64", 0);
	p = fmt_lit(p, ",{\"name\":\"op_schema\",\"type\":\"string\",\"value\":");
	p = c->declared ? fmt_json_str(p, c->declared, strlen(c->declared)) : fmt_lit(p, "\"\"");
	return fmt_lit(p, "}]}");
}

char *et_json_begin(char *p, uint64_t real_ns, uint64_t mono_ns)
{
	time_t when = (time_t)(real_ns / NSEC_PER_SEC);
	char date[24] = "";
	struct tm tm;

	if (localtime_r(&when, &tm))
		strftime(date, sizeof(date), "%F %T", &tm);
	p = fmt_json_str(fmt_lit(p, "{\"schema\":\"" SCHEMA "\",\"time\":"), date, strlen(date));
	p = fmt_lit(fmt_u64(fmt_lit(p, ",\"start_ts\":"), mono_ns / 1000), ",\"nodes\":[\n");
	return json_write_node(p, ET_JSON_ROOT, ROOT_NAME, strlen(ROOT_NAME), ET_JSON_ROOT, &(struct et_call){ 0 });
}

void et_json_end(struct writer *w, uint32_t pid, uint64_t mono_ns)
{
	char text[WRITER_TAIL_MAX];

	writer_set_tail(w, text, (size_t)snprintf(text, sizeof(text), "\n],\"pid\":%u,\"finish_ts\":%" PRIu64 "}\n", pid, mono_ns / 1000));
}

char *et_json_thread(char *p, uint64_t id, uint32_t tid)
{
	return json_write_node(fmt_lit(p, ",\n"), id, THREAD_NAME, strlen(THREAD_NAME), ET_JSON_ROOT, &(struct et_call){ .tid = tid });
}

char *et_json_call(char *p, const struct et_call *c, uint64_t thread)
{
	size_t len;
	const char *name = operator_name(c->declared, c->name, &len);

	return json_write_node(fmt_lit(p, ",\n"), c->id, name, len, c->parent ? c->parent : thread, c);
}
