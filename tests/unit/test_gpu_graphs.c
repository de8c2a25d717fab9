/* SPDX-License-Identifier: BSD-2-Clause */
/* Nodes of CUDA graphs: their places, and the operators in which they were captured. */
#include "gpu/join.h"
#include "unit.h"

#define TID 100
#define KERNELS 3
#define STREAM 0xaa

static struct gpu_graphs *graphs;
static struct gpu_join *join;

static int set_up(void **state)
{
	graphs = gpu_graphs_new();
	join = gpu_join_new(graphs);
	return 0;
}

static int tear_down(void **state)
{
	gpu_join_free(join);
	gpu_graphs_free(graphs);
	return 0;
}

static void call(enum launch_kind kind, uint64_t ns, uint32_t grid)
{
	const struct launch l = { .start_ns = ns,
		.end_ns = ns + 5,
		.stream = STREAM,
		.tid = TID,
		.grid = { grid, 1, 1 },
		.block = { 32, 1, 1 },
		.kind = kind,
		.has_stream = true,
		.has_shape = kind == LAUNCH_KERNEL };

	gpu_join_call(join, &l);
}

/* Captures, from then on, kernels with these grids, the i-th in operator ops[i]; 0: in none. */
static void capture(uint64_t ns, const uint32_t *grids, const uint32_t *ops)
{
	call(LAUNCH_CAPTURE, ns, 0);
	for (uint32_t i = 0; i < KERNELS; i++) {
		call(LAUNCH_KERNEL, ns + 10 + 20 * i, grids[i]);
		if (ops[i])
			gpu_graphs_operator(graphs, TID, ns + 5 + 20 * i, ns + 20 + 20 * i, ops[i]);
	}
	call(LAUNCH_CAPTURE_END, ns + 100, 0);
}

/* A launch of a graph with nodes numbers[]; seen: its call was. Its parts may follow. */
static void launch(struct rec_gpu *list, uint32_t graph, uint32_t correlation, const uint64_t *numbers, const uint32_t *grids, bool seen)
{
	for (uint32_t i = 0; i < KERNELS; i++)
		list[i] = (struct rec_gpu){ .h = { .kind = REC_GPU, .id = GPU_KERNEL, .start_ns = 5000 + 10 * i, .dur_ns = 5 },
			.graph = graph,
			.graph_node = numbers[i],
			.correlation = correlation,
			.grid = { grids[i], 1, 1 },
			.block = { 32, 1, 1 },
			.launch_tid = seen ? TID : 0,
			.launch_ns = 4000 };
}

static void check(const struct rec_gpu *list, uint32_t a, uint32_t b, uint32_t c, uint32_t op_a, uint32_t op_b, uint32_t op_c)
{
	const uint32_t positions[KERNELS] = { a, b, c }, ops[KERNELS] = { op_a, op_b, op_c };

	for (int i = 0; i < KERNELS; i++) {
		assert_int_equal(list[i].graph_position, positions[i]);
		assert_int_equal(list[i].captured_in, ops[i]);
	}
}

/* All at once. */
#define CHECK_LAUNCH(graph, correlation, numbers, grids, seen, ...)      \
	do {                                                             \
		struct rec_gpu whole[KERNELS];                           \
		launch(whole, graph, correlation, numbers, grids, seen); \
		gpu_graphs_launched(graphs, whole, KERNELS);             \
		check(whole, __VA_ARGS__);                               \
	} while (0)

static const uint32_t grids[KERNELS] = { 1, 2, 3 };
static const uint64_t nodes[KERNELS] = { 71, 72, 73 };

TEST_WITH(test_replayed, set_up, tear_down)
{
	static const uint64_t swapped[KERNELS] = { 72, 71, 73 };
	static const uint32_t swapped_grids[KERNELS] = { 2, 1, 3 };
	struct rec_gpu list[KERNELS];

	capture(1000, grids, (const uint32_t[]){ 5, 0, 6 });
	CHECK_LAUNCH(9, 1, nodes, grids, true, 1, 2, 3, 5, 0, 6);
	/* branches run side by side: in another order the next time */
	CHECK_LAUNCH(9, 2, swapped, swapped_grids, true, 2, 1, 3, 0, 5, 6);
	/* its first records are missing, and its call */
	launch(list, 9, 3, nodes, grids, false);
	gpu_graphs_launched(graphs, list + 1, KERNELS - 1);
	check(list, 0, 2, 3, 0, 0, 6);
	/* another graph of the same capture, whose second branch ran first */
	CHECK_LAUNCH(10, 4, swapped, swapped_grids, true, 2, 1, 3, 0, 5, 6);
}

TEST_WITH(test_unknown, set_up, tear_down)
{
	static const uint64_t others[KERNELS] = { 81, 82, 83 };
	static const uint32_t other_grids[KERNELS] = { 1, 2, 4 };
	struct rec_gpu list[KERNELS];

	capture(1000, grids, (const uint32_t[]){ 5, 5, 5 });
	CHECK_LAUNCH(9, 1, nodes, grids, false, 0, 0, 0, 0, 0, 0);      /* its beginning is unknown */
	CHECK_LAUNCH(9, 2, nodes, other_grids, true, 1, 2, 3, 0, 0, 0); /* no capture matches */
	CHECK_LAUNCH(9, 3, others, grids, true, 1, 2, 3, 5, 5, 5);      /* it was updated */
	/* in parts, the second of which is lost */
	launch(list, 11, 4, nodes, grids, true);
	gpu_graphs_launched(graphs, list, 1);
	gpu_graphs_lost(graphs);
	launch(list, 11, 4, nodes, grids, true);
	gpu_graphs_launched(graphs, list + 2, 1);
	check(list, 0, 0, 0, 0, 0, 0);
	launch(list, 11, 5, nodes, grids, true);
	gpu_graphs_launched(graphs, list, 1); /* in parts, all of which arrive */
	gpu_graphs_launched(graphs, list + 1, 2);
	assert_int_equal(list[0].graph_position, 1);
	assert_int_equal(list[2].graph_position, 3);
	assert_int_equal(list[2].captured_in, 5);
}

/* Where several captures are alike, their differences are not reported; a capture after the launch is not what was launched. */
TEST_WITH(test_alike, set_up, tear_down)
{
	capture(1000, grids, (const uint32_t[]){ 5, 6, 7 });
	capture(2000, grids, (const uint32_t[]){ 5, 8, 7 });
	capture(4500, grids, (const uint32_t[]){ 1, 1, 1 });
	CHECK_LAUNCH(9, 1, nodes, grids, true, 1, 2, 3, 5, 0, 7);
}

/* The records of calls come after the end; an operator has what it contains, and no more. */
TEST_WITH(test_late, set_up, tear_down)
{
	call(LAUNCH_CAPTURE_END, 1100, 0);
	call(LAUNCH_CAPTURE, 1000, 0);
	call(LAUNCH_KERNEL, 1050, 3);
	call(LAUNCH_KERNEL, 1030, 2);
	call(LAUNCH_KERNEL, 1010, 1);
	call(LAUNCH_KERNEL, 1110, 9); /* no longer captured */
	assert_true(gpu_graphs_has_captured(graphs, TID, 1025, 1040));
	assert_false(gpu_graphs_has_captured(graphs, TID + 1, 1025, 1040));
	assert_false(gpu_graphs_has_captured(graphs, TID, 1031, 1049));
	gpu_graphs_operator(graphs, TID, 1025, 1040, 4);
	assert_false(gpu_graphs_has_captured(graphs, TID, 1025, 1040)); /* the innermost came first */
	gpu_graphs_operator(graphs, TID, 1005, 1040, 2);
	CHECK_LAUNCH(9, 1, nodes, grids, true, 1, 2, 3, 2, 4, 0);
}

/* More than are kept: the oldest are forgotten, and learned again. */
TEST_WITH(test_many, set_up, tear_down)
{
	struct rec_gpu list[KERNELS];

	for (uint32_t i = 0; i < 2 * GRAPHS_CAPTURES_MAX; i++)
		capture(1000 + 200 * (uint64_t)i, (const uint32_t[]){ 10 * i + 1, 2, 3 }, (const uint32_t[]){ i + 1, 0, 0 });
	for (uint32_t i = 0; i < 2 * GRAPHS_MAX; i++) {
		uint32_t of = i % (2 * GRAPHS_CAPTURES_MAX);

		launch(list, i + 1, i + 1, nodes, (const uint32_t[]){ 10 * of + 1, 2, 3 }, true);
		list[0].launch_ns = 1 << 30;
		gpu_graphs_launched(graphs, list, KERNELS);
		check(list, 1, 2, 3, of < GRAPHS_CAPTURES_MAX ? 0 : of + 1, 0, 0);
	}
}

RUN_TESTS(NULL, NULL)
