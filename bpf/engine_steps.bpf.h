/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Whether an engine at work calls the steps that its preset names: struct engine_steps. */
#ifndef INFTRACE_ENGINE_STEPS_BPF_H
#define INFTRACE_ENGINE_STEPS_BPF_H

#include "inftrace.bpf.h"

/* Of calls that only show that the engine is at work, one per thread within this time is enough. */
#define WORK_SEEN_NS 100000000

/* Full: for further processes it is unknown whether their steps are called, and nothing stands in for these. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ENGINE_STEPS_MAX);
	__type(key, struct engine_key);
	__type(value, struct engine_steps);
} engine_steps __weak SEC(".maps");

/* Notes a call of a function with p->engine. Returns whether it counts: a stand-in does only where user space has found
 * that no step is called. */
__weak __noinline int engine_called(struct thread *t, const struct probe *p, u64 tgid_tid, u64 sp)
{
	struct engine_steps *s, none = {};
	struct engine_key key;
	bool step;
	u64 now = 0;

	if (!t || !p)
		return 1;
	step = p->role == ROLE_STEP && !p->stand_in;
	if (!step) {
		if (t->in_step || (!p->stand_in && t->member_step))
			return !p->stand_in;
		now = now_ns();
		if (!p->stand_in && now - t->work_seen_ns < WORK_SEEN_NS)
			return 1;
		t->work_seen_ns = now;
	}
	key.tgid = tgid_tid >> 32;
	key.engine = p->engine;
	s = lookup_or_create(&engine_steps, &key, &none);
	if (!s)
		return !p->stand_in;
	if (step) {
		if (!s->called)
			s->called = 1;
		return 1;
	}
	s->sp[(u32)tgid_tid & (ENGINE_STACKS - 1)] = sp;
	if (!s->since_ns)
		s->since_ns = now;
	s->last_ns = now;
	return !p->stand_in || (s->missing && !s->called);
}

#endif
