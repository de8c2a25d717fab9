/* SPDX-License-Identifier: BSD-2-Clause */
/* The requests of a process, derived from its steps, for profiles and traces alike. */
#ifndef INFTRACE_REPORT_REQUESTS_H
#define INFTRACE_REPORT_REQUESTS_H

#include "report/model.h"

struct phase_names;

struct request_summary {
	uint64_t count, prompt_tokens, output_tokens; /* of requests that are none of these: */
	uint64_t mixed;	       /* at least: with shared steps, or overlapping others in one context */
	bool by_lines;	       /* by the lines of requests: those of shared steps are known but for these */
	uint64_t shared_steps; /* steps with rows of several sequences */
	uint64_t unreadable;   /* of which the sequences could not be read */
	uint64_t max_sequences; /* in one step */
	uint64_t shared_tokens; /* tokens from these steps, at least */
	/* of `count`: */
	uint64_t began_before; /* began before the recording, so the time to first token is unknown */
	uint64_t lost;	       /* steps were lost meanwhile */
	uint64_t drafts;       /* with steps that verified drafts */

	struct times ttft; /* of requests that are not mixed, as are the others */
	struct times tpot;
	uint64_t tokens; /* from all decode and shared steps */
};

/* Uses the steps as left by model_finish(). Returns 0 or -ENOMEM; call requests_free() in both cases. */
int requests_find(const struct process *p, const struct model *m, const struct phase_names *names,
	struct request_summary *ret);
void requests_free(struct request_summary *rs);

/* One sentence about the requests that are left out of the times, and why; false: there are none. */
#define REQUESTS_TEXT_MAX 512
bool requests_left_out(const struct request_summary *rs, char text[REQUESTS_TEXT_MAX]);

/* Whether the preset describes the engine's rows, readable or not. */
static inline bool step_has_rows(const struct step *s)
{
	return s->rows[ROW_N_OUTPUTS] || s->rows[ROW_N_SEQUENCES] || s->rows[ROW_READ];
}

static inline bool steps_have_rows(const struct steps *s, size_t i)
{
	return steps_get(s, i, STEP_ROWS + ROW_N_OUTPUTS) || steps_get(s, i, STEP_ROWS + ROW_N_SEQUENCES) ||
	       steps_get(s, i, STEP_ROWS + ROW_READ);
}

/* A step with rows of several sequences. */
struct step_seen;
void requests_add_shared(struct request_summary *rs, const struct step_seen *s);

/* Converts a step for step_requests_add(). False: it belongs to no request. */
bool requests_seen(const struct step *s, bool prefill, bool decode, struct step_seen *ret);

#endif
