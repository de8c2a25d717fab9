/* SPDX-License-Identifier: BSD-2-Clause */
/* The requests of a process, from its steps: of a profile and of a trace the same. */
#ifndef INFTRACE_REPORT_REQUESTS_H
#define INFTRACE_REPORT_REQUESTS_H

#include "report/model.h"

struct phase_names;

struct request_summary {
	uint64_t count, prompt_tokens, output_tokens; /* that are none of these: */
	uint64_t mixed;	       /* at least: shared steps, or ran at the same time in one context */
	uint64_t shared_steps; /* steps with rows of several sequences */
	uint64_t unreadable;   /* of them: which sequences could not be read */
	uint64_t max_sequences; /* in one step */
	uint64_t shared_tokens; /* that these steps gave, at least */
	/* of count: */
	uint64_t began_before; /* whose beginning is not in the recording, nor is a time to first token */
	uint64_t lost;	       /* while steps were lost */
	uint64_t drafts;       /* with steps that verified drafts */

	struct times ttft; /* of those that are not mixed, as are the others */
	struct times tpot;
	uint64_t tokens; /* of all decode and shared steps */
};

/* Of steps as model_finish() leaves them. Returns 0 or -ENOMEM; requests_free() is right after both. */
int requests_find(const struct process *p, const struct model *m, const struct phase_names *names,
	struct request_summary *ret);
void requests_free(struct request_summary *rs);

/* One sentence about the requests that are left out of the times, and why; false: there are none. */
#define REQUESTS_TEXT_MAX 512
bool requests_left_out(const struct request_summary *rs, char text[REQUESTS_TEXT_MAX]);

/* Whether the engine's rows are described, could they be read or not. */
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

/* The same step for step_requests_add(). False: it is none of a request. */
bool requests_seen(const struct step *s, bool prefill, bool decode, struct step_seen *ret);

#endif
