// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Function probes. The attach cookie is the probe's id, and struct probe says what to do: the same
 * few programs serve all engines.
 */
#include "spans.bpf.h"
#include "wait_log.h"

#include "engine_steps.bpf.h"
#include "fetch.bpf.h"
#include "probed.bpf.h"
#include "rows.bpf.h"
#include "shed.bpf.h"

/*
 * Functions without `static` are verified once, on their own, and not again for each path that
 * leads to them. Otherwise the verifier of 6.1 would give up after a million instructions.
 */

/* A walk through the frames, from the innermost on. Here and below bpf_loop() does it: the verifier would walk through a
 * plain loop round by round, at each start. Usually only the first frame is looked at, before the loop. */
struct frame_walk {
	struct thread *t;
	u64 sp;
	u32 id, found;
	u32 ip; /* if sp is 0 */
};

/* Whether the innermost function was left without a return: its entry is below the stack now. */
static __always_inline bool frame_is_stale(struct thread *t, u64 sp)
{
	u32 depth = t->depth;

	return depth && depth <= FRAMES_MAX && frame_at(t, depth - 1)->sp < sp;
}

/* Drops the innermost function. Returns 0. */
static __always_inline long frame_pop_stale(struct thread *t)
{
	struct frame *f = frame_at(t, --t->depth);

	t->role = f->prev_role;
	if (f->step)
		t->in_step = 0;
	if (t->op.depth > t->depth)
		t->op.probe = 0; /* left together with it */
	__sync_fetch_and_add(&stats.frames_stale, 1);
	return 0;
}

static long frame_drop(u32 i, struct frame_walk *w)
{
	return frame_is_stale(w->t, w->sp) ? frame_pop_stale(w->t) : 1;
}

__noinline int frames_drop_stale(struct thread *t, u64 sp)
{
	struct frame_walk w = { .t = t, .sp = sp };

	if (t && frame_is_stale(t, sp))
		bpf_loop(FRAMES_MAX, frame_drop, &w, 0);
	return 0;
}

/* Returns whether the walk ends here: frames further out were entered earlier still. */
static long frame_match(u32 i, struct frame_walk *w)
{
	u32 depth = w->t->depth - i;
	struct frame *f;

	if (depth == 0 || depth > FRAMES_MAX)
		return 1;
	f = frame_at(w->t, depth - 1);
	if (f->probe == w->id && (w->sp ? f->sp == w->sp : f->ip == w->ip))
		w->found = depth;
	return w->found || (w->sp && f->sp > w->sp);
}

/*
 * Returns the depth of the frame that returns; 0: it was entered before the recording, or not kept. A tail call shares
 * the stack pointer with its caller, so several frames may match: takes the innermost with the probe's id.
 */
__noinline u32 frame_find(struct thread *t, u64 sp, u32 id)
{
	struct frame_walk w = { .t = t, .sp = sp, .id = id };

	if (t && !frame_match(0, &w))
		bpf_loop(FRAMES_MAX, frame_match, &w, 0);
	return w.found;
}

static long python_span_drop(u32 i, struct frame_walk *w)
{
	struct thread *t = w->t;
	struct frame *f;

	if (t->depth <= w->found || t->depth > FRAMES_MAX)
		return 1;
	f = frame_at(t, t->depth - 1);
	return f->ip == w->ip || f->step ? 1 : frame_pop_stale(t); /* a step that is two functions goes on */
}

/*
 * Finds the slice of a Python function by its frame, or, if sp is not 0, by the stack pointer: functions that one call of the interpreter
 * runs have the same one. Drops those whose end was not seen. Returns its stack pointer; 0: there is none.
 */
__noinline u64 python_span_end(struct thread *t, u32 id, u64 sp, u32 ip)
{
	struct frame_walk w = { .t = t, .sp = sp, .id = id, .ip = ip };

	if (!t || !t->depth)
		return 0;
	bpf_loop(FRAMES_MAX, frame_match, &w, 0);
	if (!w.found)
		return 0;
	w.ip = frame_at(t, w.found - 1)->ip;
	bpf_loop(FRAMES_MAX, python_span_drop, &w, 0);
	return frame_at(t, w.found - 1)->sp;
}

/* Whether the comparison before this place found its operands equal. */
static __always_inline bool found_equal(struct pt_regs *ctx)
{
#ifdef __TARGET_ARCH_x86
	return ctx->flags & 0x40; /* ZF */
#else
	return 0; /* such places are only searched for on x86 */
#endif
}

#include "python_pair.bpf.h"

/*
 * Whether a function was not called but reached by a jump from a probed one: at its entry, the return address is then the
 * kernel's trampoline for return probes (the start of a page).
 */
static __always_inline bool entered_by_jump(struct pt_regs *ctx)
{
	u64 ret = 1;

#ifdef __TARGET_ARCH_x86
	bpf_probe_read_user(&ret, sizeof(ret), (void *)PT_REGS_SP(ctx));
#else
	ret = PT_REGS_RET(ctx);
#endif
	return !(ret & 0xfff);
}

__noinline int step_strings(struct thread *t, const struct strings *s, u32 slot)
{
	if (!t || !s || slot >= STRINGS_SLOTS)
		return 0;
	__builtin_memcpy(t->step.strs, &s->slots[slot], sizeof(t->step.strs));
	return 0;
}

/* Read as a whole: a part of a register cannot be read in the context of an event. */
static __always_inline u64 ip_of(struct pt_regs *ctx)
{
	u64 ip = PT_REGS_IP(ctx);

	barrier_var(ip);
	return ip;
}

/* Fills in what the call tells, and zeros the rest. */
static __always_inline void frame_fill(
	struct frame *f, struct pt_regs *ctx, const struct probe *p, u32 id, const struct call_vals *c)
{
	f->start = 0;
	f->sp = PT_REGS_SP(ctx);
	f->ip = ip_of(ctx);
	f->probe = id;
	f->prev_role = ST_CPU;
	f->nvals = p->nvals;
	f->nstrs = p->nstrs;
	f->late = !!(p->flags & PROBE_F_LATE);
	f->shed = p->shed;
	f->slot = 0;
	f->flags = 0;
	f->step = 0;
	f->role = p->role;
	f->group = 0;
	for (int i = 0; i < FUNC_VALS_MAX; i++)
		f->vals[i] = c->vals[i];
}

/* ip: struct frame's. */
static __always_inline void frame_push(struct pt_regs *ctx, struct thread *t, struct task_struct *task,
	const struct probe *p, u32 id, u64 now, const struct call_vals *c, struct rows *r, u32 ip)
{
	u64 sp = PT_REGS_SP(ctx);
	struct strings *s = NULL;
	struct frame *f;
	bool same = 0;
	u32 slot;

	frames_drop_stale(t, sp);
	/* A frame at the same place belongs to a tail call; one of the same function was left, unless
	 * it is in a chain of tail calls, or has branched back to its start. */
	if (p->python && p->role != ROLE_STEP) {
		if (python_span_end(t, id, 0, ip)) /* the end of the one before it in this frame was not seen */
			frame_pop_stale(t);
	} else if (frame_find(t, sp, id)) {
		if (!entered_by_jump(ctx))
			frames_drop_stale(t, sp + 1);
		else if (frame_at(t, t->depth - 1)->ip == ip)
			return;
	}
	if (t->depth >= FRAMES_MAX) {
		__sync_fetch_and_add(&stats.frames_full, 1);
		return;
	}
	slot = t->depth;
	if (slot) {
		/* another probe has just seen this very call: both spans are equal */
		f = frame_at(t, slot - 1);
		same = f->sp == sp && f->ip == ip;
		if (same)
			now = f->start;
	}
	t->ret_sp = 0;
	f = frame_at(t, slot);
	frame_fill(f, ctx, p, id, c);
	f->ip = ip;
	f->start = now;
	f->prev_role = t->role;
	f->slot = slot;
	f->group = !!(p->flags & PROBE_F_GROUP);
	if (p->nstrs)
		s = strings_take(task, p, c, slot);
	if (p->role == ROLE_STEP && !t->in_step) {
		f->step = 1;
		for (int i = 0; i < FUNC_VALS_MAX; i++)
			t->step.vals[i] = c->vals[i];
		if (s)
			step_strings(t, s, slot);
		parts_take(t, r);
		counts_read(t, task);
		f->start = step_begin(t, task->tgid);
		if (same) /* it returns before the step, and must be within it */
			frame_at(t, slot - 1)->start = f->start;
	}
	if (cfg.pmu && p->role == ROLE_OP)
		pmu_mark(PMU_FRAME + slot, now);
	t->depth++;
	if (p->role == ROLE_BARRIER)
		t->role = ST_BARRIER;
	else if (p->role == ROLE_GPU_WAIT)
		t->role = ST_GPU_WAIT;
	else if (p->role == ROLE_GC)
		t->role = ST_GC;
}

/* Moves a thread to another group. Not in group_arrive(): the calls would nest too deep for the verifier. */
static __always_inline void group_change(struct thread *t, struct who w, u64 key, u64 now)
{
	if (t->group_key == key)
		return;
	if (t->in_step) {
		group_end(t, w.tgid, now);
		t->step.workers = 0; /* most likely they have moved, too, and count there */
	} else {
		group_leave(t, w.tgid);
	}
}

static __always_inline void group_meet(struct thread *t, struct who w, u64 key, u64 now)
{
	if (!key)
		return;
	group_change(t, w, key, now);
	group_arrive(t, (u64)w.tgid << 32 | w.tid, key, now);
}

/* Returns flags of a call, for function_fill(): how long its thread was off the CPU since its last step. */
static __always_inline u64 off_cpu_since_step(const struct thread *t)
{
	u64 ns = 0;

	for (int i = ST_CPU + 1; i < ST_MAX; i++)
		ns += t->times.ns[i] - t->step_ns[i];
	return t->step_over && !t->in_step && role_now(t) == ST_CPU ? ns << 32 | FUNCTION_F_OFF_CPU : 0;
}

/* Out of line, so that only this takes stack for the record: function_entry() calls others that need theirs. */
__noinline int instant_emit(struct thread *t, struct strings *s, const struct probe *p, const struct call_vals *c)
{
	struct who w;
	u64 flags = 0;

	if (!t || !p || !c)
		return 0;
	w.tgid = c->tgid_tid >> 32;
	w.tid = (u32)c->tgid_tid;
	if (p->role == ROLE_SEQUENCE)
		flags = off_cpu_since_step(t);
	if (emits_call(p->role))
		emit_call(thread_step(t), s, w, c->id, c->now, c->now, c->vals, p->nvals, p->nstrs, c->slot, flags);
	return 0;
}

static long frame_has_role(u32 i, struct frame_walk *w)
{
	struct frame *f = frame_at(w->t, i);

	if (i >= w->t->depth || f->sp <= w->sp)
		return 1;
	w->found = f->role == w->id;
	return w->found;
}

/* Whether a function with this role is in flight. Calls left without a return do not count. */
__noinline bool role_entered(struct thread *t, u32 role, u64 sp)
{
	struct frame_walk w = { .t = t, .sp = sp, .id = role };

	if (t && t->depth)
		bpf_loop(FRAMES_MAX, frame_has_role, &w, 0);
	return w.found;
}

/* The role of a thread within the function that it enters, or between those of a pair. */
static __always_inline u32 role_within(const struct thread *t, const struct probe *p)
{
	u32 role = role_now(t);

	if (p->role == ROLE_GC && p->flags & PROBE_F_BEGIN)
		return role == ST_CPU ? ST_GC : role;
	if (p->role == ROLE_GC && p->flags & PROBE_F_END)
		return role == ST_GC ? ST_CPU : role;
	if (!(p->flags & PROBE_F_SPAN) || t->depth >= FRAMES_MAX)
		return role;
	if (p->role == ROLE_BARRIER)
		return ST_BARRIER;
	if (p->role == ROLE_GC)
		return ST_GC;
	return p->role == ROLE_GPU_WAIT ? ST_GPU_WAIT : role;
}

/* Whether what the thread had in flight when the window closed is still to be sent: it must not change. */
static __always_inline bool step_later(const struct thread *t)
{
	return closing && t->since && READ_ONCE(t->closed) != CLOSE_DONE;
}

/*
 * A step begins while the window is closed. It gets its number, and belongs to the next window if that opens before it
 * returns.
 */
static __always_inline void step_enter_closed(struct pt_regs *ctx, struct thread *t, struct task_struct *task,
	const struct probe *p, u32 id, const struct call_vals *c, struct rows *r)
{
	bool later = step_later(t);
	struct frame *f = frame_at(t, later ? FRAME_NEXT : 0);
	u32 number = __sync_fetch_and_add(&stats.step_number, 1);
	u64 sp = PT_REGS_SP(ctx);
	struct strings *s;

	if ((later ? t->step_entered : t->depth) && f->sp > sp) /* within another step */
		return;
	frame_fill(f, ctx, p, id, c);
	f->step = 1;
	if (later) {
		t->next_number = number;
		t->step_entered = 1;
		parts_take_next(r);
		return;
	}
	parts_take(t, r);
	for (int i = 0; i < FUNC_VALS_MAX; i++)
		t->step.vals[i] = c->vals[i];
	if (p->nstrs) {
		s = strings_take(task, p, c, 0);
		if (s)
			step_strings(t, s, 0);
	}
	t->step.h.start_ns = 0;
	t->step.number = number;
	t->in_step = 1;
	t->depth = 1;
}

static __always_inline void step_leave_closed(struct thread *t, u64 sp, u32 id)
{
	struct frame *f;

	if (step_later(t)) {
		f = frame_at(t, FRAME_NEXT);
		if (!t->step_entered)
			t->step_left = 1;
		else if (f->sp == sp && f->probe == id)
			t->step_entered = 0;
		return;
	}
	f = frame_at(t, 0);
	if (!t->depth || f->sp != sp || f->probe != id)
		return;
	t->in_step = 0;
	t->depth = 0;
}

/* Whether the call meets the preset's conditions. */
static __always_inline bool call_counts(struct thread *t, const struct probe *p, const u64 *vals, u64 sp)
{
	if (!when_holds(p, vals))
		return 0;
	return !p->outermost || !role_entered(t, p->role, sp);
}

/* User space reads it in place. The oldest is overwritten: what it has not read until then is time on the CPU like any other. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, COLLECTIONS_MAX);
	__type(key, u32);
	__type(value, struct collection);
} collections SEC(".maps");

u64 n_collections = 0; /* so far */

static __always_inline void collection_log(u32 tid, u64 start, u64 end)
{
	u32 i = __sync_fetch_and_add(&n_collections, 1) & (COLLECTIONS_MAX - 1);
	struct collection *c = bpf_map_lookup_elem(&collections, &i);

	if (!c)
		return;
	c->start_ns = start;
	c->end_ns = end;
	WRITE_ONCE(c->tid, tid);
}

/* The begin/end pair in flight: the call may end it, show that it is over, or begin the next one. */
static __always_inline void op_enter(
	struct thread *t, struct task_struct *task, const struct probe *p, const struct call_vals *c, struct who w)
{
	if (p->flags & PROBE_F_END && t->op.probe) {
		t->op.end = c->now;
		if (cfg.pmu)
			pmu_mark(PMU_OP_END, 0);
		if (p->role == ROLE_GC) { /* not only when the next one begins */
			collection_log(w.tid, t->op.start, c->now);
			op_flush(t, t->op.nstrs ? strings_of(task) : NULL, w, c->now, 0);
		}
	}
	/* it began within a function whose entry and return were not seen: by now it is over */
	if (p->flags & PROBE_F_SPAN && p->role >= ROLE_STEP && p->role <= ROLE_SAMPLE && p->role != ROLE_OP &&
		t->op.probe && !t->depth)
		op_flush(t, t->op.nstrs ? strings_of(task) : NULL, w, c->now, REC_F_OPEN_END);
	if (!(p->flags & PROBE_F_BEGIN))
		return;
	op_flush(t, t->op.nstrs ? strings_of(task) : NULL, w, c->now, 0);
	t->op.start = c->now;
	t->op.end = 0;
	t->op.depth = t->depth;
	t->op.nvals = p->nvals;
	t->op.nstrs = p->nstrs;
	t->op.sampled = 0;
	for (int i = 0; i < FUNC_VALS_MAX; i++)
		t->op.vals[i] = c->vals[i];
	if (p->nstrs)
		strings_take(task, p, c, STRINGS_OP);
	if (cfg.pmu)
		pmu_mark(PMU_OP, c->now);
	t->op.probe = c->id + 1;
}

static __always_inline void instant_enter(
	struct thread *t, struct task_struct *task, const struct probe *p, struct call_vals *c, struct who w)
{
	c->tgid_tid = (u64)w.tgid << 32 | w.tid;
	/* uses the next frame's slot, which is free */
	c->slot = t->depth < FRAMES_MAX ? t->depth : FRAMES_MAX - 1;
	instant_emit(t, p->nstrs ? strings_take(task, p, c, c->slot) : NULL, p, c);
}

/* A function begins within a fault: that ended in a signal, and this is its handler. */
static __always_inline void fault_left(struct thread *t)
{
	if (!t->in_fault)
		return;
	t->in_fault = 0;
	__sync_fetch_and_add(&stats.faults_open, 1);
}

static __always_inline void call_enter(struct pt_regs *ctx, struct task_struct *task, struct thread *t, bool open, u32 id)
{
	u64 regs[REG_MAX];
	struct call_vals c;
	struct rows *r = NULL;
	struct probe *p;
	struct who w = { .tgid = task->tgid, .tid = task->pid };
	u32 before, changes;

	p = bpf_map_lookup_elem(&probes, &id);
	if (!p)
		return;
	if (!p->hit)
		p->hit = 1;
	if (p->engine && !engine_called(t, p, (u64)task->tgid << 32 | task->pid, PT_REGS_SP(ctx)))
		return;
	if (p->hooked && hook_sees(t))
		return;
	changes = shed_changes(p);
	if (changes & 1)
		return;
	if (p->flags & PROBE_F_REGS) {
		fetch_places(ctx, p, c.vals);
	} else {
		regs_read(ctx, regs);
		fetch_all(regs, p, c.vals);
	}
	if (!call_counts(t, p, c.vals, PT_REGS_SP(ctx)))
		return;
	if (!open) {
		if (p->rows)
			r = rows_fetch(regs, task, p, &c);
		step_enter_closed(ctx, t, task, p, id, &c, r);
		return;
	}
	if (cfg.pmu && pmu_wants(t, p))
		pmu_hit();
	change_begin(t);
	fault_missed(t);
	c.now = thread_change(t, role_within(t, p), &before);
	c.id = id;
	if (p->rows) /* counts in the step's time, and does not delay its start */
		r = rows_fetch(regs, task, p, &c);
	wait_finish(t, w, c.now, 0);
	if (p->role == ROLE_GC && p->flags & (PROBE_F_BEGIN | PROBE_F_END))
		t->role = role_within(t, p);
	fault_left(t);
	op_enter(t, task, p, &c, w);
	if (cfg.budget && p->flags & PROBE_F_BEGIN)
		t->op.changes = changes;
	if (p->role == ROLE_BARRIER)
		wait_enter(t, changes, c.now);
	if (p->flags & PROBE_F_INSTANT)
		instant_enter(t, task, p, &c, w);
	if (p->flags & PROBE_F_SPAN)
		frame_push(ctx, t, task, p, id, c.now, &c, r, ip_of(ctx));
	thread_changed(t);
	change_end(t);
	if (p->flags & PROBE_F_GRAPH)
		t->counts.graphs++; /* of the step that has begun with this call, if one has */
	if (p->flags & PROBE_F_GROUP && p->group.reg < REG_MAX)
		group_meet(t, w, fetch_value(regs[p->group.reg], &p->group), c.now);
}

SEC("uprobe")
int function_entry(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	bool open = enabled;
	struct thread *t;
	u32 id;

	keep_stack(ctx);
	t = probed_thread(ctx, task, open, 1, &id);
	if (!t)
		return 0;
	call_enter(ctx, task, t, open, id);
	hit_end(t->timed_ns, t->timed_kind);
	return 0;
}

/* Does the last load of a FETCH_F_LATE value, at `addr`. */
__noinline u64 fetch_last(const struct fetch *f, u64 addr)
{
	u64 v = 0;
	u32 size;

	if (!f)
		return 0;
	size = f->size;
	if (size > 8)
		size = 8;
	bpf_probe_read_user(&v, size, (void *)addr);
	return extend(v, size, f->flags & FETCH_F_SIGNED);
}

/* Fills in the late values of a call, and what it returns. */
__noinline int fetch_late(struct frame *f, const struct probe *p, u64 ret)
{
	if (!f || !p)
		return 0;
	for (int i = 0; i < FUNC_VALS_MAX; i++) {
		const struct fetch *fetch = &p->fetch[i];

		if (fetch->flags & FETCH_F_RETURN)
			f->vals[i] = extend(ret, fetch->size, fetch->flags & FETCH_F_SIGNED);
		else if (fetch->flags & FETCH_F_LATE)
			f->vals[i] = fetch_last(fetch, f->vals[i]);
	}
	return 0;
}

/*
 * Removes a frame. Above it there can only be frames of other probes on the same call (the same
 * function given twice, or a tail call), which return next: one of them replaces it.
 */
static __always_inline void frame_pop(struct thread *t, u32 depth)
{
	struct frame *f = frame_at(t, depth - 1), *top = frame_at(t, t->depth - 1);
	u8 prev_role = f->prev_role;

	if (f == top) {
		t->role = prev_role;
	} else {
		*f = *top;
		f->prev_role = prev_role;
	}
	t->depth--;
}

/* On x86 the stack pointer at the return is above the popped return address. */
#ifdef __TARGET_ARCH_x86
#define RETURN_SP_OFFSET 8
#else
#define RETURN_SP_OFFSET 0
#endif

/* A call ends; sp: the stack pointer at its entry. A Python function may share it with its caller, so its frame tells its return. */
static __always_inline void call_leave(
	struct pt_regs *ctx, struct task_struct *task, struct thread *t, bool open, u64 sp, u32 id, bool python)
{
	u32 depth, before;
	struct frame *f;
	struct who w;
	u64 now;

	if (!open) {
		step_leave_closed(t, sp, id);
		return;
	}
	w.tgid = task->tgid;
	w.tid = task->pid;
	depth = frame_find(t, sp, id); /* stays valid when frames above it are dropped */
	f = frame_at(t, depth ? depth - 1 : 0);
	if (cfg.pmu && depth)
		pmu_hit();
	change_begin(t);
	fault_missed(t);
	now = thread_change(t, depth && depth == t->depth ? f->prev_role : role_now(t), &before);
	wait_finish(t, w, now, 0);
	frames_drop_stale(t, sp);
	if (!depth) {
		thread_changed(t);
		change_end(t);
		return;
	}
	if (python)
		sp = (u64)f->ip << 1 | 1; /* no stack pointer */
	if (t->ret_sp == sp)
		now = t->ret_ns; /* the second probe of one return */
	t->ret_sp = sp;
	t->ret_ns = now;
	if (f->late)
		fetch_late(f, bpf_map_lookup_elem(&probes, &id), PT_REGS_RC(ctx));
	if (t->op.depth >= depth)
		op_flush(t, t->op.nstrs ? strings_of(task) : NULL, w, now, 0);
	if (f->group)
		group_passed(t, (u64)w.tgid << 32 | w.tid, f->start, now);
	if (f->step) {
		counts_read(t, task);
		step_end(t, (u64)w.tgid << 32 | w.tid, id, 0, f->flags);
		if (cfg.pmu)
			pmu_step(t);
		step_send(t, parts_kept(t, task));
	} else if (emits_call(f->role) && !(cfg.pmu && f->role == ROLE_OP &&
		pmu_emit_call(t, f->nstrs ? strings_of(task) : NULL, (u64)w.tgid << 32 | w.tid, now, depth))) {
		emit_call(thread_step(t), f->nstrs ? strings_of(task) : NULL, w, id, f->start, now, f->vals,
			f->nvals, f->nstrs, f->slot, f->flags);
	}
	if (f->role == ROLE_GC)
		collection_log(w.tid, f->start, now);
	frame_pop(t, depth);
	thread_changed(t);
	change_end(t);
}

SEC("uretprobe")
int function_return(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	bool open = enabled;
	struct thread *t;
	u32 id;

	keep_stack(ctx);
	t = probed_thread(ctx, task, open, 0, &id);
	if (!t)
		return 0;
	call_leave(ctx, task, t, open, PT_REGS_SP(ctx) - RETURN_SP_OFFSET, id, 0);
	hit_end(t->timed_ns, t->timed_kind);
	return 0;
}

/* At a place on a function's way out: the stack pointer at its entry. */
static __always_inline u64 exit_sp(struct pt_regs *ctx, u64 cookie)
{
	u64 base = PT_REGS_SP(ctx);

#ifdef __TARGET_ARCH_x86
	u64 bp = PT_REGS_FP(ctx);

	barrier_var(base); /* both are loaded: the verifier refuses a context that is read at a computed offset */
	barrier_var(bp);
	if (cookie & PROBE_COOKIE_EXIT_BP)
		base = bp;
#endif
	return base + (cookie >> PROBE_COOKIE_EXIT_SHIFT & PROBE_COOKIE_EXIT_MAX) * 8;
}

/* The interpreter leaves a function. Returns the stack pointer of its slice; 0: it has none. */
static __always_inline u64 python_span_leave(struct pt_regs *ctx, struct thread *t, u32 id, u64 cookie, u64 sp)
{
	u32 key = t->python_span_key - 1;
	const struct python_calls *c;
	const struct probe *p;

	if (!t->depth || !t->python_span_key)
		return 0;
	p = bpf_map_lookup_elem(&probes, &id);
	c = bpf_map_lookup_elem(&python_calls, &key);
	if (!p || p->role == ROLE_STEP || !c)
		return 0;
	if (c->how == PYTHON_BY_CALL)
		return python_span_end(t, id, sp, 0);
	return python_span_end(t, id, 0, python_left(ctx, c, t->python_span_state, cookie));
}

/*
 * A place on a function's way out, see struct site_exit: does what a return probe would, and leaves the return address
 * alone. For Python functions it is a place in the interpreter.
 */
SEC("uprobe")
int function_exit(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	bool open = enabled;
	struct thread *t;
	bool step = 0;
	u64 cookie, sp;
	u32 id;

	keep_stack(ctx);
	t = probed_thread(ctx, task, open, 1, &id);
	if (!t)
		return 0;
	cookie = bpf_get_attach_cookie(ctx);
	sp = exit_sp(ctx, cookie);
	if (cookie & PROBE_COOKIE_PYTHON) {
		step = python_leave(ctx, t, id, cookie, sp);
		sp = step ? t->python_sp : python_span_leave(ctx, t, id, cookie, sp);
		if (!sp)
			goto out;
		if (step)
			python_results_over(t, open);
	}
	call_leave(ctx, task, t, open, sp, id, cookie & PROBE_COOKIE_PYTHON);
	if (step && open)
		python_batch_over(t);
out:
	hit_end(t->timed_ns, t->timed_kind);
	return 0;
}

/* ---- steps and slices that are calls of Python functions ---- */

/*
 * Returns whether a step begins with a call. Acts on what else it may be: batches count where whatever saw the step begin has seen
 * them, so that each is taken once. sp: of the interpreter.
 */
static __always_inline bool python_step_begins(
	struct python_watched *w, struct thread *t, const struct probe *p, const struct python_call *call, u64 sp, bool open)
{
	bool live = w && w->state == PYTHON_WATCH_LIVE, watch = call->by == PYTHON_BY_WATCH, seen;

	if (call->what == PYTHON_HAS_BATCH && !(t->in_step && t->python_frame && t->python_probe == call->id))
		return 0;
	if (call->what == PYTHON_IS_STEP && t->python_frame && t->python_frame != call->frame &&
		frame_find(t, t->python_sp, t->python_probe))
		return 0; /* within another one */
	python_note_call(w, call);
	if (call->what == PYTHON_HAS_ARRIVAL && (live || !watch))
		python_arrival_take(t, call->frame, call->key);
	if (call->what == PYTHON_HAS_SENT && open)
		python_sent_take(t, call->frame, call->key, call->id);
	if (call->what == PYTHON_HAS_BATCH && open && /* else ids would be sent into a closed window */
		(live && t->python_watched == t->python_frame) == watch) {
		python_batch_take(t, p, call->frame);
		python_scheduler_take(t, call->frame);
	}
	if (call->what != PYTHON_IS_STEP)
		return 0;
	if (w && watch) {
		/* by a probe: at this very call, since the ends of others are not missed */
		seen = t->python_frame == call->frame && t->python_watched != call->frame;
		python_watch_begun(w, t, call->frame);
		return live && !seen;
	}
	return !live || t->python_frame != call->frame || t->python_watched != call->frame;
}

static __always_inline void python_called(struct pt_regs *ctx, struct task_struct *task, struct thread *t, struct python_watched *of,
	const struct python_call *call, bool open)
{
	u32 id = call->id, before;
	u64 key = t->python_key;
	struct call_vals c = {};
	struct rows *r = NULL;
	struct probe *p;
	struct who w;
	bool pair;

	p = bpf_map_lookup_elem(&probes, &id);
	if (!p)
		return;
	pair = call->pair && (call->what == PYTHON_IS_STEP || call->what == PYTHON_HAS_RESULTS);
	if (pair && !python_pair_counts(of, t, call))
		return;
	if (pair && python_pair_goes_on(t, call)) {
		python_pair_called(t, p, call, PT_REGS_SP(ctx), open);
		return;
	}
	if (call->what == PYTHON_IS_SPAN) {
		t->python_span_state = call->state;
		t->python_span_key = 1 + call->key;
	} else {
		if (!pair && !python_step_begins(of, t, p, call, PT_REGS_SP(ctx), open))
			return;
		if (t->python_frame) /* the end of the previous one was not seen */
			frames_drop_stale(t, PT_REGS_SP(ctx) + 1);
		t->python_frame = call->frame;
		t->python_state = call->state;
		t->python_sp = t->python_end_sp = PT_REGS_SP(ctx);
		t->python_probe = id;
		t->python_key = key = call->key;
	}
	if (!p->hit)
		p->hit = 1;
	w.tgid = task->tgid;
	w.tid = task->pid;
	if (p->engine && !engine_called(t, p, (u64)w.tgid << 32 | w.tid, t->python_sp))
		return;
	t->python_key = call->key;
	if (p->values) {
		u32 n = python_values_begin(t, p, &c);

		/* else ids would be sent into a closed window */
		for (u32 i = 0; open && i < PYTHON_VALUES_MAX && i < n; i++)
			python_value_take(t, &c, call->frame, i);
		if (open)
			python_values_row(t, p, &c);
		r = p->rows ? bpf_task_storage_get(&rows, task, 0, 0) : NULL;
	} else if (p->rows) {
		python_batch_none(c.vals);
	}
	t->python_key = key; /* of the step in flight */
	if (!open) {
		step_enter_closed(ctx, t, task, p, id, &c, r);
		if (pair)
			python_pair_called(t, p, call, t->python_sp, 0);
		return;
	}
	if (cfg.pmu && pmu_wants(t, p))
		pmu_hit();
	change_begin(t);
	fault_missed(t);
	c.now = thread_change(t, role_within(t, p), &before);
	c.id = id;
	wait_finish(t, w, c.now, 0);
	fault_left(t);
	if (t->op.probe && !t->depth) /* as in op_enter() */
		op_flush(t, t->op.nstrs ? strings_of(task) : NULL, w, c.now, REC_F_OPEN_END);
	frame_push(ctx, t, task, p, id, c.now, &c, r, call->frame);
	thread_changed(t);
	change_end(t);
	if (pair)
		python_pair_called(t, p, call, t->python_sp, 1);
}

/* The interpreter begins to run a function. */
SEC("uprobe")
int python_entry(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	bool open = enabled;
	struct python_call call = {};
	struct python_watched *w;
	struct thread *t;
	struct probe *p;
	u32 id, tgid;

	keep_stack(ctx);
	t = probed_thread(ctx, task, open, 1, &id);
	if (!t)
		return 0;
	p = bpf_map_lookup_elem(&probes, &id);
	if (!p || !p->python || !python_probe_call(ctx, p->python - 1, id, &call))
		goto out;
	tgid = task->tgid;
	w = python_watched_find(tgid);
	if (!w && cfg.watch) {
		python_watched_make(tgid);
		w = python_watched_find(tgid);
	}
	python_called(ctx, task, t, w, &call, open);
out:
	hit_end(t->timed_ns, t->timed_kind);
	return 0;
}

/* An instruction or a count in the code of one that is watched was read or written. */
SEC("perf_event")
int python_watch(struct bpf_perf_event_data *event)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *ctx = (struct pt_regs *)&event->regs;
	u64 addr = event->addr, state, frame;
	bool open = enabled;
	struct python_call call = {};
	struct python_watched *w;
	struct thread *t;

	w = python_watched_find(task->tgid);
	if (!w)
		return 0;
	__sync_fetch_and_add(&w->hits, 1);
	t = thread_of(task);
	if (!t || !w->state || (!open && !cfg.windows))
		return 0;
	t->timed_kind = HIT_WATCH;
	t->timed_ns = hit_begin(t, HIT_WATCH);
	state = python_thread(t, &w->walk);
	frame = state ? python_innermost(&w->walk, state) : 0;
	if (addr == w->code[w->ends & (PYTHON_WHATS - 1)]) {
		if (python_watch_left(w, t, frame)) {
			u32 depth = frame_find(t, t->python_sp, t->python_probe);

			if (depth)
				frame_at(t, depth - 1)->flags |= STEP_F_WATCHED;
			python_results_over(t, open);
			call_leave(ctx, task, t, open, t->python_sp, t->python_probe, 1);
			if (open)
				python_batch_over(t);
		}
		goto out;
	}
	for (u32 what = 0; what < PYTHON_WHATS; what++) {
		if (addr == w->first[what] && python_watch_call(w, what, frame, state, &call)) {
			python_called(ctx, task, t, w, &call, open);
			break;
		}
	}
out:
	hit_end(t->timed_ns, HIT_WATCH);
	return 0;
}

/*
 * A thread has arrived at a barrier and been counted there: SITE_ARRIVAL. The only probe of the whole wait,
 * see wait.bpf.h. Engines pass hundreds of barriers in each step.
 */
static __always_inline void arrive(struct pt_regs *ctx, struct task_struct *task, struct thread *t, u32 id, bool last)
{
	u64 regs[REG_MAX], now, key;
	u32 before, group, changes;
	struct probe *p;
	struct who w;

	p = bpf_map_lookup_elem(&probes, &id);
	if (!p)
		return;
	if (!p->hit)
		p->hit = 1;
	if (p->engine)
		engine_called(t, p, (u64)task->tgid << 32 | task->pid, PT_REGS_SP(ctx));
	if (hook_sees(t))
		return;
	changes = shed_changes(p);
	if (changes & 1)
		return;
	group = p->group.reg;
	regs_read(ctx, regs);
	key = group < REG_MAX ? regs[group] >> (p->group.off[0] & 63) : 0;
	w.tgid = task->tgid;
	w.tid = task->pid;
	if (cfg.pmu && p->flags & PROBE_F_END)
		pmu_hit();
	change_begin(t);
	fault_missed(t);
	now = thread_change(t, last ? role_now(t) : ST_BARRIER, &before);
	fault_left(t);
	wait_finish(t, w, now, 0);
	if (p->flags & PROBE_F_END && t->op.probe) {
		t->op.end = now;
		if (cfg.pmu)
			pmu_mark(PMU_OP_END, 0);
	}
	wait_enter(t, changes, now);
	t->wait.start = now;
	t->wait.end = last ? now : 0;
	t->wait.ip = PT_REGS_IP(ctx);
	t->wait.prev_role = t->role;
	t->wait.last = last;
	t->wait.held = 0;
	group_change(t, w, key, now);
	group_arrive_once(t, (u64)w.tgid << 32 | w.tid, key, now, last);
	t->wait.probe = id + 1;
	if (!last)
		t->role = ST_BARRIER;
	thread_changed(t);
	change_end(t);
}

SEC("uprobe")
int barrier_arrival(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	bool last = found_equal(ctx);
	struct thread *t;
	u32 id;

	keep_stack(ctx);
	if (!enabled)
		return 0;
	t = probed_thread(ctx, task, 1, 1, &id);
	if (!t)
		return 0;
	arrive(ctx, task, t, id, last);
	hit_end(t->timed_ns, t->timed_kind);
	return 0;
}

/* The thread has hooks now, and comes to a barrier, or to another operator, which probes will not see: ends the one that they saw. */
static __always_inline void op_hand_over(struct thread *t, struct who w, u64 now)
{
	u32 id = t->op.probe - 1;
	const struct probe *p = t->op.probe ? bpf_map_lookup_elem(&probes, &id) : NULL;

	if (p && p->hooked)
		op_flush(t, NULL, w, now, 0);
}

/* The agent calls this function in a thread's first call in each step that has a hook, with its slot and what the threads have in common;
 * and as the thread ends, with 0. */
SEC("uprobe")
int hook_joins(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct who w = { .tgid = task->tgid, .tid = task->pid };
	struct thread *t = thread_of(task);
	bool taken;
	u64 key, now;
	u32 slot;

	keep_stack(ctx);
	if (!t)
		return 0;
	t->timed_ns = hit_begin(t, HIT_ENTRY);
	slot = PT_REGS_PARM1(ctx);
	key = PT_REGS_PARM2(ctx);
	taken = slot && hook_take_slot(t, w.tgid, w.tid, slot);
	if (enabled) {
		change_begin(t);
		fault_missed(t);
		now = thread_account(t);
		fault_left(t);
		wait_finish(t, w, now, 0);
		if (taken)
			op_hand_over(t, w, now);
		if (slot && key) {
			group_change(t, w, key, now);
			if (group_visit(t, (u64)w.tgid << 32 | w.tid, key))
				hook_joined(t);
		}
		if (slot)
			hook_works(t, thread_step(t));
		change_end(t);
	}
	if (!slot)
		t->hooked.map = 0;
	hit_end(t->timed_ns, HIT_ENTRY);
	return 0;
}
