/* SPDX-License-Identifier: BSD-2-Clause */
/* From a record of a vendor's library to one of the ring: what all have in common. */
#ifndef INFTRACE_GPU_AGENT_READING_H
#define INFTRACE_GPU_AGENT_READING_H

#include "gpu/agent/clocks.h"
#include "gpu/agent/ring.h"

/* Where, and from when to when by the vendor's clock */
struct span {
	uint64_t start, end;
	uint32_t device, context, stream, correlation;
};

/* What all records of a buffer need. */
struct reading {
	const struct clocks *clocks;
	struct ring *ring;
	uint64_t now;
	bool stepped;
	bool forced; /* what has not completed is in it, too, without times */
};

/* stepped: the clocks have moved against each other since they were compared. */
static inline struct reading reading_begin(const struct clocks *clocks, bool stepped, struct ring *ring)
{
	/* what has completed has ended by now; a later end tells of a clock that was set back. 1 ms: drift is no step. */
	return (struct reading){ .clocks = clocks, .ring = ring, .now = clocks_boot_ns() + 1000000, .stepped = stepped };
}

/* Counts a record of what is over. Returns false where it has no times that could be shown. */
static inline bool reading_span(struct gpu_record *rec, const struct reading *r, const struct span *s)
{
	bool sure, sure_end;

	if (r->forced && (!s->start || !s->end))
		return false;
	r->ring->said.records++;
	if (!s->start || !s->end || s->end < s->start) {
		r->ring->said.dropped_clock++;
		return false;
	}
	rec->start = clocks_convert(r->clocks, s->start, &sure);
	rec->end = clocks_convert(r->clocks, s->end, &sure_end);
	if (r->stepped || !sure || !sure_end || rec->end < rec->start || rec->end > r->now) {
		rec->flags |= GPU_RECORD_F_CLOCK;
		rec->end = rec->start + (s->end - s->start);
	}
	rec->device = s->device;
	rec->context = s->context;
	rec->stream = s->stream;
	rec->correlation = s->correlation;
	return true;
}

#endif
