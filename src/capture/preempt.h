/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the kernel counts what may not preempt: so a BPF program knows that it runs in an
 * interrupt. */
#ifndef INFTRACE_PREEMPT_H
#define INFTRACE_PREEMPT_H

#include <stdint.h>

/*
 * For preempt_count_off of bpf/interrupt.bpf.h: the bytes from bpf_prog_active to the variable with
 * the count, of the same CPU. 0 on arm64, where it is in the task. -ENOENT: this kernel does not
 * tell; or what reading its BTF gave.
 */
int preempt_count_offset(int64_t *ret_off);

#endif
