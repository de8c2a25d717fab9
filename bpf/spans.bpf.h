/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Spans that a thread has in flight, and how they end: by their own return, or because
 * the thread exits, calls exec, or the recording stops.
 */
#ifndef INFTRACE_SPANS_BPF_H
#define INFTRACE_SPANS_BPF_H

#include "inftrace.bpf.h"

struct who {
	u32 tgid, tid;
};

static __always_inline void function_fill(
	struct rec_function *r, struct who w, u32 probe, u64 start, u64 end, const u64 *vals, u32 flags)
{
	hdr_fill(&r->h, REC_FUNCTION, start, end, w.tgid, w.tid, probe, flags);
	for (int i = 0; i < FUNC_VALS_MAX; i++)
		r->vals[i] = vals[i];
}

static __always_inline void emit_function(
	struct who w, u32 probe, u64 start, u64 end, const u64 *vals, u32 nvals, u32 flags)
{
	struct {
		struct rec_hdr h;
		u64 vals[FUNC_VALS_MAX];
	} r;

	if (!emits(REC_FUNCTION))
		return;
	function_fill((struct rec_function *)&r, w, probe, start, end, vals, flags);
	if (nvals > FUNC_VALS_MAX)
		nvals = FUNC_VALS_MAX;
	emit(&r, sizeof(r.h) + nvals * sizeof(u64), REC_FUNCTION);
}

/*
 * The strings of a slot move behind the last value in use, and the whole goes out. Always as many
 * bytes as FUNC_STRS_MAX strings have: what is not used stays unread.
 */
__weak __noinline int emit_strings(struct strings *s, u32 slot, u32 nvals)
{
	u64 *to;

	if (!s || nvals > FUNC_VALS_MAX || slot >= STRINGS_SLOTS)
		return 0;
	to = &s->out.vals[nvals];
	__builtin_memcpy(to, &s->slots[slot], sizeof(s->slots[slot]));
	emit(&s->out, sizeof(s->out.h) + nvals * sizeof(u64) + sizeof(s->slots[slot]), REC_FUNCTION);
	return 0;
}

/* With the strings of a call in flight. */
static __always_inline void emit_call(struct task_struct *task, struct who w, u32 probe, u64 start,
	u64 end, const u64 *vals, u32 nvals, u32 nstrs, u32 slot, u32 flags)
{
	struct strings *s = NULL;

	if (nstrs)
		s = bpf_task_storage_get(&strings, task, 0, 0);
	if (!s) {
		emit_function(w, probe, start, end, vals, nvals, flags);
	} else if (emits(REC_FUNCTION)) {
		function_fill(&s->out, w, probe, start, end, vals, flags);
		emit_strings(s, slot, nvals);
	}
}

/* The begin/end pair in flight ends at the last end that was seen; without one at `open_end`. */
static __always_inline void op_flush(
	struct thread *t, struct task_struct *task, struct who w, u64 open_end, u32 flags)
{
	u32 probe = t->op.probe;
	u64 end = t->op.end;

	if (!probe)
		return;
	t->op.probe = 0;
	if (end)
		flags = 0;
	else
		end = open_end;
	if (end)
		emit_call(task, w, probe - 1, t->op.start, end, t->op.vals, t->op.nvals, t->op.nstrs,
			STRINGS_OP, flags);
	else
		__sync_fetch_and_add(&stats.frames_stale, 1);
}

#define SNAPSHOT_TRIES 4

/* Remembers the time per state at the begin of a step. Returns the instant it begins. */
static __always_inline u64 step_begin(struct thread *t, struct task_struct *task)
{
	u64 since = 0;

	/* A switch between two of these reads moves `since`, and the copy is made anew. */
	for (int try = 0; try < SNAPSHOT_TRIES; try++) {
		since = READ_ONCE(t->since);
		for (int i = 0; i < ST_MAX; i++)
			t->step_ns[i] = READ_ONCE(t->ns[i]);
		if (READ_ONCE(t->since) == since)
			break;
	}
	t->step.h.start_ns = since;
	t->step.number = __sync_fetch_and_add(&stats.step_number, 1);
	t->step.lost = stats.lost_total;
	t->step.n.switches_voluntary = task->nvcsw;
	t->step.n.switches_involuntary = task->nivcsw;
	t->step.n.migrations = task->se.nr_migrations;
	t->step.n.faults_minor = task->min_flt;
	t->step.n.faults_major = task->maj_flt;
	t->step.n.syscalls = t->syscalls;
	t->in_step = 1;
	return since;
}

/*
 * Ends the step at `end`, or, when `end` is 0, at the last change of state, which its caller
 * has just made. The states are differences of the same clock reads as the total.
 */
static __always_inline void step_end(
	struct thread *t, struct task_struct *task, struct who w, u32 probe, u64 end, u32 flags)
{
	struct rec_step *r = &t->step;
	u64 sum = 0, since = 0;

	for (int try = 0; try < SNAPSHOT_TRIES; try++) {
		since = READ_ONCE(t->since);
		sum = 0;
		for (int i = 0; i < ST_MAX; i++) {
			r->ns[i] = READ_ONCE(t->ns[i]) - t->step_ns[i];
			sum += r->ns[i];
		}
		if (READ_ONCE(t->since) == since)
			break;
	}
	if (end > since) {
		/* cut by the end of the recording: the state in flight is not accounted yet */
		u32 state = thread_state(t, t->off);

		if (state < ST_MAX)
			r->ns[state] += end - since;
		sum += end - since;
	} else {
		end = since;
	}
	if (sum != end - r->h.start_ns)
		__sync_fetch_and_add(&stats.step_mismatch, 1);
	hdr_fill(&r->h, REC_STEP, r->h.start_ns, r->h.start_ns + sum, w.tgid, w.tid, probe, flags);
	r->lost = stats.lost_total - r->lost;
	r->n.switches_voluntary = task->nvcsw - r->n.switches_voluntary;
	r->n.switches_involuntary = task->nivcsw - r->n.switches_involuntary;
	r->n.migrations = task->se.nr_migrations - r->n.migrations;
	r->n.faults_minor = task->min_flt - r->n.faults_minor;
	r->n.faults_major = task->maj_flt - r->n.faults_major;
	r->n.syscalls = t->syscalls - r->n.syscalls;
	t->in_step = 0;
	if (emits(REC_STEP))
		emit_step(r, sizeof(*r));
}

static __always_inline void syscall_emit(struct thread *t, struct who w, u64 end, s64 ret, u32 flags)
{
	struct rec_syscall r;

	if (!emits(REC_SYSCALL))
		return;
	flags |= t->sys_flags;
	if (cfg.min_syscall_ns && end - t->sys_start < cfg.min_syscall_ns &&
		!(flags & (REC_F_BLOCKED | REC_F_OPEN_END))) {
		__sync_fetch_and_add(&stats.syscalls_short, 1);
		return;
	}
	hdr_fill(&r.h, REC_SYSCALL, t->sys_start, end, w.tgid, w.tid, t->sys_nr, flags);
	r.ret = ret;
	r.arg0 = t->sys_arg0;
	emit(&r, sizeof(r), REC_SYSCALL);
}

/* Ends all function spans in flight, innermost first, and the step among them. */
static __noinline int frames_flush(
	struct thread *t, struct task_struct *task, u64 tgid_tid, u64 end)
{
	struct who w = { .tgid = tgid_tid >> 32, .tid = (u32)tgid_tid };
	u32 step_probe = 0;

	if (!t || !task)
		return 0;
	op_flush(t, task, w, end, REC_F_OPEN_END);
	for (int i = 0; i < FRAMES_MAX; i++) {
		u32 depth = t->depth;
		struct frame *f;

		if (depth == 0 || depth > FRAMES_MAX)
			break;
		t->depth = --depth;
		f = frame_at(t, depth);
		/* the step's end is long code: once behind the loop, not in each round of it, keeps the
		 * verifier's work small */
		if (f->step)
			step_probe = f->probe + 1;
		else
			emit_call(task, w, f->probe, f->start, end, f->vals, f->nvals, f->nstrs,
				f->slot, REC_F_OPEN_END);
	}
	if (step_probe)
		step_end(t, task, w, step_probe - 1, end, REC_F_OPEN_END);
	t->role = ST_CPU;
	return 0;
}

/* After the window has closed: what is still open ends there, marked as such. */
static __noinline int thread_close(struct thread *t, struct task_struct *task, u32 cpu)
{
	struct who w;
	u64 end;

	if (!t || !task || !t->since)
		return 0;
	if (__sync_val_compare_and_swap(&t->closed, 0, 1)) /* by its death or by the task iterator */
		return 0;
	w.tgid = task->tgid;
	w.tid = task->pid;
	end = stats.stop_ns;
	if (end < t->since) /* it changed its state while the window was closing */
		end = t->since;
	if (t->off) {
		struct rec_off_cpu r = {};

		hdr_fill(&r.h, REC_OFF_CPU, t->since, end, w.tgid, w.tid, t->off,
			t->off_flags | REC_F_OPEN_END);
		r.cpu_from = t->off_cpu;
		if (emits(REC_OFF_CPU))
			emit(&r, sizeof(r), REC_OFF_CPU);
	} else if (emits(REC_ON_CPU)) {
		struct rec_on_cpu r;

		hdr_fill(&r.h, REC_ON_CPU, t->on_ns ? t->on_ns : stats.start_ns, end, w.tgid, w.tid, 0,
			REC_F_OPEN_END | (t->on_ns ? 0 : REC_F_OPEN_START));
		r.h.cpu = cpu;
		emit(&r, sizeof(r), REC_ON_CPU);
	}
	if (t->in_fault && emits(REC_FAULT)) {
		struct rec_fault r;

		hdr_fill(&r.h, REC_FAULT, t->fault_start, end, w.tgid, w.tid, 0, REC_F_OPEN_END);
		r.addr = t->fault_addr;
		emit(&r, sizeof(r), REC_FAULT);
	}
	if (t->in_syscall)
		syscall_emit(t, w, end, 0, REC_F_OPEN_END);
	frames_flush(t, task, (u64)w.tgid << 32 | w.tid, end);
	return 0;
}

#endif
