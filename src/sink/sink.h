/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A sink takes records. It is a format, which turns them into the bytes of a file; an output, which is a
 * format and its files; a tee, which passes them to several sinks; a split by process; or the flight
 * recorder. Sinks never see libbpf; the capture side never sees a format.
 *
 * A new sink is open. It is fed in the order
 *
 *   record, loss, mark    in any order, as they come
 *   settled               whenever the rings have been emptied
 *   flush                 several times a second
 *
 * and closed once, which frees it. All of this happens in one thread, and no call except close waits for a disk. Only
 * flush and close can fail: a sink that has failed still takes records, and reports the error at the next flush.
 */
#ifndef INFTRACE_SINK_H
#define INFTRACE_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/spec.h"
#include "engine/handles.h"
#include "io/writer.h"
#include "process_sums.h"
#include "record.h"
#include "target/tasks.h"
#include "util/names.h"

struct fd_name;
struct gpu_info;
struct host_id;
struct left_out;
struct probe_costs;
struct profile_meta;
struct request_feed;
struct stacks;

/* What every sink needs to know about the recording. */
struct recording {
	uint64_t start_boot_ns, start_mono_ns, start_real_ns; /* the same instant on three clocks */
	const struct probe_table *probes;
	struct tasks *tasks;
	const struct handles *handles;    /* NULL: no handle has a name */
	unsigned int output;              /* its index in the recording: the bit in task.written */
	bool windows;                     /* there may be several */
	bool sockets;                     /* requests on sockets are recorded, too */
	bool gaps;                        /* gaps between steps, too */
	uint32_t window;                  /* number of this window, from 0 */
	uint64_t name_real_ns;            /* the time in the names of its files */
	const struct probe_costs *prices; /* of hits, as far as known; NULL: unknown */
	const struct left_out *left_out;  /* by --budget; NULL: without --budget */
	struct counters counters;         /* of steps and operators */
	bool lacks_faults;                /* page faults were wanted, but the kernel does not show them */
	const struct gpu_info *gpu;       /* what the numbers in records of GPUs stand for; NULL: there are none */
	/* The name of a file or peer by its key in gaps; false: it is not known any more. NULL: none are recorded. */
	bool (*fd_name)(const void *arg, uint64_t key, struct fd_name *ret);
	const void *fd_name_arg;
	const struct stacks *stacks;      /* of REC_STACK, by number; NULL: none are recorded */
	struct request_feed *requests;    /* of its sinks; NULL: they show no requests */
	uint32_t tgid;                    /* the only process of this output; 0: all */
	uint32_t et_steps;                /* steps of an execution trace, at most; 0: all */
	bool kineto;                      /* written in the form of PyTorch's own profiler */
	const char *command_line;         /* how the recording was started; NULL: unknown */
	const struct host_id *host;       /* NULL: unknown */
	const struct profile_meta *meta;  /* for the profile */
	/* Called for each complete file; may be NULL. */
	void (*on_file)(const char *name, uint64_t bytes, void *arg);
	void *on_file_arg;
};

/* Records lost between two looks at the counters. */
struct loss {
	uint64_t from_ns, to_ns; /* CLOCK_BOOTTIME */
	uint64_t count[REC_KIND_MAX];
};

/* An instant of the recording itself. */
struct mark {
	const char *name; /* window_open, window_close, ... */
	uint64_t ns;      /* CLOCK_BOOTTIME */
	uint32_t number;  /* of the window or dump */
	const char *reason;
	uint32_t tgid; /* the process concerned; 0: none in particular */
};

/* Totals for the window's last lines. */
struct window_totals {
	uint64_t open_ns, close_ns; /* CLOCK_BOOTTIME */
	uint64_t records[REC_KIND_MAX], lost[REC_KIND_MAX];
	uint64_t bytes; /* of all outputs */
	uint64_t steps;
	uint64_t open_cost_ns, close_cost_ns;   /* time that opening and closing took */
	uint64_t left_out_ns[SHED_PARTS];       /* by --budget */
	uint64_t lost_ns;                       /* wall time in which records were lost */
	const struct process_totals *processes; /* sorted by tgid; with a profile */
	size_t n_processes;
	bool cut; /* the files are incomplete: those named *.part keep that name */
};

struct sink;

struct sink_ops {
	/* A record, in any order of time; valid only during the call. `size`: including its strings. */
	void (*record)(struct sink *s, const struct rec_hdr *h, size_t size);
	/* Records that will never arrive, reported with other records of that time or after them. */
	void (*loss)(struct sink *s, const struct loss *l);
	/* An instant of the recording itself. NULL: not needed. */
	void (*mark)(struct sink *s, const struct mark *m);
	/* Every record sent before the previous call of this has been delivered by now. NULL: not needed. */
	void (*settled)(struct sink *s);
	/* Asks for everything so far to be in the files soon. Returns the first error so far. NULL: nothing to do. */
	int (*flush)(struct sink *s);
	/* Ends the file and continues in another one, which repeats everything that a reader needs: each record is in one of the
	 * two. The old writer then belongs to the caller. Only called with --max-size. NULL: it writes no file. */
	void (*rotate)(struct sink *s, struct writer *w);
	/* Bytes that the writer does not have yet. NULL: none. */
	size_t (*held)(const struct sink *s);
	/* The recording is over: writes what is only known now, waits until everything is written, and frees the sink. t NULL:
	 * nothing was recorded, so files that were created are removed. Returns the first error of all. The last call. */
	int (*close)(struct sink *s, const struct window_totals *t);
	/* The size of the files so far. NULL: there are none. */
	uint64_t (*bytes)(const struct sink *s);
	/* Bytes waiting to be written. NULL: none. */
	uint64_t (*pending)(const struct sink *s);
	/* Adds the numbers of records dropped so far because a file was too slow. NULL: none. */
	void (*dropped)(const struct sink *s, uint64_t counts[REC_KIND_MAX]);
	/* Whether the sink will show the record. NULL: it shows all. */
	bool (*wants)(struct sink *s, const struct rec_hdr *h);
};

struct sink {
	const struct sink_ops *ops;
	/* The sink behind it, which does what ops leaves NULL; flush and bytes are otherwise left to w. NULL: there is none. */
	struct sink *inner;
	struct writer *w;
};

/* Whether a sink has the operation; if only one behind it has, s becomes that. */
#define sink_finds(s, op)                           \
	({                                          \
		while (!(s)->ops->op && (s)->inner) \
			(s) = (s)->inner;           \
		(s)->ops->op;                       \
	})

static inline void sink_record(struct sink *s, const struct rec_hdr *h, size_t size)
{
	s->ops->record(s, h, size);
}

static inline void sink_loss(struct sink *s, const struct loss *l)
{
	s->ops->loss(s, l);
}

static inline void sink_mark(struct sink *s, const struct mark *m)
{
	if (sink_finds(s, mark))
		s->ops->mark(s, m);
}

static inline void sink_settled(struct sink *s)
{
	if (sink_finds(s, settled))
		s->ops->settled(s);
}

static inline int sink_flush(struct sink *s)
{
	if (sink_finds(s, flush))
		return s->ops->flush(s);
	return s->w ? writer_flush(s->w) : 0;
}

static inline uint64_t sink_bytes(const struct sink *s)
{
	if (sink_finds(s, bytes))
		return s->ops->bytes(s);
	return s->w ? writer_bytes(s->w) : 0;
}

static inline uint64_t sink_pending(const struct sink *s)
{
	return sink_finds(s, pending) ? s->ops->pending(s) : 0;
}

static inline void sink_dropped(const struct sink *s, uint64_t counts[REC_KIND_MAX])
{
	if (sink_finds(s, dropped))
		s->ops->dropped(s, counts);
}

static inline bool sink_wants(struct sink *s, const struct rec_hdr *h)
{
	return !s->ops->wants || s->ops->wants(s, h);
}

/* s NULL: does nothing. */
static inline int sink_close(struct sink *s, const struct window_totals *t)
{
	return s ? s->ops->close(s, t) : 0;
}

/* Whether the call may have launched something on a GPU, to which a flow leads from its slice. */
static inline bool record_launches(const struct recording *rec, const struct rec_hdr *h)
{
	const struct probe_spec *s = rec->gpu && h->kind == REC_FUNCTION ? probe_table_get(rec->probes, h) : NULL;

	return s && (s->role == ROLE_LAUNCH || s->role == ROLE_TRANSFER || s->role == ROLE_GRAPH);
}

/* When the thread became runnable again; only valid with a wake_ns. */
static inline uint64_t off_cpu_runnable_ns(const struct rec_off_cpu *r)
{
	return r->wake_ns > r->h.start_ns ? r->wake_ns : r->h.start_ns;
}

/* Whether the wake-up is drawn as a flow, from a waker that is a thread of this output: from the wake-up, which is within the
 * waker's slice, to the thread's last nanosecond off the CPU. */
static inline bool off_cpu_has_flow(
	const struct rec_off_cpu *r, const struct recording *rec, uint32_t waker_tgid)
{
	return waker_tgid && r->waker_slice && r->wake_ns >= rec->start_boot_ns && r->h.dur_ns &&
	       !(r->h.flags & REC_F_OPEN_END) && (!rec->tgid || rec->tgid == waker_tgid);
}

/* Each takes over the writer. */
struct sink *chrome_sink_new(struct writer *w, const struct recording *rec);
struct sink *perfetto_sink_new(struct writer *w, const struct recording *rec);
/* An execution trace: operators with what each depends on. */
struct sink *chakra_sink_new(struct writer *w, const struct recording *rec);
struct sink *profile_sink_new(struct writer *w, const struct recording *rec);

#endif
