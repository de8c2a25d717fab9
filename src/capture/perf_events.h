/* SPDX-License-Identifier: BSD-2-Clause */
/* Samples, page faults, counters and mappings by events of perf_event_open(2), each opened on all online CPUs. */
#ifndef INFTRACE_CAPTURE_PERF_EVENTS_H
#define INFTRACE_CAPTURE_PERF_EVENTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "util/names.h"

struct bpf_program;
struct inftrace_bpf;
struct map_watch;
struct pmu;
struct program_events; /* events that run a program */

/* Rights that perf_event_open(2) takes, for messages. Levels above 2 are a patch of Debian and Ubuntu, which use 3 and 4. */
#define PERF_EVENT_RIGHTS "it takes CAP_PERFMON, and where kernel.perf_event_paranoid is above 2 CAP_SYS_ADMIN: run as root, or set that to 2"

#define SAMPLE_HZ_DEFAULT 99 /* beats with no timer of whole milliseconds */
#define SAMPLE_HZ_MAX 999

/* Enables or disables the events. p may be NULL. */
void program_events_set(const struct program_events *p, bool on);
void program_events_free(struct program_events *p);

/* ---- samples ---- */

/* Runs the program hz times in each second of every CPU that is not idle. Prints one line on failure; -errno. */
int sampler_new(struct bpf_program *prog, unsigned int hz, struct program_events **ret_sampler);

/* Nanoseconds between two samples of a CPU. */
static inline uint64_t sampler_period_ns(unsigned int hz)
{
	return UINT64_C(1000000000) / hz;
}

/* ---- page faults ---- */

/* A tracepoint sees a fault begin. A perf event sees it end, counts it and tells its kind; where the kernel refuses such
 * events (Debian's and Ubuntu's, to all but CAP_SYS_ADMIN), the return of a function does, which session_attach() probes. */
#define FAULT_RETURN_FUNCTION "handle_mm_fault"

enum fault_ends {
	FAULT_ENDS_NONE, /* faults are not recorded */
	FAULT_ENDS_EVENTS,
	FAULT_ENDS_RETURN, /* of FAULT_RETURN_FUNCTION */
};

/* Chooses the programs to load. stacks: the ones that take stacks. */
void faults_configure(struct inftrace_bpf *k, enum fault_ends ends, bool stacks);

/* Opens the events and attaches their programs, if faults_configure() chose them; else *ret_faults is NULL. Prints one line
 * on failure and returns -errno; *ret_faults must be freed then, too. */
int faults_attach(struct inftrace_bpf *k, struct program_events **ret_faults);

/* ---- watchpoints ---- */

/* Opens a hardware watchpoint in a thread (0: this one), which threads and processes that it makes inherit, and that is disabled. type, len:
 * HW_BREAKPOINT_*. Returns a descriptor or -errno; -ENOSPC: the thread has none left. */
int watchpoint_open(pid_t tid, uint64_t addr, uint32_t type, uint32_t len);

/* ---- counters, which the BPF programs read and share out among threads (bpf/pmu.bpf.h) ---- */

/* Opens a set of counters and configures the programs, which must not be loaded yet. COUNTERS_NONE: *ret_pmu is NULL. Prints
 * one line on failure. -EOPNOTSUPP: the machine has none of them; -EPERM: they are not allowed; or another error. */
int pmu_new(enum counter_set set, struct inftrace_bpf *k, struct pmu **ret_pmu);
void pmu_free(struct pmu *p);

/* Gives the counters to the loaded programs. -errno. p may be NULL here and below. */
int pmu_bind(const struct pmu *p, struct inftrace_bpf *k);

/* Starts or stops counting; others can have the counters while it is stopped. */
void pmu_set(const struct pmu *p, bool on);

struct counters pmu_counters(const struct pmu *p);

/* ---- executable files that any process maps ---- */

/* PERF_RECORD_MMAP in a small ring for each CPU costs the process about a microsecond for each file. */

/* pid: as this process's PID namespace numbers it. path: as the process sees it, hostile, valid during the call. */
typedef void (*map_watch_cb)(pid_t pid, const char *path, void *arg);

/* Returns 0 or -errno; -EACCES or -EPERM: it takes CAP_PERFMON. */
int map_watch_new(struct map_watch **ret_watch);
void map_watch_free(struct map_watch *w);

/* Passes on the events since the last call. Call often: a ring holds some hundred events. */
void map_watch_drain(struct map_watch *w, map_watch_cb cb, void *arg);

/* Returns how many events were lost so far to full rings. */
uint64_t map_watch_lost(const struct map_watch *w);

#endif
