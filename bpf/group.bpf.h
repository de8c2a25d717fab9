/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Threads that work on a step together, recognised at the barrier where they meet: where the workers' time
 * went, and which straggler the others waited for.
 *
 * A group is a process and a value that its threads share, such as the address of the engine's thread
 * pool: engines create their threads for each token and call the step from changing threads, and several
 * contexts may be at work at once. The members of a group stay from step to step; a new one joins when it
 * is created, or else where it first meets the others.
 */
#ifndef INFTRACE_GROUP_BPF_H
#define INFTRACE_GROUP_BPF_H

#include "members.bpf.h"

#define GROUP_WAYS 4

/* The last thread that arrived at a barrier. */
struct arrival {
	u64 ns;
	u32 tid;
	u32 pad;
};

struct group {
	u64 key; /* 0: no group */
	u32 tgid;
	u32 step;  /* number + 1 of the step in flight; 0: none */
	u32 epoch; /* counts the barriers */
	u32 n_members;
	u32 once; /* its threads are only seen as they arrive at a barrier, and struct releases counts the barriers */
	u32 n_gone; /* members that have exited in this step and have added their times here: */
	u64 gone_ns[ST_MAX];
	struct hits gone_hits;
	struct arrival last[GROUP_EPOCHS];
	struct member members[STEP_WORKERS_MAX];
};

/*
 * A group is in one of GROUP_WAYS slots given by its key; a group without a step makes room for a new one. If all
 * are taken, the step has no workers, which is counted. Not a BPF hash: with LRU it keeps 128 free entries for
 * each CPU (before 6.16), and without it would have to be cleaned up.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, GROUPS_MAX);
	__type(key, u32);
	__type(value, struct group);
} groups __weak SEC(".maps");

static __always_inline u32 group_slot(u32 tgid, u64 key, u32 way)
{
	/* keys are addresses: the low bits reflect the allocator */
	return ((u32)((key >> 6) * 0x9e3779b1u >> 16) + tgid + way) & (GROUPS_MAX - 1);
}

static __always_inline struct group *group_way(u32 tgid, u64 key, u32 way)
{
	u32 i = group_slot(tgid, key, way);

	return bpf_map_lookup_elem(&groups, &i);
}

static __always_inline struct group *group_find(u32 tgid, u64 key, u32 *ret_slot)
{
	for (u32 way = 0; way < GROUP_WAYS && key; way++) {
		struct group *g = group_way(tgid, key, way);

		if (!g || g->key != key || g->tgid != tgid)
			continue;
		*ret_slot = group_slot(tgid, key, way);
		return g;
	}
	return NULL;
}

/* Returns the group's slot; GROUPS_MAX: there is no such group. */
__weak __noinline u32 group_look(u32 tgid, u64 key)
{
	u32 slot;

	return group_find(tgid, key, &slot) ? slot : GROUPS_MAX;
}

/* As group_find(), out of line. */
static __always_inline struct group *group_of(u32 tgid, u64 key)
{
	u32 slot = group_look(tgid, key);

	return bpf_map_lookup_elem(&groups, &slot);
}

#define GROUP_KEY_TAKEN 1 /* being created; not an address, as keys are */

/*
 * Creates a group in a slot that holds `before`. The key is written last: a thread that finds the key
 * finds the rest, too.
 */
static __always_inline bool group_make(struct group *g, u64 before, u32 tgid, u64 key)
{
	if (READ_ONCE(g->step) ||
		__sync_val_compare_and_swap(&g->key, before, GROUP_KEY_TAKEN) != before)
		return 0;
	g->tgid = tgid;
	g->n_members = 0;
	__sync_lock_test_and_set(&g->key, key); /* orders the stores before it */
	return 1;
}

/* Takes an empty slot, or else one whose group has no step. */
__weak __noinline int group_create(u32 tgid, u64 key)
{
	if (key <= GROUP_KEY_TAKEN)
		return 0;
	for (u32 i = 0; i < 2 * GROUP_WAYS; i++) {
		struct group *g = group_way(tgid, key, i % GROUP_WAYS);
		u64 before = g && i >= GROUP_WAYS ? READ_ONCE(g->key) : 0;

		if (g && before != GROUP_KEY_TAKEN && group_make(g, before, tgid, key))
			return 0;
	}
	__sync_fetch_and_add(&stats.workers_full, 1);
	return 0;
}

/* Makes the group work on a step from now on. */
static __always_inline void group_take(struct group *g, u32 step, u32 n_members)
{
	g->n_members = n_members;
	g->n_gone = 0;
	for (int i = 0; i < ST_MAX; i++)
		g->gone_ns[i] = 0;
	g->gone_hits = (struct hits){};
	smp_wmb(); /* a thread that finds the step finds no members of the previous one: group_join() */
	WRITE_ONCE(g->step, step);
}

/* Takes a member of the previous step over into this one, from its first instant. Returns 1 if the thread exists. */
__weak __noinline int member_continue(struct thread *t, struct member *m, u64 from)
{
	if (!t || !m)
		return 0;
	m->thread = 0;
	m->step = 0;
	/* the thread may have worked for another thread's step before */
	if (m->next == (u64)t || !member_look(t, m->next, m->tid, from)) {
		m->next = 0;
		return 0;
	}
	for (int i = 0; i < ST_MAX; i++)
		m->base[i] = t->view.ns[i];
	m->hits = t->view.hits;
	m->from = from;
	m->step = t->step.number + 1;
	smp_wmb(); /* whoever takes the thread finds its base: member_add(), group_leave() */
	WRITE_ONCE(m->thread, m->next);
	return 1;
}

/* A step has begun: most likely with the threads of the previous one. New ones count their barriers from here. */
__weak __noinline int group_begin(struct thread *t, u32 tgid, u64 from)
{
	u32 n, there = 0;
	struct group *g;

	if (!t)
		return 0;
	if (wait_void(&t->wait))
		t->group_key = 0; /* until it comes to a barrier that is seen */
	g = group_of(tgid, t->group_key);
	if (!g)
		return 0;
	n = g->n_members;
	if (n >= STEP_WORKERS_MAX)
		n = 0; /* exited members leave no room: all join again, one by one */
	for (u32 i = 0; i < STEP_WORKERS_MAX && i < n; i++)
		there += member_continue(t, &g->members[i], from);
	group_take(g, t->step.number + 1, there ? n : 0);
	if (!g->once)
		g->epoch++;
	return 0;
}

struct ending {
	struct thread *t;
	struct group *g;
	u64 end;
	u32 step;
	u32 gone; /* members that add up their times themselves */
};

/* Notes a member in the list of its step. */
static __always_inline void team_note(struct rec_step *step, u32 i, const struct member *m)
{
	u64 us = m->from > step->h.start_ns ? (m->from - step->h.start_ns + 999) / 1000 : 0;

	step->team[i].tid = m->tid;
	step->team[i].joined_us = us < ~0u ? us : ~0u;
}

/* Adds the times of one member up to `end`, in the programs of the thread whose step it is. */
static long member_add(u32 i, struct ending *e)
{
	struct thread *t = e->t;
	struct member *m;
	u64 thread;

	barrier_var(i);
	if (i >= STEP_WORKERS_MAX)
		return 1;
	m = &e->g->members[i];
	if (m->step != e->step)
		return 0;
	team_note(&t->step, i, m);
	thread = __sync_lock_test_and_set(&m->thread, 0);
	if (!thread) {
		e->gone++;
		return 0;
	}
	if (!member_look(t, thread, m->tid, e->end)) {
		m->next = 0;
		return 0;
	}
	view_since(t, m);
	member_take(t, m); /* not in view_since(): the calls already nest as deep as the verifier allows, 8 */
	return 0;
}

#define GONE_TRIES 1000

struct awaited {
	struct group *g;
	u32 wanted;
	u32 gone;
};

static long members_gone(u32 i, struct awaited *a)
{
	a->gone = READ_ONCE(a->g->n_gone);
	return a->gone >= a->wanted;
}

/* Waits until `gone` members in total have exited: those that are just exiting finish in a moment. */
__weak __noinline int group_await(struct group *g, u32 gone)
{
	struct awaited a = { .g = g, .wanted = gone };

	if (!g)
		return 0;
	bpf_loop(GONE_TRIES, members_gone, &a, 0);
	if (a.gone < gone)
		__sync_fetch_and_add(&stats.workers_full, gone - a.gone);
	return 0;
}

/* Adds up the times of all threads that worked on the thread's step in its group. */
__weak __noinline int group_end(struct thread *t, u32 tgid, u64 end)
{
	struct ending e = { .t = t, .end = end };
	struct group *g;
	u32 n;

	if (!t)
		return 0;
	e.g = g = group_of(tgid, t->group_key);
	e.step = t->step.number + 1;
	if (!g || g->step != e.step)
		return 0;
	n = g->n_members;
	bpf_loop(n, member_add, &e, 0);
	if (n > STEP_WORKERS_MAX)
		__sync_fetch_and_add(&stats.workers_full, n - STEP_WORKERS_MAX);
	group_await(g, e.gone);
	for (int i = 0; i < ST_MAX; i++)
		t->step.workers_ns[i] += g->gone_ns[i];
	for (int i = 0; i < HIT_MAX; i++)
		t->step.workers_hits.n[i] += g->gone_hits.n[i];
	t->step.workers += g->n_gone;
	WRITE_ONCE(g->step, 0);
	return 0;
}

static __always_inline void group_join(struct thread *t, struct group *g, u32 tid)
{
	u32 step = READ_ONCE(g->step), i = t->member_slot;
	struct member *m;

	if (!step)
		return;
	t->member_step = step;
	barrier_var(i);
	if (i < STEP_WORKERS_MAX && g->members[i].tid == tid && g->members[i].step == step)
		return;
	t->member_slot = i = __sync_fetch_and_add(&g->n_members, 1);
	barrier_var(i);
	if (i >= STEP_WORKERS_MAX)
		return;
	m = &g->members[i];
	t->wait.tid = m->tid = tid;
	m->from = times_copy(t, m->base);
	m->hits = t->times.hits;
	m->step = step;
	m->next = (u64)t;
	smp_wmb(); /* as in member_continue() */
	WRITE_ONCE(m->thread, (u64)t);
}

static __always_inline u32 group_passed_last(u32 tgid, u64 key)
{
	struct releases *r = NULL;
	u32 slot;

	if (group_find(tgid, key, &slot))
		r = bpf_map_lookup_elem(&releases, &slot);
	return r ? r->epoch : 0;
}

/* A thread created within a step works on it from the start, not only from its first barrier. */
__weak __noinline int group_inherit(struct thread *t, struct thread *parent, u32 tgid, u32 tid)
{
	struct group *g;

	if (!t || !parent || !parent->in_step)
		return 0;
	g = group_of(tgid, parent->group_key);
	if (!g || g->step != parent->step.number + 1)
		return 0;
	t->group_key = parent->group_key;
	t->epoch = g->once ? group_passed_last(tgid, t->group_key) : g->epoch - 1;
	t->wait.changes = parent->wait.changes;
	group_join(t, g, tid);
	return 0;
}

/* A thread leaves its group or exits: keeps its work on the step in flight. */
__weak __noinline int group_leave(struct thread *t, u32 tgid)
{
	struct member *m;
	struct group *g;
	u32 i;

	if (!t || !t->member_step)
		return 0;
	t->member_step = 0;
	g = group_of(tgid, t->group_key);
	i = t->member_slot;
	barrier_var(i);
	if (!g || i >= STEP_WORKERS_MAX)
		return 0;
	m = &g->members[i];
	if (m->next != (u64)t)
		return 0;
	m->next = 0;
	if (g->step != m->step || __sync_val_compare_and_swap(&m->thread, (u64)t, 0) != (u64)t)
		return 0;
	for (int i = 0; i < ST_MAX; i++)
		t->view.ns[i] = t->times.ns[i];
	view_since(t, m);
	for (int i = 0; i < ST_MAX; i++)
		__sync_fetch_and_add(&g->gone_ns[i], t->view.ns[i]);
	for (int i = 0; i < HIT_MAX; i++)
		__sync_fetch_and_add(&g->gone_hits.n[i], t->times.hits.n[i] - m->hits.n[i]);
	__sync_fetch_and_add(&g->n_gone, 1); /* last: by now its times are there */
	return 0;
}

/* Finds or creates the group of a thread that comes to a barrier. NULL: no room. */
static __always_inline struct group *group_enter(u32 tgid, u64 key, u32 *ret_slot)
{
	struct group *g = group_find(tgid, key, ret_slot);

	if (g)
		return g;
	group_create(tgid, key);
	return group_find(tgid, key, ret_slot);
}

/* Makes the group work on the thread's step, or the thread on the group's. */
static __always_inline void group_work(struct thread *t, struct group *g, u32 tid)
{
	if (!t->in_step)
		group_join(t, g, tid);
	else if (g->step != t->step.number + 1)
		group_take(g, t->step.number + 1, 0);
}

static __always_inline void arrival_note(struct arrival *a, u32 tid, u64 now)
{
	a->ns = now;
	a->tid = tid;
}

/* A thread arrives at a group's barrier. It has left its previous group. */
__weak __noinline int group_arrive(struct thread *t, u64 tgid_tid, u64 key, u64 now)
{
	u32 tgid = tgid_tid >> 32, tid = (u32)tgid_tid, epoch, slot;
	struct group *g;

	if (!t)
		return 0;
	g = group_enter(tgid, key, &slot);
	if (!g)
		return 0;
	if (t->group_key != key) {
		t->group_key = key;
		t->epoch = g->epoch - 1;
	}
	group_work(t, g, tid);
	/* the thread has been at this barrier already: so this is the next one */
	epoch = READ_ONCE(g->epoch);
	if (t->epoch == epoch && __sync_val_compare_and_swap(&g->epoch, epoch, epoch + 1) == epoch)
		epoch++;
	t->epoch = epoch;
	arrival_note(&g->last[epoch & (GROUP_EPOCHS - 1)], tid, now);
	return 0;
}

/* A thread's hooks have told that it comes to a group's barriers. It has left its previous group. Returns whether it works on a step. */
__weak __noinline int group_visit(struct thread *t, u64 tgid_tid, u64 key)
{
	struct group *g;
	u32 slot;

	if (!t)
		return 0;
	g = group_enter(tgid_tid >> 32, key, &slot);
	if (!g)
		return 0;
	t->group_key = key;
	group_work(t, g, (u32)tgid_tid);
	return g->step && (t->in_step || t->member_step == g->step);
}

/*
 * The same if threads are only seen as they arrive, and the last one is known as such. Sets t->wait.slot and epoch.
 *
 * The number of this barrier follows from the last one that was passed, which may be this one already, since the engine
 * counts a thread before it comes here: so it is if it follows the thread's own last one. A thread that is new, or missed
 * some, takes its barrier as not passed yet. The thread that arrives last knows for certain.
 */
__weak __noinline int group_arrive_once(struct thread *t, u64 tgid_tid, u64 key, u64 now, u32 last)
{
	u32 tid = (u32)tgid_tid, slot, passed;
	struct releases *r;
	struct group *g;

	if (!t)
		return 0;
	t->wait.slot = GROUPS_MAX;
	g = group_enter(tgid_tid >> 32, key, &slot);
	if (!g)
		return 0;
	r = bpf_map_lookup_elem(&releases, &slot);
	if (!r)
		return 0;
	if (!g->once)
		g->once = 1;
	passed = READ_ONCE(r->epoch);
	if (t->group_key != key) {
		t->group_key = key;
		t->epoch = passed;
	}
	group_work(t, g, tid);
	t->epoch = !last && passed - t->epoch == 1 ? passed : passed + 1;
	t->wait.slot = slot;
	t->wait.epoch = t->epoch;
	if (last) {
		arrival_note(&g->last[t->epoch & (GROUP_EPOCHS - 1)], tid, now);
		WRITE_ONCE(r->ns[t->epoch & (GROUP_EPOCHS - 1)], now);
		smp_wmb(); /* a thread that finds the number finds the time: wait_end() */
		WRITE_ONCE(r->epoch, t->epoch);
	}
	return 0;
}

/* Moves the release of a barrier: the last thread to arrive is taken off the CPU before it, and continues at `now` (0: not
 * yet). */
__weak __noinline int release_move(struct thread *t, u64 now)
{
	u32 slot, i;
	struct releases *r;
	struct group *g;

	if (!t)
		return 0;
	slot = t->wait.slot;
	i = t->wait.epoch & (GROUP_EPOCHS - 1);
	r = bpf_map_lookup_elem(&releases, &slot);
	g = bpf_map_lookup_elem(&groups, &slot);
	if (!r || !g || r->epoch != t->wait.epoch)
		return 0;
	WRITE_ONCE(r->ns[i], now);
	if (now)
		g->last[i].ns = now;
	t->wait.held = !now;
	return 0;
}

/* Whether another thread arrived within a wait. */
static __always_inline bool arrival_within(const struct arrival *a, u32 tid, u64 from, u64 now)
{
	return a->tid != tid && a->ns >= from && a->ns <= now;
}

/*
 * The thread leaves the barrier: if it never waited for longer in this step, finds the straggler, the last thread to arrive. If
 * a thread is interrupted between its arrival and the note of it, the count of the barriers is off by one for a moment: then it
 * is the latest of the other arrivals.
 */
__weak __noinline int group_passed(struct thread *t, u64 tgid_tid, u64 from, u64 now)
{
	u32 tid = (u32)tgid_tid;
	struct rec_step *step;
	struct arrival *a;
	struct group *g;
	u64 latest = 0;

	if (!t || !t->in_step)
		return 0;
	step = &t->step;
	if (now - from <= step->held_ns)
		return 0;
	g = group_of(tgid_tid >> 32, t->group_key);
	if (!g)
		return 0;
	step->held_at = from;
	step->held_ns = now - from;
	a = &g->last[t->epoch & (GROUP_EPOCHS - 1)];
	step->straggler_tid = arrival_within(a, tid, from, now) ? a->tid : 0;
	if (step->straggler_tid)
		return 0;
	for (u32 i = 0; i < GROUP_EPOCHS; i++) {
		a = &g->last[i];
		if (arrival_within(a, tid, from, now) && a->ns >= latest) {
			step->straggler_tid = a->tid;
			latest = a->ns;
		}
	}
	return 0;
}

#endif
