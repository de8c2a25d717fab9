/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Whether a program runs in an interrupt that hit the thread. Programs that ask are loaded only
 * where the kernel tells: its symbol is in /proc/kallsyms only with CONFIG_KALLSYMS_ALL.
 */
#ifndef INFTRACE_INTERRUPT_BPF_H
#define INFTRACE_INTERRUPT_BPF_H

#include "inftrace.bpf.h"

/* Since 6.15 and before 6.2; in between it is in pcpu_hot. */
extern const int __preempt_count __ksym __weak;
extern const struct pcpu_hot pcpu_hot __ksym __weak;

/* include/linux/preempt.h: serving a softirq, in a hard interrupt, in an NMI. */
#define IRQ_MASK 0x00ff0100

static __always_inline bool in_interrupt(void)
{
#if defined(__TARGET_ARCH_x86)
	if (&__preempt_count)
		return *(int *)bpf_this_cpu_ptr(&__preempt_count) & IRQ_MASK;
	if (&pcpu_hot)
		return ((struct pcpu_hot *)bpf_this_cpu_ptr(&pcpu_hot))->preempt_count & IRQ_MASK;
	return 0;
#else
	struct task_struct *task = bpf_get_current_task_btf();

	return task->thread_info.preempt.count & IRQ_MASK;
#endif
}

#endif
