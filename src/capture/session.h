/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A capture session: the BPF programs of one recording, from load to detach.
 *
 *   session_open      load, nothing attached yet
 *   session_target    name processes
 *   session_attach    tracepoints and software events; function probes through session.attach
 *   session_watch     follow the targets' threads, even before the first window; again for targets named later
 *   session_start     a window opens: from then on every thread has a state
 *   session_drain     again and again
 *   session_stop      it closes; spans still open are sent; drain once more
 *   session_idle      it stays closed for a while; session_start() ends that too
 *   session_free      detach everything
 */
#ifndef INFTRACE_SESSION_H
#define INFTRACE_SESSION_H

#include <stdbool.h>
#include <sys/types.h>

#include "capture/attach.h"
#include "capture/perf_events.h"
#include "capture/ringbuf.h"
#include "capture/sums.h"
#include "probe.h"
#include "process_sums.h"
#include "util/clock.h"
#include "util/names.h"
#include "waits/way_back.h"

struct session_config {
	struct inf_config cfg; /* for the programs; session_open() sets what does not depend on the recording */
	pid_t hold_pid;        /* only this one waits with cfg.hold; 0: all targets */
	enum fault_ends fault_ends;
	bool requests;             /* on sockets */
	bool messages;             /* over TCP connections */
	bool states_only;          /* of the presets' functions, probe only those that make states */
	unsigned int sample_hz;    /* samples of stacks; 0: none. They and ... */
	bool stacks;               /* ... stacks of waits need cfg.track_sched and cfg.track_syscalls */
	enum counter_set counters; /* what the programs count for steps and operators */
	size_t ring_bytes;         /* each; 0: the default */
	bool peek;                 /* session_peek() will be wanted */
	bool uprobe_multi;         /* the kernel has it */
	bool uprobe_multi_pid;     /* ... and can restrict it to a process */
	bool watchpoints;          /* the machine has them */
	bool finds;                /* other processes may become targets at any time */
	struct probe_table *probes;
	struct inspector *inspector; /* must outlive the session; NULL without probes */
	struct pythons *pythons;     /* must outlive the session; may be NULL */
	record_cb cb;
	void *cb_arg;
};

struct inftrace_bpf;

#define TRACEPOINTS_MAX 48 /* tp_btf and fexit programs in bpf/ */

struct tracepoint {
	struct bpf_program *prog;
	struct bpf_link *link; /* NULL: while idle */
	bool always;
};

struct session {
	record_cb cb;
	void *cb_arg;
	struct attach *attach;
	struct hold *hold;       /* NULL: no thread is held */
	struct watches *watches; /* NULL: no Python function is watched */
	struct pythons *pythons; /* may be NULL */
	/* private */
	struct inftrace_bpf *skel;
	struct rings *rings;
	unsigned int n_rings;
	struct tracepoint tps[TRACEPOINTS_MAX];
	size_t n_tps;
	struct program_events *faults; /* NULL: no events of faults */
	unsigned int sample_hz;
	struct program_events *sampler; /* NULL: no samples */
	struct pmu *pmu;                /* NULL: nothing is counted */
	struct bpf_link *hooks;         /* NULL: no process has hooks */
	int eventfd;                    /* -1: none */
	struct wait_log wait_log;       /* cpus 0: nothing is logged */
	struct clock_shift clock_shift;
	bool idle;
};

/* -EPERM if the kernel does not allow it, -EOPNOTSUPP if it cannot; one line has been printed. */
int session_open(const struct session_config *c, struct session **ret_session);
void session_free(struct session *s);

/* Names a process as a target; its threads and children follow. -E2BIG when there are too many. */
int session_target(struct session *s, pid_t tgid);
/* A target exited before the programs could see it. */
void session_target_gone(struct session *s, pid_t tgid);

int session_attach(struct session *s);

/* With cfg.hooks: attaches the program to the agent's function in that file. Prints one line on failure. */
int session_hooks_attach(struct session *s, const char *path, const char *function);
/* Makes the slots of a process, which the caller closes and unmaps. index: below HOOK_PROCESSES, a free one. */
int session_hooks_add(struct session *s, uint32_t tgid, uint32_t index, size_t bytes, int *ret_fd, void **ret_slots);
/* Detaches the probes of barriers that hooks can see, or attaches them again, if links can be detached. */
void session_hooks_detach(struct session *s, bool off);
void session_hooks_remove(struct session *s, uint32_t tgid, uint32_t index);

/* Call before the first of several windows, and after session_target() once a window may have opened. */
int session_watch(struct session *s);

/* ret_boot_ns: CLOCK_BOOTTIME of the start, which is zero in the trace. */
int session_start(struct session *s, uint64_t *ret_boot_ns);

/* Whether the window has ended with the last of its max_steps steps: if so, call session_stop() next. */
bool session_over(const struct session *s);

/* Afterwards no program of the window runs, and its records are in the rings. ret_boot_ns: its end. */
int session_stop(struct session *s, uint64_t *ret_boot_ns);

/* Detaches all programs but those for the life of tasks and for steps, which cost something even in a closed window. */
void session_idle(struct session *s);

/* Call before opening a window soon, which then takes less time. Prints one line on failure. */
int session_wake(struct session *s);

/* Turns a part off or on again. ret_boot_ns: from then on its records are missing, or complete. */
void session_shed(struct session *s, enum shed_part part, bool off, uint64_t *ret_boot_ns);

/* The parts that can be turned off: 1 << enum shed_part. */
uint32_t session_parts(const struct session *s);

/* Whether parts that are being turned off still cost something. */
bool session_shedding(const struct session *s);

/* Passes on the records in flight (snapshot_peek()) and requests whose end has not been seen. */
int session_peek(struct session *s, record_cb cb, peek_cb thread_cb, void *arg);

/* Sends the stacks of threads that wait now, with SAMPLE_F_LOOKED; nothing in a closed window, since closing sends them. */
int session_peek_waits(struct session *s);

/* Passes records to the callback. Returns 1 if more are waiting, 0 if all were seen, or an error. */
int session_drain(struct session *s);

/* The fill level of the fullest ring in percent; callable from any thread. */
unsigned int session_fill(const struct session *s);

/* Passes on births, deaths and mapped files; also callable within the callback of another record. */
void session_drain_control(struct session *s);

/* Readable when a process was born, has died or has mapped a file: drain at once. */
int session_control_fd(const struct session *s);

/* Live counters, written by the BPF programs. */
const volatile struct inf_stats *session_stats(const struct session *s);

/* The number and time of the program runs that were timed so far, by enum hit_kind. */
void session_hits(const struct session *s, struct hit_time ret_times[HIT_MAX]);

/* Returns the mean time of a sample so far; 0: none yet. ret_period_ns: CPU time between two samples; 0: none are taken. */
uint64_t session_sample_ns(const struct session *s, uint64_t *ret_period_ns);

/* The records lost so far of each kind, over all rings. */
void session_lost(const struct session *s, uint64_t ret_lost[REC_KIND_MAX]);

/* After the stop: the sums per process, sorted by tgid; sums_free() frees them. */
struct process_totals *session_sums(const struct session *s, size_t *ret_n);

/* At any time, with sums_live: system calls so far, to be freed by the caller. */
struct process_call *session_calls(const struct session *s, size_t *ret_n);

/* The open counters; a mask of 0: none. */
struct counters session_counters(const struct session *s);

/* After the stop: passes requests whose end was not seen to the callback. -errno. */
int session_requests(const struct session *s);

/* The logs of the CPUs, valid until session_free(); NULL: none are kept, since there are no steps. */
const struct wait_log *session_wait_log(const struct session *s);

/* The file or peer that a thread waited for, by its key in the logs. false: it is not known any more. session: of that type. */
bool session_fd_name(const void *session, uint64_t key, struct fd_name *ret);

/* The map that misfits_new() wants. */
int session_engine_steps_fd(const struct session *s);

/* The map that memory_new() wants. */
int session_sums_fd(const struct session *s);

/* Whether a probe was ever reached. */
bool session_probe_hit(const struct session *s, uint32_t id);

#endif
