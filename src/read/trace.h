/* SPDX-License-Identifier: BSD-2-Clause */
/* Chrome traces (docs/trace-format.md), event by event. */
#ifndef INFTRACE_READ_TRACE_H
#define INFTRACE_READ_TRACE_H

#include "read/json_source.h"
#include "util/json_node.h"

/* The members of an event that mean something to viewers; any of them may be of any kind. */
#define TRACE_KEYS(KEY) \
	KEY(name)       \
	KEY(cat)        \
	KEY(ph)         \
	KEY(ts)         \
	KEY(dur)        \
	KEY(pid)        \
	KEY(tid)        \
	KEY(args)       \
	KEY(id)         \
	KEY(bp)         \
	KEY(s)

#define TRACE_KEY_MEMBER(name) const struct json_node *name;
#define TRACE_KEY_ONE(name) +1
struct trace_event {
	uint64_t number, line;         /* both from 1 */
	const struct json_node *value; /* as a whole; it may be no object */
	union {                        /* NULL: not there */
		struct {
			TRACE_KEYS(TRACE_KEY_MEMBER)
		};
		const struct json_node *members[TRACE_KEYS(TRACE_KEY_ONE)];
	};
	bool surrogate_escapes;
};

/* What stopped the reading. */
enum trace_stop_kind {
	TRACE_UNREADABLE, /* the file, or an event is no JSON or too big */
	TRACE_CUT,        /* within an event, or in the object form anywhere but at its end */
	TRACE_UNEXPECTED, /* a character between events */
	TRACE_AFTER,      /* text behind the end */
	TRACE_NO_EVENTS,  /* an object without traceEvents */
};

struct trace_stop {
	enum trace_stop_kind kind;
	uint64_t line, events; /* events: begun so far */
	bool in_events;        /* not before them and not behind them */
	const char *why;
};

struct trace_reader_ops {
	/* The event is good for the time of the call. Returns 0, or -errno to stop. */
	int (*event)(void *ctx, const struct trace_event *event);
	/* The trace is damaged: what comes behind is not read. */
	void (*stop)(void *ctx, const struct trace_stop *stop);
};

struct trace_form {
	bool array; /* [...], not {"traceEvents": [...]} */
	bool open;  /* an array that ends without its bracket */
	uint64_t events;
};

/* Reads an open source up to its end. Returns 0, or -errno: what stopped it was told to stop,
 * unless event() returned it or it is -ENOMEM. *form is filled from the begin. */
int trace_read(struct json_source *source, const struct trace_reader_ops *ops, void *ctx,
	struct trace_form *form);

#endif
