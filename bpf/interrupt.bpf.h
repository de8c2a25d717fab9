/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Whether a program runs in an interrupt that hit the thread. Programs that ask are loaded only
 * where the kernel tells (src/capture/preempt.h).
 */
#ifndef INFTRACE_INTERRUPT_BPF_H
#define INFTRACE_INTERRUPT_BPF_H

#include "inftrace.bpf.h"

/*
 * A per-CPU variable that every kernel has, and how far from it the one with the preempt count is:
 * __preempt_count since 6.15 and before 6.2, pcpu_hot in between. An extern for each of these will not
 * do: libbpf looks for the one that is not there in the modules' BTF, which takes CAP_SYS_ADMIN.
 */
extern const int bpf_prog_active __ksym __weak;
const volatile s64 preempt_count_off __weak = 0;

/* include/linux/preempt.h: serving a softirq, in a hard interrupt, in an NMI. */
#define IRQ_MASK 0x00ff0100

static __always_inline bool in_interrupt(void)
{
#if defined(__TARGET_ARCH_x86)
	s64 off = preempt_count_off;
	int count = 0;

	if (!&bpf_prog_active)
		return 0;
	if (bpf_core_type_exists(struct pcpu_hot))
		off += bpf_core_field_offset(struct pcpu_hot, preempt_count);
	bpf_probe_read_kernel(&count, sizeof(count), bpf_this_cpu_ptr(&bpf_prog_active) + off);
	return count & IRQ_MASK;
#else
	struct task_struct *task = bpf_get_current_task_btf();

	return task->thread_info.preempt.count & IRQ_MASK;
#endif
}

#endif
