// SPDX-License-Identifier: BSD-2-Clause
/* Lists of processes that come and go. */
#include "sink/process_list.h"
#include "target/tasks.h"
#include "unit.h"

/* No process has such a number (PID_MAX_LIMIT is 4194304). */
#define TGID 5000000u
#define ALIVE 100
#define MANY 100000

struct process {
	uint32_t tgid;
	uint32_t n;
};

static void count_drop(void *process, void *arg)
{
	const struct process *p = process;

	assert_int_equal(p->n, p->tgid + 1);
	assert_true(p->tgid >= TGID + ALIVE);
	*(uint32_t *)arg += 1;
}

static void add(struct process_list *l, struct tasks *tasks, uint32_t tgid, uint32_t *dropped)
{
	process_list_room(l, tasks, count_drop, dropped);
	((struct process *)l->list)[l->n++] = (struct process){ tgid, tgid + 1 };
}

/* The first ones live, the others are unknown. */
TEST(test_ended)
{
	struct process_list l = { .size = sizeof(struct process) };
	struct process *list;
	struct tasks *tasks;
	uint32_t dropped = 0;

	tasks = tasks_new();
	for (uint32_t i = 0; i < ALIVE; i++)
		tasks_update(tasks, &(struct rec_task){ .h = { .kind = REC_TASK, .id = TASK_FORK, .tgid = TGID + i, .tid = TGID + i } });
	for (uint32_t i = 0; i < MANY; i++) {
		add(&l, tasks, TGID + i, &dropped);
		assert_true(l.n <= l.cap && l.cap <= 4 * ALIVE);
	}
	assert_int_equal(l.n + dropped, MANY);
	list = l.list;
	for (uint32_t i = 0; i < ALIVE; i++)
		assert_int_equal(list[i].tgid, TGID + i); /* in order */
	assert_int_equal(list[l.n - 1].tgid, TGID + MANY - 1);
	free(l.list);
	tasks_free(tasks);
}

/* It counts as ended some time after its exit, since records may still arrive. */
TEST(test_exit)
{
	struct tasks *tasks;

	tasks = tasks_new();
	assert_true(tasks_ended(tasks, TGID));
	tasks_update(tasks, &(struct rec_task){ .h = { .kind = REC_TASK, .id = TASK_FORK, .tgid = TGID, .tid = TGID } });
	tasks_update(tasks, &(struct rec_task){ .h = { .kind = REC_TASK, .id = TASK_FORK, .tgid = TGID, .tid = TGID + 1 } });
	assert_false(tasks_ended(tasks, TGID));
	assert_true(tasks_ended(tasks, TGID + 1)); /* a thread of another one */
	tasks_update(tasks,
		&(struct rec_task){ .h = { .kind = REC_TASK, .id = TASK_EXIT, .tgid = TGID, .tid = TGID, .flags = TASK_F_LAST } });
	assert_false(tasks_ended(tasks, TGID));
	tasks_find(tasks, TGID)->exit_ns = 0;
	assert_true(tasks_ended(tasks, TGID));
	tasks_free(tasks);
}

/* Nothing tells who has ended. */
TEST(test_no_tasks)
{
	struct process_list l = { .size = sizeof(struct process) };
	uint32_t dropped = 0;

	for (uint32_t i = 0; i < MANY; i++)
		add(&l, NULL, TGID + i, &dropped);
	assert_int_equal(l.n, MANY);
	assert_int_equal(dropped, 0);
	free(l.list);
}

RUN_TESTS(NULL, NULL)
