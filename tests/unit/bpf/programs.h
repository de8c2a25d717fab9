/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The time keeping of the BPF programs (bpf/states.bpf.h), compiled for user space: what happens to one thread, as the
 * kernel would call the programs for it.
 */
#ifndef INFTRACE_TEST_PROGRAMS_H
#define INFTRACE_TEST_PROGRAMS_H

#include <stdbool.h>

#include "record.h"

/* The test's: the clock, and a moment between two steps of a program, in which something else may come. */
u64 bpf_ktime_get_ns(void);
void moment(void);

/* A thread that runs, and is accounted from now on. */
void thread_start(void);

void call_starts(void);
void call_stops(void);
void fault_starts(void);
void fault_stops(void);
/* A function of the role: ST_BARRIER, ST_GPU_WAIT, or ST_CPU for its end. */
void role_is(u32 state);
/* A function that hooks see. */
void hook_begins(void);
void hook_ends(void);
void interrupt_starts(u32 number);
void interrupt_stops(u32 number);
/* It leaves the CPU: preempted, or asleep. */
void switch_away(bool preempted);
void switch_back(void);
/* The scheduler notes that the thread comes onto the CPU, by a clock of its own. */
void scheduled(void);
#define RUN_QUEUE_CLOCK 12345678
void woken(void);

/* The end: all of the time is accounted. Returns up to when. */
u64 thread_stop(void);
u64 thread_time(u32 state);
/* Counts of what the programs did not see, or gave up. */
u64 thread_troubles(void);

#endif
