/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Threads that work on a step together, as the barrier where they meet shows them: where the time of
 * the workers went, and whom the others waited for.
 *
 * A group is a process and a value that its threads have in common, such as the address of the
 * engine's thread pool: engines make their threads anew for each token and call the step from
 * changing threads, and several contexts may be at work at once. A thread that meets the group of a
 * step in flight joins it, and its time counts from there.
 */
#ifndef INFTRACE_GROUP_BPF_H
#define INFTRACE_GROUP_BPF_H

#include "inftrace.bpf.h"

#define GROUPS_MAX 256
#define GROUP_MEMBERS_MAX 64
#define GROUP_EPOCHS 4 /* a power of two; a thread is at most one barrier behind the others */

/* The last thread that arrived at a barrier, and what had held it up since the one before. */
struct arrival {
	u64 ns;
	u64 thread;
	u32 tid;
	u32 pad;
	struct stall stalls[STALLS_MAX];
};

/* Only a task's own programs can look up its storage: of the others, its address is kept, and the
 * memory is read as any memory of the kernel, which may be gone. Whoever sets the address to 0 adds up
 * the member's time: the step at its end, or the member when it exits. */
struct member {
	u64 thread;
	u32 tid;
	u32 pad;
};

struct group {
	u32 step;  /* number + 1 of the step in flight; 0: none */
	u32 epoch; /* counts the barriers */
	u32 n_members;
	u32 n_gone; /* members that have exited in this step, and before that was counted their times: */
	u64 gone_ns[ST_MAX];
	struct arrival last[GROUP_EPOCHS];
	struct member members[GROUP_MEMBERS_MAX];
};

struct group_key {
	u64 key;
	u32 tgid;
	u32 pad;
};

/* Full: the group that has met least recently is forgotten, and the step in flight has no workers. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, GROUPS_MAX);
	__type(key, struct group_key);
	__type(value, struct group);
} groups __weak SEC(".maps");

/* What a group begins as; too large for a program's stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct group);
} group_none __weak SEC(".maps");

static __always_inline struct group *group_of(u32 tgid, u64 key)
{
	struct group_key k = { .key = key, .tgid = tgid };

	return key ? bpf_map_lookup_elem(&groups, &k) : NULL;
}

static __always_inline struct group *group_create(u32 tgid, u64 key)
{
	struct group_key k = { .key = key, .tgid = tgid };
	u32 zero = 0;
	void *none = bpf_map_lookup_elem(&group_none, &zero);

	if (none)
		bpf_map_update_elem(&groups, &k, none, BPF_NOEXIST);
	return bpf_map_lookup_elem(&groups, &k);
}

#define SNAPSHOT_TRIES 4

/* From here on the thread's time counts. Returns the instant. */
static __always_inline u64 times_mark(struct thread *t)
{
	u64 since = 0;

	/* A switch between two of these reads moves `since`, and the copy is made anew. */
	for (int try = 0; try < SNAPSHOT_TRIES; try++) {
		since = READ_ONCE(t->since);
		for (int i = 0; i < ST_MAX; i++)
			t->times.step_ns[i] = READ_ONCE(t->times.ns[i]);
		if (READ_ONCE(t->since) == since)
			break;
	}
	return since;
}

static __always_inline void stall_none(struct stall *s)
{
	s->state = ST_CPU;
	s->dur_ns = 0;
}

static __always_inline void stalls_forget(struct thread *t)
{
	for (int i = 0; i < STALLS_MAX; i++)
		t->stalls[i].dur_ns = 0;
}

/* The longest of them within from..to, cut to it, takes the place of a shorter one. */
static __always_inline void stall_pick(struct stall *ret, const struct stall *stalls, u64 from, u64 to)
{
	for (int i = 0; i < STALLS_MAX; i++) {
		u64 start = stalls[i].start_ns, end = start + stalls[i].dur_ns;

		if (start < from)
			start = from;
		if (end > to)
			end = to;
		if (end <= start || end - start <= ret->dur_ns)
			continue;
		*ret = stalls[i];
		ret->start_ns = start;
		ret->dur_ns = end - start;
	}
}

/* The group works on the thread's step from now on. */
static __always_inline void group_take(struct group *g, u32 step)
{
	g->n_members = 0;
	g->n_gone = 0;
	for (int i = 0; i < ST_MAX; i++)
		g->gone_ns[i] = 0;
	WRITE_ONCE(g->step, step);
}

/* A step has begun: most likely its threads are those of the one before. The new ones among them count
 * their barriers from here. */
static __always_inline void group_begin(struct thread *t, u32 tgid)
{
	struct group *g = group_of(tgid, t->group_key);

	if (!g)
		return;
	group_take(g, t->step.number + 1);
	g->epoch++;
}

/* Adds the times of one member up to `end`, in the programs of the thread whose step it is. Returns 1
 * if the member does that itself. */
__weak __noinline int member_add(struct thread *t, struct member *m, u32 step, u64 end)
{
	u64 head[2] = {}, thread, again; /* since; off, role, in_syscall, in_fault ... */

	if (!t || !m)
		return 0;
	thread = __sync_lock_test_and_set(&m->thread, 0);
	if (!thread)
		return 1;
	for (int try = 0; try < SNAPSHOT_TRIES; try++) {
		if (bpf_probe_read_kernel(head, sizeof(head), (void *)thread) ||
			bpf_probe_read_kernel(&t->view, sizeof(t->view),
				(void *)(thread + offsetof(struct thread, times))) ||
			bpf_probe_read_kernel(&again, sizeof(again), (void *)thread))
			return 0;
		if (head[0] == again)
			break;
	}
	if (t->view.member_step != step || t->view.tid != m->tid)
		return 0;
	for (int i = 0; i < ST_MAX; i++)
		t->step.workers_ns[i] += t->view.ns[i] - t->view.step_ns[i];
	if (end > head[0]) {
		const struct thread *other = (const struct thread *)head;
		u32 state = thread_state(other, other->off);

		if (state < ST_MAX)
			t->step.workers_ns[state] += end - head[0];
	}
	t->step.workers++;
	return 0;
}

#define GONE_TRIES 1000

/* The times of all who worked on the thread's step in the group that it is in. */
__weak __noinline int group_end(struct thread *t, u32 tgid, u64 end)
{
	struct group *g;
	u32 step, n, gone = 0;

	if (!t)
		return 0;
	g = group_of(tgid, t->group_key);
	step = t->step.number + 1;
	if (!g || g->step != step)
		return 0;
	n = g->n_members;
	for (u32 i = 0; i < GROUP_MEMBERS_MAX && i < n; i++)
		gone += member_add(t, &g->members[i], step, end);
	if (n > GROUP_MEMBERS_MAX)
		__sync_fetch_and_add(&stats.workers_full, n - GROUP_MEMBERS_MAX);
	/* one that is just exiting is done in a moment */
	for (int try = 0; try < GONE_TRIES && READ_ONCE(g->n_gone) < gone; try++)
		;
	if (READ_ONCE(g->n_gone) < gone)
		__sync_fetch_and_add(&stats.workers_full, gone - g->n_gone);
	for (int i = 0; i < ST_MAX; i++)
		t->step.workers_ns[i] += g->gone_ns[i];
	t->step.workers += g->n_gone;
	WRITE_ONCE(g->step, 0);
	return 0;
}

static __always_inline void group_join(struct thread *t, struct group *g, u32 tid)
{
	u32 step = READ_ONCE(g->step), i;

	if (!step || t->times.member_step == step)
		return;
	times_mark(t);
	t->times.tid = tid;
	WRITE_ONCE(t->times.member_step, step);
	t->member_slot = i = __sync_fetch_and_add(&g->n_members, 1);
	barrier_var(i);
	if (i < GROUP_MEMBERS_MAX) {
		g->members[i].tid = tid;
		WRITE_ONCE(g->members[i].thread, (u64)t);
	}
}

/* The thread exits: what it did for the step in flight is kept. */
__weak __noinline int group_leave(struct thread *t, u32 tgid)
{
	struct group *g;
	u32 i;

	if (!t || !t->times.member_step)
		return 0;
	g = group_of(tgid, t->group_key);
	i = t->member_slot;
	barrier_var(i);
	if (g && g->step == t->times.member_step && i < GROUP_MEMBERS_MAX &&
		__sync_val_compare_and_swap(&g->members[i].thread, (u64)t, 0) == (u64)t) {
		for (int i = 0; i < ST_MAX; i++)
			__sync_fetch_and_add(&g->gone_ns[i], t->times.ns[i] - t->times.step_ns[i]);
		__sync_fetch_and_add(&g->n_gone, 1); /* the last: now they are there */
	}
	t->times.member_step = 0;
	return 0;
}

/* A thread comes to the barrier of a group, and has left the one it was in before. */
__weak __noinline int group_arrive(struct thread *t, u64 tgid_tid, u64 key, u64 now)
{
	u32 tgid = tgid_tid >> 32, tid = (u32)tgid_tid, epoch;
	struct arrival *a;
	struct group *g;

	if (!t)
		return 0;
	g = group_of(tgid, key) ?: group_create(tgid, key);
	if (!g)
		return 0;
	if (t->group_key != key) {
		t->group_key = key;
		t->epoch = g->epoch - 1;
	}
	if (!t->in_step)
		group_join(t, g, tid);
	else if (g->step != t->step.number + 1)
		group_take(g, t->step.number + 1);
	/* one that is here already has left: this is the next barrier */
	epoch = READ_ONCE(g->epoch);
	if (t->epoch == epoch && __sync_val_compare_and_swap(&g->epoch, epoch, epoch + 1) == epoch)
		epoch++;
	t->epoch = epoch;
	a = &g->last[epoch & (GROUP_EPOCHS - 1)];
	a->ns = now;
	a->thread = (u64)t;
	a->tid = tid;
	for (int i = 0; i < STALLS_MAX; i++) {
		if (t->stalls[i].dur_ns)
			a->stalls[i] = t->stalls[i];
		else
			a->stalls[i].dur_ns = 0;
	}
	if (!t->in_step)
		stalls_forget(t);
	return 0;
}

/* And leaves it: the last to come is the one it has waited for. What held that one up lies before its
 * arrival, or right behind it, when it was about to let the others go. */
__weak __noinline int group_passed(struct thread *t, u64 tgid_tid, u64 from, u64 now)
{
	struct stall latest[STALLS_MAX];
	struct rec_step *step;
	struct arrival *a;
	struct group *g;

	if (!t || !t->in_step)
		return 0;
	step = &t->step;
	if (now - from <= step->held_ns)
		return 0;
	g = group_of(tgid_tid >> 32, t->group_key);
	if (!g)
		return 0;
	a = &g->last[t->epoch & (GROUP_EPOCHS - 1)];
	/* else it was the last, or the others are gone on already */
	if (a->tid == (u32)tgid_tid || a->ns < from || a->ns > now)
		return 0;
	step->held_ns = now - from;
	step->straggler_tid = a->tid;
	stall_none(&step->straggler);
	stall_pick(&step->straggler, a->stalls, from, now);
	if (!bpf_probe_read_kernel(&latest, sizeof(latest), (void *)(a->thread + offsetof(struct thread, stalls))))
		stall_pick(&step->straggler, latest, from, now);
	return 0;
}

#endif
