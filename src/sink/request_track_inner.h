/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The parts of request_track.h: request_track.c follows the steps, request_rows.c has the rows and counters with their
 * names, request_slices.c tells what is known of a request that is over.
 */
#ifndef INFTRACE_REQUEST_TRACK_INNER_H
#define INFTRACE_REQUEST_TRACK_INNER_H

#include "engine/step_requests.h"
#include "sink/request_counts.h"
#include "sink/request_track.h"
#include "util/map.h"

/* Steps whose lanes are kept until their requests are written: as many as may wait for an earlier one. */
#define STEPS_KEPT 8192
#define NO_ROW UINT32_MAX

/* A step that carried a request. */
struct step_carrier {
	uint64_t start, end;
	uint32_t number;
	uint32_t lane, file; /* where its slice is; lane 0: nowhere */
	bool known;
};

/* A request that is not over. */
struct live_request {
	UT_hash_handle hh;
	uint32_t serial;
	struct step_carrier first, gave_first, last, before_last;
	struct request_live counted;
};

/* One that is over, as long as it is not clear which request on a socket it is. */
struct over_request {
	uint32_t serial, tgid;
	uint32_t row, file; /* of its slice; row NO_ROW: it has none */
	uint64_t start;     /* of its first step */
	bool empty;         /* the slice is */
};

struct request_slot {
	uint64_t context, sequence;
	uint64_t busy_until;
	uint32_t tgid, group;
};

/* A context of a process. */
struct request_group {
	uint32_t tgid;
	uint64_t context;
	unsigned int nth; /* index among the contexts of its process, from 1 */
	struct request_counts counts;
	uint32_t ids[REQUEST_COUNTERS];
};

struct request_tracks {
	const struct recording *rec;
	const struct request_tracks_ops *ops;
	void *arg;
	struct live_request *live; /* by serial number */
	uint32_t file;
	struct {
		uint32_t number, lane, file;
	} kept[STEPS_KEPT]; /* by number */
	struct request_slot slots[REQUEST_SLOTS];
	uint32_t n_slots;
	uint64_t lane_ends[2 * REQUEST_LANES];
	struct request_group groups[REQUEST_GROUPS];
	uint32_t n_groups;
	uint32_t row_ids[REQUEST_ROWS];
};

/* ---- request_rows.c ---- */

/* The context, among those with counters of their own; REQUEST_GROUPS: none is left. */
uint32_t request_group_of(struct request_tracks *t, uint32_t tgid, uint64_t context);

/* One of the rows from `first` on that is free by then; NO_ROW: none is. Requests come roughly in the order of
 * their ends. */
uint32_t request_lane_take(struct request_tracks *t, uint32_t first, uint64_t start, uint64_t end);

/* That of the slot, unless the slot has had a request that ended after this one began. */
uint32_t request_row_take(struct request_tracks *t, const struct step_request *r);

/* ---- request_slices.c ---- */

/* Returns the row of its slice; NO_ROW: it has none. */
uint32_t request_tell(struct request_tracks *t, const struct step_request *r, const struct live_request *l);

/* The time before its first step, which a request on a socket has been waiting for. */
void request_tell_queued(struct request_tracks *t, const struct over_request *o, const struct rec_request *socket);

#endif
