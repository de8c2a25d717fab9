// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * System calls: one span each, sent at its exit.
 *
 * The tracepoints are system-wide and hit every task, so the task's own storage is checked first: a
 * task that is not a target costs one look-up.
 */
#include "spans.bpf.h"
#include "blocked.bpf.h"
#include "samples.bpf.h"
#include "syscall_args.bpf.h"

#define PROT_EXEC 4

SEC("tp_btf/sys_enter")
int BPF_PROG(sys_enter, struct pt_regs *regs, long id)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *t;
	u64 begin;

	if (!enabled || is_probe_call(id))
		return 0;
	t = thread_of_any(task);
	if (!t)
		return 0;
	begin = hit_begin(t, HIT_SYSCALL);
	change_begin(t);
	fault_missed(t);
	t->sys_nr = id;
	t->sys_arg0 = sys_arg0(regs);
	t->sys_flags = 0;
	if (is_compat(task))
		t->sys_flags = SYSCALL_F_COMPAT;
	if (cfg.ipc && !(t->sys_flags & SYSCALL_F_COMPAT))
		t->sys_flags |= ipc_of_call(task, id, t->sys_arg0, sys_arg1(regs));
	t->syscalls++;
	t->sys_start = call_begin(t, &t->in_syscall, ST_SYSCALL);
	if (t->wait.end) /* else this barrier would be reported only when the thread wakes up again */
		wait_told(t, (u64)task->tgid << 32 | (u32)task->pid, t->sys_start, 0);
	change_end(t);
	hit_end(begin, HIT_SYSCALL);
	return 0;
}

static __always_inline int call_ends(struct pt_regs *regs, long ret, bool stacks)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *t;
	u64 now, begin;
	struct who w;

	if (!enabled)
		return 0;
	t = thread_of_any(task);
	if (!t)
		return 0;
	begin = hit_begin(t, HIT_SYSCALL);
	if (!t->in_syscall) {
		thread_adopt(t); /* it was not seen coming onto the CPU */
		if (!t->in_syscall) {
			hit_end(begin, HIT_SYSCALL);
			return 0;
		}
	}
	change_begin(t);
	now = call_end(t, &t->in_syscall, ST_SYSCALL);
	w.tgid = task->tgid;
	w.tid = task->pid;
	syscall_emit(t, w, now, ret, 0);
	if (t->in_exec) {
		t->in_exec = 0;
		task_flush(t, task, w, now);
	}
	change_end(t);
	hit_end(begin, HIT_SYSCALL);
	if (cfg.watch_maps && t->sys_nr == cfg.map_nr && !(t->sys_flags & SYSCALL_F_COMPAT) &&
		sys_arg2(regs) & PROT_EXEC) {
		struct rec_mapped r;

		hold_mapped(w.tgid);
		hdr_fill(&r.h, REC_MAPPED, now, 0, w.tgid, w.tid, 0, 0);
		emit_control(&r, sizeof(r), REC_MAPPED, BPF_RB_FORCE_WAKEUP);
	}
	if (stacks && t->n_due)
		waits_send(t, task, t->sys_start);
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(sys_exit, struct pt_regs *regs, long ret)
{
	return call_ends(regs, ret, 0);
}

/* Loaded instead when the stacks of waits are recorded. */
SEC("tp_btf/sys_exit")
int BPF_PROG(sys_exit_stacks, struct pt_regs *regs, long ret)
{
	return call_ends(regs, ret, 1);
}
