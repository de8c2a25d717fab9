/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A capture session: the BPF programs of one recording, from load to detach.
 *
 *   session_open      load, nothing attached yet
 *   session_target    name processes (before the start)
 *   session_attach    tracepoints and software events; function probes through session_probes()
 *   session_watch     follow the targets' threads, also before the first window
 *   session_start     a window opens: every thread has a state from here on
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
#include "capture/ring.h"
#include "capture/snapshot.h"
#include "probe.h"
#include "process_sums.h"

struct session_config {
	bool trace_all;	    /* every task of the system */
	bool all_cpus;	    /* on-CPU spans of every task */
	bool watch_maps;    /* REC_MAPPED records */
	bool hold;	    /* targets wait for the probes of what they map; only with watch_maps */
	pid_t hold_pid;	    /* this one only; 0: all of them */
	bool track_sched;   /* load the programs that keep these states ... */
	bool track_syscalls;
	bool track_faults;
	bool track_irq;	   /* state and spans of interrupts */
	bool track_memory; /* count pages, for session_sums() */
	bool requests;	   /* on sockets */
	bool sums;	   /* of times and system calls per process, for session_sums() */
	bool sums_live;	   /* session_calls() will be called before the stop */
	bool ipc;	   /* tell calls that pass data between processes or threads from others */
	bool ipc_only;	   /* and send no others */
	bool states_only;  /* of the presets' functions, probe only those that make states */
	uint32_t emit_mask; /* ... and send these kinds: 1 << enum rec_kind */
	uint64_t min_syscall_ns;
	size_t ring_bytes; /* each; 0: a default */
	bool windows; /* several: session_start() again after session_stop() */
	uint32_t max_steps; /* see session_over(); 0: no limit */
	bool peek;    /* session_peek() will be wanted */
	bool budget;  /* session_shed() will be */
	bool uprobe_multi; /* the kernel has it */
	bool uprobe_multi_pid; /* ... and can restrict it to a process */
	struct probe_table *probes;
	engine_file_cb engine_file; /* or NULL */
	void *engine_file_arg;
	struct inspector *inspector; /* must outlive the session; NULL without probes */
	record_cb cb;
	void *cb_arg;
};

struct inspector;
struct session;

/* -EPERM when the kernel does not allow it, -EOPNOTSUPP when it cannot; one line has been printed. */
int session_open(const struct session_config *c, struct session **ret_session);
void session_free(struct session *s);

/* Names a process as a target; threads and children follow. -E2BIG when there are too many. */
int session_target(struct session *s, pid_t tgid);
/* It exited before the programs could see it. */
void session_target_gone(struct session *s, pid_t tgid);

int session_attach(struct session *s);
struct attach *session_probes(struct session *s);
struct hold *session_hold(struct session *s); /* NULL: nobody waits */

/* With several windows, before the first. */
int session_watch(struct session *s);

/* ret_boot_ns: CLOCK_BOOTTIME of the start, the zero of the trace. */
int session_start(struct session *s, uint64_t *ret_boot_ns);

/* The window has had max_steps steps, and has ended with the last of them: session_stop() comes next. */
bool session_over(const struct session *s);

/* Afterwards no program of the window is under way, and all its records are in the rings.
 * ret_boot_ns: its end. */
int session_stop(struct session *s, uint64_t *ret_boot_ns);

/* A closed window costs every event that a program is attached to; from here on only those of the
 * life of tasks and of steps. */
void session_idle(struct session *s);

/* It will open soon: that takes less time then. Prints one line on failure. */
int session_wake(struct session *s);

/*
 * From here on this part is off, or on again; told is the instant from which something is missing, or from which
 * nothing is.
 */
void session_shed(struct session *s, enum shed_part part, bool off, uint64_t *ret_boot_ns);

/* Which parts there are to be turned off: 1 << enum shed_part. */
uint32_t session_parts(const struct session *s);

/* What is off costs something until then. */
bool session_shedding(const struct session *s);

/* Hands over what is in flight now, see snapshot_peek(), and requests that nothing has ended yet. */
int session_peek(struct session *s, record_cb cb, peek_cb thread_cb, void *arg);

/* Hands records to the callback. Returns 1 when more wait, 0 when all were seen, or an error. */
int session_drain(struct session *s);

/* How full the fullest ring is, in percent; from any thread. */
unsigned int session_fill(const struct session *s);

/* Hands over what is known of births, deaths and mapped files by now, also from within the callback
 * of another record. */
void session_drain_control(struct session *s);

/* Readable when a process was born, died or mapped a file: drain at once. */
int session_control_fd(const struct session *s);

/* Hands a record of user space to the callback. */
void session_record(const struct session *s, const struct rec_hdr *rec, size_t size);

/* Live counters, written by the BPF programs. */
const volatile struct inf_stats *session_stats(const struct session *s);

/* Of the programs that were timed so far, by kind. */
void session_hits(const struct session *s, struct hit_time ret_times[HIT_MAX]);

/* Records lost so far of each kind, over all rings. */
void session_lost(const struct session *s, uint64_t ret_lost[REC_KIND_MAX]);

/* After the stop: what was added up per process, by tgid; sums_free() frees it. -errno. */
int session_sums(const struct session *s, struct process_totals **ret_list, size_t *ret_n);

/* At any time, with sums_live: system calls so far, which the caller frees. -errno. */
int session_calls(const struct session *s, struct process_call **ret_calls, size_t *ret_n);

/* After the stop: hands requests that nothing has ended yet to the callback. -errno. */
int session_requests(const struct session *s);

/* The map that memory_new() wants. */
int session_sums_fd(const struct session *s);

/* Whether a probe was ever reached. */
bool session_probe_hit(const struct session *s, uint32_t id);

#endif
