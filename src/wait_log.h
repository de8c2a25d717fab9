/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The log of each CPU: who ran on it, why each one left it, and whom they woke. Of all tasks of the machine, since a thread of
 * a target may wait for any of them. Written by the BPF programs of the scheduler, and read in place by user space, which
 * walks it back from the end of a wait to its cause: waits/way_back.h.
 *
 * Each CPU's logs are rings of 1 << shift entries, of which the newest are valid. Each has one writer, which interrupts
 * cannot hit. When a ring is full the oldest entry is overwritten: a walk that gets there says that the rest is unknown.
 */
#ifndef INFTRACE_WAIT_LOG_H
#define INFTRACE_WAIT_LOG_H

#include "record.h"

#define RAN_F_THROTTLED 0x01 /* a CPU limit of its cgroup takes the CPU away */
#define RAN_F_GPU_WAIT 0x02  /* while it waits for a GPU, as which all of this counts */

/* A task's time on a CPU. It began at the end of the entry before. */
struct ran {
	u64 end_ns;
	u64 file; /* on whose disk it waits, or the socket with the peer: the key in `fd_names`; 0: none is known */
	u32 tid, tgid;
	char comm[TASK_COMM_LEN];
	u16 call; /* the number of the system call in which it left the CPU to wait; CALL_NONE: in none */
	u8 state; /* enum time_state from then on; ST_CPU: it is gone */
	u8 flags; /* RAN_F_* */
	u32 fault_ns; /* of a thread of a target: its time in page faults, on the CPU */
};

/* What is behind a descriptor. Texts may be cut, and are the traced side's: any bytes. */
struct fd_name {
	u16 family, port; /* AF_*: the peer of a socket; 0: a file */
	u32 tgid;         /* of the process behind a Unix socket; 0: unknown */
	union {
		struct {
			char name[64], directory[32];
		};
		struct {
			char path[64], comm[TASK_COMM_LEN]; /* of a Unix socket; "": none, unknown */
		};
		u32 address[4]; /* as in struct rec_message */
		u64 words[12];
	};
};

#define WAKE_F_IRQ 0x01    /* from an interrupt: it hit the waker by chance */
#define WAKE_F_SOFT 0x02   /* with that: perhaps from a soft interrupt, which a call of the waker may have run */
#define WAKE_F_KERNEL 0x04 /* by a thread of the kernel */
#define WAKE_F_FORK 0x08   /* not a wake-up: the task was created */
#define WAKE_F_MOVED 0x10  /* not a wake-up: the task waits for a CPU, and goes on doing so at another one */

/* A wake-up of a task that is not a thread of the kernel. */
struct wake {
	u64 ns;
	u32 tid, waker_tid; /* the woken task, and the one that ran */
	u16 call; /* the waker's; CALL_NONE: none. With WAKE_F_MOVED: the CPU that it leaves */
	u8 flags; /* WAKE_F_* */
	u8 pad[5];
};

/* A thread has collected garbage. */
struct collection {
	u64 start_ns, end_ns;
	u32 tid;
	u32 pad;
};

#define COLLECTIONS_MAX 4096 /* a power of two */

/* A thread has read what another one had written to its Unix socket. */
struct handed {
	u64 ns, sent_ns;
	u32 tid, by, by_tgid;
	u32 pad;
};

#define HANDED_MAX 16384 /* a power of two */

/* Entries written so far. The entry at `ran` is the running task, which has not left yet. */
struct wait_log_heads {
	u64 ran, wakes;
	u64 place;     /* see on_task_stack() */
	u64 switch_ns; /* when the CPU last switched; 0: unknown */
	u64 clock_off; /* CLOCK_BOOTTIME minus the clock of its run queue; 0: unknown */
	u64 switched_to; /* the tid of the task that came onto it then */
	u64 pad[2];    /* a cache line for each CPU */
};

_Static_assert(sizeof(struct ran) == 48 && sizeof(struct wake) == 24, "no padding");

#endif
