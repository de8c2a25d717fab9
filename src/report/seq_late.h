/* SPDX-License-Identifier: BSD-2-Clause */
/* Why a request was late: compares its times with those of requests with prompts of similar length. */
#ifndef INFTRACE_REPORT_SEQ_LATE_H
#define INFTRACE_REPORT_SEQ_LATE_H

#include "report/model.h"

enum seq_kind {
	SEQ_LATE_FIRST,  /* the first token */
	SEQ_LATE_TOKENS, /* the tokens after the first */
	SEQ_LATE_NONE,   /* it never got a token */
	SEQ_LATE_ANSWER, /* its answer was written long after its last step */
	SEQ_KINDS,
};

/* Requests that are compared with one another. */
struct seq_typical {
	uint32_t class;    /* the length of their prompts, as a class */
	uint32_t compared; /* 0: too few */
	double answered;   /* median */
	double first;      /* medians, up to the first token: */
	double first_parts[SEQ_PARTS];
	double token; /* and for each token after it */
	double token_parts[SEQ_PARTS];
	double states[SEQ_PARTS][STATES]; /* for the whole request; SEQ_OWN_DECODE and SEQ_BETWEEN per token */
};

struct seq_typicals {
	struct seq_typical *rows; /* sorted by class */
	size_t len, size;
};

/* For all requests in batches. Returns 0 or -ENOMEM; call seq_typicals_free in both cases. */
int seq_typicals_find(const struct process *p, struct seq_typicals *ret);
void seq_typicals_free(struct seq_typicals *t);

/* A part of the time in question. */
struct seq_late_part {
	enum seq_part part;
	int64_t ns, typical;
	int64_t more;     /* than typical; without anything to compare with: what of it was waiting */
	uint8_t state;    /* the state that explains most of the excess; STATE_NONE: none does, or unknown */
	int64_t state_ns; /* its excess */
};

struct seq_late {
	enum seq_kind kind;
	int64_t value, typical;                /* for SEQ_LATE_TOKENS: per token */
	int64_t excess;                        /* of the whole; without anything to compare with the time that it waited */
	int64_t held;                          /* SEQ_LATE_ANSWER: of the excess, in calls that wrote the answer and had to wait */
	uint32_t compared;                     /* number of requests compared with */
	struct seq_late_part parts[SEQ_PARTS]; /* those that explain a tenth or more, the largest first */
	uint32_t n_parts;
};

/* Whether the request was late in that way. */
bool seq_late_find(const struct process *p, const struct seq_typicals *t, const struct seq_request *r,
	enum seq_kind kind, struct seq_late *ret);

/* How long it waited for the rows of another request, within the time that the verdict is about; -1: unknown. */
int64_t seq_late_wait(const struct seq_request *r, const struct seq_wait *wait, enum seq_kind kind);

/* "ttft", "tpot", "no_token", "answer". */
const char *seq_kind_name(enum seq_kind kind);

#endif
