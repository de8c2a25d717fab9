/* SPDX-License-Identifier: BSD-2-Clause */
/* What is taken from events of perf_event_open(2), each opened on all CPUs that are online. */
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
struct program_events; /* on which a program runs */

/* What perf_event_open(2) wants, for messages; above 2 is a patch of Debian and Ubuntu, whose kernels begin with 3 and 4. */
#define PERF_EVENT_RIGHTS "it takes CAP_PERFMON, and where kernel.perf_event_paranoid is above 2 CAP_SYS_ADMIN: run as root, or set that to 2"

#define SAMPLE_HZ_DEFAULT 99 /* beats with no timer of whole milliseconds */
#define SAMPLE_HZ_MAX 999

/* Stops the events, or lets them go on. NULL: nothing. */
void program_events_set(const struct program_events *p, bool on);
void program_events_free(struct program_events *p);

/* ---- samples of what runs ---- */

/* Runs the program hz times in each second of every CPU that is not idle. Prints one line on failure; -errno. */
int sampler_new(struct bpf_program *prog, unsigned int hz, struct program_events **ret_sampler);

/* Nanoseconds between two samples of a CPU. */
static inline uint64_t sampler_period_ns(unsigned int hz)
{
	return UINT64_C(1000000000) / hz;
}

/* ---- page faults ---- */

/* They begin with a tracepoint. They end, counted and with their kind, with an event, or where the kernel refuses those
 * (Debian's and Ubuntu's, to all but CAP_SYS_ADMIN) with the return of a function, to which session_attach() attaches. */
#define FAULT_RETURN_FUNCTION "handle_mm_fault"

enum fault_ends {
	FAULT_ENDS_NONE, /* faults are not recorded */
	FAULT_ENDS_EVENTS,
	FAULT_ENDS_RETURN, /* of FAULT_RETURN_FUNCTION */
};

/* Chooses the programs that are loaded. stacks: those that take them. */
void faults_configure(struct inftrace_bpf *k, enum fault_ends ends, bool stacks);

/* Opens the events on all CPUs and attaches their programs, if these were chosen. Prints one line on failure, -errno;
 * *ret_faults is to be freed then, too. NULL: there are no events. */
int faults_attach(struct inftrace_bpf *k, struct program_events **ret_faults);

/* ---- counters that threads are given their share of, read by the BPF programs (bpf/pmu.bpf.h) ---- */

/* Opens a set on all CPUs, and configures the programs, which are not loaded yet. COUNTERS_NONE: *ret_pmu is NULL. Prints one
 * line on failure: -EOPNOTSUPP: the machine has none of them; -EPERM: they are not allowed; or another error. */
int pmu_new(enum counter_set set, struct inftrace_bpf *k, struct pmu **ret_pmu);
void pmu_free(struct pmu *p);

/* Gives the counters to the programs, which have been loaded. -errno. p NULL: does nothing, here and below. */
int pmu_bind(const struct pmu *p, struct inftrace_bpf *k);

/* Stops counting, which lets others have the counters, or continues. */
void pmu_set(const struct pmu *p, bool on);

struct counters pmu_counters(const struct pmu *p);

/* ---- which processes map executable files, of all that run ---- */

/* By PERF_RECORD_MMAP, in one small ring for each CPU, which costs the process about a microsecond for each file. */

/* pid: as this process's PID namespace numbers it. path: as the process sees it, hostile, valid during the call. */
typedef void (*map_watch_cb)(pid_t pid, const char *path, void *arg);

/* -EACCES or -EPERM: it takes CAP_PERFMON; other -errno. */
int map_watch_new(struct map_watch **ret_watch);
void map_watch_free(struct map_watch *w);

/* Passes on what has happened since the last call. Call often: a ring holds some hundred events. */
void map_watch_drain(struct map_watch *w, map_watch_cb cb, void *arg);

/* Events that did not fit so far. */
uint64_t map_watch_lost(const struct map_watch *w);

#endif
