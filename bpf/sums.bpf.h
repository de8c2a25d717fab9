/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Sums per process, for a profile without a timeline: nothing is sent for each event. */
#ifndef INFTRACE_SUMS_BPF_H
#define INFTRACE_SUMS_BPF_H

#include "states.bpf.h"
#include "process_sums.h"

/* Full: stats.sums_full. User space makes both small if they are not used. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PROCESS_SUMS_MAX);
	__type(key, u32);
	__type(value, struct process_sums);
} process_sums __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SYSCALL_SUMS_MAX);
	__type(key, struct syscall_key);
	__type(value, struct syscall_sum);
} syscall_sums __weak SEC(".maps");

/* A new entry; too large for a program's stack. */
const volatile struct process_sums process_sums_zero __weak = {};

/* NULL if there is no room. */
static __always_inline struct process_sums *process_sums_of(u32 tgid)
{
	struct process_sums *s = lookup_or_create(&process_sums, &tgid, (void *)&process_sums_zero);

	if (!s)
		__sync_fetch_and_add(&stats.sums_full, 1);
	return s;
}

/* Adds a thread's time and counts to its process. end: until when the state in flight counts; 0: there is none. */
__weak __noinline int thread_sum(struct thread *t, u32 tgid, u64 end)
{
	struct process_sums *s;
	u64 since, before, left;
	u32 state;

	if (!t)
		return 0;
	s = process_sums_of(tgid);
	if (!s)
		return 0;
	for (int i = 0; i < ST_MAX; i++) {
		if (t->times.ns[i])
			__sync_fetch_and_add(&s->ns[i], t->times.ns[i]);
	}
	state = thread_state(t, t->off);
	since = t->since;
	if (end > since && state < ST_MAX) {
		before = now_before(now_of(t), since, end);
		left = state == ST_BARRIER ? wait_left_apart(&t->wait, since, end) : 0;
		if (before)
			__sync_fetch_and_add(&s->ns[t->role & 3], before);
		__sync_fetch_and_add(&s->ns[ST_CPU], left);
		__sync_fetch_and_add(&s->ns[state], end - since - before - left);
		if (cfg.hooks && t->hooked.map) {
			u64 part = hook_open(t, state, before, end - since, end);

			__sync_fetch_and_add(&s->ns[ST_CPU], -part);
			__sync_fetch_and_add(&s->ns[ST_BARRIER], part);
		}
	}
	__sync_fetch_and_add(&s->threads, 1);
	__sync_fetch_and_add(&s->switches_voluntary, t->switches[0]);
	__sync_fetch_and_add(&s->switches_involuntary, t->switches[1]);
	__sync_fetch_and_add(&s->faults_minor, t->faults[0]);
	__sync_fetch_and_add(&s->faults_major, t->faults[1]);
	__sync_fetch_and_add(&s->faults_kernel, t->faults_kernel);
	__sync_fetch_and_add(&s->fault_minor_ns, t->fault_ns[0]);
	__sync_fetch_and_add(&s->fault_major_ns, t->fault_ns[1]);
	return 0;
}

/* nr: with SYSCALL_SUM_COMPAT, if it applies. */
__weak __noinline int syscall_add(u32 tgid, u32 nr, u64 n, u64 ns)
{
	struct syscall_key key = { .tgid = tgid, .nr = nr };
	struct syscall_sum zero = {}, *s;

	s = lookup_or_create(&syscall_sums, &key, &zero);
	if (!s) {
		__sync_fetch_and_add(&stats.sums_full, 1);
		return 0;
	}
	/* several threads of the process may be here at the same time */
	__sync_fetch_and_add(&s->n, n);
	__sync_fetch_and_add(&s->ns, ns);
	return 0;
}

#define KEPT_MAX (1u << 20) /* calls */

/*
 * Counts a call that has ended. If the sums are read only at the end, the thread keeps them, by the low bits of the
 * number: a loop of a few calls then never uses the hash.
 */
static __always_inline void syscall_sum(struct thread *t, u32 tgid, u32 nr, u64 ns)
{
	struct kept_calls *k;
	u32 i = nr;

	if (cfg.sums_live) {
		syscall_add(tgid, nr, 1, ns);
		return;
	}
	barrier_var(i);
	k = &t->calls[i & (KEPT_CALLS - 1)];
	if (k->n && (k->nr != nr || k->n >= KEPT_MAX)) {
		syscall_add(tgid, k->nr, k->n, k->ns);
		k->n = 0;
		k->ns = 0;
	}
	k->nr = nr;
	k->n++;
	k->ns += ns;
}

/* Adds the kept calls to the process: the thread has made its last one, or the window has closed. */
__weak __noinline int syscalls_flush(struct thread *t, u32 tgid)
{
	if (!t)
		return 0;
	for (u32 i = 0; i < KEPT_CALLS; i++) {
		struct kept_calls *k = &t->calls[i];

		if (k->n)
			syscall_add(tgid, k->nr, k->n, k->ns);
		k->n = 0;
		k->ns = 0;
	}
	return 0;
}

#endif
