/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Steps that are calls of a Python function, at the price of these calls alone. Each function that a process runs hits the probes
 * in its interpreter. But once the code object of a function is known, two hardware watchpoints see its calls, and
 * nothing else: the interpreter reads one of the code's first instructions as it begins to run it, and drops the frame's reference
 * to the code, a count in it, once it has left it. The processor traps behind the instruction that reads or writes.
 *
 * Code may be read, and references to it be taken, at any time: a call begins only if the innermost frame has just begun, and has
 * ended only when the one that called it is the innermost. Whether this holds for a build of the interpreter is tried while the
 * probes are there: user space compares what both have seen (capture/watch.h). Part of functions.bpf.c.
 */
#ifndef INFTRACE_PYTHON_WATCH_BPF_H
#define INFTRACE_PYTHON_WATCH_BPF_H

#include "python.bpf.h"
#include "python_watched.bpf.h"

/* A call of a function that an option names. */
struct python_call {
	u64 frame, state, code; /* state: the thread's */
	u32 key;		/* of its struct python_calls */
	u32 id;			/* of the step's probe */
	u32 what;		/* enum python_what */
	u32 by;			/* enum python_by */
	bool pair;		/* the step is two functions */
};

#define PYTHON_NO_FRAME 1ull /* no address of a frame */

/* Notes that a function was seen. */
static __always_inline void python_note_call(struct python_watched *w, const struct python_call *call)
{
	u32 what = call->what;

	if (!w || what >= PYTHON_WHATS)
		return;
	barrier_var(what);
	what &= PYTHON_WHATS - 1;
	if (!w->key) {
		w->id = call->id;
		w->key = 1 + call->key;
	}
	if (!w->code[what])
		w->code[what] = call->code;
	if (w->key != 1 + call->key || w->code[what] != call->code)
		w->others = 1;
	if (w->state == PYTHON_WATCH_TRIED)
		__sync_fetch_and_add(&w->seen[what][call->by == PYTHON_BY_WATCH], 1);
}

/* A probe has seen the step in flight end, of which a watchpoint has seen the beginning. */
static __always_inline void python_note_left(struct thread *t)
{
	struct python_watched *w;

	if (t->python_watched != t->python_frame)
		return;
	w = python_watched_find(bpf_get_current_pid_tgid() >> 32);
	if (w && w->state == PYTHON_WATCH_TRIED)
		__sync_fetch_and_add(&w->left[PYTHON_BY_PROBE], 1);
}

#define PYTHON_INSTR 2 /* bytes of an instruction */

/* The interpreter reads an instruction that is watched. A frame is at the one before until this one begins. Returns whether a call
 * begins; fills in *call then. */
static __always_inline bool python_watch_call(struct python_watched *w, u32 what, u64 frame, u64 state, struct python_call *call)
{
	u64 code = w->code[what];

	if (!frame || (python_word(frame + w->walk.frame_code) & ~PYTHON_TAGS) != code ||
		python_word(frame + w->walk.frame_instr) != w->first[what] - PYTHON_INSTR)
		return 0;
	*call = (struct python_call){ frame, state, code, w->key - 1, w->id, what, PYTHON_BY_WATCH, w->ends == PYTHON_HAS_RESULTS };
	return 1;
}

/* A watchpoint has seen the call whose return ends a step. */
static __always_inline void python_watch_begun(const struct python_watched *w, struct thread *t, u64 frame)
{
	t->python_watched = frame;
	t->python_previous = python_word(frame + w->walk.frame_previous);
}

/* A reference to the code whose return ends a step was taken or dropped. Returns whether the step in flight is over. */
static __always_inline bool python_watch_left(struct python_watched *w, struct thread *t, u64 innermost)
{
	u64 frame = t->python_watched;

	if (!frame || innermost != t->python_previous)
		return 0;
	t->python_watched = 0;
	if (w->state == PYTHON_WATCH_TRIED)
		__sync_fetch_and_add(&w->left[PYTHON_BY_WATCH], 1);
	if (w->state != PYTHON_WATCH_LIVE || t->python_frame != frame)
		return 0;
	t->python_frame = 0;
	return 1;
}

#endif
