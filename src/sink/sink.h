/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A sink turns records into bytes of one format. Sinks never see libbpf; the capture side
 * never sees a format.
 */
#ifndef INFTRACE_SINK_H
#define INFTRACE_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/engine.h"
#include "engine/handles.h"
#include "record.h"
#include "process_sums.h"
#include "target/tasks.h"

struct profile_meta;

/* What every sink needs to know of the recording. */
struct recording {
	uint64_t start_boot_ns, start_mono_ns, start_real_ns; /* the same instant on three clocks */
	const struct probe_table *probes;
	struct tasks *tasks;
	const struct handles *handles; /* NULL: no handle has a name */
	unsigned int output; /* its number among those of the recording: the bit in task.written */
	bool windows;	     /* there may be several */
	uint32_t window;     /* number of this one, from 0 */
	uint64_t name_real_ns; /* the time in the names of its files */
	uint32_t tgid;	     /* the only process of this output; 0: all */
	const struct profile_meta *meta; /* for the profile */
};

/* Records lost between two looks at the counters. */
struct loss {
	uint64_t from_ns, to_ns; /* CLOCK_BOOTTIME */
	uint64_t count[REC_KIND_MAX];
};

/* An instant of the recording itself. */
struct mark {
	const char *name; /* window_open, window_close, ... */
	uint64_t ns;	  /* CLOCK_BOOTTIME */
	uint32_t number;  /* of the window or dump */
	const char *reason;
};

/* Totals for the window's last lines. */
struct window_totals {
	uint64_t open_ns, close_ns; /* CLOCK_BOOTTIME */
	uint64_t records[REC_KIND_MAX], lost[REC_KIND_MAX];
	uint64_t bytes; /* of all outputs */
	uint64_t steps;
	uint64_t open_cost_ns, close_cost_ns; /* time that opening and closing took */
	uint64_t lost_ns; /* wall time in which records were lost */
	const struct process_totals *processes; /* by tgid; with a profile */
	size_t n_processes;
};

struct sink;
struct writer;

struct sink_ops {
	void (*record)(struct sink *s, const struct rec_hdr *rec);
	void (*loss)(struct sink *s, const struct loss *l);
	/* NULL: not wanted. */
	void (*mark)(struct sink *s, const struct mark *m);
	/* Every record that the programs had sent before the last call of this was handed over since then,
	 * in whatever order. NULL: not wanted. */
	void (*settled)(struct sink *s);
	/* Returns the first error of the output. */
	int (*flush)(struct sink *s);
	/* Ends the file, and goes on in another, in which all is said again that a reader needs: each record
	 * is in one of the two. The writer so far is the caller's then. NULL: it writes no file. */
	void (*rotate)(struct sink *s, struct writer *w);
	/* Bytes that are not with the writer yet. NULL: none. */
	size_t (*held)(const struct sink *s);
	/* The recording is over: writes what can only be said now, closes and frees. `t` is NULL when
	 * nothing was recorded. */
	int (*close)(struct sink *s, const struct window_totals *t);
	uint64_t (*bytes)(const struct sink *s);
};

struct sink {
	const struct sink_ops *ops;
	char *name; /* of the file, for the summary */
};

/* Since when the thread was runnable again; only with a wake_ns. */
static inline uint64_t off_cpu_runnable_ns(const struct rec_off_cpu *r)
{
	return r->wake_ns > r->h.start_ns ? r->wake_ns : r->h.start_ns;
}

/* Whether the wake-up is an arrow, of a waker that is a thread of this output: from the instant of
 * the wake-up, which the waker's slice holds, to the thread's last nanosecond off the CPU. */
static inline bool off_cpu_has_arrow(
	const struct rec_off_cpu *r, const struct recording *rec, uint32_t waker_tgid)
{
	return waker_tgid && r->waker_slice && r->wake_ns >= rec->start_boot_ns && r->h.dur_ns &&
	       !(r->h.flags & REC_F_OPEN_END) && (!rec->tgid || rec->tgid == waker_tgid);
}

/* Each takes over the writer, also on failure. -ENOMEM. */
int chrome_sink_new(struct writer *w, const struct recording *rec, struct sink **ret_sink);
int perfetto_sink_new(struct writer *w, const struct recording *rec, struct sink **ret_sink);
int profile_sink_new(struct writer *w, const struct recording *rec, const struct profile_meta *meta,
	struct sink **ret_sink);

#endif
