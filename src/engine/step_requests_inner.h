/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of step_requests.h share. */
#ifndef INFTRACE_ENGINE_STEP_REQUESTS_INNER_H
#define INFTRACE_ENGINE_STEP_REQUESTS_INNER_H

#include "engine/step_slots.h"

#define STEP_QUEUE_MAX 8192 /* steps that wait for those that began before them */

struct step_requests {
	const struct probe_table *probes;
	const struct step_requests_ops *ops;
	void *arg;
	struct step_seen queue[STEP_QUEUE_MAX]; /* by number */
	size_t n_queue;
	uint64_t round;
	uint32_t serial;
	uint32_t last_number; /* of the step that was taken last, with numbered */
	bool numbered;
	bool loss_due;	     /* steps were lost, and where is not known yet */
	uint64_t loss_until; /* a step that comes in this round or later shows nothing of it */
	bool parts_seen; /* of some step its rows were known by sequence */
	struct step_slots slots;
};

/* ---- step_request.c: one request ---- */

/* `began_before`: what came before this step was not seen. One that has begun goes on. */
void request_begin(struct step_requests *q, struct step_request *r, const struct step_seen *s, bool began_before);

/* Its slot is as that of a sequence without one then. */
void request_end(struct step_requests *q, struct step_request *r);

void request_set_mixed(struct step_requests *q, struct step_request *r);

/* `n` outputs at the end of the step; the one before them was there at `from`. */
void request_add_tokens(
	struct step_requests *q, struct step_request *r, const struct step_seen *s, uint64_t from, uint64_t n);

/* Several outputs of one sequence are drafts, of which the first that fit are taken: the next step goes on
 * behind those, at `position`. */
void request_settle_draft(struct step_requests *q, struct step_request *r, int64_t position);
void request_keep_draft(struct step_request *r, const struct step_seen *s, int64_t position, uint64_t n_outputs,
	uint64_t from);

void request_touch(struct step_request *r, const struct step_seen *s);

/* It waited for another one, of SPAN_OTHERS. serial 0: it is not known for which. */
void request_add_wait(struct step_request *r, const struct step_wait *w);

/* Its first output, as far as is known, is that of the step whose time was added last. */
void request_keep_first(struct step_request *r);

/* ---- step_parts.c: steps whose rows are known by sequence ---- */

void step_parts_take(struct step_requests *q, struct step_context *c, const struct step_seen *s);

#endif
