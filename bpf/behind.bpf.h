/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Behind which threads a thread waited for a CPU.
 *
 * When a thread of a step comes onto a CPU, its run queue latency is divided among the threads that ran there meanwhile, by
 * the CPU's log (wait_log.bpf.h). If the load balancer moves a waiting thread to another CPU, the time up to then is divided
 * by the log of the CPU that it leaves. The part of a wait before the last RAN_LOOK threads stays unnamed.
 *
 * All programs here run with the run queue of the log's CPU locked, by the scheduler at a switch or by the load balancer
 * that takes a thread away, so nobody reads a log while it is written.
 */
#ifndef INFTRACE_BEHIND_BPF_H
#define INFTRACE_BEHIND_BPF_H

#include "states.bpf.h"
#include "group.bpf.h"
#include "wait_log.bpf.h"

#define RAN_LOOK 128 /* entries of the log, at most, that a wait is divided among */

/* Adds time to the thread's slot, or replaces the slot with the least time if that has less. */
__weak __noinline int behind_add(struct behind_table *table, const struct ran *r, u64 ns)
{
	struct behind *least = NULL;

	if (!table || !r)
		return 0;
	for (int i = 0; i < BEHIND_MAX; i++) {
		struct behind *b = &table->slots[i];

		if (b->ns && b->tid == r->tid) {
			b->ns += ns;
			return 0;
		}
		if (!least || b->ns < least->ns)
			least = b;
	}
	if (!least || least->ns >= ns)
		return 0;
	least->ns = ns;
	least->tid = r->tid;
	least->tgid = r->tgid;
	__builtin_memcpy(least->comm, r->comm, sizeof(least->comm));
	return 0;
}

struct behind_division {
	struct behind_table *table;
	u32 cpu;
	u64 at;        /* the number of the running task's entry */
	u64 from, end; /* not divided yet */
};

/* Called by bpf_loop() from the newest to the oldest: the verifier checks it once, not RAN_LOOK times, which
 * took half a second at each start. */
static long behind_step(u32 i, struct behind_division *d)
{
	struct ran *r = ran_at(d->cpu, d->at - i), *before = ran_at(d->cpu, d->at - i - 1);
	u64 start, ns;

	if (!r || !before || i >= d->at) /* where the log begins */
		return 1;
	start = before->end_ns;
	if (start < d->from)
		start = d->from;
	if (start < d->end) {
		ns = d->end - start;
		d->end = start;
		behind_add(d->table, r, ns);
	}
	return d->end <= d->from;
}

/* Divides from..now among the threads that ran on the CPU. */
__weak __noinline int behind_divide(struct behind_table *table, u32 cpu, u64 from, u64 now)
{
	struct behind_division d = { .table = table, .cpu = cpu, .from = from, .end = now };
	struct wait_log_heads *heads = bpf_map_lookup_elem(&wait_log_heads, &cpu);

	if (!table || !heads || now <= from)
		return 0;
	d.at = heads->ran;
	bpf_loop(RAN_LOOK, behind_step, &d, 0);
	return 0;
}

/*
 * Charges a thread's wait for the CPU, from..now, to those that ran. Runs in the scheduler's context, which owns the table
 * of a step that the thread calls. The workers' table is shared, and used by one thread at a time: a thread that finds it
 * taken leaves its time unnamed.
 */
__weak __noinline int behind_charge(struct thread *t, u64 tgid_tid, u32 cpu, u64 from, u64 now)
{
	struct ran limit = { .tid = BEHIND_LIMIT };
	struct behind_table *table = NULL;
	struct group *g = NULL;

	if (!t || now <= from)
		return 0;
	if (t->in_step)
		table = &t->step.behind;
	else
		g = behind_enter(t, tgid_tid);
	if (g) {
		table = &g->behind;
		if (from < g->from)
			from = g->from;
	}
	if (table && !t->throttled)
		behind_divide(table, cpu, from, now);
	else if (table && now > from)
		behind_add(table, &limit, now - from);
	if (g)
		behind_leave(g);
	return 0;
}

#endif
