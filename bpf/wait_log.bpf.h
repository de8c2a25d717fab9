/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Writes the logs of the CPUs: src/wait_log.h.
 *
 * All programs here run with interrupts disabled, so each CPU's logs have one writer at a time: at a switch the run queue of
 * the CPU is locked, and at a wake-up the woken task.
 */
#ifndef INFTRACE_WAIT_LOG_BPF_H
#define INFTRACE_WAIT_LOG_BPF_H

#include "blocked.bpf.h"
#include "wait_log.h"

/* include/linux/sched.h */
#define TASK_DEAD 0x0080
#define PF_EXITING 0x00000004
#define PF_KTHREAD 0x00200000

/* Entries of each CPU: 1 << log_shift. User space sizes the maps for the possible CPUs; others have no log. */
const volatile u32 log_shift __weak = 0;

/* cpu << log_shift, plus the entry's number modulo 1 << log_shift. The oldest entry is overwritten. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct ran);
} ran_log SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct wake);
} wake_log SEC(".maps");

/* By CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct wait_log_heads);
} wait_log_heads SEC(".maps");

static __always_inline u32 wait_log_index(u32 cpu, u64 n)
{
	return cpu << log_shift | ((u32)n & ((1u << log_shift) - 1));
}

static __always_inline struct ran *ran_at(u32 cpu, u64 n)
{
	u32 i = wait_log_index(cpu, n);

	return bpf_map_lookup_elem(&ran_log, &i);
}

static __always_inline void ran_is(struct ran *r, struct task_struct *task)
{
	r->tid = task->pid;
	r->tgid = task->tgid;
	__builtin_memcpy(r->comm, task->comm, sizeof(r->comm));
}

/* The system call that the task is in, and its first argument. An interrupt or a fault that hits user code leaves -1 where a
 * system call leaves its number. */
static __always_inline u32 task_call(struct task_struct *task, u64 *ret_arg)
{
	struct pt_regs *regs;
	s64 nr;

	if (task->flags & (PF_KTHREAD | PF_EXITING))
		return CALL_NONE;
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
#ifdef __TARGET_ARCH_x86
	nr = (s64)regs->orig_ax;
	*ret_arg = regs->di;
#else
	nr = regs->syscallno;
	*ret_arg = regs->orig_x0;
#endif
	return nr >= 0 && nr < CALL_NONE ? nr : CALL_NONE;
}

/* When the CPU last switched; 0: unknown. */
static __always_inline u64 ran_since(void)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct wait_log_heads *heads = bpf_map_lookup_elem(&wait_log_heads, &cpu);
	struct ran *before = heads ? ran_at(cpu, heads->ran - 1) : NULL;

	return before ? before->end_ns : 0;
}

#define SWITCH_PREEMPT (1ull << 32) /* in `how`, above the state of the task that leaves the CPU */

/* A CPU switches. state: enum time_state of prev from now on if it is known and prev waits; else ST_MAX. fault_ns: its time in
 * page faults since it came. */
static __always_inline void ran_switch(struct task_struct *prev, struct task_struct *next, u64 now, u64 how, u32 state, u64 fault_ns)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct wait_log_heads *heads = bpf_map_lookup_elem(&wait_log_heads, &cpu);
	struct ran *r, *after;
	u32 task_state = (u32)how;
	u64 arg = 0;

	if (!heads)
		return;
	r = ran_at(cpu, heads->ran);
	after = ran_at(cpu, heads->ran + 1);
	if (!r || !after)
		return;
	r->end_ns = now;
	if (!cfg.steps) /* then nobody asks who ran: all entries are one */
		return;
	if (r->tid != (u32)prev->pid) /* a switch that was not reported */
		ran_is(r, prev);
	r->flags = 0;
	r->call = CALL_NONE;
	r->fault_ns = fault_ns < ~0u ? fault_ns : ~0u;
	if (how & SWITCH_PREEMPT || !task_state) {
		r->state = ST_RUNNABLE;
		if (prev->pid && is_throttled(prev))
			r->flags = RAN_F_THROTTLED;
	} else if (task_state & TASK_DEAD) {
		r->state = ST_CPU;
	} else if (task_state & TASK_STOPPED_MASK) {
		r->state = ST_STOPPED;
	} else {
		r->call = task_call(prev, &arg);
		r->arg = arg;
		if (state == ST_MAX)
			state = r->call != CALL_NONE                      ? blocked_in_syscall(prev, r->call, arg)
				: prev->flags & (PF_KTHREAD | PF_EXITING) ? ST_BLOCKED_OTHER
									  : ST_BLOCKED_FAULT;
		r->state = state;
	}
	ran_is(after, next);
	smp_wmb();
	WRITE_ONCE(heads->ran, heads->ran + 1);
}

/* The running task wakes another one, or creates it. */
static __always_inline void wake_log_add(struct task_struct *woken, struct task_struct *waker, u64 now, u32 call, u32 flags)
{
	u32 cpu = bpf_get_smp_processor_id(), i;
	struct wait_log_heads *heads = bpf_map_lookup_elem(&wait_log_heads, &cpu);
	struct wake *w;

	if (!heads)
		return;
	i = wait_log_index(cpu, heads->wakes);
	w = bpf_map_lookup_elem(&wake_log, &i);
	if (!w)
		return;
	w->ns = now;
	w->tid = woken->pid;
	w->waker_tid = waker->pid;
	w->call = call;
	w->flags = flags | (waker->flags & PF_KTHREAD ? WAKE_F_KERNEL : 0);
	smp_wmb();
	WRITE_ONCE(heads->wakes, heads->wakes + 1);
}

#endif
