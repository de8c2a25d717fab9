/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the parts of the Chrome sink: the sink and the pieces of an event. */
#ifndef INFTRACE_CHROME_H
#define INFTRACE_CHROME_H

#include <stdbool.h>
#include <string.h>

#include "format/drawn.h"
#include "format/request_track.h"
#include "format/workers.h"
#include "gpu/info.h"
#include "sink/process_list.h"
#include "sink/sink.h"
#include "target/irq.h"
#include "util/alloc.h"
#include "util/fmt.h"

/* Pseudo processes: above every real pid (PID_MAX_LIMIT is 4194304). */
#define PID_CPUS 4194305
#define PID_INFTRACE 4194306
/* Pseudo threads of a process for spans that belong to no thread, one per overlapping span. */
#define TID_STEPS 4194307
#define TID_PATHS 4194330
#define TID_REQUESTS 4194400
/* One per lane that short-lived threads of a process share. */
#define TID_WORKERS 4194500
#define LANES_MAX 64

enum lanes {
	LANES_STEPS,
	LANES_REQUESTS,
	LANES_PATHS, /* one for each context */
	LANES_KINDS,
};

#define CPUS_MAX 1024

/* A process: whether its metadata is written, and where its lanes end. */
struct process {
	uint32_t tgid;            /* must be the first member */
	bool named;               /* in this file */
	char comm[TASK_COMM_LEN]; /* as written */
	unsigned int lanes[LANES_KINDS];
	uint64_t lanes_named[LANES_KINDS]; /* in this file: a bit per lane */
	uint64_t lane_end[LANES_PATHS][LANES_MAX];
	uint64_t contexts[LANES_MAX];
};

#define HEADS 256
#define HEAD_LEN 60

/* The text that begins all slices of a track, up to their time. */
struct head {
	uint32_t pid, tid;
	uint64_t changes; /* state of the tasks when its thread got its name in this file */
	uint32_t len;
	char text[HEAD_LEN];
};

#define QUOTED 256
#define QUOTED_LEN 55

/* A name of the probe table as JSON. */
struct quoted {
	const char *name; /* its address, which stays as long as the table */
	unsigned char len;
	char text[QUOTED_LEN];
};

struct chrome_sink {
	struct sink sink;
	struct recording rec;
	struct process_list processes; /* struct process */
	uint8_t cpu_named[CPUS_MAX];
	uint64_t flow_id;
	bool begun; /* the opening bracket of this file was written */
	bool loss_named;
	struct flows *flows;
	struct kineto_launches *launches; /* NULL: not in Kineto's form, or nothing was launched */
	struct workers workers;
	struct irq_names *irqs;
	struct head heads[HEADS];     /* by the low bits of the tid */
	struct quoted quoted[QUOTED]; /* by the address of the name */
	struct {
		uint64_t high; /* tenths of a second; 0: none yet */
		uint32_t len;
		char text[FMT_U64_MAX];
	} time;                          /* the last time that was written */
	struct request_tracks *requests; /* NULL: they are not wanted */
	bool requests_named;             /* in this file */
	bool metrics_named;              /* likewise */
	/* in this file: a bit for each */
	uint64_t gpus_named;
	uint64_t gpu_tracks_named[GPU_TRACKS_MAX / 64];
};

/* Where an event of a thread is shown: on the thread's own track or on one that it shares. */
struct place {
	uint32_t pid, tid; /* of the track */
	uint32_t thread;   /* the thread, if the track is not its own; else 0 */
};

/* Where to show an event of a thread. The name of the track is written before its first event, and again
 * when it has changed. */
struct place chrome_place(struct chrome_sink *c, const struct rec_hdr *h);

struct head *chrome_head_fill(struct head *head, uint32_t pid, uint32_t tid);
char *chrome_quote(struct quoted *q, char *p, const char *name);
void chrome_time_fill(struct chrome_sink *c, uint64_t high);

/* Name a pseudo process, or a track; index: its place among the others. */
void chrome_name_process(struct chrome_sink *c, uint32_t pid, const char *name, int64_t index);
void chrome_name_track(struct chrome_sink *c, uint32_t pid, uint32_t tid, const char *name, int64_t index);

/* A span with at least one argument, on a track that is no thread's. */
void chrome_span(struct chrome_sink *c, const struct rec_hdr *h, uint32_t pid, uint32_t tid, const struct drawn *d);
void chrome_counter(
	struct chrome_sink *c, uint32_t pid, uint32_t tid, uint64_t ns, const char *category, const struct drawn_counter *d);

/* chrome_gpu.c */
void chrome_gpu(struct chrome_sink *c, const struct rec_gpu *r);
void chrome_gpu_step(struct chrome_sink *c, const struct rec_gpu_step *r);
void chrome_gpu_load(struct chrome_sink *c, const struct rec_gpu_load *r);
/* Kineto's form: a call that may launch something, and an operator, each as it ends. */
void chrome_kineto_launch(struct chrome_sink *c, const struct rec_hdr *h);
void chrome_kineto_op(struct chrome_sink *c, const struct rec_hdr *h, uint64_t number);
/* Writes the kernels and copies that were held for their operator: those whose operator has ended, or for too long; or all. */
void chrome_kineto_held(struct chrome_sink *c, bool all);

/* Writes both ends of a flow whose slice was written. */
struct flow;
void chrome_flow(struct chrome_sink *c, const struct flow *a);

/* Writes what precedes the first event. */
char *chrome_begin(struct chrome_sink *c, char *p);

/* ---- pieces of an event ---- */

static inline char *event_begin(struct chrome_sink *c)
{
	char *p = writer_reserve(c->sink.w);

	if (!c->begun)
		return chrome_begin(c, p);
	return fmt_lit(p, ",\n");
}

static inline void event_end(struct chrome_sink *c, char *p)
{
	*p++ = '}';
	writer_commit(c->sink.w, p);
}

/* Ends the args of a thread's event, which name the thread if the track is not its own. */
static inline void args_end(struct chrome_sink *c, char *p, const struct place *at)
{
	if (at->thread)
		p = fmt_u32(fmt_lit(fmt_comma(p), "\"tid\":"), at->thread);
	if (p[-1] == '{') /* there are none */
		p -= sizeof(",\"args\":{") - 1;
	else
		*p++ = '}';
	event_end(c, p);
}

/* Times before the start (in flight when the window opened) become the start. The last eight digits of times change; those
 * before them are kept as text. */
static inline char *fmt_ts(struct chrome_sink *c, char *p, uint64_t boot_ns)
{
	uint64_t ns = boot_ns > c->rec.start_boot_ns ? boot_ns - c->rec.start_boot_ns : 0;
	uint64_t high = ns / 100000000;

	if (!high)
		return fmt_us(p, ns);
	if (high != c->time.high)
		chrome_time_fill(c, high);
	memcpy(p, c->time.text, sizeof(c->time.text));
	return fmt_us_8digits(p + c->time.len, fmt_digits8((uint32_t)(ns - high * 100000000)));
}

/* Writes a name of the probe table. */
static inline char *fmt_name(struct chrome_sink *c, char *p, const char *name)
{
	/* 2^64 / golden ratio: the upper bits are mixed best. Names whose distance is near a Fibonacci number would share a
	 * place, though, and literals and names on the heap can be so far apart: hence the shift. */
	struct quoted *q = &c->quoted[((uintptr_t)name ^ (uintptr_t)name >> 20) * 0x9e3779b97f4a7c15ull >> 56];

	_Static_assert(QUOTED == 256, "as many as the bits of the hash");
	if (q->name != name)
		return chrome_quote(q, p, name);
	memcpy(p, q->text, sizeof(q->text)); /* of constant size: no call */
	return p + q->len;
}

static inline char *fmt_string(char *p, const char *s)
{
	return fmt_json_str(p, s, strlen(s));
}

static inline char *fmt_track(char *p, uint32_t pid, uint32_t tid)
{
	p = fmt_u32(fmt_lit(p, ",\"pid\":"), pid);
	return fmt_u32(fmt_lit(p, ",\"tid\":"), tid);
}

static inline char *fmt_at(struct chrome_sink *c, char *p, uint32_t pid, uint32_t tid, uint64_t ns)
{
	return fmt_ts(c, fmt_lit(fmt_track(p, pid, tid), ",\"ts\":"), ns);
}

static inline char *fmt_number(char *p, uint64_t v)
{
	if (v <= INT64_MAX)
		return fmt_u64(p, v);
	/* too large for the integers of JSON readers */
	return fmt_lit(fmt_u64(fmt_lit(p, "\""), v), "\"");
}

static inline struct head *chrome_head(struct chrome_sink *c, uint32_t pid, uint32_t tid)
{
	struct head *head = &c->heads[tid % HEADS];

	return head->tid == tid && head->pid == pid ? head : chrome_head_fill(head, pid, tid);
}

/* Begins a span, up to the name, which the caller adds with cat and args. Never the first event of a file. */
static inline char *span_begin(
	struct chrome_sink *c, const struct rec_hdr *h, uint32_t pid, uint32_t tid)
{
	const struct head *head = chrome_head(c, pid, tid);
	uint64_t start = h->start_ns, end = h->start_ns + h->dur_ns;
	char *p = writer_reserve(c->sink.w);

	if (start < c->rec.start_boot_ns)
		start = c->rec.start_boot_ns;
	memcpy(p, head->text, sizeof(head->text)); /* of constant size: no call */
	p = fmt_ts(c, p + head->len, start);
	p = fmt_lit(p, ",\"dur\":");
	p = fmt_us(p, end > start ? end - start : 0);
	return fmt_lit(p, ",\"name\":");
}

/* Begins an instant of a thread, up to its name. */
static inline char *instant_begin(struct chrome_sink *c, const struct rec_hdr *h, const struct place *at)
{
	char *p = fmt_lit(event_begin(c), "{\"ph\":\"i\",\"s\":\"t\"");

	return fmt_lit(fmt_at(c, p, at->pid, at->tid, h->start_ns), ",\"name\":");
}

/* Marks a span that was cut. */
static inline char *fmt_open(char *p, uint8_t flags)
{
	if (flags & REC_F_OPEN_START)
		p = fmt_lit(fmt_comma(p), "\"began_before\":true");
	if (flags & REC_F_OPEN_END)
		p = fmt_lit(fmt_comma(p), "\"unfinished\":true");
	return p;
}

#endif
