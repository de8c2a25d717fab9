/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Which locks are a Python interpreter's own. */
#ifndef INFTRACE_PYTHON_LOCKS_BPF_H
#define INFTRACE_PYTHON_LOCKS_BPF_H

#include "inftrace.bpf.h"
#include "python_walk.h"

#define PYTHON_PROCESSES_MAX 4096

/* Processes that run an interpreter, by tgid; user space fills it in. Full: waits for the process's GIL are waits for a lock. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PYTHON_PROCESSES_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, struct python_runtime);
} python_runtimes __weak SEC(".maps");

/* The number of such processes so far, so that a recording without Python costs one load. User space writes it. */
volatile u32 python_known __weak = 0;

/*
 * Whether a futex is in the interpreter's own state. Of what is there, only the GIL makes threads wait in a futex: other locks
 * are allocated (up to 3.12), or wait at an address on a thread's stack (from 3.13 on). The GIL of a subinterpreter that has
 * its own is elsewhere, and not known. CPython: Include/internal/pycore_gil.h, pycore_runtime_structs.h.
 */
static __always_inline bool python_lock(u32 tgid, u64 futex)
{
	struct python_runtime *r = python_known ? bpf_map_lookup_elem(&python_runtimes, &tgid) : NULL;

	return r && futex - r->address < r->bytes;
}

#endif
