/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How many requests of a context are active, and how many of them are waiting, over time.
 *
 * The end of a request shows when its slot gets another one, or never: how many were active at an instant is known once
 * each request that had begun has had another step, or is over. Until then changes wait. A request without a step
 * for very many steps counts as over since its last one, so that a slot that stays empty holds nothing up.
 */
#ifndef INFTRACE_REQUEST_COUNTS_H
#define INFTRACE_REQUEST_COUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REQUEST_QUIET_STEPS 1000
#define REQUEST_STEPS_KEPT 1024

/* The state of one request; initially all zero. */
struct request_live {
	struct request_live *prev, *next; /* by the time of their last steps */
	uint64_t last_end, last_step;
	bool counted;
};

/* All zero: no requests. */
struct request_counts {
	struct request_live *first; /* of the active ones, the one quiet for longest */
	struct request_delta *list; /* sorted by time */
	size_t n, cap;
	uint64_t steps, last_end;
	struct {
		uint64_t start, end;
	} kept[REQUEST_STEPS_KEPT]; /* the last steps, by number modulo this */
	uint64_t told_ns;           /* changes up to this instant were reported */
	int64_t active, waiting;
};

struct request_change {
	uint64_t ns, active, waiting;
	bool active_changed, waiting_changed;
};

void request_counts_clear(struct request_counts *c);

/* The request has a part in a step; call it before request_counts_step() for that step. If other requests had steps since
 * its last one, it waited from the start of the first of them to the end of the last. */
void request_counts_part(struct request_counts *c, struct request_live *l, uint64_t start, uint64_t end);

/* Adds a step. Returns whether it began after the end of all earlier ones. */
bool request_counts_step(struct request_counts *c, uint64_t start, uint64_t end);

/* The request has been over since its last step. */
void request_counts_end(struct request_counts *c, struct request_live *l);

/* Takes the next certain change; false: there is none. */
bool request_counts_next(struct request_counts *c, struct request_change *ret_change);

#endif
