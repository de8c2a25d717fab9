// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Task iterators. At the start of a recording they give every thread of the targets its
 * storage and, once the other programs run, its state: so even a sleeping thread has a state
 * from the first nanosecond. At the end they send the spans that are still open.
 */
#include "spans.bpf.h"
#include "blocked.bpf.h"

#define ENOSYS 38

/*
 * Clears what belongs to the previous window. Called between two windows, when only the programs of steps touch the
 * thread. In the next window a step in flight has the time since that opened.
 */
__weak __noinline int thread_renew(struct thread *t)
{
	u64 *now = (u64 *)t, *window;

	if (!t)
		return 0;
	window = (u64 *)((void *)t + sizeof(struct thread_now) + sizeof(struct thread_kept));
	for (u32 i = 0; i < sizeof(struct thread_now) / 8; i++)
		now[i] = 0;
	for (u32 i = 0; i < sizeof(struct thread_window) / 8; i++) {
		barrier_var(window); /* not memset(), which BPF does not have for this size */
		window[i] = 0;
	}
	for (u32 i = 0; i < ST_MAX; i++)
		t->step.before_ns[i] = 0;
	hook_renew(t);
	return 0;
}

/* Creates storage: before the window opens for every thread of the targets, while it is open for threads of new targets. */
SEC("iter/task")
int snapshot_create(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct thread *t;
	bool open = enabled || closing;
	u32 tgid;

	if (!task)
		return 0;
	if (cfg.ipc && !eventfd_fops)
		ipc_learn();
	tgid = task->tgid;
	t = thread_of(task);
	if (t && open)
		return 0;
	/* children of the targets have their storage already */
	if (!t && (cfg.trace_all ? tgid != cfg.self_tgid : !!bpf_map_lookup_elem(&targets, &tgid)))
		t = thread_create(task);
	if (!t)
		return 0;
	if (cfg.memory)
		process_sums_of(tgid);
	if (open) { /* its first state begins when it is seen, not with the window */
		t->on_ns = now_ns();
		return 0;
	}
	if (!cfg.windows)
		return 0;
	thread_renew(t);
	counts_read(t, task);
	step_clear(t);
	return 0;
}

/* The number of the system call that a sleeping thread is in, or -1. */
static __always_inline s64 sleeping_syscall(struct task_struct *task, u64 *ret_arg0, u64 *ret_arg1)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);

#ifdef __TARGET_ARCH_x86
	/* entry_64.S puts -ENOSYS into ax; an exception leaves the interrupted value */
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

/* Right after the window has opened: sets the state of threads that no other program has seen yet. */
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
			state = blocked_in_syscall(task, nr, arg0) & ~BLOCKED_NAMED;
	}
	/* Not in the thread's own fields: it may be waking up just now, and its programs set those. */
	t->asleep.tid = task->pid;
	t->asleep.in_syscall = nr >= 0;
	if (nr >= 0) {
		t->asleep.sys_nr = nr;
		t->asleep.sys_arg0 = arg0;
		t->asleep.sys_flags = REC_F_OPEN_START | SYSCALL_F_BLOCKED;
		if (cfg.ipc)
			t->asleep.sys_flags |= ipc_of_call(task, nr, arg0, arg1);
	}
	t->asleep.off = state;
	/* It has not moved since the window opened, or a program would have set `since`. Ordered after the above. */
	__sync_val_compare_and_swap(&t->since, 0, stats.start_ns);
	return 0;
}

/* Sends what is still open after the window has closed. */
SEC("iter/task")
int snapshot_close(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;

	if (task)
		task_close(task, task->wake_cpu);
	return 0;
}

/* ---- what is in flight, while the recording goes on ---- */

static __always_inline bool peek_write(struct seq_file *seq, void *rec, u64 size)
{
	u64 head = size;

	return !bpf_seq_write(seq, &head, sizeof(head)) && !bpf_seq_write(seq, rec, size);
}

/* Too large for a program's stack, or too costly for the verifier there; only one iterator runs at a time. */
static struct rec_step peeked;
static struct step_counts peeked_now;
static struct {
	struct rec_hdr h;
	u32 step, pad;
	u64 vals[FUNC_VALS_MAX];
} peeked_function; /* a struct rec_function without the strings */

/* Writes the `peeked` step with its parts by sequence, preceded by its size. The number of parts is read once for both. */
static __always_inline void peek_write_step(struct seq_file *seq, struct task_struct *task, struct thread *t)
{
	struct rows *r = parts_kept(t, task);
	u64 n = r ? peeked.n_parts : 0, head;

	barrier_var(n); /* see rows_ahead() */
	if (n > STEP_PARTS_MAX)
		n = 0;
	if (!n)
		peeked.n_parts = peeked.parts_left = 0;
	head = sizeof(peeked) + n * sizeof(struct row_part);
	if (bpf_seq_write(seq, &head, sizeof(head)) || bpf_seq_write(seq, &peeked, sizeof(peeked)))
		return;
	if (r && n)
		bpf_seq_write(seq, parts_of(r, PARTS_STEP)->part, n * sizeof(struct row_part));
}

static __always_inline void peek_function(struct seq_file *seq, struct who w, u32 step, u32 probe, u64 start,
	u64 end, const u64 *vals, u32 flags)
{
	function_fill((struct rec_function *)&peeked_function, w, probe, step, start, end, vals, flags);
	peek_write(seq, &peeked_function, sizeof(peeked_function));
}

/* Fills `peeked` with the step in flight up to now, without its workers. */
__weak __noinline int peek_step(struct thread *t, u64 tgid_tid, u32 probe, u64 now)
{
	struct rec_step *r = &peeked;
	u64 since, before, sum = 0;
	u32 state;

	if (!t)
		return 0;
	for (u32 i = 0; i < sizeof(*r) / sizeof(u64); i++)
		((u64 *)r)[i] = ((u64 *)&t->step)[i];
	since = times_copy(t, r->ns);
	state = now_state_apart(now_of(t), t->off);
	before = now > since ? now_before_apart(now_of(t), since, now) : 0;
	for (u32 i = 0; i < ST_MAX; i++) {
		r->ns[i] -= t->step_ns[i];
		sum += r->ns[i];
	}
	if (now > since && state < ST_MAX) {
		u64 left = state == ST_BARRIER ? wait_left_apart(&t->wait, since, now) : 0;

		r->ns[t->role & 3] += before;
		r->ns[ST_CPU] += left;
		barrier_var(state);
		if (state < ST_MAX) /* 6.1 has forgotten it */
			r->ns[state] += now - since - before - left;
		sum += now - since;
		if (cfg.hooks && t->hooked.map)
			hook_look_into(t, r->ns, state, before, now - since, now);
	}
	hdr_fill(&r->h, REC_STEP, r->h.start_ns, r->h.start_ns + sum, tgid_tid >> 32, (u32)tgid_tid, probe,
		REC_F_OPEN_END);
	r->lost = stats.lost_total - r->lost;
	r->steps_lost = STEPS_LOST;
	hits_add(&r->hits, &t->times.hits, &t->step_hits);
	return 0;
}

static __noinline int peek_counts(struct thread *t, struct task_struct *task)
{
	if (!t)
		return 0;
	counts_fill(&peeked_now, t, task);
	counts_subtract(&peeked.n, &peeked_now);
	return 0;
}

/* Does what peek_kernel() does for a thread that has slept since before the window opened. */
static __always_inline void peek_asleep(struct seq_file *seq, const struct asleep *a, struct who w, u64 now, u32 cpu)
{
	u64 start = stats.start_ns;

	if (a->in_syscall && emits(REC_SYSCALL)) {
		struct rec_syscall r = { .arg0 = a->sys_arg0 };

		hdr_fill(&r.h, REC_SYSCALL, start, now, w.tgid, w.tid, a->sys_nr, a->sys_flags | REC_F_OPEN_END);
		peek_write(seq, &r, sizeof(r));
	}
	if (emits(REC_OFF_CPU)) {
		struct rec_off_cpu r = { .cpu_from = cpu };

		hdr_fill(&r.h, REC_OFF_CPU, start, now, w.tgid, w.tid, a->off, REC_F_OPEN_START | REC_F_OPEN_END);
		r.h.cpu = cpu;
		peek_write(seq, &r, sizeof(r));
	}
}

static __always_inline void peek_kernel(
	struct seq_file *seq, struct thread *t, struct who w, u64 now, u32 cpu)
{
	if (t->in_syscall && emits(REC_SYSCALL)) {
		struct rec_syscall r = { .arg0 = t->sys_arg0 };

		hdr_fill(&r.h, REC_SYSCALL, t->sys_start, now, w.tgid, w.tid, t->sys_nr,
			t->sys_flags | REC_F_OPEN_END);
		peek_write(seq, &r, sizeof(r));
	}
	if (t->in_fault && emits(REC_FAULT)) {
		struct rec_fault r = { .addr = t->fault_addr };

		hdr_fill(&r.h, REC_FAULT, t->fault_start, now, w.tgid, w.tid, 0,
			t->fault_flags | REC_F_OPEN_END);
		peek_write(seq, &r, sizeof(r));
	}
	if (t->off && emits(REC_OFF_CPU)) {
		struct rec_off_cpu r = { .cpu_from = t->off_cpu };

		hdr_fill(&r.h, REC_OFF_CPU, t->since, now, w.tgid, t->off_tid, t->off,
			t->off_flags | REC_F_OPEN_END);
		r.h.cpu = t->off_cpu;
		if (t->wake_ns >= t->since && !(t->off_flags & OFF_CPU_F_PREEMPT)) {
			r.wake_ns = t->wake_ns > now ? now : t->wake_ns;
			r.waker_tid = t->waker_tid;
			r.h.flags |= t->waker_irq ? OFF_CPU_F_WAKER_IRQ : 0;
		}
		peek_write(seq, &r, sizeof(r));
	} else if (!t->off && emits(REC_ON_CPU)) {
		u64 on = t->on_ns;
		struct rec_on_cpu r;

		hdr_fill(&r.h, REC_ON_CPU, on ? on : stats.start_ns, now, w.tgid, w.tid, 0,
			REC_F_OPEN_END | (on ? 0 : REC_F_OPEN_START));
		r.h.cpu = on ? t->on_cpu : cpu;
		peek_write(seq, &r, sizeof(r));
	}
}

struct peek {
	struct seq_file *seq;
	struct task_struct *task;
	struct thread *t;
	u64 now;
	struct who w;
};

static long peek_frame(u32 i, struct peek *p)
{
	struct thread *t = p->t;
	struct frame *f = frame_at(t, i);

	if (i >= t->depth)
		return 1;
	if (f->step) {
		peek_step(t, (u64)p->w.tgid << 32 | p->w.tid, f->probe, p->now);
		peek_counts(t, p->task);
		peek_write_step(p->seq, p->task, t);
	} else if (emits(REC_FUNCTION)) {
		peek_function(p->seq, p->w, thread_step(t), f->probe, f->start, p->now, f->vals, REC_F_OPEN_END);
	}
	return 0;
}

/* Writes everything that the thread has in flight. */
static __always_inline void peek_thread(
	struct seq_file *seq, struct task_struct *task, struct thread *t, struct who w, u64 now)
{
	struct peek p = { .seq = seq, .task = task, .t = t, .now = now, .w = w };
	u32 step = thread_step(t);

	if (t->depth)
		bpf_loop(FRAMES_MAX, peek_frame, &p, 0);
	if (t->wait.probe && emits(REC_FUNCTION)) {
		u64 end = wait_over(t, now);

		peek_function(seq, w, step, t->wait.probe - 1, t->wait.start, end ? end : now, t->op.vals,
			end ? 0 : REC_F_OPEN_END);
	}
	if (t->op.probe && emits(REC_FUNCTION))
		peek_function(seq, w, step, t->op.probe - 1, t->op.start, t->op.end ? t->op.end : now, t->op.vals,
			t->op.end ? 0 : REC_F_OPEN_END);
	if (thread_asleep(t))
		peek_asleep(seq, &t->asleep, w, now, task->wake_cpu);
	else
		peek_kernel(seq, t, w, now, task->wake_cpu);
}

/*
 * Writes each thread's open spans as records, each preceded by its size, and then a struct peek_end, which tells whether
 * they are consistent, and when they were taken. The thread keeps running: see change_begin(). A thread that is preempted
 * within one of its own programs stays torn until it continues.
 */
SEC("iter/task")
int snapshot_peek(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct seq_file *seq = ctx->meta->seq;
	struct peek_end end = {};
	struct thread *t;
	struct who w;
	u64 since, edge;
	bool torn;

	if (!task)
		return 0;
	t = thread_of(task);
	if (!t)
		return 0;
	since = READ_ONCE(t->since);
	if (!since)
		return 0;
	edge = READ_ONCE(t->edge);
	torn = READ_ONCE(t->changing) || READ_ONCE(t->switching);
	smp_rmb();
	w.tgid = task->tgid;
	w.tid = task->pid;
	end.at_ns = now_ns();
	if (!torn)
		peek_thread(seq, task, t, w, end.at_ns);
	smp_rmb();
	torn |= READ_ONCE(t->changing) || READ_ONCE(t->switching) || READ_ONCE(t->since) != since ||
		READ_ONCE(t->edge) != edge;
	end.word = torn ? PEEK_TORN : PEEK_WHOLE;
	end.tid = w.tid;
	bpf_seq_write(seq, &end, sizeof(end));
	return 0;
}
