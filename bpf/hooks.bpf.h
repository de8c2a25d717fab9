/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Time at barriers that hooks see (hook_slot.h). To the programs such a thread is on the CPU, in its role; whoever accounts that asks here
 * how much of it was at a barrier.
 *
 * The programs tell the thread how long it was elsewhere, and it takes that off the clock by which it measures. So the times of both are the
 * same, but for what their clocks differ by: what does not fit is owed, and goes to the thread's next time on the CPU.
 */
#ifndef INFTRACE_HOOKS_BPF_H
#define INFTRACE_HOOKS_BPF_H

#include "inftrace.bpf.h"

#define HOOK_OWED_MAX 1000000000 /* ns: the slot makes no sense */
#define HOOK_UNSEEN (~0ull)

struct inner_hooks {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE | BPF_F_INNER_MAP);
	__uint(max_entries, 1); /* a template: user space makes the real ones */
	__uint(key_size, sizeof(u32));
	__uint(value_size, sizeof(struct hook_slot)); /* not by __type(): clang leaves out what only an inner map refers to */
};

/* The slots of each process with hooks. User space keeps more from being made. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, HOOK_PROCESSES);
	__type(key, u32);
	__array(values, struct inner_hooks);
} hook_slots __weak SEC(".maps");

/* 1 + the index there, by tgid. As many as there. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, HOOK_PROCESSES);
	__type(key, u32);
	__type(value, u32);
} hook_processes __weak SEC(".maps");

/* map: 1 + the index of the process's slots. */
static __always_inline struct hook_slot *hook_slot_at(u32 map, u32 slot)
{
	void *slots;

	map--;
	slots = bpf_map_lookup_elem(&hook_slots, &map);
	return slots ? bpf_map_lookup_elem(slots, &slot) : NULL;
}

/* Reads a slot. */
static __always_inline void slot_read(const struct hook_slot *s, struct hook_read *r)
{
	u64 calls = READ_ONCE(s->calls);

	r->total = calls & 2 ? READ_ONCE(s->total[1]) : READ_ONCE(s->total[0]);
	r->begun = calls & 1 ? READ_ONCE(s->own) : 0;
	r->away = READ_ONCE(s->away);
}

/* The time of the calls up to `at`, when the thread's own clock is `away` behind. */
static __always_inline u64 hook_time(const struct hook_read *r, u64 at, u64 away)
{
	return r->begun ? r->total + at - away - r->begun : r->total;
}

/* How much of `cpu` ns was at a barrier. */
static __always_inline u64 hook_part(s64 owed, u64 cpu)
{
	if (owed <= 0)
		return 0;
	return (u64)owed < cpu ? owed : cpu;
}

/* The running thread's slot; NULL: it has none any more. */
static __always_inline struct hook_slot *hook_slot_of(const struct hooked *h)
{
	struct hook_slot *s = hook_slot_at(h->map, h->slot);

	return s && s->tid == h->tid ? s : NULL;
}

/* Whether hooks see the barriers of the running thread: probes on these count for nothing. */
static __always_inline bool hook_sees(const struct thread *t)
{
	return cfg.hooks && t->hooked.map && hook_slot_of(&t->hooked);
}

/* Counts calls as hits, by which the overhead is known. */
static __always_inline void hook_count(struct thread *t, const struct hook_slot *s)
{
	u32 calls = (READ_ONCE(s->calls) >> 1) + READ_ONCE(s->begun), n = calls - t->hooked.calls;

	if (!n)
		return;
	t->hooked.calls = calls;
	__sync_fetch_and_add(&t->times.hits.n[HIT_HOOK], n);
}

/* Of the time up to `at` that is being accounted, `cpu` was on the CPU in the thread's role, and the rest was not. Returns how much
 * of `cpu` was at a barrier. */
__weak __noinline u64 hook_account(struct thread *t, u64 cpu, u64 rest, u64 at)
{
	struct hook_slot *s;
	struct hook_read r;
	u64 time, seen, part;
	s64 owed;

	if (!t)
		return 0;
	s = hook_slot_of(&t->hooked);
	if (!s)
		return 0;
	rest += __sync_lock_test_and_set(&t->hooked.more, 0);
	slot_read(s, &r);
	time = hook_time(&r, at, __sync_fetch_and_add(&s->away, rest) + rest);
	seen = __sync_lock_test_and_set(&t->hooked.seen, time);
	hook_count(t, s);
	if (seen == HOOK_UNSEEN)
		return 0;
	owed = __sync_fetch_and_add(&t->hooked.owed, time - seen) + time - seen;
	if (owed > HOOK_OWED_MAX || owed < -HOOK_OWED_MAX) {
		__sync_fetch_and_add(&t->hooked.owed, -owed);
		__sync_fetch_and_add(&stats.hooks_misfit, 1);
		return 0;
	}
	part = hook_part(owed, cpu);
	if (part)
		__sync_fetch_and_add(&t->hooked.owed, -part);
	return part;
}

/* The thread was elsewhere for ns, which are accounted. */
__weak __noinline int hook_away(struct thread *t, u64 ns)
{
	struct hook_slot *s;

	if (!t)
		return 0;
	s = hook_slot_of(&t->hooked);
	if (s)
		__sync_fetch_and_add(&s->away, ns);
	return 0;
}

/* Reads the slot of a thread, whose `seen` is what it had when it was last accounted. */
static __always_inline void hook_read(struct hooked *h, struct hook_read *r)
{
	struct hook_slot *s = hook_slot_of(h);

	if (s)
		slot_read(s, r);
	else
		h->map = 0;
}

/* As hook_account(), without accounting it. at: without the rest. */
static __always_inline u64 hook_part_of(const struct hooked *h, const struct hook_read *r, u64 cpu, u64 at)
{
	if (!h->map || h->seen == HOOK_UNSEEN)
		return 0;
	return hook_part(h->owed + hook_time(r, at, r->away) - h->seen, cpu);
}

/* The same of the thread itself. */
static __always_inline u64 hook_look(const struct hooked *h, u64 cpu, u64 at)
{
	struct hook_slot *s = hook_slot_of(h);
	struct hook_read r;

	if (!s)
		return 0;
	slot_read(s, &r);
	return hook_part_of(h, &r, cpu, at);
}

/* Of `all` ns, `before` of them in the role and the rest in the state: on the CPU. */
static __always_inline u64 hook_cpu(u32 role, u32 state, u64 before, u64 all)
{
	return (role == ST_CPU ? before : 0) + (state == ST_CPU ? all - before : 0);
}

/* Of such time up to `at`, which is not accounted yet: at a barrier. */
static __always_inline u64 hook_open(const struct thread *t, u32 state, u64 before, u64 all, u64 at)
{
	u64 cpu = hook_cpu(t->role, state, before, all);

	return hook_look(&t->hooked, cpu, at - all + cpu);
}

/* Divides such time, which has just been added to `ns`. */
static __always_inline void hook_look_into(const struct thread *t, u64 *ns, u32 state, u64 before, u64 all, u64 at)
{
	u64 part = hook_open(t, state, before, all, at);

	ns[ST_CPU] -= part;
	ns[ST_BARRIER] += part;
}

/* The running thread has told of its slot. Returns whether it is a new one. */
static __always_inline bool hook_take_slot(struct thread *t, u32 tgid, u32 tid, u32 slot)
{
	u32 *map = bpf_map_lookup_elem(&hook_processes, &tgid);
	struct hook_slot *s = map && slot ? hook_slot_at(*map, slot) : NULL;
	struct hook_read r;

	if (!s || (t->hooked.map == *map && t->hooked.slot == slot && s->tid == tid))
		return 0;
	s->tid = tid;
	t->hooked.tid = tid;
	t->hooked.slot = slot;
	t->hooked.owed = 0;
	t->hooked.calls = (s->calls >> 1) + s->begun;
	slot_read(s, &r);
	t->hooked.seen = r.total;
	WRITE_ONCE(t->hooked.map, *map);
	return 1;
}

/* The thread works on this step, number + 1; 0: on none. */
static __always_inline void hook_works(const struct thread *t, u32 step)
{
	struct hook_slot *s = t->hooked.map ? hook_slot_of(&t->hooked) : NULL;

	if (s)
		s->work = step;
}

/* The thread works on a step, and need not tell of itself again in this one. */
static __always_inline void hook_joined(const struct thread *t)
{
	struct hook_slot *s = t->hooked.map ? hook_slot_of(&t->hooked) : NULL;

	if (s)
		s->asks = 0;
}

/* A new window: what was at a barrier in between does not count. */
static __always_inline void hook_renew(struct thread *t)
{
	t->hooked.seen = HOOK_UNSEEN;
	t->hooked.owed = t->hooked.more = 0;
}

/* A step of the process begins: its threads tell of themselves again, for they work on it from their next call on. */
static __always_inline void hook_step_begins(struct thread *t, u32 tgid)
{
	struct hook_slot *own = t->hooked.map ? hook_slot_of(&t->hooked) : NULL;
	u32 *map = bpf_map_lookup_elem(&hook_processes, &tgid);
	struct hook_slot *s = map ? hook_slot_at(*map, 0) : NULL;

	if (own) {
		own->held_ns = 0;
		own->work = t->step.number + 1;
	}
	if (s)
		__sync_fetch_and_add(&((struct hooks_head *)s)->steps, 1);
}

/* The thread's step, whose times are known, ends: takes the longest wait that its hooks saw, if it was within the step. */
static __always_inline void hook_step_ends(struct thread *t)
{
	struct hook_slot *s = hook_slot_of(&t->hooked);
	struct rec_step *step = &t->step;
	u64 since, ns;

	if (!s)
		return;
	s->work = 0;
	since = READ_ONCE(s->held_since) - step->h.start_ns;
	ns = READ_ONCE(s->held_ns);
	if (ns <= step->held_ns || since > step->h.dur_ns || ns > step->h.dur_ns - since)
		return;
	step->held_at = step->h.start_ns + since;
	step->held_ns = ns;
	step->straggler_tid = s->straggler;
}

#endif
