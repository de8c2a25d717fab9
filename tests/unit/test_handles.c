// SPDX-License-Identifier: BSD-2-Clause
/* Names of handles. */
#include "engine/handles.h"
#include "target/tasks.h"
#include "unit.h"

TEST(test_set)
{
	struct handles *h = handles_new(NULL);

	assert_null(handles_get(h, 1, 0x1000));
	handles_set(h, 1, 0x1000, "gemm");
	handles_set(h, 2, 0x1000, "softmax");
	assert_string_equal(handles_get(h, 1, 0x1000), "gemm");
	assert_string_equal(handles_get(h, 2, 0x1000), "softmax");
	assert_null(handles_get(h, 1, 0x1001));
	/* created again with another name */
	handles_set(h, 1, 0x1000, "a much longer name than the one before");
	assert_string_equal(handles_get(h, 1, 0x1000), "a much longer name than the one before");
	/* an invalid name, and an invalid handle */
	handles_set(h, 1, 0x1000, "");
	assert_string_equal(handles_get(h, 1, 0x1000), "a much longer name than the one before");
	handles_set(h, 1, 0, "null");
	assert_null(handles_get(h, 1, 0));
	handles_free(h);
	handles_free(NULL);
}

TEST(test_drop)
{
	struct handles *h = handles_new(NULL);
	char name[16];

	for (uint64_t i = 1; i <= 50000; i++) {
		snprintf(name, sizeof(name), "k%u", (unsigned int)i);
		handles_set(h, i % 2 ? 7 : 8, i << 4, name);
	}
	handles_drop(h, 7);
	handles_drop(h, 9);
	for (uint64_t i = 1; i <= 50000; i++) {
		snprintf(name, sizeof(name), "k%u", (unsigned int)i);
		assert_null(handles_get(h, 7, i << 4));
		if (i % 2)
			assert_null(handles_get(h, 8, i << 4));
		else
			assert_string_equal(handles_get(h, 8, i << 4), name);
	}
	handles_set(h, 7, 16, "again");
	assert_string_equal(handles_get(h, 7, 16), "again");
	handles_free(h);
}

/* More than there is room for: the first stay. */
TEST(test_full)
{
	struct handles *h = handles_new(NULL);

	for (uint64_t i = 1; i <= 300000; i++)
		handles_set(h, 1, i, "k");
	assert_non_null(handles_get(h, 1, 1));
	assert_null(handles_get(h, 1, 300000));
	handles_set(h, 1, 1, "another");
	assert_string_equal(handles_get(h, 1, 1), "another");
	handles_free(h);
}

/* Handles of ended processes make room, as often as needed; those of a live one stay. */
TEST(test_ended)
{
	const struct rec_task fork = { .h = { .kind = REC_TASK, .id = TASK_FORK, .tgid = 5000000, .tid = 5000000 } };
	struct handles *h;
	struct tasks *tasks;

	tasks = tasks_new();
	h = handles_new(tasks);
	tasks_update(tasks, &fork);
	handles_set(h, fork.h.tgid, 1, "kept");
	/* nobody knows these */
	for (uint32_t tgid = fork.h.tgid + 1; tgid < fork.h.tgid + 60; tgid++) {
		for (uint64_t i = 1; i <= 10000; i++)
			handles_set(h, tgid, i, "k");
		assert_string_equal(handles_get(h, tgid, 10000), "k");
	}
	assert_string_equal(handles_get(h, fork.h.tgid, 1), "kept");
	assert_null(handles_get(h, fork.h.tgid + 1, 1));
	handles_free(h);
	tasks_free(tasks);
}

/* Ids of requests do not fill the table. */
TEST(test_recent)
{
	struct handles *h = handles_new(NULL);
	char name[32];

	handles_set(h, 1, 1000000, "kept");
	for (uint64_t i = 1; i <= 300000; i++) {
		snprintf(name, sizeof(name), "request %llu", (unsigned long long)i);
		handles_set_recent(h, 1, i, name);
	}
	assert_string_equal(handles_get(h, 1, 300000), "request 300000");
	assert_string_equal(handles_get(h, 1, 300001 - 32768), "request 267233");
	assert_null(handles_get(h, 1, 300000 - 32768));
	assert_string_equal(handles_get(h, 1, 1000000), "kept");
	handles_free(h);
}

RUN_TESTS(NULL, NULL)
