/* SPDX-License-Identifier: BSD-2-Clause */
/* What the check of a Chrome trace keeps of each event, and the checks that need all events. */
#ifndef INFTRACE_VALIDATE_TRACE_H
#define INFTRACE_VALIDATE_TRACE_H

#include "validate/check.h"

struct trace_span {
	int64_t start, end; /* ns */
	uint32_t event;     /* its number in the file, from 1 */
	uint32_t line : 31;
	uint32_t
		instant : 1; /* an instant of a thread, which only chrome://tracing treats as a slice */
};

/* A slice on chrome://tracing's outermost level, in its own milliseconds. */
struct trace_top {
	double start, end;
};

struct trace_track {
	char *label; /* "pid PID tid TID", printable for numeric pids and tids */
	struct trace_span *spans;
	size_t len, size;
	struct trace_top *tops; /* if there are flows */
	size_t tops_len;
	bool flows;
	bool shown; /* has more than instants */
};

struct trace_flow {
	uint64_t key; /* hash of cat, name and id, by which viewers match arrows */
	int64_t ts;
	uint32_t event, line;
	uint32_t track : 29;
	uint32_t phase : 3;
};

enum trace_flow_phase {
	FLOW_START,
	FLOW_STEP,
	FLOW_END,      /* with bp "e": ends at the slice around it */
	FLOW_END_NEXT, /* without: ends at the next slice */
};

struct trace_tracks {
	struct lh_table *by_label;
	struct trace_track **all;
	size_t len, size;
	size_t last; /* events of one track come in runs */
	struct trace_flow *flows;
	size_t flows_len, flows_size;
};

/* Findings that are only worth a note where another program wrote the file or a recording was
 * cut. */
struct trace_findings {
	bool strict;         /* faults of spans are problems, not notes */
	int64_t rounding;    /* ns: overlaps up to this are notes in any case */
	bool strict_flows;   /* the same for flows */
	uint64_t overlaps;   /* reported as notes */
	int64_t overlap_max; /* ns */
	uint64_t flow_repeats, flow_no_start, flow_no_end, flow_no_slice;
	bool array; /* the form in which chrome://tracing keeps whole microseconds only */
	uint64_t flow_rounded; /* arrows for which it finds no slice, though there is one */
};

#endif
