// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Task iterators. At the start of a recording they give every thread of the targets its
 * storage and, once the other programs run, its state: a thread that is asleep then has a
 * state from the first nanosecond. At the end they send the spans that are still open.
 */
#include "spans.bpf.h"
#include "blocked.bpf.h"

#define ENOSYS 38

/* Before the window opens: storage for every thread of the targets. */
SEC("iter/task")
int snapshot_create(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	u32 tgid;

	if (!task)
		return 0;
	if (cfg.ipc && !eventfd_fops)
		ipc_learn();
	tgid = task->tgid;
	if (cfg.trace_all ? tgid != cfg.self_tgid : !!bpf_map_lookup_elem(&targets, &tgid)) {
		thread_create(task);
		if (cfg.memory)
			process_sums_of(tgid);
	}
	return 0;
}

/* The system call that a sleeping thread is in, or -1. */
static __always_inline s64 sleeping_syscall(struct task_struct *task, u64 *ret_arg0, u64 *ret_arg1)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);

#ifdef __TARGET_ARCH_x86
	/* entry_64.S puts -ENOSYS there; an exception leaves the interrupted value */
	if (regs->ax != (unsigned long)-ENOSYS)
		return -1;
	*ret_arg0 = regs->di;
	*ret_arg1 = regs->si;
	return (s32)regs->orig_ax;
#else
	*ret_arg0 = regs->orig_x0;
	*ret_arg1 = ((struct user_pt_regs *)regs)->regs[1];
	return regs->syscallno;
#endif
}

/* Right after it has opened: the state of threads that no other program has seen yet. */
SEC("iter/task")
int snapshot_init(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	u32 task_state, state = ST_CPU;
	struct thread *t;
	u64 arg0 = 0, arg1 = 0;
	s64 nr = -1;

	if (!task)
		return 0;
	t = thread_of(task);
	if (!t || t->since)
		return 0;
	task_state = task->__state;
	if (!task_state) {
		state = task->on_cpu ? ST_CPU : ST_RUNNABLE;
	} else if (task_state & TASK_STOPPED_MASK) {
		state = ST_STOPPED;
	} else {
		state = ST_BLOCKED_OTHER;
		nr = sleeping_syscall(task, &arg0, &arg1);
		if (nr >= 0)
			state = blocked_in_syscall(task, nr, arg0);
	}
	/* It has not moved since the window opened, or a program would have set `since`. */
	if (__sync_val_compare_and_swap(&t->since, 0, stats.start_ns))
		return 0;
	t->off = state;
	t->off_flags = REC_F_OPEN_START;
	if (nr >= 0) {
		t->sys_nr = nr;
		t->sys_arg0 = arg0;
		t->sys_start = stats.start_ns;
		t->sys_flags = REC_F_OPEN_START | REC_F_BLOCKED;
		if (cfg.ipc)
			t->sys_flags |= ipc_of_call(task, nr, arg0, arg1);
		t->in_syscall = 1;
	}
	return 0;
}

/* After the window has closed. */
SEC("iter/task")
int snapshot_close(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;

	if (task)
		task_close(task, task->wake_cpu);
	return 0;
}
