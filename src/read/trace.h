/* SPDX-License-Identifier: BSD-2-Clause */
/* Chrome traces (docs/trace-format.md), event by event; also other JSON arrays of objects, bare or in an object. */
#ifndef INFTRACE_READ_TRACE_H
#define INFTRACE_READ_TRACE_H

#include "read/json_source.h"

/* The members of an event that mean something to viewers; each may be of any kind. */
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
	const struct json_node *value; /* the whole event; it may not be an object */
	union {                        /* NULL: not there */
		struct {
			TRACE_KEYS(TRACE_KEY_MEMBER)
		};
		const struct json_node *members[TRACE_KEYS(TRACE_KEY_ONE)];
	};
	bool surrogate_escapes;
};

/* Why reading stopped. */
enum trace_stop_kind {
	TRACE_UNREADABLE, /* the file cannot be read, or an event is not JSON or too big */
	TRACE_CUT,        /* the file ends within an event or the outer object */
	TRACE_UNEXPECTED, /* a character between events */
	TRACE_AFTER,      /* text after the end */
	TRACE_NO_EVENTS,  /* an object without traceEvents */
};

struct trace_stop {
	enum trace_stop_kind kind;
	uint64_t line, events; /* events: those begun so far */
	bool in_events;        /* stopped inside their array */
	const char *why;
};

struct trace_reader_ops {
	/* The event is valid during the call. Returns 0, or -errno to stop. */
	int (*event)(void *ctx, const struct trace_event *event);
	/* The trace is damaged: the rest is not read. */
	void (*stop)(void *ctx, const struct trace_stop *stop);
	const char *array; /* the member of the outer object that holds the events; NULL: traceEvents */
	/* Another member of the outer object to pass to member(), which is called like event(). NULL: none. */
	const char *member_name;
	int (*member)(void *ctx, const struct json_node *value);
};

struct trace_form {
	bool array; /* [...], not {"traceEvents": [...]} */
	bool open;  /* an array that ends without its bracket */
	uint64_t events;
};

/* Reads an open source to its end. Returns 0, or -errno; the reason has been passed to stop(),
 * unless event() returned the error. *form is filled in from the beginning. */
int trace_read(struct json_source *source, const struct trace_reader_ops *ops, void *ctx,
	struct trace_form *form);

#endif
