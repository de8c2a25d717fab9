/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Waits at a barrier whose only probe is the arrival. The wait ends when the last thread arrives, which releases the
 * others. No program is notified: the next one that deals with the waiting thread asks here, and divides its time between
 * the barrier and what came after it.
 *
 * A waiting thread sees the end later than this: the last one must leave its probe and store the word that they all watch,
 * and the store must reach the waiting thread. bench/README.md has figures.
 */
#ifndef INFTRACE_WAIT_BPF_H
#define INFTRACE_WAIT_BPF_H

#define GROUPS_MAX 128 /* a power of two */
#define GROUP_EPOCHS 4 /* a power of two; a thread is at most one barrier behind the others */

/* A thread's wait. The last thread to arrive has one that is over at once. */
struct open_wait {
	u64 start;
	u64 end;   /* set once it is accounted; 0: not yet */
	u32 probe; /* 0: none; else probe id + 1 */
	u32 epoch; /* the barrier's number in its group */
	u32 slot;  /* the group's index in the maps; GROUPS_MAX: there was no room for the group */
	u32 ip;	   /* low half: where the thread arrived */
	u8 prev_role;
	u8 last; /* this thread releases the others */
	u8 held; /* but it was taken off the CPU before it did */
	u8 pad;
	u32 changes; /* with cfg.budget: shed_state.changes of the barriers when it began */
	u32 tid;     /* of the thread, set if it works on a step for another one: by it that knows the thread again */
	u32 pad2;
};

/*
 * When a group passed its last barriers. Only the last thread to arrive writes it, once for each barrier; it has its own
 * cache line, which the others read when they are through.
 */
struct releases {
	u32 epoch; /* the last barrier that was passed */
	u32 pad;
	u64 ns[GROUP_EPOCHS]; /* by number; 0: the thread that has to release the others is not running */
	u64 line[3];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, GROUPS_MAX);
	__type(key, u32);
	__type(value, struct releases);
} releases __weak SEC(".maps");

/* When the wait ended; 0: it has not, or the group is so many barriers further that the end is forgotten. */
static __always_inline u64 wait_end(const struct open_wait *w)
{
	struct releases *r;
	u32 slot = w->slot;
	u64 end = w->end;

	if (end)
		return end;
	r = bpf_map_lookup_elem(&releases, &slot);
	if (!r || READ_ONCE(r->epoch) - w->epoch >= GROUP_EPOCHS)
		return 0;
	smp_rmb();
	end = READ_ONCE(r->ns[w->epoch & (GROUP_EPOCHS - 1)]);
	return end && end < w->start ? w->start : end;
}

/*
 * With --budget: whether barriers were turned off since the thread came to its last one, so that its state is unknown.
 * Also for waits that are seen by their entry and return.
 */
static __always_inline bool wait_void(const struct open_wait *w)
{
	return cfg.budget && w->changes != sheds[SHED_BARRIERS].changes;
}

/* The end of a void wait: `end` (0: not known), but at most when barriers were turned off. */
static __always_inline u64 wait_void_end(const struct open_wait *w, u64 end)
{
	u64 off = sheds[SHED_BARRIERS].off_ns;

	if (sheds[SHED_BARRIERS].changes - w->changes > 2) /* off_ns is of a later time */
		off = w->start;
	if (!end || end > off)
		end = off;
	return end < w->start ? w->start : end;
}

/* How much of from..to, throughout which a thread's state was the barrier, was after the end of its wait. */
static __always_inline u64 wait_left(const struct open_wait *w, u64 from, u64 to)
{
	u64 end = w->probe ? wait_end(w) : 0;

	if (wait_void(w))
		end = wait_void_end(w, end);
	if (!end || end >= to)
		return 0;
	return to - (end > from ? end : from);
}

#endif
