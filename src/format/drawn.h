/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a trace shows for a record, whatever its format: described here once, encoded by chrome.c and perfetto.c. They encode
 * frequent kinds (system calls, time off the CPU, functions, faults) and kinds of only one format directly.
 */
#ifndef INFTRACE_FORMAT_DRAWN_H
#define INFTRACE_FORMAT_DRAWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/derive.h"
#include "record.h"
#include "sink/sink.h"
#include "target/irq.h"

enum drawn_kind {
	DRAWN_NUMBER,
	DRAWN_POINTER,
	DRAWN_TIME, /* nanoseconds; the name lacks the unit */
	DRAWN_FLAG,
	DRAWN_TEXT, /* from the traced process */
	DRAWN_WORD, /* a text that recurs */
};

struct drawn_arg {
	const char *name; /* a literal */
	enum drawn_kind kind;
	uint64_t v; /* of a text: its length */
	const char *text;
};

enum drawn_as {
	DRAWN_SPAN,
	DRAWN_INSTANT,
	DRAWN_PROCESS_INSTANT, /* of the whole process */
	DRAWN_GLOBAL_INSTANT,
};

#define DRAWN_ARGS_MAX 50

struct drawn {
	const char *category; /* a literal */
	const char *name;
	enum {
		DRAWN_NAME_STAYS,   /* at its address, as long as the sink exists */
		DRAWN_NAME_RECURS,  /* from a limited set */
		DRAWN_NAME_OF_EACH, /* may differ each time */
	} names;
	enum drawn_as as;
	uint64_t ns;   /* of an instant */
	uint8_t flags; /* REC_F_* of a span that was cut */
	size_t n;
	struct drawn_arg args[DRAWN_ARGS_MAX];
	char texts[2][REQUEST_NAME_LEN], fd[GAP_FD_MAX];
};

_Static_assert(REQUEST_NAME_LEN >= MESSAGE_ADDRESS_MAX && REQUEST_NAME_LEN >= IRQ_NAME_LEN, "texts of all kinds fit");

/* Begins a description, and adds an argument to it. */
void drawn_begin(struct drawn *d, const char *category, const char *name, enum drawn_as as, uint64_t ns);
void drawn_add(struct drawn *d, const char *name, enum drawn_kind kind, uint64_t v);
/* text: of at most `max` bytes, from the traced process; valid as long as *d. */
void drawn_add_text(struct drawn *d, const char *name, const char *text, size_t max);

/* Describes a record of a thread. `irqs`: see irq_name(). False: its kind is not described here, or it is not shown. */
bool drawn_of(struct drawn *d, const struct rec_hdr *h, struct irq_names **irqs);

/* The counters of a process's memory. */
#define MEMORY_COUNTERS 3

struct drawn_counter {
	const char *name, *unit;
	uint64_t value;
	bool real; /* the value is the bits of a double */
};

void drawn_memory(struct drawn_counter d[MEMORY_COUNTERS], const struct rec_memory *r);

/* The pseudo process of the engine's own metrics. */
#define METRICS_PID 4194500
#define METRICS_NAME "metrics"
void drawn_metric(struct drawn_counter *d, const struct rec_metric *r);

void drawn_loss(struct drawn *d, const struct loss *l);
void drawn_mark(struct drawn *d, const struct mark *m);
/* A request on a socket, and what a GPU did in a step. */
void drawn_request(struct drawn *d, const struct rec_request *r);
void drawn_gpu_step(struct drawn *d, const struct rec_gpu_step *r, const struct gpu_step_device *device);

/* The timeline of a gap, the earliest part first: how many slices, and the nth, whose time is set in *ret_at. They touch each
 * other and cover the gap; the first stands for what the record has no room for, if there is such time. */
unsigned int drawn_gap_slices(const struct rec_gap *r);
void drawn_gap_slice(struct drawn *d, const struct recording *rec, const struct rec_gap *r, unsigned int nth, struct rec_hdr *ret_at);

/* Returns the index of a context among those of its process, which it joins if it is new; `max`: there are too many. */
unsigned int drawn_gap_track(uint64_t *contexts, unsigned int *n, unsigned int max, uint64_t context);
#define GAP_TRACK_NAME_MAX 32
/* "critical path", "critical path 2". Returns buf. */
const char *drawn_gap_track_name(unsigned int index, char buf[GAP_TRACK_NAME_MAX]);

#endif
