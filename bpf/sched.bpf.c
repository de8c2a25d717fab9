// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Scheduling: which threads are off the CPU, why, since when, woken by whom, and task events (fork,
 * exec, exit, rename).
 *
 * The programs on sched_switch and sched_waking are not preempted, so they own the
 * off-CPU part of a thread's state. One switch ends the on-CPU span of one task and the
 * off-CPU span of the next, from one clock read: the spans of a CPU and of a thread are
 * contiguous.
 */
#include "python_watched.bpf.h"
#include "spans.bpf.h"
#include "wait_log.bpf.h"
#include "interrupt.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* As blocked_on_fd(). */
static __always_inline u32 blocked_state(struct thread *t, struct task_struct *task)
{
	if (t->in_fault)
		return ST_BLOCKED_FAULT;
	return t->in_syscall ? blocked_in_syscall(task, t->sys_nr, t->sys_arg0) : ST_BLOCKED_OTHER;
}

/*
 * Drops a wake-up that does not belong to the sleep that begins, whose own may remain unseen. A thread that is woken while it
 * is about to sleep may find that it need not, and then no switch ends that wake-up. A wake-up from before the thread entered
 * the kernel is such a one; this sleep's own can come from another CPU before the switch does.
 */
static __always_inline void wake_forget(struct thread *t)
{
	u64 wake = READ_ONCE(t->wake_ns), entered = t->edge > t->since ? t->edge : t->since;

	if (t->in_syscall)
		entered = t->sys_start;
	if (wake && wake < entered)
		__sync_val_compare_and_swap(&t->wake_ns, wake, 0);
}

#define BARRIER_REST 64 /* bytes of code after an arrival's probe, which include the release of the others */

/* The last thread to arrive at a barrier is preempted after its probe, perhaps before it releases the others. */
static __always_inline void hold_release(struct thread *t, struct task_struct *task)
{
#ifdef __TARGET_ARCH_x86
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);

	if ((u32)regs->ip - t->wait.ip - 1 < BARRIER_REST)
		release_move(t, 0);
#endif
}

/* Not inline, so that the verifier continues after it with a single state. */
static __noinline int switch_out(
	struct thread *t, struct task_struct *task, u64 now, u64 how)
{
	bool preempt = how & SWITCH_PREEMPT;
	u32 task_state = (u32)how, state;
	u64 since;

	if (!t)
		return 0;
	if (t->off)
		off_cpu_missed(t, (u64)task->tgid << 32 | (u32)task->pid, came_onto_cpu(now) ?: now);
	if (cfg.track_irq && t->irq_depth) { /* only PREEMPT_RT lets a soft interrupt be preempted */
		__sync_fetch_and_add(&stats.irqs_left, 1);
		t->irq_depth = 0;
	}
	if (t->wait.probe && t->wait.last)
		hold_release(t, task);
	state = thread_on_state(t);
	since = t->since;
	if (since && now > since)
		thread_add_upto(t, state, now_before(now_of(t), since, now), since, now, 1);
	if (cfg.sums)
		t->switches[preempt || !task_state]++;
	if (!t->dying)
		t->off_tid = task->pid;
	else if (!tid_is_lost(t, task->pid))
		t->tid_ns = now;
	t->off_flags = 0;
	if (preempt || !task_state) {
		t->off = ST_RUNNABLE;
		t->off_flags = OFF_CPU_F_PREEMPT;
	} else if (task_state & TASK_DEAD) {
		/* exit(2) never returns: its span ends here, after its wake-ups */
		struct who w = { .tgid = task->tgid, .tid = t->off_tid };
		u64 end = t->dying ? t->tid_ns : now;

		t->off = ST_STOPPED;
		t->since = now;
		task_flush(t, task, w, end);
		if (t->in_syscall)
			syscall_emit(t, w, end, 0, REC_F_OPEN_END);
		t->in_syscall = 0;
		if (cfg.sums) {
			thread_sum(t, task->tgid, 0);
			syscalls_flush(t, task->tgid);
		}
		if (t->dying)
			__sync_fetch_and_add(&stats.dying, -1);
		t->since = 0; /* nothing is open in a dead thread when the recording stops */
		return 0;
	} else {
		state = task_state & TASK_STOPPED_MASK ? ST_STOPPED : blocked_state(t, task);
		t->off = state & ~BLOCKED_NAMED;
		t->off_named = state & BLOCKED_NAMED;
		wake_forget(t);
		if (t->in_syscall)
			t->sys_flags |= SYSCALL_F_BLOCKED;
	}
	t->off_cpu = bpf_get_smp_processor_id();
	t->since = now;
	return 0;
}

/* Not static: verified once, on its own, and not again for each path through switch_out(). */
__noinline int switch_in(struct thread *t, u64 tgid_tid, u64 now)
{
	u64 from, wake;
	u32 off;

	if (!t)
		return 0;
	from = t->since;
	thread_adopt(t);
	if (t->wait.held)
		release_move(t, now);
	wake = t->wake_ns;
	off = t->off;
	if (from && now < from)
		now = from; /* the clocks of two CPUs differ */
	if (!from) {
		; /* created, not initialised: its first state begins here */
	} else if (!off) {
		__sync_fetch_and_add(&stats.missed_switches, 1);
		thread_add_upto(t, thread_on_state(t), now_before(now_of(t), from, now), from, now, 1);
	} else {
		if (off == ST_RUNNABLE || !wake)
			wake = now;
		if (wake < from)
			wake = from;
		if (wake > now)
			wake = now;
		if (t->role == ST_GPU_WAIT) {
			thread_add_alone(t, ST_GPU_WAIT, now - from);
		} else {
			thread_add_alone(t, off, wake - from);
			thread_add_alone(t, ST_RUNNABLE, now - wake);
		}
		if (cfg.hooks && t->hooked.map)
			hook_away(t, now - from);
		off_cpu_emit(t, tgid_tid, from, now);
	}
	t->since = t->on_ns = now;
	t->on_cpu = bpf_get_smp_processor_id();
	t->off = 0;
	t->wake_ns = 0;
	if (cfg.steps)
		t->fault_on = t->times.ns[ST_FAULT];
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next,
	unsigned int prev_state)
{
	struct thread *out, *in;
	u64 now, begin = 0;

	if (!enabled) {
		/* the task iterator may be too late for a thread that is dying now */
		if (closing && prev_state & TASK_DEAD)
			task_close(prev, bpf_get_smp_processor_id());
		return 0;
	}
	out = thread_of_any(prev);
	in = thread_of_any(next);
	if (out)
		switch_begin(out);
	if (in) {
		begin = hit_begin(in, HIT_SWITCH);
		switch_begin(in);
	}
	now = now_ns();
	ran_catch_up(prev, now);
	if (emits(REC_ON_CPU) && prev->pid && (out || cfg.all_cpus))
		on_cpu_emit(prev->tgid, prev->pid, ran_since(), now, preempt ? REC_ON_CPU_PREEMPTED : prev_state);
	if (out) {
		switch_out(out, prev, now, prev_state | (preempt ? SWITCH_PREEMPT : 0));
		switch_end(out);
	}
	ran_switch(out, prev, next, now, prev_state | (preempt ? SWITCH_PREEMPT : 0));
	if (!in)
		return 0;
	switch_in(in, (u64)next->tgid << 32 | (u32)next->pid, now);
	switch_end(in);
	hit_end(begin, HIT_SWITCH);
	return 0;
}

static __always_inline void emit_task(struct task_struct *task, u32 event, u32 arg, u32 ptgid, u32 flags, const char *comm, u64 wake)
{
	struct rec_task r = { .arg = arg, .ptgid = ptgid };

	/* also in closed windows: for names, and to place probes */
	if ((!enabled && !cfg.windows) || !emits(REC_TASK))
		return;
	hdr_fill(&r.h, REC_TASK, now_ns(), 0, task->tgid, task->pid, event, flags);
	bpf_probe_read_kernel_str(r.comm, sizeof(r.comm), comm);
	emit_control(&r, sizeof(r), REC_TASK, wake);
}

/* The load balancer moves a waiting thread to another CPU. (A thread that is just being woken up is moved, too, but it is
 * in no run queue yet.) */
SEC("tp_btf/sched_migrate_task")
int BPF_PROG(sched_migrate, struct task_struct *p, int dest_cpu)
{
	u32 cpu = bpf_get_smp_processor_id();

	if (enabled && p->on_rq && (thread_of(p) || is_waker(p->tgid)))
		wake_log_add(cpu, bpf_map_lookup_elem(&wait_log_heads, &cpu), p, bpf_get_current_task_btf(), 0, now_ns(),
			p->thread_info.cpu, WAKE_F_MOVED);
	return 0;
}

/* Marks the innermost recorded span that the waker is in as the start of an arrow. Returns its start; 0: there is none. */
static __always_inline u64 slice_that_wakes(struct thread *waker)
{
	struct frame *f;

	if (waker->in_syscall && emits(REC_SYSCALL) && !cfg.min_syscall_ns &&
		!(cfg.ipc_only && !(waker->sys_flags & SYSCALL_IPC_MASK))) {
		waker->sys_flags |= REC_F_WOKE;
		return waker->sys_start;
	}
	if (waker->in_fault && emits(REC_FAULT)) {
		waker->fault_flags |= REC_F_WOKE;
		return waker->fault_start;
	}
	if (waker->depth == 0 || waker->depth > FRAMES_MAX || !emits(REC_FUNCTION))
		return 0;
	f = frame_at(waker, waker->depth - 1);
	f->flags |= REC_F_WOKE;
	return f->start;
}

/* Of a task's stack, up to the registers of user space; 0: not known yet. The same of all tasks. */
static volatile u64 stack_bytes = 0;

/*
 * Whether this runs on the stack of the current task, as everything does that a system call or a fault does. Interrupts of the
 * kernel have a stack of their own; those of user code are on the task's. `place` is this CPU's alone while interrupts are
 * disabled: the verifier does not let an address on the stack be compared, but knows nothing of what memory contains. Call
 * keep_stack() first.
 */
static __always_inline bool on_task_stack(struct task_struct *task, volatile u64 *place)
{
	u64 here, bytes = stack_bytes;

	if (!bytes) {
		*place = (u64)bpf_task_pt_regs(task);
		stack_bytes = bytes = *place - (u64)task->stack;
	}
	*place = (u64)&here;
	here = *place;
	return here - (u64)task->stack < bytes;
}

/* can_tell: in_interrupt() works. */
static __always_inline int waking(struct task_struct *p, bool can_tell)
{
	struct task_struct *current = bpf_get_current_task_btf();
	struct thread *t = thread_of_any(p), *waker;
	bool logs = cfg.steps && (t || is_waker(p->tgid)), from_irq, soft, leads;
	struct wait_log_heads *heads;
	u64 slice = 0, now, begin = 0, arg;
	u32 cpu, call;

	if (!t && !logs)
		return 0;
	cpu = bpf_get_smp_processor_id();
	heads = bpf_map_lookup_elem(&wait_log_heads, &cpu);
	from_irq = can_tell ? in_interrupt() : heads && !on_task_stack(current, &heads->place);
	waker = thread_of(current);
	if (waker)
		begin = hit_begin(waker, HIT_WAKE);
	call = waker ? thread_call(waker, current, &arg) : task_call(current, &arg);
	if (!waker && call == CALL_NONE && !(current->flags & (PF_KTHREAD | PF_EXITING)))
		from_irq = 1; /* a fault that wakes a thread is far rarer */
	if (waker && cfg.track_syscalls) {
		/* only a system call, a fault or an interrupt takes a thread into the kernel, from
		 * which a dying one does not return */
		if (!waker->in_syscall && !waker->in_fault && !waker->dying)
			from_irq = 1;
		/* an interrupt may hit a program that is just beginning or ending a span */
		if (t && !from_irq && !waker->changing)
			slice = slice_that_wakes(waker);
	}
	now = now_ns();
	if (logs) {
		soft = from_irq && (!can_tell || in_softirq());
		/* the network's soft interrupts are served within the calls that send; others hit the task by chance */
		leads = !from_irq || (soft && call != CALL_NONE && (!t || t->off == ST_BLOCKED_NET || t->off == ST_BLOCKED_POLL));
		wake_log_add(cpu, heads, p, current, leads && !waker, now, call, (from_irq ? WAKE_F_IRQ : 0) | (soft ? WAKE_F_SOFT : 0));
	}
	barrier_var(t); /* else clang keeps whether it is NULL, by which the verifier knows nothing of t itself */
	if (t) {
		t->waker_slice = slice;
		t->waker_tid = current->pid;
		t->waker_irq = from_irq;
		if (waker && waker->dying && !tid_is_lost(waker, current->pid))
			waker->tid_ns = now + 1; /* its span lasts until after the arrow */
		/* stored last: switch_in() considers a wake-up seen once it is set */
		WRITE_ONCE(t->wake_ns, now);
	}
	hit_end(begin, HIT_WAKE);
	return 0;
}

/* Loaded if the preempt count can be read: an interrupt is then not mistaken for the thread that it hit. */
SEC("tp_btf/sched_waking")
int BPF_PROG(sched_waking_irq, struct task_struct *p)
{
	return enabled ? waking(p, 1) : 0;
}

/* Loaded elsewhere: the kernel knows the symbol only with CONFIG_KALLSYMS_ALL. */
SEC("tp_btf/sched_waking")
int BPF_PROG(sched_waking, struct task_struct *p)
{
	keep_stack(ctx);
	return enabled ? waking(p, 0) : 0;
}

/* A new task becomes runnable. */
SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(sched_wakeup_new, struct task_struct *p)
{
	struct task_struct *current = bpf_get_current_task_btf();
	u32 cpu = bpf_get_smp_processor_id();
	u64 arg;

	if (enabled && (thread_of_any(p) || thread_of_any(current) || is_waker(current->tgid)))
		wake_log_add(cpu, bpf_map_lookup_elem(&wait_log_heads, &cpu), p, current, 1, now_ns(), task_call(current, &arg),
			WAKE_F_FORK);
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(sched_process_fork, struct task_struct *parent, struct task_struct *child)
{
	u32 tgid = parent->tgid;
	struct thread *t, *by;
	bool shares = BPF_CORE_READ(child, mm) == BPF_CORE_READ(parent, mm); /* see thread_of_any() */
	u64 now;

	/* a parent that the task iterator has not reached yet is only in the hash */
	by = thread_of(parent);
	if (cfg.trace_all ? tgid == cfg.self_tgid : !by && !bpf_map_lookup_elem(&targets, &tgid)) {
		if (cfg.all_cpus)
			emit_task(child, TASK_STRANGER, 0, 0, 0, child->comm, BPF_RB_NO_WAKEUP);
		return 0;
	}
	python_watched_fork(tgid, child->tgid);
	t = thread_create(child);
	if (!t)
		return 0;
	if (enabled) {
		t->waker_tid = parent->pid;
		t->waker_slice = by && by->in_syscall ? slice_that_wakes(by) : 0;
		t->off_cpu = bpf_get_smp_processor_id();
		t->off_tid = child->pid;
		t->off = ST_RUNNABLE;
		now = t->wake_ns = now_ns();
		smp_wmb();
		WRITE_ONCE(t->since, now);
		if (by && (u32)child->tgid == tgid)
			group_inherit(t, by, tgid, child->pid);
	}
	/* wakes user space: if only the targets have probes, the child has none yet */
	emit_task(child, TASK_FORK, parent->pid, tgid, shares ? TASK_F_SHARES : 0, child->comm,
		link_gens && !shares ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(sched_process_exec, struct task_struct *p, int old_pid)
{
	struct who w = { .tgid = p->tgid, .tid = old_pid };
	struct thread *t;
	u64 now;

	python_watched_drop(w.tgid);
	t = enabled || cfg.windows ? thread_of(p) : NULL;
	if (!t)
		return 0;
	if (!enabled)
		goto out;
	/* the functions in flight are gone with the old image; they end with the system call, which is within them */
	change_begin(t);
	now = thread_account(t);
	if (old_pid == p->pid && t->in_syscall && cfg.track_syscalls)
		t->in_exec = 1;
	else
		task_flush(t, p, w, now);
	if (old_pid != p->pid && t->in_syscall) {
		/* it was not the main thread and takes over that one's tid: on its track the call would overlap with
		 * what the main thread did, so each track gets a part */
		syscall_emit(t, w, now, 0, REC_F_OPEN_END);
		t->sys_start = now;
		t->sys_flags |= REC_F_OPEN_START;
	}
	change_end(t);
out:
	hold_mapped(w.tgid);
	emit_task(p, TASK_EXEC, old_pid, 0, 0, p->comm,
		cfg.watch_maps ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(sched_process_exit, struct task_struct *p)
{
	struct who w = { .tgid = p->tgid, .tid = p->pid };
	struct thread *t;
	bool last = BPF_CORE_READ(p, signal, live.counter) == 0; /* see thread_of_any() */
	u64 now;

	if (last && !cfg.trace_all) /* the tgid may be reused for a stranger */
		bpf_map_delete_elem(&targets, &w.tgid);
	t = enabled || cfg.windows ? thread_of(p) : NULL;
	if (!t)
		return 0;
	if (!enabled)
		goto out;
	change_begin(t);
	now = thread_account(t);
	if (t->op.probe && t->op.end) /* it is part of the step that the thread is leaving */
		op_flush(t, strings_of(p), w, now, 0);
	group_leave(t, w.tgid);
	if (!t->in_syscall || !cfg.track_sched) { /* otherwise the last switch ends the call and what it is in */
		task_flush(t, p, w, now);
		if (t->in_syscall)
			syscall_emit(t, w, now, 0, REC_F_OPEN_END);
		t->in_syscall = 0;
	}
	if (cfg.track_sched) {
		t->off_tid = w.tid;
		t->tid_ns = now;
		t->dying = 1;
		__sync_fetch_and_add(&stats.dying, 1);
	}
	change_end(t);
out:
	if (last && cfg.hold)
		bpf_map_delete_elem(&holds, &w.tgid);
	emit_task(p, TASK_EXIT, p->exit_code, 0, last ? TASK_F_LAST : 0, p->comm,
		last ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("tp_btf/task_rename")
int BPF_PROG(task_rename, struct task_struct *task, const char *comm)
{
	if (!enabled && !cfg.windows)
		return 0;
	if (thread_of(task))
		emit_task(task, TASK_COMM, 0, 0, 0, comm, BPF_RB_NO_WAKEUP);
	else if (cfg.all_cpus) /* exec renames, too */
		emit_task(task, TASK_STRANGER, 0, 0, 0, comm, BPF_RB_NO_WAKEUP);
	return 0;
}

/* ---- data that threads hand to each other ---- */

#define HANDINGS_SHIFT 12

struct handing {
	u64 buffer, ns, tgid_tid;
};

/*
 * Who wrote what lies in Unix sockets, by the address of each buffer. No hash map, which would cost each message of the machine 150 ns
 * more (bench/README.md). A place is taken by the newest buffer: of the one that it had before, the writer is not known.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << HANDINGS_SHIFT);
	__type(key, u32);
	__type(value, struct handing);
} handings SEC(".maps");

static __always_inline struct handing *handing_of(u64 buffer)
{
	u32 place = (buffer >> 6) * 0x9e3779b97f4a7c15 >> (64 - HANDINGS_SHIFT); /* 2^64 / the golden ratio */

	return bpf_map_lookup_elem(&handings, &place);
}

/* User space reads it in place. The oldest is overwritten. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, HANDED_MAX);
	__type(key, u32);
	__type(value, struct handed);
} handed_log SEC(".maps");

u64 n_handed = 0; /* so far */

/* Data has come to a socket: its writer runs, and it is at the end of the queue unless it has been read already. */
SEC("?tp_btf/sk_data_ready")
int BPF_PROG(handed_ready, const struct sock *sk)
{
	struct handing *h;
	u64 buffer;

	if (!enabled || sk->__sk_common.skc_family != AF_UNIX)
		return 0;
	buffer = (u64)BPF_CORE_READ(sk, sk_receive_queue.prev);
	h = handing_of(buffer);
	if (!h || !buffer || buffer == (u64)&sk->sk_receive_queue)
		return 0;
	h->buffer = 0;
	h->ns = now_ns();
	h->tgid_tid = bpf_get_current_pid_tgid();
	smp_wmb();
	WRITE_ONCE(h->buffer, buffer);
	return 0;
}

/* A thread has read a buffer to its end. Those that the way back may visit are logged. */
SEC("?tp_btf/consume_skb")
int BPF_PROG(handed_read, struct sk_buff *skb)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct sock *from = skb->sk;
	struct handing *by;
	struct handed *h;
	u64 buffer;
	u32 i;

	if (!enabled || !from || from->__sk_common.skc_family != AF_UNIX)
		return 0;
	bpf_probe_read_kernel(&buffer, sizeof(buffer), &skb); /* the verifier computes with no pointer */
	by = handing_of(buffer);
	if (!by || READ_ONCE(by->buffer) != buffer || (u32)by->tgid_tid == (u32)task->pid || (!thread_of_any(task) && !is_waker(task->tgid)))
		return 0;
	i = __sync_fetch_and_add(&n_handed, 1) & (HANDED_MAX - 1);
	h = bpf_map_lookup_elem(&handed_log, &i);
	if (!h)
		return 0;
	h->sent_ns = by->ns;
	h->by = by->tgid_tid;
	h->by_tgid = by->tgid_tid >> 32;
	h->tid = task->pid;
	WRITE_ONCE(h->ns, now_ns());
	waker_add(by->tgid_tid >> 32);
	return 0;
}
