/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Whether a program runs in an interrupt that hit the thread. Programs that need this are loaded
 * only if the kernel reveals it (src/capture/preempt.h).
 */
#ifndef INFTRACE_INTERRUPT_BPF_H
#define INFTRACE_INTERRUPT_BPF_H

#include "inftrace.bpf.h"

/* include/linux/preempt.h: serving a softirq, in a hard interrupt, in an NMI. */
#define IRQ_MASK 0x00ff0100
#define SOFT_MASK 0x00000100

static __always_inline bool in_interrupt(void)
{
	return preempt_count() & IRQ_MASK;
}

/* Whether it is a soft interrupt, which no hard one has hit. */
static __always_inline bool in_softirq(void)
{
	return (preempt_count() & IRQ_MASK) == SOFT_MASK;
}

#endif
