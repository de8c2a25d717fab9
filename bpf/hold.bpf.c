// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Holds a thread in the dynamic loader until the probes of what it has just mapped are in.
 *
 * The program is attached to the loader's _dl_debug_state(), an empty function for debuggers that
 * is called when new files have been mapped and before their constructors run. The wait is a loop
 * in this program, with its own deadline, after which the process continues by itself, even if the
 * recorder was killed or stopped.
 *
 * The program is sleepable, so it can give up the CPU on kernels that do not preempt themselves:
 * bpf_copy_from_user_task() calls cond_resched() (in get_user_pages), and fails when the thread is
 * to be killed. It waits in a section of RCU tasks trace, and attaching a probe waits for no grace
 * period of that kind; but attaching write-locks the process's mmap_lock, so the copies, which
 * read-lock it, are far apart.
 */
#include "spans.bpf.h"

#define HOLD_TURNS (1 << 23) /* as many as there may be: more than fit before the deadline */
#define HOLD_YIELD 512       /* turns, some 50 us */

/* By tgid: the newest mapping whose probes are in place. Written by user space. Full: nothing new
 * is held in that process; user space counts it. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, HOLDS_MAX);
	__type(key, u32);
	__type(value, u64);
} holds_done SEC(".maps");

struct hold_wait {
	u64 mapped, deadline, sp;
	u32 tgid;
	u32 ready;
};

static __always_inline bool hold_over(const struct hold_wait *w)
{
	u64 *done = bpf_map_lookup_elem(&holds_done, &w->tgid);

	return done && READ_ONCE(*done) >= w->mapped;
}

static long hold_turn(u32 i, struct hold_wait *w)
{
	u8 byte;

	if (hold_over(w)) {
		w->ready = 1;
		return 1;
	}
	if (!enabled || now_ns() >= w->deadline)
		return 1;
	return !(i % HOLD_YIELD) && bpf_copy_from_user_task(&byte, sizeof(byte), (void *)w->sp,
					    bpf_get_current_task_btf(), 0);
}

SEC("?uprobe.s")
int hold_loader(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct hold_wait w = { .tgid = task->tgid, .sp = PT_REGS_SP(ctx) };
	struct rec_hold r = {};
	struct thread *t = thread_of(task);
	struct hold_state *h;
	u64 start, end;

	keep_stack(ctx);
	if (!enabled || !t)
		return 0;
	h = bpf_map_lookup_elem(&holds, &w.tgid);
	if (!h)
		return 0;
	w.mapped = READ_ONCE(h->mapped);
	if (!w.mapped || hold_over(&w))
		return 0;
	/* ends an off-CPU span whose end was not seen, which would overlap with this one; so does the call at the end */
	start = thread_account(t);
	w.deadline = start + cfg.hold * 1000000ull;
	__sync_fetch_and_add(&h->waiting, 1);
	bpf_loop(HOLD_TURNS, hold_turn, &w, 0);
	__sync_fetch_and_add(&h->waiting, -1);
	if (!w.ready)
		h->missed = w.mapped;
	end = thread_account(t);
	hdr_fill(&r.h, REC_HOLD, start, end, w.tgid, task->pid, w.ready ? HOLD_READY : HOLD_EXPIRED, 0);
	emit(&r, sizeof(r), REC_HOLD);
	return 0;
}
