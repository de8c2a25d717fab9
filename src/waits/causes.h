/* SPDX-License-Identifier: BSD-2-Clause */
/* Sums the segments of gaps by cause: thread, state, and call. */
#ifndef INFTRACE_WAITS_CAUSES_H
#define INFTRACE_WAITS_CAUSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record.h"

#define CAUSES_FINE 64

/* All zero: empty. Waits for a CPU are summed by the thread that ran meanwhile until causes_finish(). The list and the two
 * others sum to what was added. */
struct causes {
	struct gap_segment list[CAUSES_FINE];
	size_t n;
	uint64_t others_ns; /* of causes that came when the list was full */
	uint64_t unknown_ns;
	uint64_t estimated_ns; /* of all this: by causes_add_rest() */
	bool coarse; /* with one entry for all waits of a thread for a CPU, since the list would be full */
};

void causes_add(struct causes *c, const struct gap_segment *s);

/* Adds the causes of a gap. */
void causes_add_gap(struct causes *c, const struct rec_gap *gap);

/* Adds `ns` of the time of a gap that its segments do not cover, since they were too many: what its causes have beyond these, in
 * proportion, since when each of them was is not kept. */
void causes_add_rest(struct causes *c, const struct rec_gap *gap, uint64_t ns);

/* Sorts the list, the longest first, with one entry for all waits of a thread for a CPU, and cuts it to `most`: the rest goes to
 * the others. */
void causes_finish(struct causes *c, size_t most);

#endif
