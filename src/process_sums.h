/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Sums that the BPF programs keep per process, for the event families that the profile gets only at its end. Shared by
 * both sides, like record.h.
 */
#ifndef INFTRACE_PROCESS_SUMS_H
#define INFTRACE_PROCESS_SUMS_H

#include "record.h"

/* Processes, and system calls by process and number: what does not fit is counted in inf_stats.sums_full, and is missing only
 * from the sums. Some 1.3 MB each. */
#define PROCESS_SUMS_MAX 4096
#define SYSCALL_SUMS_MAX 16384

/* Sums over all threads that the process had while it was recorded. Living threads are added at the end, except for the
 * members from `pages_allocated` on, which are counted immediately. */
struct process_sums {
	u64 ns[ST_MAX];
	u64 switches_voluntary, switches_involuntary; /* nvcsw and nivcsw */
	u64 faults_minor, faults_major;               /* all, as getrusage(2) counts them */
	u64 faults_kernel; /* those of them taken in the kernel: no duration */
	u64 fault_minor_ns, fault_major_ns;
	u64 threads;
	u64 pages_allocated, pages_freed; /* by its threads; in pages of the smallest size */
	u64 rss_updates;                  /* changes of its resident set, by any process */
	u64 maxrss_pages;                 /* after it has exited: ru_maxrss of its lifetime */
};

#define SYSCALL_SUM_COMPAT 0x80000000u /* in nr: of the 32-bit table */

struct syscall_key {
	u32 tgid;
	u32 nr;
};

struct syscall_sum {
	u64 n, ns;
};

#ifndef __bpf__
#include <stdbool.h>
#include <stddef.h>

struct syscall_total {
	u32 nr; /* may include SYSCALL_SUM_COMPAT */
	struct syscall_sum sum;
};

struct process_call {
	struct syscall_key key;
	struct syscall_sum sum;
};

/* What the recording knows about one process at its end. */
struct process_totals {
	u32 tgid;
	struct process_sums sums;
	struct syscall_total *calls; /* sorted by number */
	size_t n_calls;
	bool pages; /* pages were counted */
	bool lives; /* rss_bytes is known */
	u64 rss_bytes;
	u64 rss_peak_bytes; /* 0: unknown */
};
#endif

#endif
