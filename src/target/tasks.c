// SPDX-License-Identifier: BSD-2-Clause
#include "target/tasks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "target/process.h"

/* Open addressing by tid; grows at half load and never shrinks: a reused tid reuses its slot. */
struct tasks {
	struct task *slots;
	size_t cap; /* power of two */
	size_t used;
};

#define TASKS_MIN 1024

int tasks_new(struct tasks **ret_tasks)
{
	struct tasks *ts = calloc(1, sizeof(*ts));

	if (!ts)
		return -ENOMEM;
	ts->slots = calloc(TASKS_MIN, sizeof(*ts->slots));
	if (!ts->slots) {
		free(ts);
		return -ENOMEM;
	}
	ts->cap = TASKS_MIN;
	*ret_tasks = ts;
	return 0;
}

void tasks_free(struct tasks *ts)
{
	if (!ts)
		return;
	free(ts->slots);
	free(ts);
}

static struct task *slot_of(struct task *slots, size_t cap, uint32_t tid)
{
	size_t i = (tid * 2654435761u) & (cap - 1); /* Knuth's multiplicative hash */

	while (slots[i].tgid && slots[i].tid != tid)
		i = (i + 1) & (cap - 1);
	return &slots[i];
}

static int grow(struct tasks *ts)
{
	size_t cap = ts->cap * 2;
	struct task *slots = calloc(cap, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	for (size_t i = 0; i < ts->cap; i++) {
		if (ts->slots[i].tgid)
			*slot_of(slots, cap, ts->slots[i].tid) = ts->slots[i];
	}
	free(ts->slots);
	ts->slots = slots;
	ts->cap = cap;
	return 0;
}

struct task *tasks_find(struct tasks *ts, uint32_t tid)
{
	struct task *t = slot_of(ts->slots, ts->cap, tid);

	return t->tgid ? t : NULL;
}

static struct task *add(struct tasks *ts, uint32_t tgid, uint32_t tid)
{
	struct task *t;

	if (ts->used * 2 >= ts->cap && grow(ts))
		return NULL;
	t = slot_of(ts->slots, ts->cap, tid);
	if (!t->tgid)
		ts->used++;
	*t = (struct task){ .tid = tid, .tgid = tgid };
	return t;
}

struct task *tasks_get(struct tasks *ts, uint32_t tgid, uint32_t tid)
{
	struct task *t = slot_of(ts->slots, ts->cap, tid);

	if (t->tgid == tgid)
		return t;
	t = add(ts, tgid, tid);
	if (t)
		process_comm((pid_t)tid, t->comm);
	return t;
}

struct task *tasks_get_other(struct tasks *ts, uint32_t tid)
{
	struct task *t = slot_of(ts->slots, ts->cap, tid);
	pid_t tgid;

	if (t->tgid)
		return t;
	if (process_tgid((pid_t)tid, &tgid))
		tgid = (pid_t)tid; /* gone already: remembered as nameless, so it is asked once */
	return tasks_get(ts, (uint32_t)tgid, tid);
}

static struct task *add_traced(struct tasks *ts, uint32_t tgid, uint32_t tid)
{
	struct task *t = tasks_get(ts, tgid, tid);

	if (!t)
		return NULL;
	t->traced = true;
	if (tid == tgid)
		t->alive_process = true;
	return t;
}

struct add_arg {
	struct tasks *ts;
	uint32_t tgid;
};

static int add_thread(pid_t tid, void *arg)
{
	struct add_arg *a = arg;

	return add_traced(a->ts, a->tgid, (uint32_t)tid) ? 0 : -ENOMEM;
}

int tasks_add_process(struct tasks *ts, pid_t tgid)
{
	struct add_arg a = { ts, (uint32_t)tgid };

	return process_each_thread(tgid, add_thread, &a);
}

static void set_comm(struct task *t, const struct rec_task *r)
{
	memcpy(t->comm, r->comm, sizeof(t->comm));
	t->comm[sizeof(t->comm) - 1] = 0;
	t->sink_flags = 0;
}

void tasks_update(struct tasks *ts, const struct rec_task *r)
{
	struct task *t;

	switch (r->h.id) {
	case TASK_FORK:
		/* the tid may be a reused one: nothing of its former owner stays */
		t = add(ts, r->h.tgid, r->h.tid);
		if (!t)
			return;
		t->traced = true;
		t->alive_process = r->h.tid == r->h.tgid;
		set_comm(t, r);
		break;
	case TASK_EXEC:
	case TASK_COMM:
		t = add_traced(ts, r->h.tgid, r->h.tid);
		if (t)
			set_comm(t, r);
		break;
	case TASK_EXIT:
		if (!(r->h.flags & TASK_F_LAST))
			break;
		t = tasks_find(ts, r->h.tgid);
		if (t)
			t->alive_process = false;
		break;
	}
}

void tasks_each_process(struct tasks *ts, void (*cb)(struct task *t, void *arg), void *arg)
{
	for (size_t i = 0; i < ts->cap; i++) {
		if (ts->slots[i].tgid && ts->slots[i].alive_process)
			cb(&ts->slots[i], arg);
	}
}

unsigned int tasks_alive(struct tasks *ts, bool check)
{
	unsigned int n = 0;

	for (size_t i = 0; i < ts->cap; i++) {
		struct task *t = &ts->slots[i];

		if (!t->tgid || !t->alive_process)
			continue;
		if (check && !process_exists((pid_t)t->tgid))
			t->alive_process = false;
		else
			n++;
	}
	return n;
}
