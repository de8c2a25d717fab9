/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The overhead: how much of a thread's time the programs themselves take. Each program that runs on a thread of the targets
 * is a hit, counted by kind. Now and then one is timed: from these user space derives the mean of each kind, and adds the
 * time that the kernel needs to reach a program.
 */
#ifndef INFTRACE_HITS_BPF_H
#define INFTRACE_HITS_BPF_H

#define HITS_TIMED 64 /* one in this many, at random: a power of two */
#define HIT_NS_MAX 10000 /* one that took longer was interrupted or preempted */

/* Begins a hit that is to be timed. Returns the time; 0: it was the thread's first, which only draws which one is next. */
__weak __noinline u64 hit_time(struct thread *t)
{
	s32 left;

	if (!t)
		return 0;
	left = t->untimed;
	t->untimed = 1 + (bpf_get_prandom_u32() & (2 * HITS_TIMED - 1));
	return left ? 0 : now_ns();
}

__weak __noinline int hit_timed(u64 begin, u32 kind)
{
	u32 group = bpf_get_smp_processor_id() >> cfg.ring_shift;
	struct hit_time *h;
	u64 ns;

	thread_of(bpf_get_current_task_btf()); /* in place of the look-up at the beginning, which was not timed */
	ns = now_ns() - begin;
	if (ns > HIT_NS_MAX || group >= RINGS_MAX || kind >= HIT_MAX)
		return 0;
	h = &stats.hits[group].kind[kind];
	__sync_fetch_and_add(&h->ns, ns);
	__sync_fetch_and_add(&h->n, 1);
	return 0;
}

/* Counts a hit. Returns when it began if it is to be timed, else 0; pass that to hit_end(). */
static __always_inline u64 hit_begin(struct thread *t, u32 kind)
{
	if (!cfg.steps) /* only steps report them */
		return 0;
	t->times.hits.n[kind]++;
	return --t->untimed > 0 ? 0 : hit_time(t);
}

static __always_inline void hit_end(u64 begin, u32 kind)
{
	if (begin)
		hit_timed(begin, kind);
}

/* Adds *now - *base to *to. */
static __always_inline void hits_add(struct hits *to, const struct hits *now, const struct hits *base)
{
	for (int i = 0; i < HIT_MAX; i++)
		to->n[i] += READ_ONCE(now->n[i]) - base->n[i];
}

#endif
