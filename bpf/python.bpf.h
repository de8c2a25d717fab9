/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The Python frames of a thread, read from the interpreter's own lists in the memory of its process: only resident
 * memory, and a bounded part of it, whatever it contains.
 */
#ifndef INFTRACE_PYTHON_BPF_H
#define INFTRACE_PYTHON_BPF_H

#include "inftrace.bpf.h"
#include "python_locks.bpf.h"
#include "python_memory.bpf.h"
#include "python_walk.h"

/* Processes that run an interpreter of a known version, by tgid; user space fills it in. Full: the process has no
 * Python frames. Not created unless a program that uses it is loaded. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PYTHON_PROCESSES_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, struct python_walk);
} python_processes __weak SEC(".maps");

struct python_stack {
	struct python_frame frames[SAMPLE_PYTHON_MAX]; /* innermost first */
	u32 n;
	u32 cut; /* there are more, or one could not be read */
	u32 has_task;
	u32 other_task; /* a coroutine runs that may not be the task's */
	u64 gen;	/* the generator or coroutine of the next inner frame, or 0 */
	struct python_task task;
};

/* The id by which the interpreter knows the current thread: pthread_self(), which on x86 is in a register, elsewhere
 * gettid() in its own PID namespace. 0: unknown. */
static __always_inline u64 python_self(const struct python_walk *w, u16 *ret_offset)
{
#ifdef __TARGET_ARCH_x86
	*ret_offset = w->thread_self;
	return bpf_get_current_task_btf()->thread.fsbase;
#else
	struct bpf_pidns_info ns;

	*ret_offset = w->thread_native;
	if (w->thread_native == PYTHON_NO_OFFSET || bpf_get_ns_current_pid_tgid(w->ns_dev, w->ns_ino, &ns, sizeof(ns)))
		return 0;
	return ns.pid;
#endif
}

static __always_inline u64 python_innermost(const struct python_walk *w, u64 thread)
{
	u64 frame = python_word(thread + w->thread_frame);

	if (w->cframe_frame != PYTHON_NO_OFFSET && frame)
		frame = python_word(frame + w->cframe_frame);
	return frame;
}

/* bpf_loop() here and below: see functions.bpf.c. */
struct python_search {
	const struct python_walk *w;
	u64 self, interp, thread, found;
	u32 offset;
};

static long python_search_next(u32 i, struct python_search *s)
{
	u64 thread = s->thread;

	if (!thread) {
		if (!s->interp)
			return 1;
		s->thread = python_word(s->interp + s->w->interp_threads);
		s->interp = python_word(s->interp + s->w->interp_next);
		return 0;
	}
	if (python_word(thread + s->offset) == s->self) {
		/* a thread may have a state in each interpreter: takes the one that runs */
		s->found = thread;
		if (python_innermost(s->w, thread))
			return 1;
	}
	s->thread = python_word(thread + s->w->thread_next);
	return 0;
}

/* The interpreter's state of the current thread; 0: none, or not looked for. */
static __noinline u64 python_thread(struct thread *t, const struct python_walk *w)
{
	struct python_search s = { .w = w };
	u16 offset = 0;
	u32 misses;

	if (!t || !w)
		return 0;
	s.self = python_self(w, &offset);
	s.offset = offset;
	if (!s.self)
		return 0;
	if (t->python && python_word(t->python + offset) == s.self && python_innermost(w, t->python)) {
		t->python_misses = 0;
		return t->python;
	}
	/* a thread without one may run Python later, or never: not searched for every time */
	misses = t->python_misses++;
	if (misses & 63 && misses & (misses - 1))
		return 0;
	s.interp = python_word(w->runtime + w->interpreters);
	bpf_loop(PYTHON_THREADS_MAX, python_search_next, &s, 0);
	t->python = s.found;
	return s.found;
}

struct python_step {
	const struct python_walk *w;
	struct python_stack *out;
	u64 frame;
};

static __always_inline struct python_frame *python_frame_at(struct python_stack *out, u32 i)
{
	barrier_var(i);
	return &out->frames[i & (SAMPLE_PYTHON_MAX - 1)];
}

static __always_inline void python_frame_read(const struct python_walk *w, u64 frame, struct python_frame *f)
{
	f->code = python_word(frame + w->frame_code) & ~PYTHON_TAGS;
	f->instr = python_word(frame + w->frame_instr);
	if (w->flags & PYTHON_WALK_LASTI)
		f->instr = (u32)f->instr;
	f->instr &= ~PYTHON_F_ENTRY;
	if (w->flags & PYTHON_WALK_EACH || (w->frame_entry != PYTHON_NO_OFFSET && python_byte(frame + w->frame_entry)))
		f->instr |= PYTHON_F_ENTRY;
}

/* The generator or coroutine that a frame belongs to; 0: none. */
static __always_inline u64 python_generator(const struct python_walk *w, u64 frame)
{
	if (w->frame_gen != PYTHON_NO_OFFSET)
		return python_word(frame + w->frame_gen);
	return python_byte(frame + w->gen_owner) == PYTHON_OWNER_GENERATOR ? frame - w->gen_frame : 0;
}

/* Copies as much of the name as can be read: the object may lie right before memory that is not there. */
static __always_inline void python_task_copy(struct python_task *task, u64 name, u32 frames)
{
	u32 n = 0;

	task->frames = frames;
	for (int i = 0; i < PYTHON_TASK_BYTES / 32; i++) {
		if (bpf_probe_read_user(task->name + i * 32, 32, (const void *)(name + i * 32)))
			break;
		n += 32;
	}
	task->bytes = n;
}

/*
 * A function that is no coroutine, at `frame`, has called the coroutine `gen`. If it is Handle._run() of asyncio, which runs
 * a task, `gen` is the task's own coroutine, which proves that everything read on the way is what it was taken for.
 */
__weak __noinline int python_task_look(const struct python_walk *w, struct python_stack *out, u64 frame, u64 gen)
{
	u64 self, callback, task;
	u32 n, flags = 0;

	if (!w || !out)
		return 0;
	n = out->n;
	self = python_word(frame + w->frame_locals) & ~PYTHON_TAGS;
	callback = self ? python_word(self + PYTHON_HANDLE_CALLBACK) : 0;
	for (u32 i = 0; callback && i < 2; i++) {
		task = python_word(callback + (i ? PYTHON_CALLBACK_METHOD : PYTHON_CALLBACK_STEP));
		if (!task || python_word(task + w->task_coro) != gen)
			continue;
		python_task_copy(&out->task, python_word(task + w->task_name), n);
		out->has_task = out->task.bytes != 0;
		return 0;
	}
	if (w->code_flags == PYTHON_NO_OFFSET || !n || n > SAMPLE_PYTHON_MAX)
		return 0;
	bpf_probe_read_user(&flags, sizeof(flags), (const void *)(out->frames[(n - 1) & (SAMPLE_PYTHON_MAX - 1)].code + w->code_flags));
	if (flags & PYTHON_CODE_ASYNC)
		out->other_task = 1;
	return 0;
}

/* Looks for the task before `frame` is added. */
static __always_inline void python_task_next(const struct python_walk *w, struct python_stack *out, u64 frame)
{
	u64 gen = python_generator(w, frame), inner = out->gen;

	if (!gen && inner && !out->has_task && !out->other_task)
		python_task_look(w, out, frame, inner);
	out->gen = gen;
}

static long python_step_next(u32 i, struct python_step *s)
{
	const struct python_walk *w = s->w;
	struct python_stack *out = s->out;
	u64 frame = s->frame, previous;
	u32 n = out->n;

	if (!frame)
		return 1;
	if (bpf_probe_read_user(&previous, sizeof(previous), (const void *)(frame + w->frame_previous))) {
		out->cut = 1;
		s->frame = 0;
		return 1;
	}
	if (w->frame_owner != PYTHON_NO_OFFSET && python_byte(frame + w->frame_owner) >= w->owner_shim) {
		if (n)
			python_frame_at(out, n - 1)->instr |= PYTHON_F_ENTRY;
	} else {
		if (n >= SAMPLE_PYTHON_MAX)
			return 1;
		if (w->task_coro != PYTHON_NO_OFFSET)
			python_task_next(w, out, frame);
		python_frame_read(w, frame, python_frame_at(out, n));
		out->n = n + 1;
	}
	s->frame = previous;
	return 0;
}

/* Fills in the current thread's Python frames, possibly none. */
__weak __noinline int python_frames(struct thread *t, struct python_stack *out)
{
	struct python_step s = { .out = out };
	u32 tgid = bpf_get_current_pid_tgid() >> 32;
	u64 thread;

	if (!t || !out)
		return 0;
	out->n = 0;
	out->cut = 0;
	out->has_task = 0;
	out->other_task = 0;
	out->gen = 0;
	if (!python_known)
		return 0;
	s.w = bpf_map_lookup_elem(&python_processes, &tgid);
	if (!s.w)
		return 0;
	thread = python_thread(t, s.w);
	if (!thread)
		return 0;
	s.frame = python_innermost(s.w, thread);
	bpf_loop(PYTHON_STEPS_MAX, python_step_next, &s, 0);
	if (s.frame)
		out->cut = 1;
	return 0;
}

#endif
