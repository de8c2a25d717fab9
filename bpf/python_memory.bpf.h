/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Reads the memory of an interpreter. */
#ifndef INFTRACE_PYTHON_MEMORY_BPF_H
#define INFTRACE_PYTHON_MEMORY_BPF_H

#include "inftrace.bpf.h"

/* Returns 0 if the word cannot be read. */
static __always_inline u64 python_word(u64 address)
{
	u64 v = 0;

	bpf_probe_read_user(&v, sizeof(v), (const void *)address);
	return v;
}

static __always_inline u8 python_byte(u64 address)
{
	u8 v = 0;

	bpf_probe_read_user(&v, sizeof(v), (const void *)address);
	return v;
}

#endif
