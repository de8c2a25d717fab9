/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files that implement step_requests.h. */
#ifndef INFTRACE_ENGINE_STEP_REQUESTS_INNER_H
#define INFTRACE_ENGINE_STEP_REQUESTS_INNER_H

#include "engine/step_slots.h"

#define STEP_QUEUE_MAX 8192 /* steps waiting for those that began before them */

#define STEP_CHANGES_MAX 2048
#define POSITION_MAX (INT64_MAX / 2) /* no number of tokens */

struct step_requests {
	const struct probe_table *probes;
	const struct step_requests_ops *ops;
	void *arg;
	struct step_seen queue[STEP_QUEUE_MAX]; /* sorted by number */
	size_t n_queue;
	uint64_t round;
	uint32_t serial;
	uint32_t last_number; /* of the step that was taken last, with numbered */
	bool numbered;
	uint32_t last_lost;  /* the same step's count */
	uint64_t told, found; /* lost steps: those of which the counters tell, and those that later steps tell of */
	bool loss_due;	     /* steps were lost, and where is not known yet */
	uint64_t loss_until; /* a step that comes in this round or later shows nothing of it */
	bool parts_seen; /* the rows of some step were known by sequence */
	struct step_slots slots;
	struct sequence_memories *memories;
	struct draft_contexts drafts;
	struct sequence_change changes[STEP_CHANGES_MAX]; /* by time; full: the first ones are forgotten */
	size_t n_changes;
};

/* ---- step_request.c: one request ---- */

/* `began_before`: what came before this step was not seen. A request that has begun already continues. */
void request_begin(struct step_requests *q, struct step_request *r, const struct step_seen *s, bool began_before);

/* Afterwards its slot is like that of a sequence without a request. */
void request_end(struct step_requests *q, struct step_request *r);

void request_set_mixed(struct step_requests *q, struct step_request *r);

/* `n` outputs at the end of the step; the previous one was there at `from`. */
void request_add_tokens(
	struct step_requests *q, struct step_request *r, const struct step_seen *s, uint64_t from, uint64_t n);

/* Several outputs of one sequence are drafts, of which a first part is accepted: the next step continues
 * after those, at `position`. */
void request_settle_draft(struct step_requests *q, struct step_request *r, int64_t position);
void request_keep_draft(struct step_request *r, const struct step_seen *s, int64_t position, uint64_t n_outputs,
	uint64_t from);

void request_touch(struct step_request *r, const struct step_seen *s);

/* It waited for another one, as part of SPAN_OTHERS. serial 0: it is unknown for which. */
void request_add_wait(struct step_request *r, const struct step_wait *w);

/* Its first output, as far as is known, is that of the step whose time was added last. */
void request_keep_first(struct step_request *r);

/* ---- step_changes.c: what calls change between steps ---- */

/* Those up to the start of a step. */
void step_changes_until(struct step_requests *q, uint64_t ns);

/* After the last step. */
void step_changes_finish(struct step_requests *q);

/* ---- step_parts.c: steps whose rows are known by sequence ---- */

void step_parts_take(struct step_requests *q, struct step_context *c, const struct step_seen *s);

#endif
