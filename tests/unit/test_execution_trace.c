// SPDX-License-Identifier: BSD-2-Clause
/* inftrace validate of execution traces: those that inftrace writes, others', and damaged ones. */
#include "io/writer.h"
#include "sink/chakra.h"
#include "sink/proto.h"
#include "unit.h"
#include "validate/check.h"

static char file[1 << 16];
static char *end;
static char problems[4096];
static char *summary;

static void add_problem(void *ctx, const char *text)
{
	(void)ctx;
	snprintf(problems + strlen(problems), sizeof(problems) - strlen(problems), "%s\n", text);
}

static int begin(void **state)
{
	(void)state;
	end = et_write_metadata(file, "test");
	return 0;
}

static int finish(void **state)
{
	(void)state;
	free(summary);
	summary = NULL;
	return 0;
}

/* Returns how many problems it has. */
static uint64_t check(const char *from, size_t size)
{
	struct check_report report = { .problem = add_problem };
	struct json_source source;
	size_t len;
	FILE *out;

	*problems = 0;
	free(summary);
	out = open_memstream(&summary, &len);
	assert_non_null(out);
	assert_int_equal(json_source_open_mem(&source, from, size), 0);
	check_execution_trace(&source, "x.et", &report, out);
	json_source_close(&source);
	fclose(out);
	return report.problems;
}

static void expect(const char *problem)
{
	assert_int_equal(check(file, (size_t)(end - file)), 1);
	assert_string_equal(problems, problem);
}

/* A node as inftrace writes it. */
static void node(uint64_t id, uint64_t data, uint64_t control)
{
	const struct et_context c = { .phase = "decode" };
	struct et_node n = { .id = id, .data = { data }, .n_data = data != 0, .control = { control }, .n_control = control != 0 };

	strcpy(n.t.name, "n");
	end = et_write_node(end, &n, &c);
}

/* A node of others. types: the text of its output's types. */
static void node_of_others(uint64_t id, uint64_t type, const char *types)
{
	char *mark = end, *io;

	end += 2;
	end = proto_u64(end, 1, id);
	end = proto_text(end, 2, "other", 5);
	end = proto_u64(end, 3, type);
	end = proto_open(end, 9, &io);
	end = proto_text(end, 1, "[1]", 3);
	end = proto_text(end, 2, "[[1]]", 5);
	end = proto_text(end, 3, types, strlen(types));
	end = proto_close(io, end);
	end = proto_close(mark, end);
}

static void test_good(void **state)
{
	(void)state;
	node(1, 0, 0);
	node(2, 1, 0);
	node(3, 2, 1);
	node_of_others(9, 7, "[\"f\"]");
	assert_int_equal(check(file, (size_t)(end - file)), 0);
	assert_string_equal(summary, "x.et: execution trace, 4 nodes, 3 dependencies: COMP 3, COMM_COLL 1\n");
}

/* A file can end anywhere, and is valid up to its last whole message. */
static void test_cut(void **state)
{
	size_t whole;

	(void)state;
	node(1, 0, 0);
	whole = (size_t)(end - file);
	node(2, 1, 0);
	for (size_t size = whole; size < (size_t)(end - file); size++) {
		assert_int_equal(check(file, size), 0);
		assert_non_null(strstr(summary, "1 nodes"));
		assert_true(!strstr(summary, "cut off") == (size == whole));
	}
}

static void test_cycles(void **state)
{
	(void)state;
	node(1, 3, 0);
	node(2, 1, 0);
	node(3, 2, 0);
	node(4, 3, 0); /* in no circle, but behind one */
	node(5, 0, 0);
	expect("4 nodes depend on one another in a circle, or on such nodes; node 1 is one of them\n");
	assert_non_null(strstr(summary, "NOT VALID, 1 problem"));
	begin(NULL);
	node(1, 1, 0);
	expect("1 nodes depend on one another in a circle, or on such nodes; node 1 is one of them\n");
}

static void test_order_is_free(void **state)
{
	(void)state;
	node(30, 10, 20);
	node(10, 0, 20);
	node(20, 0, 0);
	assert_int_equal(check(file, (size_t)(end - file)), 0);
}

static void test_bad_nodes(void **state)
{
	(void)state;
	node(1, 8, 0);
	expect("node 1 depends on 8, which is not in the file\n");
	begin(NULL);
	node(1, 0, 0);
	node(1, 0, 0);
	expect("message 3: node 1 is in the file twice\n");
	begin(NULL);
	node_of_others(1, 8, "[\"f\"]");
	expect("message 2: node 1 has the type 8, which there is not\n");
	begin(NULL);
	node_of_others(1, 4, "[]");
	expect("message 2: outputs: 1 values, 1 shapes and 0 types\n");
	begin(NULL);
	node_of_others(1, 4, "[\"\\ud800");
	assert_int_equal(check(file, (size_t)(end - file)), 2);
}

static void test_other_files(void **state)
{
	static const char json[] = "{\"traceEvents\":[]}";

	(void)state;
	assert_int_equal(check("", 0), 1);
	assert_string_equal(problems, "is empty\n");
	assert_int_equal(check(json, sizeof(json) - 1), 1);
	assert_string_equal(problems, "has no whole message; is this an execution trace?\n");
	memset(file, 0xff, 64);
	assert_int_equal(check(file, 64), 1);
	assert_string_equal(problems, "at byte 0: no message begins there, or one of more than 16 MB\n");
	memset(file, 0, 64);
	assert_true(check(file, 64) > 1);
}

/* Whatever is in it, and wherever it ends: no crash, and an end. */
static void test_junk(void **state)
{
	static char damaged[4096];
	unsigned int seed = 1;
	size_t size;

	(void)state;
	for (uint64_t i = 1; i < 8; i++)
		node(i, i - 1, i > 2 ? i - 2 : 0);
	size = (size_t)(end - file);
	assert_true(size < sizeof(damaged));
	for (int round = 0; round < 3000; round++) {
		memcpy(damaged, file, size);
		for (int k = 0; k < 4; k++)
			damaged[(size_t)rand_r(&seed) % size] = (char)rand_r(&seed);
		check(damaged, size - (size_t)rand_r(&seed) % 40);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_good, begin, finish),
		cmocka_unit_test_setup_teardown(test_cut, begin, finish),
		cmocka_unit_test_setup_teardown(test_cycles, begin, finish),
		cmocka_unit_test_setup_teardown(test_order_is_free, begin, finish),
		cmocka_unit_test_setup_teardown(test_bad_nodes, begin, finish),
		cmocka_unit_test_setup_teardown(test_other_files, begin, finish),
		cmocka_unit_test_setup_teardown(test_junk, begin, finish),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
