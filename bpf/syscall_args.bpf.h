/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The arguments of a system call, at its entry or its exit. */
#ifndef INFTRACE_SYSCALL_ARGS_BPF_H
#define INFTRACE_SYSCALL_ARGS_BPF_H

#include "inftrace.bpf.h"

#define TS_COMPAT 0x0002 /* arch/x86/include/asm/thread_info.h */

static __always_inline bool is_compat(struct task_struct *task)
{
#ifdef __TARGET_ARCH_x86
	return task->thread_info.status & TS_COMPAT;
#else
	return 0;
#endif
}

static __always_inline u32 sys_number(const struct pt_regs *regs)
{
#ifdef __TARGET_ARCH_x86
	return regs->orig_ax;
#else
	return regs->syscallno;
#endif
}

/* Plain loads: libbpf's macros call a helper for each. */
static __always_inline u64 sys_arg0(const struct pt_regs *regs)
{
#ifdef __TARGET_ARCH_x86
	return regs->di;
#else
	return regs->orig_x0;
#endif
}

static __always_inline u64 sys_arg1(const struct pt_regs *regs)
{
#ifdef __TARGET_ARCH_x86
	return regs->si;
#else
	return ((const struct user_pt_regs *)regs)->regs[1];
#endif
}

static __always_inline u64 sys_arg2(const struct pt_regs *regs)
{
#ifdef __TARGET_ARCH_x86
	return regs->dx;
#else
	return ((const struct user_pt_regs *)regs)->regs[2];
#endif
}

static __always_inline u64 sys_arg3(const struct pt_regs *regs)
{
#ifdef __TARGET_ARCH_x86
	return regs->r10;
#else
	return ((const struct user_pt_regs *)regs)->regs[3];
#endif
}

#endif
