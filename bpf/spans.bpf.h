/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Spans that a thread has in flight, and how they end: by their own return, or when the thread
 * exits, calls exec, or the recording stops.
 */
#ifndef INFTRACE_SPANS_BPF_H
#define INFTRACE_SPANS_BPF_H

#include "states.bpf.h"
#include "group.bpf.h"
#include "parts.bpf.h"
#include "pmu.bpf.h"
#include "sums.bpf.h"

/* Functions that are not inline are global, see inftrace.bpf.h, and weak, since each object has them. */

struct who {
	u32 tgid, tid;
};

/* The step that the thread works on, its own or another's: number + 1; 0: none. */
static __always_inline u32 thread_step(const struct thread *t)
{
	if (t->in_step)
		return t->step.number + 1;
	return wait_void(&t->wait) ? 0 : t->member_step; /* which only barriers show */
}

/* flags: the upper 32 bits are off_cpu_ns. */
static __always_inline void function_fill(struct rec_function *r, struct who w, u32 probe, u32 step, u64 start,
	u64 end, const u64 *vals, u64 flags)
{
	hdr_fill(&r->h, REC_FUNCTION, start, end, w.tgid, w.tid, probe, (u32)flags);
	r->step = step;
	r->off_cpu_ns = flags >> 32;
	for (int i = 0; i < FUNC_VALS_MAX; i++)
		r->vals[i] = vals[i];
}

static __always_inline void emit_function(
	struct who w, u32 probe, u32 step, u64 start, u64 end, const u64 *vals, u32 nvals, u64 flags)
{
	struct {
		struct rec_hdr h;
		u32 step, off_cpu_ns;
		u64 vals[FUNC_VALS_MAX];
	} r; /* a struct rec_function without the strings */

	function_fill((struct rec_function *)&r, w, probe, step, start, end, vals, flags);
	if (nvals > FUNC_VALS_MAX)
		nvals = FUNC_VALS_MAX;
	emit(&r, REC_FUNCTION_SIZE(nvals), REC_FUNCTION);
}

/* Copies the strings of a slot after the last value in use, and sends the record. Always FUNC_STRS_MAX strings: unused ones
 * are not read. */
__weak __noinline int emit_strings(struct strings *s, u32 slot, u32 nvals)
{
	u64 *to;

	if (!s || nvals > FUNC_VALS_MAX || slot >= STRINGS_SLOTS)
		return 0;
	to = &s->out.vals[nvals];
	__builtin_memcpy(to, &s->slots[slot], sizeof(s->slots[slot]));
	emit(&s->out, REC_FUNCTION_SIZE(nvals) + sizeof(s->slots[slot]), REC_FUNCTION);
	return 0;
}

/* Whether calls of functions with this role are sent. */
static __always_inline bool emits_call(u32 role)
{
	return emits(REC_FUNCTION) || role == ROLE_SEQUENCE;
}

/* s: the strings of calls in flight; NULL if the thread has none. */
static __always_inline void emit_call(u32 step, struct strings *s, struct who w, u32 probe,
	u64 start, u64 end, const u64 *vals, u32 nvals, u32 nstrs, u32 slot, u64 flags)
{
	if (!s || !nstrs) {
		emit_function(w, probe, step, start, end, vals, nvals, flags);
	} else {
		function_fill(&s->out, w, probe, step, start, end, vals, flags);
		emit_strings(s, slot, nvals);
	}
}

/*
 * Sends the begin/end pair in flight with its counts. Returns 0 if these are unknown. It ends at the last end that was seen,
 * or without one at the probe in flight. step_probe_flags: step << 32 | probe << 8 | flags.
 */
__weak __noinline int pmu_emit_op(struct thread *t, struct strings *s, u64 tgid_tid, u64 end, u64 step_probe_flags)
{
	struct who w = { .tgid = tgid_tid >> 32, .tid = (u32)tgid_tid };
	struct pmu_thread *p = pmu_current(0);
	u64 counts[PMU_MAX];
	u32 counted;

	if (!t || !p)
		return 0;
	counted = pmu_between(&p->points[PMU_OP], t->op.end ? &p->points[PMU_OP_END] : &p->now, t->op.start, counts);
	pmu_note(counted);
	if (counted != COUNTED)
		return 0;
	function_fill((struct rec_function *)&p->out, w, (u32)step_probe_flags >> 8, step_probe_flags >> 32, t->op.start, end,
		t->op.vals, (u8)step_probe_flags | FUNCTION_F_COUNTED);
	pmu_send(p, s, t->op.vals, t->op.nvals, t->op.nstrs, STRINGS_OP, counts);
	return 1;
}

/* The same for the call of the frame at depth - 1, which returns with the probe in flight. */
__weak __noinline int pmu_emit_call(struct thread *t, struct strings *s, u64 tgid_tid, u64 end, u32 depth)
{
	struct who w = { .tgid = tgid_tid >> 32, .tid = (u32)tgid_tid };
	struct pmu_thread *p = pmu_current(0);
	u64 counts[PMU_MAX];
	struct frame *f;
	u32 counted, slot;

	if (!t || !p)
		return 0;
	f = frame_at(t, depth - 1);
	slot = f->slot;
	if (slot >= PMU_FRAMES)
		return 0;
	counted = pmu_between(&p->points[PMU_FRAME + slot], &p->now, f->start, counts);
	pmu_note(counted);
	if (counted != COUNTED)
		return 0;
	function_fill((struct rec_function *)&p->out, w, f->probe, thread_step(t), f->start, end, f->vals,
		f->flags | FUNCTION_F_COUNTED);
	pmu_send(p, s, f->vals, f->nvals, f->nstrs, slot, counts);
	return 1;
}

/* Ends and sends the begin/end pair in flight: at the last end that was seen, or without one at `open_end` with `flags`. */
__weak __noinline int op_emit(struct thread *t, struct strings *s, u64 tgid_tid, u64 open_end, u32 flags)
{
	struct who w = { .tgid = tgid_tid >> 32, .tid = (u32)tgid_tid };
	u32 probe, step;
	u64 end;

	if (!t)
		return 0;
	probe = t->op.probe;
	end = t->op.end;
	t->op.probe = 0;
	if (cfg.budget && t->op.changes != (u8)sheds[SHED_OPERATORS].changes)
		return 0; /* what came after its begin was not seen */
	if (end)
		flags = 0;
	else
		end = open_end;
	step = thread_step(t);
	if (!step && t->group_key && !wait_void(&t->wait)) {
		/* it came to the first barrier of the step before the thread that calls the step */
		struct group *g = group_of(w.tgid, t->group_key);

		step = g ? g->step : 0;
	}
	if (t->op.sampled)
		flags |= FUNCTION_F_SAMPLED;
	if (!emits(REC_FUNCTION))
		return 0;
	if (cfg.pmu && !(flags & REC_F_OPEN_END) &&
		pmu_emit_op(t, s, tgid_tid, end, (u64)step << 32 | (probe - 1) << 8 | flags))
		return 0;
	emit_call(step, s, w, probe - 1, t->op.start, end, t->op.vals, t->op.nvals, t->op.nstrs, STRINGS_OP, flags);
	return 0;
}

static __always_inline void op_flush(
	struct thread *t, struct strings *s, struct who w, u64 open_end, u32 flags)
{
	if (t->op.probe)
		op_emit(t, s, (u64)w.tgid << 32 | w.tid, open_end, flags);
}

__weak __noinline int wait_emit(struct thread *t, u64 tgid_tid, u64 end, u32 flags)
{
	struct {
		struct rec_hdr h;
		u32 step, off_cpu_ns;
	} r; /* a struct rec_function without values */

	if (!t || !emits(REC_FUNCTION))
		return 0;
	hdr_fill(&r.h, REC_FUNCTION, t->wait.start, end, tgid_tid >> 32, (u32)tgid_tid, t->wait.probe - 1, flags);
	r.step = thread_step(t);
	r.off_cpu_ns = 0;
	emit(&r, sizeof(r), REC_FUNCTION);
	return 0;
}

/*
 * The thread does something else now: ends its wait at a barrier, if it has one. flags: for the span if no release
 * is known.
 */
static __always_inline void wait_finish(struct thread *t, struct who w, u64 now, u32 flags)
{
	u64 tgid_tid = (u64)w.tgid << 32 | w.tid, end;

	if (!t->wait.probe)
		return;
	end = wait_over(t, now);
	if (end)
		flags = 0;
	else
		end = now;
	if (t->in_step)
		group_passed(t, tgid_tid, t->wait.start, end);
	t->role = t->wait.prev_role;
	if (!wait_void(&t->wait)) /* else its end was not seen */
		wait_emit(t, tgid_tid, end, flags);
	t->wait.probe = 0;
	t->wait.end = 0;
}

/* wait_finish() out of line, for rare cases. */
__weak __noinline int wait_told(struct thread *t, u64 tgid_tid, u64 now, u32 flags)
{
	struct who w = { .tgid = tgid_tid >> 32, .tid = (u32)tgid_tid };

	if (t)
		wait_finish(t, w, now, flags);
	return 0;
}

/* Resets what the step adds up. t->counts have just been read. */
static __always_inline void step_clear(struct thread *t)
{
	t->step.lost = stats.lost_total;
	t->step.n = t->counts;
	t->step.workers = 0;
	for (int i = 0; i < ST_MAX; i++)
		t->step.workers_ns[i] = 0;
	t->step.hits = t->step.workers_hits = (struct hits){};
	t->step.straggler_tid = 0;
	t->step.held_ns = 0;
	if (cfg.pmu)
		t->step.counted = COUNTED_NONE;
	__builtin_memset(t->step.team, 0, sizeof(t->step.team));
}

/* Begins a step. t->counts have just been read. Returns its first instant. */
__weak __noinline u64 step_begin(struct thread *t, u32 tgid)
{
	u64 since, known;

	if (!t)
		return 0;
	since = times_copy(t, t->step.before_ns);
	known = -(u64)t->step_over;
	for (int i = 0; i < ST_MAX; i++) {
		u64 ns = t->step.before_ns[i];

		t->step.before_ns[i] = (ns - t->step_ns[i]) & known; /* 6.1 refuses the loop if there is a branch in it */
		t->step_ns[i] = ns;
	}
	t->step_over = 0;
	t->step_hits = t->times.hits;
	/* The hit that begins the step is its first. Not that of a watchpoint: half of what it costs is over, and so will be half of
	 * the one that ends the step. */
	if (t->timed_kind < HIT_WATCH)
		t->step_hits.n[t->timed_kind]--;
	t->member_step = 0;
	t->step.h.start_ns = since;
	t->step.number = __sync_fetch_and_add(&stats.step_number, 1);
	step_clear(t);
	WRITE_ONCE(t->in_step, 1); /* from now on switches write to it */
	if (cfg.pmu)
		pmu_mark(PMU_STEP, t->step.number);
	group_begin(t, tgid, since);
	if (cfg.hooks)
		hook_step_begins(t, tgid);
	return since;
}

/* Counts a step, and closes the window with the last one; user space will find out. */
static __always_inline void window_count(u64 end)
{
	if (!enabled || __sync_fetch_and_add(&stats.steps, 1) + 1 != cfg.max_steps)
		return;
	if (__sync_val_compare_and_swap(&closing, 0, 1)) /* it is closing already */
		return;
	stats.stop_ns = end;
	enabled = 0;
}

/* Adds the state in flight, which is not accounted yet, to a step that the end of the recording cuts. */
__weak __noinline int step_cut(struct thread *t, u64 since, u64 end)
{
	u64 before, left;
	u32 state;

	if (!t)
		return 0;
	state = now_state_apart(now_of(t), t->off);
	before = now_before_apart(now_of(t), since, end);
	left = state == ST_BARRIER ? wait_left_apart(&t->wait, since, end) : 0;
	t->step.ns[t->role & 3] += before;
	t->step.ns[ST_CPU] += left;
	if (state < ST_MAX)
		t->step.ns[state] += end - since - before - left;
	if (cfg.hooks && t->hooked.map)
		hook_look_into(t, t->step.ns, state, before, end - since, end);
	return 0;
}

/*
 * Ends the step at `end`; 0: at the last change of state, which the caller has just made. Its states are differences of
 * the same clock reads as its total. Call step_send() next.
 */
__weak __noinline int step_end(struct thread *t, u64 tgid_tid, u32 probe, u64 end, u32 flags)
{
	struct rec_step *r;
	u64 sum = 0, since;

	if (!t)
		return 0;
	r = &t->step;
	since = times_copy(t, r->ns);
	for (int i = 0; i < ST_MAX; i++) {
		u64 ns = r->ns[i];

		r->ns[i] = ns - t->step_ns[i];
		t->step_ns[i] = ns;
		sum += r->ns[i];
	}
	t->step_over = end <= since;
	if (end > since) {
		step_cut(t, since, end);
		sum += end - since;
	} else {
		end = since;
	}
	if (!r->h.start_ns) { /* it began before the window, in which it has this time */
		r->h.start_ns = end - sum;
		flags |= REC_F_OPEN_START;
	}
	if (sum != end - r->h.start_ns)
		__sync_fetch_and_add(&stats.step_mismatch, 1);
	hdr_fill(&r->h, REC_STEP, r->h.start_ns, r->h.start_ns + sum, tgid_tid >> 32, (u32)tgid_tid, probe,
		flags);
	r->lost = stats.lost_total - r->lost;
	r->steps_lost = STEPS_LOST;
	if (cfg.hooks && t->hooked.map)
		hook_step_ends(t);
	counts_subtract(&r->n, &t->counts);
	hits_add(&r->hits, &t->times.hits, &t->step_hits);
	group_end(t, tgid_tid >> 32, end);
	t->in_step = 0;
	return 0;
}

/* Sends the step that has just ended. Not in step_end(), whose stack is as deep as the verifier allows. */
static __always_inline void step_send(struct thread *t, struct rows *r)
{
	if (emits(REC_STEP))
		step_emit(t, r);
	if (cfg.max_steps && !(t->step.h.flags & REC_F_OPEN_START))
		window_count(t->step.h.start_ns + t->step.h.dur_ns);
}

static __always_inline void syscall_emit(struct thread *t, struct who w, u64 end, s64 ret, u32 flags)
{
	struct rec_syscall *r;

	flags |= t->sys_flags;
	if (cfg.sums)
		syscall_sum(t, w.tgid, t->sys_nr | (flags & SYSCALL_F_COMPAT ? SYSCALL_SUM_COMPAT : 0),
			end - t->sys_start);
	if (!emits(REC_SYSCALL) || (cfg.ipc_only && !(flags & SYSCALL_IPC_MASK)))
		return;
	if (cfg.min_syscall_ns && end - t->sys_start < cfg.min_syscall_ns &&
		!(flags & (SYSCALL_F_BLOCKED | REC_F_OPEN_END))) {
		__sync_fetch_and_add(&stats.syscalls_short, 1);
		return;
	}
	r = emit_reserve(sizeof(*r), REC_SYSCALL);
	if (!r)
		return;
	hdr_fill(&r->h, REC_SYSCALL, t->sys_start, end, w.tgid, w.tid, t->sys_nr, flags);
	r->ret = ret;
	r->arg0 = t->sys_arg0;
	emit_submit(r);
}

/* Whether a function's probes were turned off after its call, so that the time of its return is unknown. */
static __always_inline bool frame_void(const struct frame *f)
{
	if (!f->shed)
		return 0;
	return f->start < (f->shed == 1 + SHED_BARRIERS ? sheds[SHED_BARRIERS].off_ns : sheds[SHED_OPERATORS].off_ns);
}

/* Ends the innermost function in flight. Returns 0, or its probe's id + 1 if it is the step, which the caller ends. */
__weak __noinline u32 frame_flush(struct thread *t, struct strings *s, u64 tgid_tid, u64 end)
{
	struct who w = { .tgid = tgid_tid >> 32, .tid = (u32)tgid_tid };
	struct frame *f;

	if (!t || t->depth == 0 || t->depth > FRAMES_MAX)
		return 0;
	f = frame_at(t, --t->depth);
	if (f->step)
		return f->probe + 1;
	if (cfg.budget && frame_void(f))
		return 0;
	if (emits_call(f->role))
		emit_call(thread_step(t), s, w, f->probe, f->start, end, f->vals, f->nvals, f->nstrs, f->slot,
			f->flags | REC_F_OPEN_END);
	return 0;
}

struct flushing {
	struct thread *t;
	struct strings *s;
	u64 tgid_tid, end;
};

static long frame_next(u32 i, struct flushing *fl)
{
	struct thread *t = fl->t;
	u32 probe;

	if (!t->depth)
		return 1;
	probe = frame_flush(t, fl->s, fl->tgid_tid, fl->end);
	if (probe) {
		t->cut_probe = probe;
		t->cut_depth = t->depth;
	}
	return 0;
}

/* Ends all frames. If the step is among them, sets cut_probe: the caller ends it. */
__weak __noinline int frames_end(struct thread *t, struct strings *s, u64 tgid_tid, u64 end)
{
	struct flushing fl = { .t = t, .s = s, .tgid_tid = tgid_tid, .end = end };

	if (!t)
		return 0;
	t->cut_probe = 0;
	if (t->depth)
		bpf_loop(FRAMES_MAX, frame_next, &fl, 0);
	return 0;
}

/* Keeps the frame `at` of a step within which the window has closed: the next one may open within it. */
static __always_inline void step_keep(struct thread *t, u32 at)
{
	if (at)
		*frame_at(t, 0) = *frame_at(t, at);
	frame_at(t, 0)->prev_role = ST_CPU;
	t->step.h.start_ns = 0;
	t->in_step = 1;
	t->depth = 1;
}

/* Continues with the next step, which has begun since the window closed. */
static __always_inline void step_next(struct thread *t, struct rows *r)
{
	step_keep(t, FRAME_NEXT);
	parts_next(t, r);
	for (int i = 0; i < FUNC_VALS_MAX; i++)
		t->step.vals[i] = t->frames[0].vals[i];
	t->step.strs[0][0] = t->step.strs[1][0] = 0;
	t->step.number = t->next_number;
}

/* Ends all function spans in flight, innermost first, including the step. t->counts have just been read. rows: from
 * parts_kept(). */
__weak __noinline int frames_flush(
	struct thread *t, struct strings *s, u64 tgid_tid, u64 end, struct rows *rows)
{
	struct who w = { .tgid = tgid_tid >> 32, .tid = (u32)tgid_tid };

	if (!t)
		return 0;
	if (t->wait.probe)
		wait_told(t, tgid_tid, end, REC_F_OPEN_END);
	op_flush(t, s, w, end, REC_F_OPEN_END);
	frames_end(t, s, tgid_tid, end);
	if (t->cut_probe) {
		step_end(t, tgid_tid, t->cut_probe - 1, end, REC_F_OPEN_END);
		step_send(t, rows);
	}
	t->role = ST_CPU;
	if (cfg.windows && !enabled && t->step_entered)
		step_next(t, rows);
	else if (cfg.windows && !enabled && t->cut_probe && !t->step_left)
		step_keep(t, t->cut_depth);
	return 0;
}

/* The part of task_close() that deals with no functions; apart to save stack. */
__weak __noinline int thread_close(struct thread *t, u64 tgid_tid, u64 end, u32 cpu)
{
	struct who w = { .tgid = tgid_tid >> 32, .tid = (u32)tgid_tid };

	if (!t)
		return 0;
	if (t->off) {
		struct rec_off_cpu r = {};

		hdr_fill(&r.h, REC_OFF_CPU, t->since, end, w.tgid, t->off_tid, t->off,
			t->off_flags | REC_F_OPEN_END);
		r.cpu_from = t->off_cpu;
		if (emits(REC_OFF_CPU) && !tid_is_lost(t, w.tid))
			emit(&r, sizeof(r), REC_OFF_CPU);
	} else if (emits(REC_ON_CPU)) {
		struct rec_on_cpu r;

		hdr_fill(&r.h, REC_ON_CPU, t->on_ns ? t->on_ns : stats.start_ns, end, w.tgid, w.tid, 0,
			REC_F_OPEN_END | (t->on_ns ? 0 : REC_F_OPEN_START));
		r.h.cpu = t->on_ns ? t->on_cpu : cpu;
		emit(&r, sizeof(r), REC_ON_CPU);
	}
	if (t->in_fault && emits(REC_FAULT)) {
		struct rec_fault r;

		hdr_fill(&r.h, REC_FAULT, t->fault_start, end, w.tgid, w.tid, 0,
			t->fault_flags | REC_F_OPEN_END);
		r.addr = t->fault_addr;
		emit(&r, sizeof(r), REC_FAULT);
	}
	if (t->in_syscall)
		syscall_emit(t, w, end, 0, REC_F_OPEN_END);
	for (u32 i = 0; cfg.track_irq && i < IRQ_DEPTH; i++) {
		struct rec_irq r;

		if (i >= t->irq_depth || !emits(REC_IRQ))
			break;
		hdr_fill(&r.h, REC_IRQ, t->irqs[i].start, end, w.tgid, w.tid, t->irqs[i].id,
			t->irqs[i].type | REC_F_OPEN_END);
		emit(&r, sizeof(r), REC_IRQ);
	}
	t->irq_depth = 0; /* the ends of these will not be seen */
	return 0;
}

static __always_inline void task_flush(struct thread *t, struct task_struct *task, struct who w, u64 end)
{
	counts_read(t, task);
	frames_flush(t, strings_of(task), (u64)w.tgid << 32 | w.tid, end, parts_kept(t, task));
	group_leave(t, w.tgid); /* last: what was in flight is part of the step that it leaves */
}

/* After the window has closed: sends what is still open, with REC_F_OPEN_END. */
static __always_inline void task_close(struct task_struct *task, u32 cpu)
{
	u64 tgid_tid = (u64)task->tgid << 32 | (u32)task->pid;
	struct thread *t = thread_of(task);
	u64 end = stats.stop_ns;

	if (!t || !t->since)
		return;
	if (__sync_val_compare_and_swap(&t->closed, 0, CLOSE_BEGUN)) /* by its death or by the task iterator */
		return;
	thread_adopt(t); /* it was asleep all the time */
	if (end < t->since) /* it changed its state while the window was closing */
		end = t->since;
	if (end < t->edge)
		end = t->edge;
	if (cfg.sums)
		thread_sum(t, task->tgid, end);
	thread_close(t, tgid_tid, end, cpu);
	if (cfg.sums)
		syscalls_flush(t, task->tgid);
	counts_read(t, task);
	frames_flush(t, strings_of(task), tgid_tid, end, parts_kept(t, task));
	WRITE_ONCE(t->closed, CLOSE_DONE);
}

#endif
