/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Time in functions that are seen by hooks: the agent in the traced process (hook/agent/) sends calls of a function through one of its
 * own, which adds up here how long they take. The BPF programs that account a thread's time read the sum, and divide by it what
 * the thread did on the CPU (hooks.bpf.h). No program runs for a call.
 *
 * It is an array of BPF for each process, which the agent maps: hooks_head, then a slot for each of its threads that makes such
 * calls. The process can write anything into it, and thereby spoil its own numbers, but no others.
 */
#ifndef INFTRACE_HOOK_SLOT_H
#define INFTRACE_HOOK_SLOT_H

#ifndef __bpf__
#include <stdint.h>
typedef uint32_t u32;
typedef uint64_t u64;
#endif

#define HOOK_SLOTS 1023	  /* threads of a process at once; further ones are counted in `full`, and their time is not divided */
#define HOOK_PROCESSES 32 /* at once */

/*
 * Times are CLOCK_BOOTTIME ns, as inftrace sees it: the agent knows them only by what inftrace says of the CPU's counter. The thread's
 * own clock stands still while it is off the CPU or in the kernel: by it the calls' time is what the programs count as on the CPU.
 */
struct hook_slot {
	/* its thread writes these */
	u64 calls;    /* twice how many have returned, + 1 within one */
	u64 own;      /* when that one began, by the thread's own clock */
	u64 total[2]; /* by that clock, of all calls that have returned: the one at the low bit of how many these are. The other is being
		       * written */
	u64 key;      /* first argument of the last call: what the threads that meet there have in common */
	u64 met;      /* the number of that meeting among those with the key, the same for all threads */
	u64 began[2]; /* when the last two meetings began, by the low bit of their number */
	u64 step;     /* hooks_head.steps as of its last call */
	u64 held_since, held_ns; /* the longest call in the thread's step; the programs reset it */
	u32 straggler; /* the thread that began its own last, as far as it is known; 0: not */
	u32 taken;     /* by a thread */
	u32 asks;      /* times that it still tells the programs of itself in this step. They set it to 0 once it works on the step */
	/* the programs write these */
	u32 tid;  /* of the thread, once it has told them of its slot; 0: it has not */
	u32 work; /* number + 1 of the step on which it works; 0: none */
	u64 away; /* by how much the thread's own clock is behind */
	u64 begun; /* the thread writes it: operators so far */
};

/* In place of the first slot. */
struct hooks_head {
	u64 steps; /* of the process that have begun; the programs write it */
	u32 off;   /* hooks only pass the calls on; the agent writes it */
	u32 full;  /* threads without a slot; the agent writes it */
	u32 used;  /* slots that have ever been taken, from the first on; likewise */
	u32 changes; /* of the clock: the copy at its low bit is valid. inftrace writes the other one, and then this */
	struct {
		u64 tsc, ns, mult; /* tsc is ns; a cycle takes mult / 2^32 ns */
	} clock[2];
	u64 line[7];
};

_Static_assert(sizeof(struct hook_slot) == 128 && sizeof(struct hooks_head) == 128, "two cache lines: the CPU fetches them in pairs");

#endif
