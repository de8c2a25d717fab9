/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How far the clocks of two recordings of one program are apart, from the calls that both have.
 *
 * Each pair of calls bounds it from both sides, since one lies within the other (spans.h). What all pairs allow is an
 * interval, whose half is the residual.
 */
#ifndef INFTRACE_LINK_MATCH_H
#define INFTRACE_LINK_MATCH_H

#include "link/spans.h"

#define MATCH_WINDOW_NS INT64_C(10000000000) /* how far the clocks may be apart */
#define MATCH_PARTS 8                        /* of the time, each of which is matched on its own */

/* What the calls of a part of the time say. */
struct match_part {
	int64_t at_ns;           /* their middle, by their clock */
	int64_t low_ns, high_ns; /* theirs - ours is at least, at most */
	uint64_t pairs;
	uint32_t low_name, high_name; /* of theirs: the calls that say so */
};

struct match {
	uint64_t pairs, calls;   /* calls: of theirs that ours may have, too */
	int64_t low_ns, high_ns; /* of all parts; low > high: they contradict by that much */
	struct match_part parts[MATCH_PARTS];
	size_t n_parts;
	size_t low_part, high_part; /* those that say so */
};

/* Sorts both. ret->pairs 0: the recordings have no calls in common, or too few to tell. Returns 0 or -ENOMEM. */
int match_find(struct spans *ours, struct spans *theirs, struct match *ret);

#endif
