// SPDX-License-Identifier: BSD-2-Clause
#include "target/tasks.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "target/process.h"
#include "util/alloc.h"
#include "util/clock.h"

/* Open addressing by tid, since every record is looked up here (see util/map.h). At half load, entries that are no
 * longer needed are dropped, and the table grows if that is not enough. A reused tid reuses its slot. */
#define CONTAINERS_MAX 128 /* with targets, at a time; further ones are not known */

struct tasks {
	struct task *slots;
	size_t cap; /* power of two */
	size_t used;
	unsigned int alive; /* entries with alive_process */
	uint64_t changes;
	struct container containers[CONTAINERS_MAX];
};

#define TASKS_MIN 1024

/* After that the last records of a thread are in the sinks. */
#define KEEP_EXITED_NS UINT64_C(10000000000)

struct tasks *tasks_new(void)
{
	struct tasks *ts = xcalloc(1, sizeof(*ts));

	ts->slots = xcalloc(TASKS_MIN, sizeof(*ts->slots));
	ts->cap = TASKS_MIN;
	return ts;
}

void tasks_free(struct tasks *ts)
{
	if (!ts)
		return;
	free(ts->slots);
	free(ts);
}

struct tasks *tasks_copy(const struct tasks *ts)
{
	struct tasks *copy = xmalloc(sizeof(*copy));

	*copy = *ts;
	copy->slots = xmalloc(ts->cap * sizeof(*copy->slots));
	memcpy(copy->slots, ts->slots, ts->cap * sizeof(*copy->slots));
	tasks_forget_outputs(copy);
	return copy;
}

uint64_t tasks_changes(const struct tasks *ts)
{
	return ts->changes;
}

void tasks_forget_outputs(struct tasks *ts)
{
	ts->changes++;
	for (size_t i = 0; i < ts->cap; i++)
		ts->slots[i].written = 0;
}

void tasks_forget_output(struct tasks *ts, unsigned int output, uint32_t tgid)
{
	ts->changes++;
	for (size_t i = 0; i < ts->cap; i++) {
		if (!tgid || ts->slots[i].tgid == tgid)
			ts->slots[i].written &= ~(1u << output);
	}
}

static struct task *task_find_slot(struct task *slots, size_t cap, uint32_t tid)
{
	size_t i = (tid * 2654435761u) & (cap - 1); /* Knuth's multiplicative hash */

	while (slots[i].tgid && slots[i].tid != tid)
		i = (i + 1) & (cap - 1);
	return &slots[i];
}

/* No record tells when a thread outside the targets exits, and its last records may still be on their way: its exit counts
 * from when it is found. */
static void task_note_exited(struct task *t, uint64_t now_ns)
{
	if (t->tgid && !t->traced && !t->exited && kill((pid_t)t->tid, 0) && errno == ESRCH) {
		t->exited = true;
		t->exit_ns = now_ns;
	}
}

static bool task_is_needed(const struct task *t, uint64_t now_ns)
{
	if (!t->tgid)
		return false;
	return !t->exited || t->alive_process || t->exit_ns + KEEP_EXITED_NS > now_ns;
}

static void tasks_make_room(struct tasks *ts)
{
	size_t needed = 0, cap = ts->cap;
	uint64_t now_ns = clock_boot_ns();
	struct task *slots;

	for (size_t i = 0; i < ts->cap; i++) {
		task_note_exited(&ts->slots[i], now_ns);
		needed += task_is_needed(&ts->slots[i], now_ns);
	}
	if (needed * 4 >= cap)
		cap *= 2;
	slots = xcalloc(cap, sizeof(*slots));
	for (size_t i = 0; i < ts->cap; i++) {
		if (task_is_needed(&ts->slots[i], now_ns))
			*task_find_slot(slots, cap, ts->slots[i].tid) = ts->slots[i];
	}
	free(ts->slots);
	ts->slots = slots;
	ts->cap = cap;
	ts->used = needed;
	ts->changes++;
}

/* ---- containers ---- */

/* The index of a container that no task is in; CONTAINERS_MAX: there is none. */
static size_t container_find_free(const struct tasks *ts)
{
	bool used[CONTAINERS_MAX + 1] = { false };
	size_t i = 0;

	for (size_t k = 0; k < ts->cap; k++)
		used[ts->slots[k].tgid ? ts->slots[k].container : 0] = true;
	while (i < CONTAINERS_MAX && used[i + 1])
		i++;
	return i;
}

/* The entry of a main thread says which container its process is in. */
static void set_container(struct tasks *ts, struct task *t)
{
	struct container c;
	size_t i = 0;

	t->container = 0;
	if (!container_read((pid_t)t->tgid, &c))
		return;
	while (i < CONTAINERS_MAX && memcmp(&ts->containers[i], &c, sizeof(c)))
		i++;
	if (i == CONTAINERS_MAX)
		i = container_find_free(ts);
	if (i == CONTAINERS_MAX)
		return;
	ts->containers[i] = c;
	t->container = (uint8_t)(i + 1);
}

const struct container *tasks_container(struct tasks *ts, uint32_t tgid)
{
	const struct task *t = tasks_find(ts, tgid);

	return t && t->container ? &ts->containers[t->container - 1] : NULL;
}

/* ---- tasks ---- */

static void set_alive(struct tasks *ts, struct task *t, bool alive)
{
	ts->alive += alive - t->alive_process;
	t->alive_process = alive;
}

struct task *tasks_find(struct tasks *ts, uint32_t tid)
{
	struct task *t = task_find_slot(ts->slots, ts->cap, tid);

	return t->tgid ? t : NULL;
}

bool tasks_lives(struct tasks *ts, uint32_t tgid, uint32_t tid)
{
	const struct task *t = tasks_find(ts, tid);

	return t && !t->exited && (!tgid || t->tgid == tgid);
}

bool tasks_ended(struct tasks *ts, uint32_t tgid)
{
	const struct task *t = tasks_find(ts, tgid);

	return !t || t->tgid != tgid || !task_is_needed(t, clock_boot_ns());
}

static struct task *tasks_add(struct tasks *ts, uint32_t tgid, uint32_t tid)
{
	struct task *t;

	if (ts->used * 2 >= ts->cap)
		tasks_make_room(ts);
	t = task_find_slot(ts->slots, ts->cap, tid);
	if (!t->tgid)
		ts->used++;
	set_alive(ts, t, false);
	*t = (struct task){ .tid = tid, .tgid = tgid };
	ts->changes++;
	return t;
}

struct task *tasks_get(struct tasks *ts, uint32_t tgid, uint32_t tid)
{
	struct task *t = task_find_slot(ts->slots, ts->cap, tid);

	if (t->tgid == tgid)
		return t;
	t = tasks_add(ts, tgid, tid);
	process_comm((pid_t)tid, t->comm);
	return t;
}

struct task *tasks_get_other(struct tasks *ts, uint32_t tid)
{
	struct task *t = task_find_slot(ts->slots, ts->cap, tid);
	pid_t tgid;

	if (t->tgid)
		return t;
	if (process_tgid((pid_t)tid, &tgid))
		tgid = (pid_t)tid; /* gone already: remembered without a name, so that /proc is asked only once */
	return tasks_get(ts, (uint32_t)tgid, tid);
}

void tasks_add_others(struct tasks *ts, const struct tasks *from)
{
	for (size_t i = 0; i < from->cap; i++) {
		const struct task *other = &from->slots[i];

		if (other->tgid && !other->traced && !tasks_find(ts, other->tid))
			memcpy(tasks_add(ts, other->tgid, other->tid)->comm, other->comm, sizeof(other->comm));
	}
}

static struct task *add_traced(struct tasks *ts, uint32_t tgid, uint32_t tid)
{
	struct task *t = tasks_get(ts, tgid, tid);

	ts->changes++;
	t->traced = true;
	t->exited = false; /* a main thread may have exited before another thread's exec */
	if (tid == tgid)
		set_alive(ts, t, true);
	return t;
}

struct add_arg {
	struct tasks *ts;
	uint32_t tgid;
};

static int add_thread(pid_t tid, void *arg)
{
	struct add_arg *a = arg;

	add_traced(a->ts, a->tgid, (uint32_t)tid);
	return 0;
}

int tasks_add_process(struct tasks *ts, pid_t tgid)
{
	struct add_arg a = { ts, (uint32_t)tgid };
	int err = process_each_thread(tgid, add_thread, &a);
	struct task *t = tasks_find(ts, (uint32_t)tgid);

	if (t)
		set_container(ts, t);
	return err;
}

static void set_comm(struct task *t, const struct rec_task *r)
{
	memcpy(t->comm, r->comm, sizeof(t->comm));
	t->comm[sizeof(t->comm) - 1] = 0;
	t->written = 0;
}

enum process_news tasks_update(struct tasks *ts, const struct rec_task *r)
{
	struct task *t;
	uint8_t container;

	ts->changes++;
	switch (r->h.id) {
	case TASK_FORK:
		t = tasks_find(ts, r->ptgid);
		container = t && r->h.tid == r->h.tgid ? t->container : 0;
		/* the tid may be reused: nothing of its former owner is kept */
		t = tasks_add(ts, r->h.tgid, r->h.tid);
		t->traced = true;
		t->container = container;
		set_alive(ts, t, r->h.tid == r->h.tgid);
		set_comm(t, r);
		return r->h.tid == r->h.tgid ? NEWS_FORK : NEWS_NONE;
	case TASK_EXEC:
	case TASK_COMM:
		t = add_traced(ts, r->h.tgid, r->h.tid);
		set_comm(t, r);
		if (r->h.id == TASK_EXEC && r->h.tid == r->h.tgid) /* a runtime enters the container before it calls exec */
			set_container(ts, t);
		return r->h.id == TASK_EXEC ? NEWS_EXEC : NEWS_NONE;
	case TASK_STRANGER:
		t = tasks_find(ts, r->h.tid);
		if (!t || t->tgid != r->h.tgid)
			t = tasks_add(ts, r->h.tgid, r->h.tid);
		if (!t->traced) {
			t->exited = false;
			set_comm(t, r);
		}
		break;
	case TASK_EXIT:
		t = tasks_find(ts, r->h.tid);
		if (t) {
			t->exited = true;
			t->exit_ns = clock_boot_ns();
		}
		if (!(r->h.flags & TASK_F_LAST))
			return r->h.tid == r->h.tgid ? NEWS_HEADLESS : NEWS_NONE;
		t = tasks_find(ts, r->h.tgid);
		if (t)
			set_alive(ts, t, false);
		return NEWS_GONE;
	}
	return NEWS_NONE;
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
	for (size_t i = 0; check && i < ts->cap; i++) {
		struct task *t = &ts->slots[i];

		if (t->alive_process && !process_exists((pid_t)t->tgid))
			set_alive(ts, t, false);
	}
	return ts->alive;
}
