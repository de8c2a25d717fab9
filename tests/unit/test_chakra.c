/* SPDX-License-Identifier: BSD-2-Clause */
/* Execution traces: dependencies of a step's operators, when they ran, and what is written about them. */
#include "engine/spec.h"
#include "format/chakra.h"
#include "sinks.h"

#define MAIN 10u
#define WORKER 11u

static struct et_step step;
static struct et_node nodes[16];
static struct et_call calls[32];

/* A node at an address, with the addresses of its sources, terminated by 0. */
static struct et_node *node(uint64_t addr, uint64_t view, const uint64_t *sources)
{
	struct et_node *n = &nodes[step.n_nodes++];

	memset(n, 0, sizeof(*n));
	n->t.addr = addr;
	n->t.view = view;
	for (unsigned int i = 0; i < ET_DIMENSIONS; i++)
		n->t.shape[i] = 1;
	n->tid = MAIN;
	n->seen_ns = START + step.n_nodes * 1000;
	for (; *sources; sources++)
		n->sources[n->n_sources++].addr = *sources;
	return n;
}

static void call(uint32_t tid, uint64_t start, uint64_t dur)
{
	calls[step.n_calls++] = (struct et_call){ .start_ns = START + start, .end_ns = START + start + dur, .tid = tid, .op = ET_NO_OP };
}

#define FROM(...) ((const uint64_t[]){ __VA_ARGS__, 0 })

static int begin(void **state)
{
	step = (struct et_step){ .nodes = nodes, .calls = calls };
	return 0;
}

static void assert_data(const struct et_node *n, const uint64_t *ids)
{
	unsigned int i = 0;

	for (; ids[i]; i++)
		assert_true(i < n->n_data && n->data[i] == ids[i]);
	assert_int_equal(n->n_data, i);
}

/* 1 is a weight; 2, 3 and 5 are results. */
TEST_WITH(test_results, begin, NULL)
{
	node(2, 0, FROM(1));
	node(3, 0, FROM(2, 1));
	node(5, 0, FROM(3, 2, 3));
	node(2, 0, FROM(5)); /* a node's memory may be reused: the last node counts */
	node(6, 0, FROM(2));
	et_step_resolve(&step, 100, 0);
	assert_data(&nodes[0], FROM(0));
	assert_data(&nodes[1], FROM(100));
	assert_data(&nodes[2], FROM(101, 100));
	assert_data(&nodes[3], FROM(102));
	assert_data(&nodes[4], FROM(103));
	for (unsigned int i = 0; i < 5; i++) {
		assert_int_equal(nodes[i].id, 100 + i);
		assert_int_equal(nodes[i].n_control, 0);
		assert_false(nodes[i].timed);
	}
}

/* A result is used through a view, through a view of a view, and after it was changed in place. */
TEST_WITH(test_views, begin, NULL)
{
	struct et_node *n;

	node(2, 0, FROM(1));
	n = node(5, 0, FROM(30));
	n->sources[0].source = 2;
	n->sources[0].view = 2;
	n = node(6, 0, FROM(31));
	n->sources[0].source = 30; /* for which no function ran */
	n->sources[0].view = 2;
	node(7, 2, FROM(2)); /* in place */
	n = node(8, 0, FROM(32));
	n->sources[0].source = 33;
	n->sources[0].view = 2;
	et_step_resolve(&step, 1, 0);
	assert_data(&nodes[1], FROM(1));
	assert_data(&nodes[2], FROM(1));
	assert_data(&nodes[3], FROM(1));
	assert_data(&nodes[4], FROM(4));
}

/* 9 is a cache, which outlives the step: written by one operator and read by another. */
TEST_WITH(test_memory, begin, NULL)
{
	struct et_node *n;

	node(2, 0, FROM(1));
	n = node(3, 9, FROM(2, 9));
	n = node(4, 0, FROM(40));
	n->sources[0].source = 9;
	n->sources[0].view = 9;
	et_step_resolve(&step, 1, 0);
	assert_data(&nodes[1], FROM(1));
	assert_int_equal(nodes[1].n_control, 0);
	assert_data(&nodes[2], FROM(0));
	assert_int_equal(nodes[2].n_control, 1);
	assert_int_equal(nodes[2].control[0], 2);
}

/* Whichever program runs first, with a thread that ends later and one that joined late. */
TEST_WITH(test_times, begin, NULL)
{
	for (int after = 0; after < 2; after++) {
		begin(state);
		node(2, 0, FROM(1));
		node(3, 0, FROM(2));
		node(4, 0, FROM(3));
		for (unsigned int i = 0; i < 3; i++) {
			call(WORKER, 1005 + 1000 * i, i == 1 ? 700 : 10);
			call(MAIN, after ? 1000 * i + 995 : 1000 * i + 1005, 500);
		}
		call(WORKER + 1, 2100, 5000);
		et_step_resolve(&step, 1, 0);
		for (unsigned int i = 0; i < 3; i++) {
			assert_true(nodes[i].timed);
			assert_int_equal(nodes[i].start_ns, START + 1000 * i + (after ? 995 : 1005));
			assert_int_equal(nodes[i].dur_ns, i == 1 ? 700 + (after ? 10 : 0) : 500);
			assert_int_equal(nodes[i].fused_into, 0);
		}
	}
}

/* A call that computes two nodes, copied in the wrong order. */
TEST_WITH(test_fused, begin, NULL)
{
	node(2, 0, FROM(1));
	node(4, 0, FROM(3, 1))->seen_ns = START + 2000;
	node(3, 0, FROM(2))->seen_ns = START + 2001;
	node(5, 0, FROM(4))->seen_ns = START + 3000;
	call(MAIN, 990, 100);
	call(MAIN, 1990, 200);
	call(MAIN, 2990, 300);
	et_step_resolve(&step, 1, 0);
	assert_int_equal(nodes[1].t.addr, 3);
	assert_int_equal(nodes[1].id, 2);
	assert_int_equal(nodes[1].fused_into, 3);
	assert_int_equal(nodes[1].dur_ns, 0);
	assert_int_equal(nodes[2].t.addr, 4);
	assert_int_equal(nodes[2].dur_ns, 200);
	assert_int_equal(nodes[3].dur_ns, 300);
	assert_data(&nodes[1], FROM(1));
	assert_data(&nodes[2], FROM(2));
	assert_data(&nodes[3], FROM(3));
}

/* A node without dependencies in its own step comes after the step before; the others do so through it. */
TEST_WITH(test_step_before, begin, NULL)
{
	node(2, 0, FROM(1));
	node(3, 0, FROM(2));
	node(4, 0, FROM(1));
	et_step_resolve(&step, 8, 7);
	assert_int_equal(nodes[0].n_control, 1);
	assert_int_equal(nodes[0].control[0], 7);
	assert_int_equal(nodes[1].n_control, 0);
	assert_data(&nodes[1], FROM(8));
	assert_int_equal(nodes[2].n_control, 1);
	assert_int_equal(nodes[2].control[0], 7);
}

/* A function called for a result without elements is no node, but counts as a call. */
TEST_WITH(test_empty, begin, NULL)
{
	node(2, 0, FROM(1))->t.shape[1] = 0;
	node(3, 0, FROM(2));
	node(4, 0, FROM(3, 2));
	for (unsigned int i = 0; i < 3; i++)
		call(MAIN, 1010 + 1000 * i, 100 + i);
	et_step_resolve(&step, 5, 0);
	assert_int_equal(step.n_nodes, 2);
	assert_int_equal(nodes[0].t.addr, 3);
	assert_int_equal(nodes[0].id, 5);
	assert_int_equal(nodes[0].dur_ns, 101);
	assert_data(&nodes[0], FROM(0));
	assert_int_equal(nodes[1].dur_ns, 102);
	assert_data(&nodes[1], FROM(5));
}

/* A call of another operator than the node's: no times rather than wrong ones. */
TEST_WITH(test_other_operator, begin, NULL)
{
	node(2, 0, FROM(1))->t.op = 7;
	call(MAIN, 990, 100);
	calls[0].op = 8;
	et_step_resolve(&step, 1, 0);
	assert_false(nodes[0].timed);
}

/* ---- from records to the file ---- */

static const struct node_fields layout = {
	.layout = { .bytes = 200, .sources = 16, .n_sources = 2 },
	.op = 4,
	.type = 0,
	.view = 8,
	.shape = 32,
	.stride = 64,
	.name = 96,
};

TEST(test_record)
{
	static struct rec_node r;
	const struct enum_table names = { .names = (char *[]){ "none", "add" }, .n = 2 };
	struct node_fields f = layout;
	struct et_node n;
	uint32_t op = 1;
	uint64_t four = 4, far = UINT64_MAX;

	f.ops = f.types = &names;
	r.h.tid = MAIN;
	r.n = 3;
	for (unsigned int i = 0; i < 3; i++) {
		r.at[i] = 100 + i;
		memset(r.nodes[i], 'x', NODE_BYTES_MAX); /* its name has no NUL, and its shape is nonsense */
	}
	memcpy(r.nodes[0] + f.op, &op, sizeof(op));
	for (unsigned int i = 0; i < 4; i++) {
		memcpy(r.nodes[0] + f.shape + 8 * i, &four, 8);
		memcpy(r.nodes[0] + f.stride + 8 * i, i == 2 ? &far : &four, 8);
	}
	r.unread = 1 << 2;
	assert_true(et_node_read(&r, &f, &n));
	assert_string_equal(n.t.op_name, "add");
	assert_int_equal(strlen(n.t.name), ET_NAME_LEN - 1);
	assert_int_equal(n.t.bytes, 16); /* of the valid strides */
	assert_int_equal(n.n_sources, 2);
	assert_null(n.sources[0].op_name);
	assert_int_equal(n.sources[1].addr, 102);
	assert_string_equal(n.sources[1].name, "");
	r.unread = 1;
	assert_false(et_node_read(&r, &f, &n));
	r.unread = 0;
	r.n = NODES_MAX + 1;
	assert_false(et_node_read(&r, &f, &n));
	r.n = 0;
	assert_false(et_node_read(&r, &f, &n));
}

/* ---- communication ---- */

TEST(test_comm)
{
	struct rec_function r = { .h = { .start_ns = 5, .dur_ns = 6, .tid = MAIN }, .vals = { 10, 1, 0xc0 } };
	uint8_t sizes[] = { 1, 4 };
	const struct enum_table types = { .names = (char *[]){ "int8", "float32" }, .n = 2, .bytes = sizes };
	struct probe_spec s = {
		.symbol = "ncclSend",
		.nargs = 3,
		.args = { { .name = "count" }, { .name = "type", .names = &types }, { .name = "comm" } },
		.bytes_count = 1,
		.bytes_type = 1,
	};
	struct et_comm m;

	assert_true(et_comm_read(&s, &r, &m));
	assert_int_equal(m.node_type, 5);
	assert_true(m.has_bytes && m.has_comm && !m.has_peer);
	assert_int_equal(m.bytes, 40);
	assert_int_equal(m.comm, 0xc0);
	assert_int_equal(m.call_ns, 6);
	s.args[2].name = "peer";
	assert_true(et_comm_read(&s, &r, &m));
	assert_true(!m.has_comm && m.has_peer);
	assert_int_equal(m.peer, 0xc0);
	s.symbol = "ncclReduceScatter";
	s.args[2].name = "root";
	r.vals[1] = 7; /* an unknown type */
	assert_true(et_comm_read(&s, &r, &m));
	assert_int_equal(m.node_type, 7);
	assert_int_equal(m.coll, 7);
	assert_true(!m.has_bytes && m.has_peer);
	s.symbol = "ncclGroupStart";
	assert_false(et_comm_read(&s, &r, &m));
	s.symbol = "ncclAllReduceX";
	assert_false(et_comm_read(&s, &r, &m));
}

/* Operations of one communicator follow one another by time; each communicator starts after the step before. */
TEST(test_comm_order)
{
	struct et_comm list[] = { { .start_ns = 30, .comm = 1 }, { .start_ns = 10, .comm = 1 }, { .start_ns = 20, .comm = 2 },
		{ .start_ns = 40, .comm = 2 } };
	struct et_step s = { .comms = list, .n_comms = 4 };

	et_comms_resolve(&s, 50, 7);
	for (unsigned int i = 0; i < 4; i++) {
		assert_int_equal(list[i].start_ns, 10 * (i + 1));
		assert_int_equal(list[i].id, 50 + i);
	}
	assert_int_equal(list[0].after, 7);
	assert_int_equal(list[1].after, 7);
	assert_int_equal(list[2].after, 50);
	assert_int_equal(list[3].after, 51);
}

/* Calls of operators that call others: places and own times, per thread. */
TEST_WITH(test_calls, begin, NULL)
{
	static const struct {
		uint32_t tid;
		uint64_t start, dur, parent, after, own;
	} want[] = {
		{ MAIN, 10, 100, 0, 7, 100 - 30 - 20 },
		{ MAIN, 10, 30, 50, 50, 30 - 5 },
		{ MAIN, 20, 5, 51, 51, 5 },
		{ MAIN, 50, 0, 50, 52, 0 }, /* its end is unknown */
		{ MAIN, 90, 20, 50, 53, 20 },
		{ MAIN, 110, 5, 0, 54, 5 },
		{ WORKER, 15, 3, 0, 7, 3 },
	};
	static const size_t order[] = { 6, 2, 4, 1, 0, 5, 3 };

	for (size_t i = 0; i < ARRAY_SIZE(order); i++)
		call(want[order[i]].tid, want[order[i]].start, want[order[i]].dur);
	et_calls_resolve(&step, 50, 7);
	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		assert_int_equal(calls[i].id, 50 + i);
		assert_int_equal(calls[i].start_ns, START + want[i].start);
		assert_int_equal(calls[i].parent, want[i].parent);
		assert_int_equal(calls[i].after, want[i].after);
		assert_int_equal(calls[i].own_ns, want[i].own);
	}
}

/* The largest node fits, whatever its names are. */
TEST(test_largest)
{
	static char buf[WRITER_EVENT_MAX + 64];
	const struct et_context c = { .phase = "decode", .step = UINT64_MAX, .tgid = UINT32_MAX };
	struct et_node n = { .id = UINT64_MAX, .timed = true, .start_ns = UINT64_MAX / 2, .dur_ns = UINT64_MAX / 2 };
	char type[64];
	char *end;

	memset(type, 'q', sizeof(type) - 1);
	type[63] = 0;
	n.n_sources = n.n_data = ET_SOURCES_MAX;
	n.t.type = n.t.op_name = type;
	n.t.bytes = UINT64_MAX;
	memset(n.t.name, 1, ET_NAME_LEN - 1);
	for (unsigned int i = 0; i < ET_DIMENSIONS; i++)
		n.t.shape[i] = UINT64_MAX;
	for (unsigned int i = 0; i < ET_SOURCES_MAX; i++) {
		n.sources[i] = n.t;
		n.data[i] = n.control[i] = UINT64_MAX;
	}
	n.n_control = ET_SOURCES_MAX;
	memset(buf, 0x5a, sizeof(buf));
	end = et_write_node(buf, &n, &c);
	assert_true(end - buf <= WRITER_EVENT_MAX);
	assert_int_equal(((uint8_t)buf[0] & 0x7f) | (uint8_t)buf[1] << 7, end - buf - 2);
}

/* So does a call with the most arguments. */
TEST(test_largest_call)
{
	static char buf[WRITER_EVENT_MAX + 64];
	const struct et_context context = { .phase = "decode", .step = UINT64_MAX, .tgid = UINT32_MAX };
	char name[SPEC_STRING_MAX + 1], *end;
	struct et_call c = { .name = name, .declared = name, .end_ns = UINT64_MAX, .args = { .n = 32, .tensors = 0x1f, .regs = 0x1f, .n_types = 47 } };

	memset(name, 1, sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	c.id = c.parent = c.after = c.number = UINT64_MAX;
	for (unsigned int i = 0; i < FUNC_VALS_MAX; i += 2) {
		c.shapes[i] = SHAPE_SIZES | (~UINT64_C(0) << (SHAPE_COUNT_BITS + 1) & ~(UINT64_C(1) << (SHAPE_COUNT_BITS + SHAPE_BITS)));
		c.shapes[i + 1] = ~(1 | UINT64_C(1) << SHAPE_REST_BITS | UINT64_C(1) << 2 * SHAPE_REST_BITS |
				    UINT64_C(63) << (2 * SHAPE_REST_BITS + SHAPE_LAST_BITS)) |
				  UINT64_C(30) << (2 * SHAPE_REST_BITS + SHAPE_LAST_BITS);
	}
	end = et_write_call(buf, &c, &context);
	assert_true(end - buf <= WRITER_EVENT_MAX);
	assert_int_equal(((uint8_t)buf[0] & 0x7f) | (uint8_t)buf[1] << 7, end - buf - 2);
	end = et_json_call(buf, &c, 1);
	assert_true(end - buf <= WRITER_EVENT_MAX);
}

RUN_TESTS(NULL, NULL)
