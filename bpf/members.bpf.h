/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The members of a group of threads (group.bpf.h), and how the thread whose step they work on reads their times while
 * these change.
 */
#ifndef INFTRACE_MEMBERS_BPF_H
#define INFTRACE_MEMBERS_BPF_H

#include "states.bpf.h"

/*
 * Only a task's own programs can look up its storage. Other threads keep its address, and read it like any kernel memory,
 * which may be gone. Whoever sets the address to 0 adds up the member's time: the step at its end, or the member when it
 * exits.
 */
struct member {
	u64 thread;
	u64 next; /* the address again, for the next step; 0: the thread has exited */
	u32 tid;
	u32 step; /* number + 1 of the step that it works on */
	u64 from;         /* when that step began, or when it joined */
	u64 base[ST_MAX]; /* its times then */
	struct hits hits; /* the same for hits */
};

#define SNAPSHOT_TRIES 4

struct times_read {
	struct thread *t;
	u64 *ns, since;
};

/* Copies the times. A switch meanwhile moves `since`, and the copy is repeated. By bpf_loop(), here and below: the verifier
 * would walk through a plain loop round by round, at each start. */
static long times_try(u32 i, struct times_read *r)
{
	struct thread *t = r->t;
	u64 *ns = r->ns;

	r->since = READ_ONCE(t->since);
	for (int i = 0; i < ST_MAX; i++)
		ns[i] = READ_ONCE(t->times.ns[i]);
	return READ_ONCE(t->since) == r->since;
}

/* Copies the thread's own times. Returns the instant up to which they count. */
static __always_inline u64 times_copy(struct thread *t, u64 *ns)
{
	struct times_read r = { .t = t, .ns = ns };

	bpf_loop(SNAPSHOT_TRIES, times_try, &r, 0);
	return r.since;
}

static __always_inline bool now_equals(const struct thread_now *a, const struct thread_now *b)
{
	return a->since == b->since && a->next == b->next && a->edge == b->edge &&
	       *(const u64 *)&a->off == *(const u64 *)&b->off;
}
_Static_assert(__builtin_offsetof(struct thread_now, off) == 24 && sizeof(struct thread_now) == 32,
	"from `off` on, struct thread_now is one word");

struct look {
	struct thread *t;
	u64 thread, wake;
	u32 gone;
};

static long look_try(u32 i, struct look *l)
{
	struct thread *t = l->t;
	u64 thread = l->thread;

	l->gone = 1;
	if (bpf_probe_read_kernel(&t->view_now[0], sizeof(t->view_now[0]), (void *)thread))
		return 1;
	smp_rmb();
	if (bpf_probe_read_kernel(
		    &t->view, sizeof(t->view), (void *)(thread + offsetof(struct thread, times))) ||
		bpf_probe_read_kernel(
			&l->wake, sizeof(l->wake), (void *)(thread + offsetof(struct thread, wake_ns))) ||
		bpf_probe_read_kernel(&t->view_wait, sizeof(t->view_wait),
			(void *)(thread + offsetof(struct thread, wait))))
		return 1;
	if (cfg.hooks &&
		bpf_probe_read_kernel(&t->view_hooked, sizeof(t->view_hooked), (void *)(thread + offsetof(struct thread, hooked))))
		return 1;
	if (cfg.hooks && t->view_hooked.map)
		hook_read(&t->view_hooked, &t->view_slot);
	smp_rmb();
	/* again as a whole: the loads of the first read are not ordered on all machines */
	if (bpf_probe_read_kernel(&t->view_now[1], sizeof(t->view_now[1]), (void *)thread))
		return 1;
	l->gone = 0;
	return now_equals(&t->view_now[0], &t->view_now[1]);
}

/* Adds ns to t->view: `before` of it to the role, `left`, the part after a wait, to ST_CPU, the rest to the state. */
__weak __noinline int view_add(struct thread *t, u32 state, u64 before, u64 left, u64 ns)
{
	if (!t || state >= ST_MAX)
		return 0;
	t->view.ns[t->view_now[0].role & 3] += before;
	t->view.ns[ST_CPU] += left;
	t->view.ns[state] += ns - before - left;
	return 0;
}

/* As hook_divide(): of the ns that view_add() has just added. */
__weak __noinline int view_divide(struct thread *t, u32 state, u64 before, u64 ns, u64 at)
{
	u64 cpu, part;

	if (!t)
		return 0;
	cpu = hook_cpu(t->view_now[0].role, state, before, ns);
	part = hook_part_of(&t->view_hooked, &t->view_slot, cpu, at - ns + cpu);
	t->view.ns[ST_CPU] -= part;
	t->view.ns[ST_BARRIER] += part;
	return 0;
}

/* Copies the times of another thread up to `at` into t->view; up to its last change of state if that was later. Returns 0
 * if the thread is gone. */
__weak __noinline int member_look(struct thread *t, u64 thread, u32 tid, u64 at)
{
	struct look l = { .t = t, .thread = thread };
	struct thread_now *other;
	u64 from, before, left, wake;
	u32 state;

	if (!t || !thread)
		return 0;
	other = &t->view_now[0];
	bpf_loop(SNAPSHOT_TRIES, look_try, &l, 0);
	if (l.gone || t->view_wait.tid != tid || !other->since)
		return 0;
	wake = l.wake;
	from = other->since;
	/* a call that has begun or ended since `at` is in its times as a whole */
	if (other->edge > at)
		at = other->edge;
	state = now_state_apart(other, other->off);
	/* as in switch_in(): from the wake-up on it waits for a CPU */
	if (state == other->off && state >= ST_BLOCKED_FUTEX && wake > from && wake < at && state < ST_MAX) {
		t->view.ns[state] += wake - from;
		from = wake;
		state = ST_RUNNABLE;
	}
	if (at > from && state < ST_MAX) {
		before = now_before_apart(other, from, at);
		left = state == ST_BARRIER ? wait_left_apart(&t->view_wait, from, at) : 0;
		view_add(t, state, before, left, at - from);
		if (cfg.hooks && t->view_hooked.map)
			view_divide(t, state, before, at - from, at);
	}
	return 1;
}

/* Takes from other states the time that some are below their base. */
struct shortage {
	struct thread *t;
	u64 missing;
};

static long shortage_share(u32 i, struct shortage *s)
{
	u64 *ns, less;

	barrier_var(i);
	if (i >= ST_MAX)
		return 1;
	ns = &s->t->view.ns[i];
	less = *ns < s->missing ? *ns : s->missing;
	*ns -= less;
	s->missing -= less;
	return !s->missing;
}

/*
 * Subtracts the base from the times in t->view. If a later wake-up has replaced the one with which the base was made, a
 * state has less than in the base, and other states have that much too much.
 */
__weak __noinline int view_since(struct thread *t, const struct member *m)
{
	struct shortage s = { .t = t };

	if (!t || !m)
		return 0;
	for (u32 i = 0; i < ST_MAX; i++) {
		u64 added = t->view.ns[i] - m->base[i], none = (s64)added >> 63; /* all ones below the base */

		barrier_var(none); /* or clang makes a branch of it, and the verifier walks both ways of each */
		t->view.ns[i] = added & ~none;
		s.missing -= added & none;
	}
	if (s.missing)
		bpf_loop(ST_MAX, shortage_share, &s, 0);
	return 0;
}

__weak __noinline int member_take(struct thread *t, const struct member *m)
{
	if (!t || !m)
		return 0;
	for (int i = 0; i < ST_MAX; i++)
		t->step.workers_ns[i] += t->view.ns[i];
	hits_add(&t->step.workers_hits, &t->view.hits, &m->hits);
	t->step.workers++;
	return 0;
}

#endif
