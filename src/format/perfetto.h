/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by the parts of the Perfetto sink.
 *
 * The file is a sequence of TracePackets, each of which is one event for the writer.
 */
#ifndef INFTRACE_PERFETTO_H
#define INFTRACE_PERFETTO_H

#include <stdbool.h>

#include "format/drawn.h"
#include "format/request_track.h"
#include "gpu/info.h"
#include "schema/perfetto_fields.h"
#include "schema/proto.h"
#include "sink/process_list.h"
#include "sink/sink.h"
#include "target/irq.h"
#include "util/names.h"

/* TrackEvent.type */
enum {
	EVENT_BEGIN = 1,
	EVENT_END,
	EVENT_INSTANT,
	EVENT_COUNTER,
};

/* Fields of TrackEvent. */
#define EVENT_FLOW 47
#define EVENT_FLOW_END 48

/* Fields of InternedData. */
enum intern_kind {
	INTERN_CATEGORY = 1,
	INTERN_NAME = 2,
	INTERN_ANNOTATION = 3,
	INTERN_WORD = 29, /* of an annotation's text */
	INTERN_KINDS,
};

/* What a track is about. */
enum track_kind {
	TRACK_PROCESS,
	TRACK_CALLS,    /* functions, steps, faults and interrupts of a thread */
	TRACK_OFF_CPU,  /* why a thread was not running */
	TRACK_IPC,      /* system calls of a thread that pass data */
	TRACK_SYSCALLS, /* all system calls */
	TRACK_STACKS,   /* which code a thread was in when it waited */
	TRACK_STEPS,    /* lanes of a process */
	TRACK_REQUESTS,
	TRACK_PATHS, /* one for each context */
};

#define LANES_KINDS (TRACK_PATHS - TRACK_STEPS + 1)

#define PERFETTO_LANES 64
#define PERFETTO_CPUS 1024

/* A track, as far as the order of its slices matters. Its row number, from 1, identifies it in the file; it is small, since
 * each event has one. */
struct perfetto_row {
	uint64_t due_ns;   /* what begins up to then need not wait */
	uint64_t waits_ns; /* start of the slice that waits for another, or 0 */
	uint32_t open;     /* slices that began before the recording */
};

#define THREAD_ROWS (TRACK_STACKS - TRACK_CALLS + 1)

struct perfetto_calls;

struct perfetto_thread {
	uint32_t tid; /* 0: the slot is empty */
	uint32_t tgid;
	uint64_t changes;             /* state of the tasks when it was last checked */
	uint32_t rows[THREAD_ROWS];   /* from TRACK_CALLS on; 0: not described */
	struct perfetto_calls *calls; /* NULL: none so far */
	char comm[TASK_COMM_LEN];     /* as written */
	char text[3 * TASK_COMM_LEN]; /* the same as UTF-8 */
	unsigned char text_len;
};

struct perfetto_process {
	uint32_t tgid; /* must be the first member */
	char comm[TASK_COMM_LEN];
	/* row in this file; 0: not described */
	uint32_t row;
	uint32_t counter_rows[MEMORY_COUNTERS];
	uint32_t lane_rows[LANES_KINDS][PERFETTO_LANES]; /* by kind, from TRACK_STEPS on */
	unsigned int lanes[LANES_KINDS];
	uint64_t lane_end[LANES_KINDS - 1][PERFETTO_LANES];
	uint64_t contexts[PERFETTO_LANES];
};

struct interns;
struct perfetto_stacks;
struct perfetto_gpus;
struct holder;
struct perfetto_cpu;

struct perfetto_sink {
	struct sink sink;
	struct recording rec;
	struct perfetto_thread *threads; /* open addressing */
	size_t n_threads, threads_size;
	struct perfetto_row *rows; /* the first is unused */
	size_t n_rows, rows_size;
	uint32_t own_row;
	uint32_t n_calls;
	uint16_t call_iids[SYSCALL_MAX], n_call_iids; /* ids of names, by system call: small ones for those in use */
	struct holder *held;
	struct process_list processes; /* struct perfetto_process */
	struct interns *interns;
	struct irq_names *irqs;
	struct perfetto_cpu *cpus[PERFETTO_CPUS];
	uint64_t clock_ns;               /* of the last snapshot */
	uint64_t deltas_ns;              /* the position of the clock of deltas */
	uint64_t flow;                   /* id of the last flow */
	struct request_tracks *requests; /* NULL: they are not wanted */
	uint32_t requests_row;           /* of their process in this file; 0: not described */
	uint32_t metrics_row, metric_rows[METRICS_MAX]; /* likewise, and of each series */
	struct perfetto_stacks *stacks;  /* NULL: none so far */
	struct perfetto_gpus *gpus;      /* NULL: none so far */
	/* of GPUs in this file; 0: not described */
	uint32_t gpu_rows[GPU_DEVICES_MAX], gpu_step_rows[GPU_TRACKS_MAX];
	struct gpu_counter_row {
		uint32_t tgid, row;
	} gpu_counter_rows[GPU_DEVICES_MAX][GPU_COUNTERS][GPU_PROCESSES_MAX];
};

/* ---- packets ---- */

static inline char *packet_begin(struct perfetto_sink *s, char **ret_mark)
{
	return proto_open(writer_reserve(s->sink.w), 1 /* Trace.packet */, ret_mark);
}

/* Begins a packet of a sequence: it refers to names written before, unless flags say that the sequence begins. */
static inline char *packet_of(struct perfetto_sink *s, uint32_t sequence, uint64_t flags, char **ret_mark)
{
	char *p = proto_u64(packet_begin(s, ret_mark), PACKET_SEQUENCE, sequence);

	return proto_u64(p, PACKET_SEQUENCE_FLAGS, flags | SEQUENCE_F_NEEDS);
}

/* false: it is not in the file */
static inline bool packet_end(struct perfetto_sink *s, char *mark, char *p)
{
	return writer_commit(s->sink.w, proto_close(mark, p));
}

/* An entry of InternedData. */
static inline char *put_interned(char *p, uint32_t field, uint64_t iid, const char *text, size_t len)
{
	char *entry;

	p = proto_u64(proto_open(p, field, &entry), 1 /* iid */, iid);
	return proto_close(entry, proto_text(p, 2 /* name */, text, len));
}

static inline char *put_clock(char *p, uint32_t id, uint64_t ns)
{
	char *mark;

	p = proto_u64(proto_open(p, 1 /* clocks */, &mark), 1 /* clock_id */, id);
	p = proto_u64(p, 2 /* timestamp */, ns);
	if (id == CLOCK_DELTAS)
		p = proto_u64(p, 3 /* is_incremental */, 1);
	return proto_close(mark, p);
}

/* An annotation whose name is not interned; text NULL: a number. */
static inline char *put_annotation(char *p, const char *name, uint32_t type, uint64_t v, const char *text)
{
	char *mark;

	p = proto_open(p, 4 /* debug_annotations */, &mark);
	p = proto_text(p, 10 /* name */, name, strlen(name));
	return proto_close(mark, text ? proto_text(p, 6 /* string_value */, text, strlen(text)) : proto_u64(p, type, v));
}

/* ---- perfetto.c: rows, whose tracks are described first ---- */

/* Of a thread; 0 or NULL if its tid is 0. */
uint32_t perfetto_row(struct perfetto_sink *s, uint32_t tgid, uint32_t tid, enum track_kind kind);
uint32_t perfetto_thread_row(struct perfetto_sink *s, struct perfetto_thread *t, enum track_kind kind);
struct perfetto_thread *perfetto_thread(struct perfetto_sink *s, uint32_t tgid, uint32_t tid);

/* Describes a process that the system does not have, once; returns its row. */
uint32_t perfetto_pseudo_process(struct perfetto_sink *s, uint32_t *row, uint32_t pid, const char *name);

/* A track of slices or of a counter (unit: its unit), below another one. */
#define NO_RANK INT64_MIN
uint32_t perfetto_track(
	struct perfetto_sink *s, uint32_t *row, uint32_t parent, const char *name, int64_t rank, const char *unit);

/* ---- perfetto_event.c: TrackEvents ---- */

enum value_type { /* fields of DebugAnnotation */
	VALUE_BOOL = 2,
	VALUE_UINT = 3,
	VALUE_INT = 4,
	VALUE_DOUBLE = 5,
	VALUE_TEXT = 6,
	VALUE_POINTER = 7,
	VALUE_WORD = 17, /* interned text */
};

#define EVENT_ARGS_MAX 64
#define EVENT_TEXT_MAX 200 /* bytes of a string; longer ones are cut */
#define EVENT_TEXTS_MAX 14 /* strings of one event; further ones are left out */

/* A TrackEvent under construction, up to event_write*(): everything except type, track and time, in the memory of the events
 * that wait. Only one at a time. */
struct event {
	struct perfetto_sink *s;
	uint32_t row;
	unsigned int n, texts;
	char *begin, *end;
};

/* The caller frees it with free() after interns_reset(). */
struct interns *interns_new(void);
/* Forgets all names. */
void interns_reset(struct interns *in);
/* Begins the sequence, with all names that are known. dropped: packets before this one are
 * missing. */
void interns_begin(struct perfetto_sink *s, bool dropped);

/* For names from a limited set that stay at their addresses as long as the sink exists, such as those of
 * the program and of the probe table. */
void event_init(struct event *e, struct perfetto_sink *s, uint32_t row, const char *category, const char *name);
/* The same for a name that may not stay. */
void event_init_copy(struct event *e, struct perfetto_sink *s, uint32_t row, const char *category, const char *name);
/* For a name that is not interned. */
void event_init_text(struct event *e, struct perfetto_sink *s, uint32_t row, const char *category, const char *name);
/* With everything that d describes except its time. */
void event_init_drawn(struct event *e, struct perfetto_sink *s, uint32_t row, const struct drawn *d);
/* Makes another event with the contents of the last, on another track. */
void event_again(struct event *e, uint32_t row);
void event_add_flow(struct event *e, uint32_t field, uint64_t flow);
/* It launched GPU work; number: of that work's event. */
void event_add_submission(struct event *e, uint64_t number);
/* Names as with event_init(). */
void event_add(struct event *e, const char *name, enum value_type type, uint64_t v);
void event_add_text(struct event *e, const char *name, const char *text, size_t len);
/* For texts that recur: interned. */
void event_add_word(struct event *e, const char *name, const char *text);
/* For a name that may not stay. */
void event_add_copy(struct event *e, const char *name, enum value_type type, uint64_t v);
/* Marks a span that was cut. */
void event_add_open(struct event *e, uint8_t flags);
/* Writes it in its turn. For spans without a thread: */
void event_write_span(struct event *e, uint64_t start_ns, uint64_t end_ns);
void event_write_instant(struct event *e, uint64_t ns);
/* For a record on a thread's track. */
enum held_kind {
	HELD_PLAIN,
	HELD_PAIR, /* of two functions, begin and end */
	HELD_END,  /* of a function that ends such a pair */
};
void event_write_record(struct event *e, const struct rec_hdr *h, enum held_kind kind);
void event_write_counter(struct perfetto_sink *s, uint32_t row, uint64_t ns, uint64_t value);
/* likewise; bits: of a double */
void event_write_real(struct perfetto_sink *s, uint32_t row, uint64_t ns, uint64_t bits);

/* ---- events that wait for their turn ---- */

/* The caller frees it with free(). */
struct holder *held_new(void);
/* See sink_ops.settled: writes what has waited long enough. */
void held_settled(struct perfetto_sink *s);
/* Writes everything. */
void held_close(struct perfetto_sink *s);
size_t held_bytes(const struct perfetto_sink *s);

/* ---- perfetto_gpu.c ---- */

void perfetto_gpu(struct perfetto_sink *s, const struct rec_gpu *r);
void perfetto_gpu_step(struct perfetto_sink *s, const struct rec_gpu_step *r);
void perfetto_gpu_load(struct perfetto_sink *s, const struct rec_gpu_load *r);
/* Forgets what the file has described; lost: packets of it may be missing. NULL: does nothing. */
void perfetto_gpus_reset(struct perfetto_gpus *g, bool lost);

/* ---- perfetto_stacks.c ---- */

void perfetto_stack(struct perfetto_sink *s, const struct rec_stack *r);
/* Forgets what was described, since another file begins, or none. NULL: does nothing. */
void perfetto_stacks_reset(struct perfetto_stacks *ps);

/* ---- perfetto_calls.c ---- */

void perfetto_syscall(struct perfetto_sink *s, const struct rec_syscall *r);

/* ---- perfetto_sched.c: bundles of ftrace events, by CPU ---- */

void perfetto_on_cpu(struct perfetto_sink *s, const struct rec_on_cpu *r);
void perfetto_waking(struct perfetto_sink *s, const struct rec_off_cpu *r);
/* Records were lost: each CPU reports that in its next bundle. */
void perfetto_cpus_lost(struct perfetto_sink *s, uint64_t n);
/* Writes all bundles. */
void perfetto_cpus_flush(struct perfetto_sink *s);
/* The file ends: the last task on each CPU is no longer running. */
void perfetto_cpus_close(struct perfetto_sink *s);

/* Clamps a time to the start of the recording. */
static inline uint64_t perfetto_ts(const struct perfetto_sink *s, uint64_t ns)
{
	return ns > s->rec.start_boot_ns ? ns : s->rec.start_boot_ns;
}

#endif
