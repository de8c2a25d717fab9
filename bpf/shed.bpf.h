/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Probes that --budget turns off and on while they are hit: struct shed_state. */
#ifndef INFTRACE_SHED_BPF_H
#define INFTRACE_SHED_BPF_H

#include "spans.bpf.h"

/* With --budget: how often the probe's part was turned off and on. Odd: it is off, and the hit does not count. */
static __always_inline u32 shed_changes(const struct probe *p)
{
	if (!cfg.budget || !p->shed)
		return 0;
	return p->shed == 1 + SHED_BARRIERS ? sheds[SHED_BARRIERS].changes : sheds[SHED_OPERATORS].changes;
}

/*
 * The thread comes to its first barrier since barriers were turned off. Its group is no longer known, nor whether
 * it has left barriers whose return was not seen.
 */
__weak __noinline int wait_renew(struct thread *t)
{
	if (!t)
		return 0;
	t->group_key = 0;
	t->member_step = 0;
	if (t->role == ST_BARRIER)
		t->role = ST_CPU;
	for (u32 i = 0; i < FRAMES_MAX; i++) {
		struct frame *f = frame_at(t, i);

		if (f->prev_role == ST_BARRIER)
			f->prev_role = ST_CPU;
	}
	return 0;
}

/* changes: shed_changes() when the hit was found to count. */
static __always_inline void wait_enter(struct thread *t, u32 changes, u64 now)
{
	if (!cfg.budget)
		return;
	if (t->wait.changes != changes)
		wait_renew(t);
	t->wait.changes = changes;
	t->wait.start = now;
}

#endif
