/* SPDX-License-Identifier: BSD-2-Clause */
/* Keeps the cost of a recording within --budget, and notes for each step what was left out of it. */
#ifndef INFTRACE_RECORD_OVERHEAD_H
#define INFTRACE_RECORD_OVERHEAD_H

#include "record/shed.h"
#include "sink/left_out.h"
#include "sink/sink.h"

struct capture;

struct overhead {
	struct capture *c;
	struct shed shed;
	struct left_out left_out;
	struct rec_step_parts step; /* that overhead_step() has handed out */
	uint32_t self;
	uint64_t weighed; /* steps whose cost is known */
	bool told; /* it was reported that nothing is left to turn off */
};

/* NULL: no memory. */
struct overhead *overhead_new(struct capture *c, uint64_t budget);

/*
 * Takes a step. Returns it as sinks should show it, valid until the next call: if barriers were left out, the time at
 * them is unknown, and counts as time on the CPU.
 */
const struct rec_hdr *overhead_step(struct overhead *o, const struct rec_hdr *h, size_t size);

/* What nothing turns off although it may cost much, to be added to that; "": nothing. counts: there are counters. */
const char *overhead_stays(const struct probe_table *pt, bool counts);

/* Turns parts off and on as decided. s: the sink of the open window; NULL: none is open. o NULL: does nothing. */
void overhead_turn(struct overhead *o, struct sink *s, uint64_t now_ns);

/* Writes marks for all changes in from..to, and for what was off at its beginning. */
void overhead_marks(const struct left_out *l, struct sink *s, uint64_t from, uint64_t to);

/* Prints at the end for how long each part was off. */
void overhead_summary(const struct overhead *o, uint64_t from, uint64_t to);

#endif
