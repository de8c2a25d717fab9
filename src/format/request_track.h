/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The pseudo process `requests` of a trace, for both formats. Requests found in steps with rows become slices
 * on a row for each slot (the sequence of a context in which they run), flows from the steps that carried
 * them, and counters; a format only has to write these.
 *
 * Slices of one row nest or follow each other. A request is written when it is over, which may be long after
 * its last step, so all times are in the past.
 */
#ifndef INFTRACE_REQUEST_TRACK_H
#define INFTRACE_REQUEST_TRACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/drawn.h"
#include "sink/sink.h"

/* The pseudo process, above every real pid and the other pseudo processes and threads; rows are threads of it. */
#define REQUESTS_PID 4194600
#define REQUESTS_NAME "requests"

/* Rows: for slots, for requests whose slot has no row or is not free, and for those that wait for a slot. */
#define REQUEST_SLOTS 256
#define REQUEST_LANES 64
#define REQUEST_ROWS (REQUEST_SLOTS + 2 * REQUEST_LANES)
/* Contexts with counters of their own; further ones have none. */
#define REQUEST_GROUPS 64

enum request_counter {
	REQUEST_BATCH_SIZE,
	REQUEST_TOKENS,
	REQUEST_ACTIVE,
	REQUEST_WAITING,
	REQUEST_COUNTERS,
};

#define REQUEST_NAME_MAX 96 /* of a row or a counter, with its NUL */

struct request_slice {
	uint32_t row;
	uint64_t start, end; /* CLOCK_BOOTTIME */
	struct drawn d;
};

struct request_flow {
	const char *name;
	uint32_t tgid; /* of the step */
	uint32_t lane; /* of its slice, as assigned by the format; 0: from another row */
	uint32_t from_row, row;
	uint64_t from_ns, ns; /* within the slices at either end, before they end */
};

struct request_tracks_ops {
	/* Slices that contain others come first. */
	void (*slice)(const struct request_slice *s, void *arg);
	/* Called after the slice in which it ends. */
	void (*flow)(const struct request_flow *a, void *arg);
	/* Values of one counter come in the order of time. */
	void (*counter)(uint32_t group, enum request_counter counter, uint64_t ns, uint64_t value, void *arg);
};

struct request_tracks;

/* The tracks of a format, fed by rec->requests; NULL if that is. `rec` and `ops` must outlive them. */
struct request_tracks *request_tracks_new(const struct recording *rec, const struct request_tracks_ops *ops, void *arg);

/* ---- these have nothing to do where `t` is NULL ---- */

void request_tracks_free(struct request_tracks *t);

/* A step, whose slice the format has written on one of the lanes for steps (0: on none). */
void request_tracks_step(struct request_tracks *t, const struct rec_step *r, uint32_t lane);

/* The file ends and another one begins, in which nothing is described and no step is written. */
void request_tracks_rotate(struct request_tracks *t);

/* Writes everything that is left, when all requests are over. */
void request_tracks_finish(struct request_tracks *t);

/* ---- queries of the formats, from their callbacks ---- */

/* The format's own number for a row or counter; 0: not described in this file. */
uint32_t *request_tracks_row_id(struct request_tracks *t, uint32_t row);
uint32_t *request_tracks_counter_id(struct request_tracks *t, uint32_t group, enum request_counter counter);

/* The name for readers: "slot 3"; `rank` sorts it among the others. */
void request_tracks_row_name(struct request_tracks *t, uint32_t row, char name[REQUEST_NAME_MAX], int64_t *ret_rank);
void request_tracks_counter_name(struct request_tracks *t, uint32_t group, enum request_counter counter,
	char name[REQUEST_NAME_MAX], const char **ret_unit);

#endif
