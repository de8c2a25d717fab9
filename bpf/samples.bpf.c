// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Which code runs, and which waits: copies of stacks, taken at regular intervals of CPU time and after long waits.
 */
#include "spans.bpf.h"
#include "samples.bpf.h"
#include "interrupt.bpf.h"

/* A sampled thread's state, without the interrupt that takes the sample. */
static __always_inline u32 sampled_state(const struct thread *t)
{
	if (cfg.track_irq && t->irq_depth == 1 && t->irqs[0].hit < ST_MAX)
		return t->irqs[0].hit;
	return now_on_state_apart(now_of(t));
}

/* A walk through the frames, from the innermost on. */
struct op_walk {
	struct thread *t;
	u64 sp;
	u32 found;
};

static long frame_is_op(u32 i, struct op_walk *w)
{
	u32 depth = w->t->depth - i;
	struct frame *f;

	if (depth == 0 || depth > FRAMES_MAX)
		return 1;
	if (w->t->op.probe && depth <= w->t->op.depth)
		return 1;
	f = frame_at(w->t, depth - 1);
	if (f->role != ROLE_OP || f->sp < w->sp) /* below the stack: it was left by an exception */
		return 0;
	w->found = depth;
	return 1;
}

/*
 * Returns when the innermost operator in flight began, or 0, and marks it, so that its record names it to user space and
 * says when it ended: the end that a pair has seen may not be its last one.
 */
__noinline u64 sampled_op(struct thread *t, u64 sp)
{
	struct op_walk w = { .t = t, .sp = sp };
	struct frame *f;

	if (!t || !emits(REC_FUNCTION))
		return 0;
	if (t->depth)
		bpf_loop(FRAMES_MAX, frame_is_op, &w, 0);
	if (w.found) {
		f = frame_at(t, w.found - 1);
		f->flags |= FUNCTION_F_SAMPLED;
		return f->start;
	}
	if (!t->op.probe)
		return 0;
	t->op.sampled = 1;
	return t->op.start;
}

/* Runs on the clock of each CPU that is not idle. On x86 and arm64 kernel addresses are those with the highest bit. */
SEC("perf_event")
int sample_cpu(struct bpf_perf_event_data *ctx)
{
	struct task_struct *task;
	struct sample_copy *c;
	struct thread *t;
	u64 now, end;
	long n;

	if (!enabled || !emits(REC_SAMPLE))
		return 0;
	task = bpf_get_current_task_btf();
	t = thread_of_any(task);
	if (!t)
		return 0;
	c = copy_open(ROOM_EVENT);
	if (!c) {
		__sync_fetch_and_add(&stats.samples_left, 1);
		return 0;
	}
	now = now_ns();
	if (!copy_allowed(c, now)) {
		__sync_fetch_and_add(&stats.samples_left, 1);
		goto out;
	}
	end = copy_begin(c, task, SAMPLE_CPU, now, 0);
	c->r.step = thread_step(t);
	c->r.state = sampled_state(t);
	c->r.kept_of = c->left + 1;
	copy_regs(c->r.regs, &ctx->regs);
	if ((s64)c->r.regs[SAMPLE_REG_PC] < 0) {
		n = bpf_get_stack(ctx, c->bytes + sizeof(c->r), SAMPLE_KERNEL_MAX * sizeof(u64), 0);
		if (n > 0) {
			c->r.kernel_n = (u32)n / sizeof(u64);
			end += c->r.kernel_n * sizeof(u64);
		}
		if (has_user_stack(task)) {
			USER_REGS *regs = (USER_REGS *)bpf_task_pt_regs(task);

			copy_regs(c->r.regs, regs);
		}
	}
	if (has_user_stack(task)) {
		c->r.ref = sampled_op(t, c->r.regs[SAMPLE_REG_SP]);
		end = copy_user(c, t, task, end);
	} else {
		copy_no_user(c);
	}
	c->left = 0;
	copy_send(c, end);
	__sync_fetch_and_add(&stats.samples, 1);
	__sync_fetch_and_add(&stats.sample_ns, now_ns() - now);
out:
	copy_close(c);
	return 0;
}

/* What a thread that waits in the kernel waits for, as an enum time_state; 0: it does not. */
static __always_inline u32 waits_for(const struct thread *t)
{
	u32 off = thread_asleep(t) ? t->asleep.off : t->off;

	if (!off || off == ST_RUNNABLE || off == ST_STOPPED)
		return 0;
	/* if it is in the kernel for anything else, its user stack would not be copied */
	return t->in_syscall || t->in_fault || (thread_asleep(t) && t->asleep.in_syscall) ? off : 0;
}

/* Keeps a long wait as a thread comes back onto a CPU: its kernel stack is still as it was. */
static __noinline int wait_due(struct thread *t, struct task_struct *next, u32 off, u64 ns)
{
	struct due_wait *w;
	long n;

	if (!t)
		return 0;
	if (t->n_due >= WAITS_DUE) {
		__sync_fetch_and_add(&stats.waits_left, 1);
		return 0;
	}
	w = due_at(t, t->n_due);
	w->from = t->since;
	w->ns = ns;
	w->step = thread_step(t);
	w->state = off;
	w->flags = thread_asleep(t) ? REC_F_OPEN_START : 0;
	w->waker_tid = t->wake_ns && !t->waker_irq ? t->waker_tid : 0;
	w->sample_flags = t->wake_ns && t->waker_irq ? SAMPLE_F_WOKEN_IRQ : 0;
	w->waker_ns = w->waker_tid ? t->waker_ns : 0;
	t->waker_ns = 0;
	n = bpf_get_task_stack(next, w->kernel, sizeof(w->kernel), 0);
	w->kernel_n = n > 0 ? (u32)n / sizeof(u64) : 0;
	t->n_due++;
	return 0;
}

/*
 * Must run before sched_switch (sched.bpf.c), which ends the wait: it does, since programs on a tracepoint run in the
 * order in which they were attached, and are attached in the order of their files.
 */
SEC("tp_btf/sched_switch")
int BPF_PROG(stacks_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	u64 from, wake, now;
	struct thread *t;
	u32 off;

	if (!enabled || !emits(REC_SAMPLE))
		return 0;
	t = thread_of_any(next);
	if (!t)
		return 0;
	off = waits_for(t);
	if (!off)
		return 0;
	from = t->since;
	now = now_ns();
	wake = t->wake_ns;
	if (t->role == ST_GPU_WAIT)
		off = ST_GPU_WAIT;
	else if (wake && wake < now)
		now = wake > from ? wake : from;
	if (!from || now < from || now - from < cfg.min_stack_ns)
		return 0;
	wait_due(t, next, off, now - from);
	return 0;
}

/* Sends the stack of the current thread, which is in a system call. Returns the sample's time; 0: it was left out. */
static __noinline u64 waker_send(void *ctx, struct thread *t, struct task_struct *task)
{
	struct sample_copy *c = copy_open(ROOM_TASK);
	u64 now, end, sent = 0;
	long n;

	if (!c || !t)
		return 0;
	now = now_ns();
	if (copy_allowed(c, now)) {
		end = copy_begin(c, task, SAMPLE_WAKER, now, 0);
		c->r.step = thread_step(t);
		c->r.state = ST_SYSCALL;
		n = bpf_get_stack(ctx, c->bytes + sizeof(c->r), SAMPLE_KERNEL_MAX * sizeof(u64), 0);
		if (n > 0) {
			c->r.kernel_n = (u32)n / sizeof(u64);
			end += c->r.kernel_n * sizeof(u64);
		}
		copy_regs(c->r.regs, (USER_REGS *)bpf_task_pt_regs(task));
		copy_send(c, copy_user(c, t, task, end));
		sent = now;
	}
	copy_close(c);
	return sent;
}

/*
 * A target's wait ends. If it was long and another target's system call ended it, sends the waker's stack. Not at the end of
 * that call: by then the woken thread may have run for long, and its wait would have to be kept until then.
 *
 * can_tell: in_interrupt() works. Then the stack is sent once for all threads that one call wakes. Otherwise it may be that
 * of an interrupt that hit the call, which user space finds by the functions in it.
 */
static __always_inline int ends_wait(void *ctx, struct task_struct *p, bool can_tell)
{
	struct thread *t = thread_of_any(p), *waker;
	struct task_struct *task;
	u64 from, now;

	if (!t || !emits(REC_SAMPLE))
		return 0;
	t->waker_ns = 0;
	from = t->since;
	now = now_ns();
	if (!from || now < from || now - from < cfg.min_stack_ns || !waits_for(t) || (can_tell && in_interrupt()))
		return 0;
	task = bpf_get_current_task_btf();
	waker = thread_of(task);
	if (!waker || !waker->in_syscall || !has_user_stack(task))
		return 0;
	if (!can_tell || waker->wakes_call != waker->sys_start) {
		waker->wakes_call = waker->sys_start;
		waker->wakes_ns = waker_send(ctx, waker, task);
		__sync_fetch_and_add(waker->wakes_ns ? &stats.wakers : &stats.wakers_left, 1);
	}
	t->waker_ns = waker->wakes_ns;
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(stacks_waking_irq, struct task_struct *p)
{
	return enabled ? ends_wait(ctx, p, 1) : 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(stacks_waking, struct task_struct *p)
{
	return enabled ? ends_wait(ctx, p, 0) : 0;
}

/* The instant up to which snapshot_waits() takes waits that go on. */
u64 waits_until = 0;

/*
 * Sends threads that still wait, perhaps for ever: after the window has closed, but before its spans are, and when a dump
 * begins. Their memory cannot be read from here; user space reads it.
 */
SEC("iter/task")
int snapshot_waits(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	u64 from, now = waits_until, end;
	struct python_frame *f;
	struct sample_copy *c;
	struct thread *t;
	u32 off;
	long n;

	if (!task || !task->__state || !has_user_stack(task) || !emits(REC_SAMPLE))
		return 0;
	t = thread_of(task);
	if (!t)
		return 0;
	off = waits_for(t);
	from = t->since;
	if (!off || !from || t->wake_ns > from || now < from || now - from < cfg.min_stack_ns)
		return 0;
	c = copy_open(ROOM_TASK);
	if (!c) {
		__sync_fetch_and_add(&stats.waits_left, 1);
		return 0;
	}
	end = copy_begin(c, task, SAMPLE_OFF_CPU, from, now);
	c->r.h.flags = REC_F_OPEN_END | (thread_asleep(t) ? REC_F_OPEN_START : 0);
	c->r.flags = enabled ? SAMPLE_F_WAITS | SAMPLE_F_LOOKED : SAMPLE_F_WAITS;
	c->r.step = thread_step(t);
	c->r.state = t->role == ST_GPU_WAIT ? ST_GPU_WAIT : off;
	copy_regs(c->r.regs, (USER_REGS *)bpf_task_pt_regs(task));
	n = bpf_get_task_stack(task, c->bytes + sizeof(c->r), SAMPLE_KERNEL_MAX * sizeof(u64), 0);
	if (n > 0) {
		c->r.kernel_n = (u32)n / sizeof(u64);
		end += c->r.kernel_n * sizeof(u64);
	}
	barrier_var(end);
	if (end <= REC_SENT_MAX) {
		f = (struct python_frame *)(c->bytes + end);
		f->code = thread_pointer(task);
		f->instr = 0;
		c->r.python_n = 1;
		copy_send(c, end + sizeof(*f));
		__sync_fetch_and_add(&stats.waits, 1);
	}
	copy_close(c);
	return 0;
}
