// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* At each switch: adds what the CPU's counters have counted to the thread that leaves: pmu.bpf.h. Only loaded with -e +pmu. */
#include "pmu.bpf.h"

static __always_inline struct pmu_thread *pmu_of(struct task_struct *task)
{
	return task->bpf_storage ? bpf_task_storage_get(&pmu_threads, task, 0, 0) : NULL;
}

/* Some switches are timed, as hits are (hits.bpf.h): user space adds the mean to the cost of a switch. */
static __always_inline void switch_timed(u64 begin, struct task_struct *prev, struct task_struct *next)
{
	u64 ns;

	/* in place of the look-ups at the beginning, which were not timed */
	pmu_of(prev);
	pmu_of(next);
	ns = now_ns() - begin;
	if (ns > HIT_NS_MAX)
		return;
	__sync_fetch_and_add(&stats.counters_time.ns, ns);
	__sync_fetch_and_add(&stats.counters_time.n, 1);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(pmu_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct pmu_thread *out, *in;
	struct pmu_values v;
	u32 targets = 0;
	u64 begin = 0;

	if (!enabled)
		return 0;
	out = pmu_of(prev);
	in = pmu_of(next);
	if (out)
		targets++;
	barrier_var(targets); /* clang would or the pointers, which is not allowed */
	if (in)
		targets++;
	if (!targets)
		return 0;
	if (in && cfg.steps && !(bpf_get_prandom_u32() & (HITS_TIMED - 1)))
		begin = now_ns();
	if (!pmu_read(&v)) /* as if the switch had not been seen */
		return 0;
	if (out) {
		for (int i = 0; i < PMU_MAX; i++)
			out->sum.n[i] += v.n[i] - out->at.n[i];
		out->sum.off_ns += v.off_ns - out->at.off_ns;
		out->outs++;
	}
	if (in) {
		in->at = v;
		in->ins++;
	}
	if (begin)
		switch_timed(begin, prev, next);
	return 0;
}
