// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Memory of processes: counts the pages that their threads allocate and free, and the changes of their
 * resident sets. User space reads the counts every few milliseconds, and the resident set from /proc if
 * it changed: since 6.2 the kernel keeps it in per-CPU parts, which no program can add up. All programs
 * here are loaded on demand.
 */
#include "interrupt.bpf.h"
#include "sums.bpf.h"

struct page;

/* The current target's sums. NULL: no target, no room, or the pages belong to an interrupt, not to the thread that it hit.
 * can_tell: in_interrupt() works; only targets pay its price. */
static __always_inline struct process_sums *sums_of_current(bool can_tell)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (!thread_of_any(task) || (can_tell && in_interrupt()))
		return NULL;
	return process_sums_of(task->tgid);
}

static __always_inline int count_alloc(struct page *page, u32 order, bool can_tell)
{
	struct process_sums *s;

	if (!page)
		return 0;
	s = sums_of_current(can_tell);
	if (s)
		__sync_fetch_and_add(&s->pages_allocated, 1ull << (order & 63));
	return 0;
}

static __always_inline int count_free(u32 order, bool can_tell)
{
	struct process_sums *s = sums_of_current(can_tell);

	if (s)
		__sync_fetch_and_add(&s->pages_freed, 1ull << (order & 63));
	return 0;
}

SEC("?tp_btf/mm_page_alloc")
int BPF_PROG(memory_task_alloc, struct page *page, unsigned int order)
{
	return enabled ? count_alloc(page, order, 1) : 0;
}

SEC("?tp_btf/mm_page_free")
int BPF_PROG(memory_task_free, struct page *page, unsigned int order)
{
	return enabled ? count_free(order, 1) : 0;
}

/* Loaded instead if the kernel does not reveal interrupts: their pages count for the thread. */
SEC("?tp_btf/mm_page_alloc")
int BPF_PROG(memory_any_alloc, struct page *page, unsigned int order)
{
	return enabled ? count_alloc(page, order, 0) : 0;
}

SEC("?tp_btf/mm_page_free")
int BPF_PROG(memory_any_free, struct page *page, unsigned int order)
{
	return enabled ? count_free(order, 0) : 0;
}

/* Also called for other processes: reclaim, a debugger. */
SEC("?tp_btf/rss_stat")
int BPF_PROG(memory_rss, struct mm_struct *mm)
{
	struct process_sums *s;
	u32 tgid;

	if (!enabled)
		return 0;
	tgid = mm_owner_tgid(mm);
	s = tgid ? bpf_map_lookup_elem(&process_sums, &tgid) : sums_of_current(0);
	if (s)
		__sync_fetch_and_add(&s->rss_updates, 1);
	return 0;
}

/* When the last thread gets here, do_exit() has stored the highest resident set. */
SEC("?tp_btf/sched_process_exit")
int BPF_PROG(sums_process_exit, struct task_struct *p)
{
	struct process_sums *s;

	if (!enabled || p->signal->live.counter || !thread_of(p))
		return 0;
	s = process_sums_of(p->tgid);
	if (s)
		s->maxrss_pages = p->signal->maxrss;
	return 0;
}
