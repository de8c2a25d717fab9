/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Shared by programs on function probes: which thread hit which probe, and whether the call counts. */
#ifndef INFTRACE_PROBED_BPF_H
#define INFTRACE_PROBED_BPF_H

#include "hits.bpf.h"
#include "inftrace.bpf.h"

static __always_inline bool when_holds(const struct probe *p, const u64 *vals)
{
	u32 i = p->when_val;
	s64 v;

	if (p->when == WHEN_ALWAYS || i >= FUNC_VALS_MAX)
		return 1;
	v = vals[i];
	switch (p->when) {
	case WHEN_EQ:
		return v == p->when_than;
	case WHEN_NE:
		return v != p->when_than;
	case WHEN_LT:
		return v < p->when_than;
	default:
		return v > p->when_than;
	}
}

/* Called first at a call's entry and return. Returns the thread, or NULL if the call does not count. */
static __always_inline struct thread *probed_thread(
	struct pt_regs *ctx, struct task_struct *task, bool open, bool entry, u32 *ret_id)
{
	struct thread *t;
	u64 cookie;

	if (!open && !cfg.windows)
		return NULL;
	cookie = bpf_get_attach_cookie(ctx);
	if (!open && !(cookie & PROBE_COOKIE_STEP))
		return NULL;
	t = thread_of(task);
	if (!t) {
		if (entry && cfg.count_strangers)
			__sync_fetch_and_add(&stats.strangers, 1);
		return NULL;
	}
	if (!link_lives(t, cookie))
		return NULL;
	*ret_id = (u32)cookie & PROBE_COOKIE_ID;
	t->timed_kind = !entry ? HIT_RETURN : cookie & PROBE_COOKIE_STEPPED ? HIT_STEPPED
									    : HIT_ENTRY;
	t->timed_ns = hit_begin(t, t->timed_kind);
	return t;
}

#endif
