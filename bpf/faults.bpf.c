// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Page faults. The tracepoint marks the start of a fault from user mode. mm_account_fault() raises the software events
 * PAGE_FAULTS_MIN and _MAJ once a fault has been handled, next to the counts of getrusage(2): they mark the end and tell
 * the kind. A fault taken inside the kernel raises only the end and becomes an instant.
 * arm64 has no such tracepoint: there faults from user mode have no duration, and count as time on the CPU.
 *
 * Where the events are refused, the return of handle_mm_fault(), which calls mm_account_fault(), stands in for them.
 * Unlike the programs on events, this one can be preempted if the kernel can be (preempt=full). Until it continues, the
 * kernel skips it for threads that fault on the same CPU (bpf_prog.active): fault_missed() finds such faults.
 */
#include "spans.bpf.h"
#include "samples.bpf.h"

/* include/linux/mm_types.h, which has had these values since 4.19 */
#define FAULT_FLAG_TRIED 0x20
#define FAULT_FLAG_USER 0x40
#define VM_FAULT_MAJOR 0x0004
#define VM_FAULT_RETRY 0x0400
#define VM_FAULT_ERROR 0x0873 /* OOM, SIGBUS, HWPOISON, HWPOISON_LARGE, SIGSEGV, FALLBACK */

SEC("tp_btf/page_fault_user")
int BPF_PROG(page_fault_user, unsigned long address)
{
	struct thread *t;
	u64 begin;

	if (!enabled)
		return 0;
	t = thread_of_any(bpf_get_current_task_btf());
	if (!t)
		return 0;
	begin = hit_begin(t, HIT_FAULT);
	change_begin(t);
	fault_missed(t);
	if (cfg.fault_return) {
		struct task_struct *task = bpf_get_current_task_btf();

		t->fault_counts[0] = task->min_flt;
		t->fault_counts[1] = task->maj_flt;
	}
	t->fault_addr = address;
	t->fault_flags = 0;
	t->fault_start = call_begin(t, &t->in_fault, ST_FAULT);
	change_end(t);
	hit_end(begin, HIT_FAULT);
	return 0;
}

/* Whether a fault whose begin was not seen came from user mode. */
static __always_inline bool from_user(const struct bpf_perf_event_data *ctx)
{
#ifdef __TARGET_ARCH_arm64
	return !(ctx->regs.pstate & 0xf); /* EL0 */
#else
	return 0;
#endif
}

/* event NULL: seen by the return, with its `address` and `user_mode` */
static __always_inline int fault_end(struct bpf_perf_event_data *event, u64 address, bool user_mode, u32 flags, bool stacks)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u64 now, start, addr;
	struct rec_fault *r;
	struct thread *t;
	bool user;
	u64 begin;

	if (!enabled)
		return 0;
	t = thread_of_any(task);
	if (!t)
		return 0;
	begin = hit_begin(t, HIT_FAULT_END);
	change_begin(t);
	user = t->in_fault;
	if (user) {
		now = call_end(t, &t->in_fault, ST_FAULT);
		start = t->fault_start;
		addr = t->fault_addr;
		flags |= t->fault_flags;
	} else {
		start = now = now_ns();
		addr = event ? READ_ONCE(event->addr) : address;
		flags |= (event ? from_user(event) : user_mode) ? 0 : FAULT_F_KERNEL;
	}
	if (cfg.sums) {
		u32 major = !!(flags & FAULT_F_MAJOR);

		t->faults[major]++;
		t->fault_ns[major] += now - start;
		t->faults_kernel += !!(flags & FAULT_F_KERNEL);
	}
	if (emits(REC_FAULT)) {
		r = emit_reserve(sizeof(*r), REC_FAULT);
		if (r) {
			hdr_fill(&r->h, REC_FAULT, start, now, task->tgid, task->pid, 0, flags);
			r->addr = addr;
			emit_submit(r);
		}
	}
	change_end(t);
	hit_end(begin, HIT_FAULT_END);
	if (stacks && user && t->n_due)
		waits_send(t, task, start);
	return 0;
}

static __always_inline int fault_event(struct bpf_perf_event_data *ctx, u32 flags, bool stacks)
{
	return fault_end(ctx, 0, 0, flags, stacks);
}

SEC("perf_event")
int fault_minor(struct bpf_perf_event_data *ctx)
{
	return fault_event(ctx, 0, 0);
}

SEC("perf_event")
int fault_major(struct bpf_perf_event_data *ctx)
{
	return fault_event(ctx, FAULT_F_MAJOR, 0);
}

/* Loaded instead when the stacks of waits are recorded. */
SEC("perf_event")
int fault_minor_stacks(struct bpf_perf_event_data *ctx)
{
	return fault_event(ctx, 0, 1);
}

SEC("perf_event")
int fault_major_stacks(struct bpf_perf_event_data *ctx)
{
	return fault_event(ctx, FAULT_F_MAJOR, 1);
}

/* Ends a fault where mm_account_fault() raises an event: not if it failed or is tried again, nor without registers, for a
 * page that the kernel only looks up. */
static __always_inline int fault_returns(u64 address, u32 flags, const void *regs, u32 ret, bool stacks)
{
	bool major = ret & VM_FAULT_MAJOR || flags & FAULT_FLAG_TRIED;

	if (!regs || ret & (VM_FAULT_RETRY | VM_FAULT_ERROR))
		return 0;
	return fault_end(NULL, address, flags & FAULT_FLAG_USER, major ? FAULT_F_MAJOR : 0, stacks);
}

/* Loaded instead of all the above where the events are refused. */
SEC("fexit/handle_mm_fault")
int BPF_PROG(fault_return, void *vma, unsigned long address, unsigned int flags, void *regs, unsigned int ret)
{
	return fault_returns(address, flags, regs, ret, 0);
}

SEC("fexit/handle_mm_fault")
int BPF_PROG(fault_return_stacks, void *vma, unsigned long address, unsigned int flags, void *regs, unsigned int ret)
{
	return fault_returns(address, flags, regs, ret, 1);
}
