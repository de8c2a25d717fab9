/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds the kernel's preemption count, which tells a BPF program that it runs in an interrupt. */
#ifndef INFTRACE_PREEMPT_H
#define INFTRACE_PREEMPT_H

#include <stdint.h>

/*
 * For preempt_count_off of bpf/interrupt.bpf.h: the distance in bytes from bpf_prog_active to the
 * variable with the count, on the same CPU. 0 on arm64, where it is in the task. -ENOENT: not found
 * in this kernel; or an error of reading its BTF.
 */
int preempt_count_offset(int64_t *ret_off);

/* The same from the kernel's BTF alone, which does not say whether a program can use the count; also returns the BTF id of
 * bpf_prog_active. -ENOENT on arm64. */
int preempt_count_place(int64_t *ret_off, int *ret_anchor);

#endif
