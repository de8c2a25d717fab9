/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The counters of the CPU, by thread. User space opens them on each CPU; they count whatever runs there. A thread's count
 * is what they have counted while it was on a CPU:
 *
 *   sum + (counters now - at)
 *
 * `at` is their value when the thread came onto the CPU, `sum` its count when it left the last one: pmu_switch. All of it is
 * modulo 2^64, and begins anywhere: only the difference of two points of a thread means something, and only if pmu_switch
 * has seen all of its switches in between. So there is nothing to initialise when a window opens.
 *
 * Now and then the kernel does not run the program at a switch ("Switches that were not reported" in
 * docs/trace-format.md). But the kernel counts a thread's switches itself, and its count must agree with what was seen.
 */
#ifndef INFTRACE_PMU_BPF_H
#define INFTRACE_PMU_BPF_H

#include "inftrace.bpf.h"

/* By CPU * PMU_MAX + counter; sized by user space. No entry where a CPU is offline or lacks the counter. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} pmu_events __weak SEC(".maps");

/* Changes with each window; never 0. User space writes it. */
volatile u32 pmu_epoch __weak = 0;

struct pmu_values {
	u64 n[PMU_MAX];
	u64 off_ns; /* for how long the CPU counted for other users of its counters instead */
};

/* A thread's counts at an instant. */
struct pmu_point {
	struct pmu_values v;
	u64 key;    /* what began there: the start of a function, the number of a step */
	u32 epoch;  /* 0: the counts could not be read */
	u32 outs_unseen, ins_unseen; /* unseen switches, plus any constant */
};

/* What a point belongs to. Functions nested deeper than PMU_FRAMES have none. */
#define PMU_FRAMES 8
enum pmu_where {
	PMU_STEP,
	PMU_OP, /* the begin/end pair in flight */
	PMU_OP_END,
	PMU_FRAME,
	PMU_POINTS = PMU_FRAME + PMU_FRAMES,
};

/* A struct rec_function followed by struct rec_counts; too large for a program's stack. */
struct pmu_out {
	struct rec_hdr h;
	u32 step, pad;
	u64 words[32 + PMU_MAX]; /* of the length the verifier only sees that it has five bits */
};

_Static_assert(FUNC_VALS_MAX + sizeof(struct string_slot) / 8 < 32, "values and strings fit");

struct pmu_thread {
	struct pmu_values at, sum;
	u32 outs, ins; /* switches seen at which the counters could be read */
	struct pmu_point now; /* at the function probe in flight */
	struct pmu_point points[PMU_POINTS];
	struct pmu_out out;
};

/* Only for threads that call counted functions. Full (no memory): they have no counts. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct pmu_thread);
} pmu_threads __weak SEC(".maps");

/* Reads this CPU's counters; false: not all could be read. Must not migrate: no program does. */
static __always_inline bool pmu_read(struct pmu_values *ret)
{
	u64 first = (u64)bpf_get_smp_processor_id() * PMU_MAX;

	ret->off_ns = 0;
	for (u32 i = 0; i < PMU_MAX; i++) {
		struct bpf_perf_event_value v;

		ret->n[i] = 0;
		if (!(cfg.pmu & 1u << i))
			continue;
		if (bpf_perf_event_read_value(&pmu_events, first + i, &v, sizeof(v)))
			return 0;
		ret->n[i] = v.counter;
		ret->off_ns += v.enabled - v.running;
	}
	return 1;
}

static __always_inline struct pmu_thread *pmu_current(u64 flags)
{
	return bpf_task_storage_get(&pmu_threads, bpf_get_current_task_btf(), 0, flags);
}

#define PMU_TRIES 3 /* a read is thousands of times shorter than the time between two switches */

/* In a function probe: notes the thread's counts in p->now. */
__weak __noinline int pmu_hit(void)
{
	struct pmu_thread *p = pmu_current(BPF_LOCAL_STORAGE_GET_F_CREATE);
	struct task_struct *task = bpf_get_current_task_btf();
	struct pmu_values v;

	if (!p)
		return 0;
	p->now.epoch = 0;
	for (int i = 0; i < PMU_TRIES; i++) {
		u32 ins = READ_ONCE(p->ins), switches = READ_ONCE(task->nvcsw) + READ_ONCE(task->nivcsw);

		if (!pmu_read(&v))
			return 0;
		for (int k = 0; k < PMU_MAX; k++)
			p->now.v.n[k] = READ_ONCE(p->sum.n[k]) + v.n[k] - READ_ONCE(p->at.n[k]);
		p->now.v.off_ns = READ_ONCE(p->sum.off_ns) + v.off_ns - READ_ONCE(p->at.off_ns);
		p->now.outs_unseen = switches - READ_ONCE(p->outs);
		p->now.ins_unseen = switches - ins;
		if (ins == READ_ONCE(p->ins) && switches == (u32)(READ_ONCE(task->nvcsw) + READ_ONCE(task->nivcsw))) {
			p->now.epoch = pmu_epoch;
			return 0;
		}
	}
	return 0;
}

/* Whether a probe begins or ends something that is counted. */
static __always_inline bool pmu_wants(const struct thread *t, const struct probe *p)
{
	return p->flags & (PROBE_F_BEGIN | PROBE_F_END) || p->role == ROLE_STEP || p->role == ROLE_OP || t->op.probe;
}

/* Keeps the counts of the function probe in flight: something begins with it, or the begin/end pair has ended. */
__weak __noinline int pmu_mark(u32 where, u64 key)
{
	struct pmu_thread *p = pmu_current(0);

	barrier_var(where);
	if (!p || where >= PMU_POINTS)
		return 0;
	p->points[where] = p->now;
	p->points[where].key = key;
	return 0;
}

/* Writes what was counted between two points of the same `key`, if it is known. Returns enum counted. */
static __always_inline u32 pmu_between(const struct pmu_point *from, const struct pmu_point *to, u64 key, u64 *ret)
{
	if (!to->epoch || from->epoch != to->epoch || from->key != key || from->outs_unseen != to->outs_unseen ||
		from->ins_unseen != to->ins_unseen)
		return COUNTED_NOT;
	if (from->v.off_ns != to->v.off_ns)
		return COUNTED_SHARED;
	for (int i = 0; i < PMU_MAX; i++)
		ret[i] = to->v.n[i] - from->v.n[i];
	return COUNTED;
}

static __always_inline void pmu_note(u32 counted)
{
	if (counted == COUNTED_SHARED)
		__sync_fetch_and_add(&stats.counters_shared, 1);
	else if (counted == COUNTED_NOT)
		__sync_fetch_and_add(&stats.counters_unread, 1);
}

/* Fills in the counts of the step that has just ended with the function probe in flight. */
__weak __noinline int pmu_step(struct thread *t)
{
	struct pmu_thread *p = pmu_current(0);

	if (!t || !p)
		return 0;
	t->step.counted = pmu_between(&p->points[PMU_STEP], &p->now, t->step.number, t->step.counts);
	if (!(t->step.h.flags & REC_F_OPEN_START))
		pmu_note(t->step.counted);
	return 0;
}

/* Sends the record in p->out with its values, strings and counts. */
static __always_inline void pmu_send(
	struct pmu_thread *p, struct strings *s, const u64 *vals, u32 nvals, u32 nstrs, u32 slot, const u64 *counts)
{
	u32 n = nvals;

	if (n > FUNC_VALS_MAX)
		n = FUNC_VALS_MAX;
	for (int i = 0; i < FUNC_VALS_MAX; i++)
		p->out.words[i] = vals[i];
	if (nstrs) {
		if (s && slot < STRINGS_SLOTS)
			__builtin_memcpy(&p->out.words[n], &s->slots[slot], sizeof(s->slots[slot]));
		else
			for (u32 i = 0; i < sizeof(struct string_slot) / 8; i++)
				p->out.words[n + i] = 0;
		n += sizeof(struct string_slot) / 8;
	}
	for (int i = 0; i < PMU_MAX; i++)
		p->out.words[n + i] = counts[i];
	emit(&p->out, REC_FUNCTION_SIZE(n + PMU_MAX), REC_FUNCTION);
}

#endif
