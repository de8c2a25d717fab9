// SPDX-License-Identifier: BSD-2-Clause
/* inftrace validate on execution traces: inftrace's own, others', and damaged ones. */
#include "format/chakra.h"
#include "io/writer.h"
#include "schema/proto.h"
#include "unit.h"
#include "validate/check.h"

static char file[1 << 16];
static char *end;
static char problems[4096];
static char *summary;

static void add_problem(void *ctx, const char *text)
{
	snprintf(problems + strlen(problems), sizeof(problems) - strlen(problems), "%s\n", text);
}

static int begin(void **state)
{
	end = et_write_metadata(file, "test");
	return 0;
}

static int finish(void **state)
{
	free(summary);
	summary = NULL;
	return 0;
}

/* Returns the number of problems. */
static uint64_t check_as(enum file_kind kind, const char *from, size_t size)
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
	check_execution_trace(&source, kind, "x", &report, out);
	json_source_close(&source);
	fclose(out);
	return report.problems;
}

static uint64_t check(const char *from, size_t size)
{
	return check_as(FILE_EXECUTION_TRACE, from, size);
}

static enum file_kind detected(const char *from, size_t size)
{
	struct json_source source;
	enum file_kind kind;
	const char *why;
	char buf[160];

	assert_int_equal(json_source_open_mem(&source, from, size), 0);
	kind = file_detect(&source, buf, sizeof(buf), &why);
	json_source_close(&source);
	return kind;
}

/* Expects no problem, and this in the summary. */
static void expect_good(const char *said)
{
	assert_int_equal(check(file, (size_t)(end - file)), 0);
	if (said)
		assert_string_equal(summary, said);
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

/* A node of another program. types: the text of its output types. */
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

TEST_WITH(test_good, begin, finish)
{
	node(1, 0, 0);
	node(2, 1, 0);
	node(3, 2, 1);
	node_of_others(9, 7, "[\"f\"]");
	expect_good("x: execution trace, 4 nodes, 3 dependencies: COMP 3, COMM_COLL 1\n");
}

/* A file may end anywhere, and is valid up to its last whole message. */
TEST_WITH(test_cut, begin, finish)
{
	size_t whole;

	node(1, 0, 0);
	whole = (size_t)(end - file);
	node(2, 1, 0);
	for (size_t size = whole; size < (size_t)(end - file); size++) {
		assert_int_equal(check(file, size), 0);
		assert_non_null(strstr(summary, "1 nodes"));
		assert_true(!strstr(summary, "cut off") == (size == whole));
	}
}

TEST_WITH(test_cycles, begin, finish)
{
	node(1, 3, 0);
	node(2, 1, 0);
	node(3, 2, 0);
	node(4, 3, 0); /* not in a cycle, but after one */
	node(5, 0, 0);
	expect("its dependencies form a cycle: node 2 needs node 1 needs node 3 needs node 2\n");
	assert_non_null(strstr(summary, "NOT VALID, 1 problem"));
	begin(NULL);
	node(1, 0, 2);
	node(2, 1, 0);
	expect("its dependencies form a cycle: node 1 needs node 2 needs node 1\n");
	begin(NULL);
	node(1, 1, 0);
	expect("its dependencies form a cycle: node 1 needs node 1\n");
}

TEST_WITH(test_order_is_free, begin, finish)
{
	node(30, 10, 20);
	node(10, 0, 20);
	node(20, 0, 0);
	expect_good(NULL);
}

TEST_WITH(test_bad_nodes, begin, finish)
{
	node(1, 8, 0);
	expect("node 1 depends on 8, which is not in the file\n");
	begin(NULL);
	node(1, 0, 8);
	expect("node 1 depends on 8, which is not in the file\n");
	begin(NULL);
	node(1, 0, 0);
	node(1, 0, 0);
	expect("node 1 is in the file twice\n");
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

TEST_WITH(test_other_files, begin, finish)
{
	static const char json[] = "{\"traceEvents\":[]}";

	assert_int_equal(check("", 0), 1);
	assert_string_equal(problems, "is empty\n");
	assert_int_equal(check(json, sizeof(json) - 1), 1);
	assert_string_equal(problems, "has no whole message; is this an execution trace?\n");
	memset(file, 0xff, 64);
	assert_int_equal(check(file, 64), 1);
	assert_string_equal(problems, "at byte 0: no message begins there, or one of more than 16 MB\n");
	memset(file, 0, 64);
	assert_true(check(file, 64) > 1);
	end = file;
	node(1, 0, 0); /* it would be read as the metadata, and is lost */
	node(2, 0, 0);
	expect("message 1 is not the GlobalMetadata with which an execution trace begins\n");
	assert_string_equal(summary, "");
}

/* ---- what Chakra's converter writes ---- */

/* Its metadata has attributes only. */
static void begin_converted(void)
{
	static const char *const attrs[][2] = { { "schema", "1.0.2-chakra.1.0.0" }, { "time", "2023-12-14 11:55:01" } };
	char *message, *attr;

	message = file;
	end = file + 2;
	for (size_t i = 0; i < 2; i++) {
		end = proto_open(end, 2, &attr);
		end = proto_text(end, 1, attrs[i][0], strlen(attrs[i][0]));
		end = proto_text(end, 29, attrs[i][1], strlen(attrs[i][1]));
		end = proto_close(attr, end);
	}
	end = proto_close(message, end);
}

/* Ids count from 0, which is not written. Dependencies are packed; -1: none. Lists of tensors are in Python's notation. */
static void converted(uint64_t id, int data, int data2, int control)
{
	const int deps[] = { control, data, data2 };
	char *message = end, *inner;

	end += 2;
	if (id)
		end = proto_u64(end, 1, id);
	end = proto_text(end, 2, "aten::mm", 8);
	end = proto_u64(end, 3, 4);
	for (unsigned int i = 0; i < 2; i++) {
		if (deps[i] < 0)
			continue;
		end = proto_open(end, 4 + i, &inner);
		end = proto_varint(end, (uint64_t)deps[i]);
		if (i && data2 >= 0)
			end = proto_varint(end, (uint64_t)data2);
		end = proto_close(inner, end);
	}
	end = proto_open(end, 8, &inner);
	end = proto_text(end, 1, "[[4, 5, 'cuda:0'], None]", 24);
	end = proto_text(end, 2, "[[64], []]", 10);
	end = proto_text(end, 3, "['Tensor(float)', 'None']", 25);
	end = proto_close(inner, end);
	end = proto_close(message, end);
}

TEST_WITH(test_converted, begin, finish)
{
	size_t metadata;

	begin_converted();
	metadata = (size_t)(end - file);
	converted(0, -1, -1, -1);
	converted(1, 0, -1, -1);
	converted(2, 0, 3, 0); /* 3 comes after it */
	converted(3, 1, -1, -1);
	expect_good("x: execution trace, 4 nodes, 5 dependencies: COMP 4\n");
	assert_int_equal(detected(file, (size_t)(end - file)), FILE_EXECUTION_TRACE);
	/* the metadata is an empty message, or has only a version */
	file[metadata - 1] = 0;
	assert_int_equal(check(file + metadata - 1, (size_t)(end - file) - metadata + 1), 0);
	memcpy(file + metadata - 6, "\5\x0a\0030.4", 6);
	assert_int_equal(check(file + metadata - 6, (size_t)(end - file) - metadata + 6), 0);
	assert_int_equal(detected(file + metadata - 6, (size_t)(end - file) - metadata + 6), FILE_EXECUTION_TRACE);
}

/* Its control dependencies are on nodes that were left out, or form cycles with data: the feeder ignores them. */
TEST_WITH(test_converted_control, begin, finish)
{
	begin_converted();
	converted(1, -1, -1, 0);
	converted(2, 1, -1, 3);
	converted(3, 2, -1, 1);
	expect_good("x: execution trace, 3 nodes, 4 dependencies: COMP 3; 1 dependencies on nodes that are not in it\n");
}

/* Nodes that the feeder never issues. */
TEST_WITH(test_converted_bad, begin, finish)
{
	begin_converted();
	converted(1, 0, -1, -1);
	expect("node 1 depends on 0, which is not in the file\n");
	begin_converted();
	converted(0, 2, -1, -1);
	converted(1, 0, -1, -1);
	converted(2, 1, -1, -1);
	expect("its dependencies form a cycle: node 0 needs node 2 needs node 1 needs node 0\n");
	begin_converted();
	converted(0, -1, -1, -1);
	converted(1, 0, 0, -1);
	expect("node 1 depends on 0 twice, of which Chakra's feeder ends one only\n");
}

/* ---- JSON ---- */

static void expect_json(enum file_kind kind, const char *text, const char *problem, const char *said)
{
	assert_int_equal(detected(text, strlen(text)), kind);
	assert_int_equal(check_as(kind, text, strlen(text)), *problem != 0);
	assert_string_equal(problems, problem);
	assert_string_equal(summary, said);
}

#define PT(id, control) "{\"id\":" #id ",\"name\":\"a\"," control "\"inputs\":{}}"
#define PT_ROOT "{\"id\":1,\"name\":\"[pytorch|profiler|execution_trace|process]\",\"ctrl_deps\":1}"
#define PT_OF(nodes) "{\n\"schema\":\"1.1.1-chakra.0.0.4\",\"pid\":4,\n\"nodes\":[" nodes "],\"finish_ts\":1}"
#define PT_SAID "x: execution trace of PyTorch, "

TEST_WITH(test_pytorch, begin, finish)
{
	static const char *const bad[][3] = {
		{ PT_OF(PT_ROOT "," PT(2, "\"ctrl_deps\":1,") "," PT(2, "\"ctrl_deps\":1,")), "node 2 is in the file twice\n",
			"3 nodes, 2 dependencies; NOT VALID, 1 problem\n" },
		{ PT_OF(PT_ROOT ",\n" PT(2, "")), "line 4: node 2 has no ctrl_deps\n", "2 nodes, 0 dependencies; NOT VALID, 1 problem\n" },
		{ PT_OF(PT(2, "\"ctrl_deps\":2,")), "its dependencies form a cycle: node 2 needs node 2\n",
			"1 nodes, 1 dependencies; NOT VALID, 1 problem\n" },
		{ PT_OF(PT_ROOT "," PT("x", "\"ctrl_deps\":1,")), "line 3: a node without an id\n",
			"1 nodes, 0 dependencies; NOT VALID, 1 problem\n" },
		{ PT_OF("{\"id\":1,\"ctrl_deps\":0}"), "line 3: node 1 has no name\n",
			"1 nodes, 0 dependencies; 1 dependencies on nodes that are not in it; NOT VALID, 1 problem\n" },
		{ "{\"nodes\":[" PT_ROOT "]}", "has no schema\n", "1 nodes, 0 dependencies; NOT VALID, 1 problem\n" },
		{ "{\"schema\":\"1\",\"nodes\":[" PT_ROOT, "line 1: the file ends inside nodes\n",
			"1 nodes, 0 dependencies; NOT VALID, 1 problem\n" },
	};
	char said[256];

	/* written in order of end; some began before the recording */
	expect_json(FILE_ET_PYTORCH, PT_OF(PT(3, "\"ctrl_deps\":2,") "," PT(2, "\"ctrl_deps\":1,") "," PT(5, "\"ctrl_deps\":4,") "," PT_ROOT), "",
		PT_SAID "4 nodes, 2 dependencies; 1 dependencies on nodes that are not in it\n");
	expect_json(FILE_ET_PYTORCH, "{\"schema\":\"1.0.1\",\"nodes\":[" PT(3, "\"parent\":3,") "]}", "its dependencies form a cycle: node 3 needs node 3\n",
		PT_SAID "1 nodes, 1 dependencies; NOT VALID, 1 problem\n");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(said, sizeof(said), PT_SAID "%s", bad[i][2]);
		expect_json(FILE_ET_PYTORCH, bad[i][0], bad[i][1], said);
	}
}

#define JSONIZED(more) "{\n  \"attr\": [{\"name\": \"schema\", \"stringVal\": \"1\"}]\n}{\n  \"name\": \"a\",\n  \"type\": \"COMP_NODE\"\n}" more

/* One message after the other: 64-bit numbers are text, and zero members are absent. */
TEST_WITH(test_jsonizer, begin, finish)
{
	static const char said[] = "x: execution trace in the JSON of Chakra's jsonizer, ";
	char line[256];

	snprintf(line, sizeof(line), "%s2 nodes, 1 dependencies: COMP 1, COMM_COLL 1; 1 dependencies on nodes that are not in it\n", said);
	expect_json(FILE_ET_JSONIZER,
		JSONIZED("{\"id\": \"9007199254740993\", \"name\": \"b\", \"type\": \"COMM_COLL_NODE\", \"dataDeps\": [\"0\"], \"ctrlDeps\": [\"7\"]}"), "",
		line);
	snprintf(line, sizeof(line), "%s2 nodes, 1 dependencies: COMP 2; NOT VALID, 1 problem\n", said);
	expect_json(FILE_ET_JSONIZER, JSONIZED("{\"id\": \"1\", \"name\": \"b\", \"type\": \"COMP_NODE\", \"dataDeps\": [\"1\"]}"),
		"its dependencies form a cycle: node 1 needs node 1\n", line);
	snprintf(line, sizeof(line), "%s1 nodes, 0 dependencies: COMP 1; NOT VALID, 1 problem\n", said);
	expect_json(FILE_ET_JSONIZER, JSONIZED("{\"id\": \"1\","), "the file ends inside a node\n", line);
	expect_json(FILE_ET_JSONIZER, JSONIZED("]"), "invalid JSON at line 6 (byte 92): a value expected, not ']'\n", line);
}

TEST_WITH(test_feeder_json, begin, finish)
{
	static const char text[] = "{\"workload_graph\":[{\"Id\":4,\"Name\":\"a\",\"NodeType\":4,\"ctrlDeps\":[3],\"data_deps\":[]},{\"Id\":5,\"Name\":\"b\",\"NodeType\":7,\"ctrlDeps\":[],\"data_deps\":[4,6]}]}";

	expect_json(FILE_ET_FEEDER, text, "node 5 depends on 6, which is not in the file\n",
		"x: execution trace in the JSON of Chakra's feeder, 2 nodes, 1 dependencies: COMP 1, COMM_COLL 1; 2 dependencies on nodes that are not in "
		"it; NOT VALID, 1 problem\n");
}

/* Profiles may have nodes, too. */
TEST_WITH(test_not_detected, begin, finish)
{
	static const char profile[] = "{\"nodes\":[],\"event\":\"graph_prof\"}\n", trace[] = "{\"nodes\":[],\"traceEvents\":[]}";
	static const char nested[] = "{\"x\":{\"nodes\":[]}}\n";

	assert_int_equal(detected(profile, strlen(profile)), FILE_PROFILE);
	assert_int_equal(detected(trace, strlen(trace)), FILE_TRACE);
	assert_int_equal(detected(nested, strlen(nested)), FILE_PROFILE);
	assert_int_equal(detected("\2ab", 3), FILE_OTHER);
	assert_int_equal(detected("\0\2\x08\1", 4), FILE_OTHER);
}

/* Whatever is in the file and wherever it ends: no crash and no hang. */
TEST_WITH(test_junk, begin, finish)
{
	static char damaged[4096];
	unsigned int seed = 1;
	size_t size;

	for (uint64_t i = 1; i < 8; i++)
		node(i, i - 1, i > 2 ? i - 2 : 0);
	size = (size_t)(end - file);
	assert_true(size < sizeof(damaged));
	for (int round = 0; round < 3000; round++) {
		memcpy(damaged, file, size);
		for (int k = 0; k < 4; k++)
			damaged[(size_t)rand_r(&seed) % size] = (char)rand_r(&seed);
		check(damaged, size - (size_t)rand_r(&seed) % 40);
		detected(damaged, size);
	}
}

RUN_TESTS(NULL, NULL)
