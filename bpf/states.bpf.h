/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Time keeping. A thread's storage holds the time up to which it is accounted (`since`) and
 * nanoseconds per state. A program that ends a state moves `since` with a compare-and-exchange and
 * then owns the interval that it moved it over: no interval is counted twice or not at all, and the
 * sum over the states is always `since` minus the thread's first instant. That matters because
 * programs on uprobes, system calls and page faults can be preempted, and then sched_switch runs on
 * the same storage; interrupts hit any program. A system call or a fault is noted as it begins, and
 * accounted when it ends or something comes in between: call_begin(), call_end(). A wait at a barrier
 * ends before anybody notes it: wait_account(). A program that changes the state announces that with
 * `since`, and the announcement holds until the fields below say so: thread_announce(). Each field has
 * one owner:
 *
 *   off, wake_*                the scheduler's programs (never preempted)
 *   role, in_syscall, in_fault programs that run in the thread's own context
 *   irq_depth, irqs            programs on interrupts, innermost first
 *
 * docs/time-keeping.md has an example, and why the order of memory suffices.
 */
#ifndef INFTRACE_STATES_BPF_H
#define INFTRACE_STATES_BPF_H

#include "hooks.bpf.h"
#include "inftrace.bpf.h"
#include "wait_log.h"

static __always_inline void thread_add(struct thread *t, u32 state, u64 ns)
{
	barrier_var(state); /* keeps it in a register up to where it is used */
	if (state < ST_MAX)
		__sync_fetch_and_add(&t->times.ns[state], ns);
}

/* Only for the programs of the scheduler, which nothing interrupts. */
static __always_inline void thread_add_alone(struct thread *t, u32 state, u64 ns)
{
	if (state < ST_MAX)
		t->times.ns[state] += ns;
}

/*
 * How much of from..to, where `from` is `since`, came before the current system call or fault and belongs to the thread's
 * role: calls are noted as they begin, but not accounted (call_begin()). An announcement covers all time from `since` on.
 */
static __always_inline u64 now_before(const struct thread_now *t, u64 from, u64 to)
{
	u64 edge = READ_ONCE(t->edge);

	if (edge <= from || !(t->in_syscall || t->in_fault) || now_is_announced(t, READ_ONCE(t->next)))
		return 0;
	return (edge < to ? edge : to) - from;
}

/* The following are out of line, for rare cases: after a call the verifier continues with a single state. */
__weak __noinline u32 now_on_state_apart(const struct thread_now *t)
{
	return t ? now_on_state(t) : ST_CPU;
}

__weak __noinline u64 now_before_apart(const struct thread_now *t, u64 from, u64 to)
{
	return t ? now_before(t, from, to) : 0;
}

__weak __noinline u64 wait_left_apart(const struct open_wait *w, u64 from, u64 to)
{
	return w ? wait_left(w, from, to) : 0;
}

static __always_inline u32 now_state_apart(const struct thread_now *t, u32 off)
{
	u32 on = now_on_state_apart(t);

	return off && on != ST_GPU_WAIT ? off : on;
}

/*
 * Accounts the part of from..to after the end of the wait as ST_CPU. Returns its length. A thread that was off the CPU, or
 * in the kernel, at the release has waited until it came back.
 */
__weak __noinline u64 wait_account(struct thread *t, u64 from, u64 to)
{
	u64 left;

	if (!t)
		return 0;
	left = wait_left(&t->wait, from, to);
	if (left) {
		if (!t->wait.end)
			t->wait.end = to - left;
		thread_add(t, ST_CPU, left);
	}
	return left;
}

/* When the wait ended as of `now`, even if that is not accounted yet; 0: it has not. */
static __always_inline u64 wait_over(const struct thread *t, u64 now)
{
	u64 since = t->since, left;

	if (t->wait.end || thread_state(t, t->off) != ST_BARRIER)
		return t->wait.end;
	left = now > since ? wait_left(&t->wait, since, now) : 0;
	return left ? now - left : 0;
}

/* The thread's role without the wait in flight, which is over for the next program that sees the thread. */
static __always_inline u8 role_now(const struct thread *t)
{
	return t->wait.probe ? t->wait.prev_role : t->role;
}

/* Of what is being accounted up to `to`, takes the time at barriers that hooks see from the time on the CPU. */
static __always_inline void hook_divide(struct thread *t, u32 state, u64 before, u64 ns, u64 to)
{
	u64 cpu = hook_cpu(t->role, state, before, before + ns), part = hook_account(t, cpu, before + ns - cpu, to);

	thread_add(t, ST_BARRIER, part);
	thread_add(t, ST_CPU, -part);
}

/* Accounts from..to, where `from` is `since`: `before` of it to the thread's role, the rest to the state. alone: as of
 * thread_add_alone(). */
static __always_inline void thread_add_upto(struct thread *t, u32 state, u64 before, u64 from, u64 to, bool alone)
{
	u64 ns = to - from - before;

	if (cfg.hooks && t->hooked.map)
		hook_divide(t, state, before, ns, to);
	if (before)
		thread_add(t, t->role, before);
	if (state == ST_BARRIER)
		ns -= wait_account(t, from, to);
	if (alone)
		thread_add_alone(t, state, ns);
	else
		thread_add(t, state, ns);
}

/* ---- off-CPU spans, and the end of a state ---- */

/*
 * Whether an exec has taken the thread's tid. An exec by another thread than the main one exchanges the tids of the two. The
 * main thread is dead by then, but may still have to leave the CPU for the last time: anything it does with its new tid
 * would be shown as the other thread's.
 */
static __always_inline bool tid_is_lost(const struct thread *t, u32 tid)
{
	return t->dying && t->off_tid != tid;
}

/* Uses the tid with which the thread left the CPU: if its return is seen late, an exec may have changed the tid since. */
static __always_inline void off_cpu_fill(
	struct rec_off_cpu *r, const struct thread *t, u32 tgid, u32 off, u64 from, u64 now, bool late)
{
	u64 wake = t->wake_ns;

	hdr_fill(&r->h, REC_OFF_CPU, from, now, tgid, t->off_tid, off,
		t->off_flags | (t->waker_irq ? OFF_CPU_F_WAKER_IRQ : 0));
	if (t->off_flags & OFF_CPU_F_PREEMPT)
		wake = 0; /* it was never asleep */
	r->wake_ns = wake > now ? now : wake;
	r->waker_tid = wake ? t->waker_tid : 0;
	r->waker_slice = wake ? t->waker_slice : 0;
	r->cpu_from = t->off_cpu;
	r->late = late;
	r->pad = 0;
}

/* Only for the programs of the scheduler. */
static __always_inline void off_cpu_emit(struct thread *t, u64 pid_tgid, u64 from, u64 now)
{
	struct rec_off_cpu *r;

	if (!emits(REC_OFF_CPU) || tid_is_lost(t, (u32)pid_tgid))
		return;
	r = emit_reserve(sizeof(*r), REC_OFF_CPU);
	if (!r)
		return;
	off_cpu_fill(r, t, pid_tgid >> 32, t->off, from, now, 0);
	emit_submit(r);
}

static __always_inline void off_cpu_emit_late(struct thread *t, u64 pid_tgid, u32 off, u64 from, u64 now)
{
	struct rec_off_cpu r;

	if (!emits(REC_OFF_CPU) || tid_is_lost(t, (u32)pid_tgid))
		return;
	off_cpu_fill(&r, t, pid_tgid >> 32, off, from, now, 1);
	emit(&r, sizeof(r), REC_OFF_CPU);
}

/* Of the logs in wait_log.bpf.h, by CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct wait_log_heads);
} wait_log_heads __weak SEC(".maps");

/*
 * When the running thread came onto this CPU; 0: unknown. Where the switch was reported, but did not reach the thread's storage, the
 * log has it. Else by the scheduler's own account: a kernel may not run programs on behalf of a task that it protects, so that
 * task's leaving is not seen. The next thread's states and the log both ask here, so that they agree.
 */
__weak __noinline u64 came_onto_cpu(u64 now)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct wait_log_heads *heads = bpf_map_lookup_elem(&wait_log_heads, &cpu);
	struct task_struct *task = bpf_get_current_task_btf();
	u64 came = last_arrival(task);

	if (heads && heads->switch_ns && heads->switched_to == (u32)task->pid)
		return heads->switch_ns;
	if (!heads || !heads->clock_off || !came)
		return 0;
	came += heads->clock_off;
	if (came > now)
		return now;
	return came > heads->switch_ns ? came : heads->switch_ns;
}

/*
 * A thread that should be off the CPU is seen running: the switch-in did not reach its storage, or its tracepoint
 * did not fire. Adds the time until it came, as far as it is known, to the off-CPU state. Does nothing if an interrupt has
 * done so meanwhile.
 */
__weak __noinline int off_cpu_missed(struct thread *t, u64 pid_tgid, u64 now)
{
	u64 since;
	u32 off;

	if (!t)
		return 0;
	since = READ_ONCE(t->since);
	off = READ_ONCE(t->off);
	if (now < since)
		now = since;
	if (!off || (since && __sync_val_compare_and_swap(&t->since, since, now) != since))
		return 0;
	WRITE_ONCE(t->off, 0);
	t->on_ns = now;
	t->on_cpu = bpf_get_smp_processor_id();
	t->fault_on = t->times.ns[ST_FAULT];
	if (since) {
		thread_add(t, t->role == ST_GPU_WAIT ? ST_GPU_WAIT : off, now - since);
		__sync_fetch_and_add(&t->hooked.more, now - since); /* the caller goes on to account, and has more stack */
	}
	__sync_fetch_and_add(&stats.missed_switches, 1);
	if (since)
		off_cpu_emit_late(t, pid_tgid, off, since, now);
	t->wake_ns = 0;
	return 0;
}

/* As above, of the running thread. */
__weak __noinline int off_cpu_seen(struct thread *t)
{
	u64 now = now_ns();

	return off_cpu_missed(t, bpf_get_current_pid_tgid(), came_onto_cpu(now) ?: now);
}

#define ACCOUNT_TRIES 4
#define CALL_TRIES 2 /* to end a call: an interruption comes once; after that thread_change() tries */

/* For thread_change(): the state stays as it is. */
#define ST_SAME ST_MAX

__weak __noinline int thread_add_apart(struct thread *t, u32 state, u64 before, u64 from, u64 to)
{
	if (t)
		thread_add_upto(t, state, before, from, to, 0);
	return 0;
}

/* Withdraws the announcement: now the fields reflect it. */
static __always_inline void thread_changed(struct thread *t)
{
	WRITE_ONCE(t->next, 0);
}

/* Not in programs on interrupts: docs/time-keeping.md says what nested ones can do. */
static __always_inline void race_window_of(const struct thread *t, u32 next)
{
	if (next != ST_IRQ && !t->irq_depth)
		race_window();
}

/* One try of thread_change(). Returns false if something came in between. rare: made for fast verification, not for speed. */
static __always_inline bool thread_try(struct thread *t, u32 next, bool rare, u64 *ret_now, u32 *ret_before)
{
	u64 since, from, now, before;
	u32 on;

	if (READ_ONCE(t->off)) /* the thread is running, so a switch-in was not seen */
		off_cpu_seen(t);
	since = READ_ONCE(t->since);
	now = now_ns();
	on = rare ? now_on_state_apart(now_of(t)) : thread_on_state(t);
	from = since ? since : now; /* 0: created, not initialised yet */
	if (now < from)
		now = from;
	before = rare ? now_before_apart(now_of(t), from, now) : now_before(now_of(t), from, now);
	race_window_of(t, next);
	if (next != ST_SAME)
		thread_announce(t, now, next == ST_IRQ && on == ST_GPU_WAIT ? on : next);
	*ret_now = now;
	*ret_before = on;
	race_window_of(t, next);
	if (__sync_val_compare_and_swap(&t->since, since, now) != since)
		return 0;
	if (next == ST_SAME)
		thread_changed(t);
	if (rare)
		thread_add_apart(t, on, before, from, now);
	else
		thread_add_upto(t, on, before, from, now, 0);
	return 1;
}

__weak __noinline bool thread_try_apart(struct thread *t, u32 next, u64 *ret_now, u32 *ret_before)
{
	return t && ret_now && ret_before && thread_try(t, next, 1, ret_now, ret_before);
}

/* Further tries of thread_change(), after the first has failed. */
__weak __noinline u64 thread_change_again(struct thread *t, u32 next, u32 *ret_before)
{
	u64 now = 0;

	if (!t || !ret_before)
		return 0;
	for (int i = 1; i < ACCOUNT_TRIES; i++) {
		if (thread_try_apart(t, next, &now, ret_before))
			return now;
	}
	__sync_fetch_and_add(&stats.account_retries, 1);
	return READ_ONCE(t->since);
}

/*
 * Ends the current state now, in the context of the thread itself: the time since the last change goes to that state.
 * Returns the instant. The clock is read after `since`, so the difference can be negative only by a clock step between
 * CPUs, which is clamped.
 *
 * next: the new state, or ST_SAME. Call thread_changed() once the fields reflect it. ret_before: the previous state.
 */
static __always_inline u64 thread_change(struct thread *t, u32 next, u32 *ret_before)
{
	u64 now;

	return thread_try(t, next, 0, &now, ret_before) ? now : thread_change_again(t, next, ret_before);
}

static __always_inline u64 thread_account(struct thread *t)
{
	u32 before;

	return thread_change(t, ST_SAME, &before);
}

/* `state`, unless the thread waits for the GPU: that is a single state. */
static __always_inline u32 thread_next(const struct thread *t, u32 state)
{
	return t->role == ST_GPU_WAIT ? ST_GPU_WAIT : state;
}

/* Whether the thread's state is its role, or would be without the call in flight. */
static __always_inline bool now_is_role(const struct thread_now *t)
{
	return !t->off && !(cfg.track_irq && t->irq_depth) && t->role != ST_GPU_WAIT;
}

/*
 * An interrupt has hit call_begin(). If it announced the thread's role at its end, it came before the call was noted, and
 * all time goes to the role until the announcement is withdrawn: then the call begins where the last interrupt ended. No
 * later instant would agree with what is accounted. Otherwise the call was noted, and has begun at its edge. Returns the
 * instant; 0: use thread_change().
 */
__weak __noinline u64 call_begin_again(struct thread *t)
{
	u64 since, next, edge;

	if (!t)
		return 0;
	edge = t->edge;
	for (int i = 1; i < ACCOUNT_TRIES && now_is_role(now_of(t)); i++) {
		next = READ_ONCE(t->next);
		since = READ_ONCE(t->since);
		if (!now_is_announced(now_of(t), next)) /* the next interrupt */
			continue;
		if ((next & NEXT_STATE) != t->role)
			return edge;
		race_window();
		if (__sync_val_compare_and_swap(&t->next, next, 0) == next)
			return edge > since ? edge : since;
	}
	return 0;
}

/*
 * A system call or a fault begins: sets *in, which is in_syscall or in_fault; `state` is the call's. Returns the instant.
 * Usually nothing is accounted, and `since` stays.
 */
static __always_inline u64 call_begin(struct thread *t, u8 *in, u32 state)
{
	u64 since, now;
	u32 before;

	/* a wait at a barrier is divided at an instant, so `since` must be one */
	if (now_is_role(now_of(t)) && !t->in_syscall && !t->in_fault && !(cfg.steps && t->wait.probe) &&
		!(cfg.budget && t->role == ST_BARRIER)) {
		thread_changed(t); /* withdraws what an earlier interrupt has left; one from here on leaves its own */
		race_window();
		since = READ_ONCE(t->since);
		race_window();
		now = now_ns();
		if (since && now >= since && since != stats.start_ns) { /* see thread_asleep() */
			race_window();
			smp_wmb(); /* after change_begin() */
			WRITE_ONCE(t->edge, now);
			smp_wmb(); /* whoever finds the call in flight finds its edge: member_look() */
			race_window();
			WRITE_ONCE(*in, 1);
			race_window();
			if (READ_ONCE(t->since) == since && !READ_ONCE(t->next))
				return now;
			now = call_begin_again(t);
			if (now)
				return now;
			WRITE_ONCE(*in, 0);
		}
	}
	now = thread_change(t, thread_next(t, state), &before);
	if (t->in_fault) { /* the fault ended in a signal, or was interrupted by one and is repeated */
		t->in_fault = 0;
		__sync_fetch_and_add(&stats.faults_open, 1);
	}
	WRITE_ONCE(t->edge, now);
	WRITE_ONCE(*in, 1);
	thread_changed(t);
	return now;
}

/*
 * The call ends. Returns the instant. `since` moves by the call's time: what came before the call then adjoins what comes
 * after it, in the same state. If something was accounted within the call, `since` is within it and moves to its end.
 */
static __always_inline u64 call_end(struct thread *t, u8 *in, u32 state)
{
	u64 now, end;
	u32 before;

	for (int i = 0; i < CALL_TRIES && now_is_role(now_of(t)); i++) {
		u64 since = READ_ONCE(t->since), edge = t->edge, from = edge > since ? edge : since;

		now = now_ns();
		if (!since || now < from)
			break;
		end = since + (now - from);
		race_window();
		thread_announce(t, end, t->role);
		race_window();
		if (__sync_val_compare_and_swap(&t->since, since, end) == since) {
			race_window();
			/* not atomic: a program that interrupts this one finds the thread in its role, as announced */
			t->times.ns[state] += now - from;
			if (cfg.hooks && t->hooked.map)
				hook_away(t, now - from);
			goto out;
		}
	}
	now = thread_change(t, t->role, &before);
out:
	race_window();
	WRITE_ONCE(*in, 0);
	race_window();
	WRITE_ONCE(t->edge, now);
	race_window();
	smp_wmb(); /* whoever no longer finds the announcement does not find the call, either */
	thread_changed(t);
	return now;
}

#endif
