/* SPDX-License-Identifier: BSD-2-Clause */
/* Why a request was late: its times against those of requests whose prompts are about as long. */
#ifndef INFTRACE_REPORT_SEQ_LATE_H
#define INFTRACE_REPORT_SEQ_LATE_H

#include "report/model.h"

enum seq_kind {
	SEQ_LATE_FIRST, /* the first token */
	SEQ_LATE_TOKENS, /* those behind it */
	SEQ_LATE_NONE,	/* it has got no token */
	SEQ_KINDS,
};

/* Requests that are compared with one another. */
struct seq_typical {
	uint32_t class;	   /* of the length of their prompts */
	uint32_t compared; /* 0: too few */
	double first;	   /* medians, to the first token: */
	double first_parts[SEQ_PARTS];
	double token;	   /* and of each token behind it */
	double token_parts[SEQ_PARTS];
	double states[SEQ_PARTS][STATES]; /* of the whole request; of SEQ_OWN_DECODE and SEQ_BETWEEN by token */
};

struct seq_typicals {
	struct seq_typical *rows; /* by class */
	size_t len, size;
};

/* Of all requests in batches. Returns 0 or -ENOMEM; seq_typicals_free is right after both. */
int seq_typicals_find(const struct process *p, struct seq_typicals *ret);
void seq_typicals_free(struct seq_typicals *t);

/* A part of the time in question. */
struct seq_late_part {
	enum seq_part part;
	int64_t ns, typical;
	uint8_t state; /* that explains most of what it is more than typical; STATE_NONE: none does, or not known */
	int64_t state_ns; /* how much more */
};

struct seq_late {
	enum seq_kind kind;
	int64_t value, typical; /* of SEQ_LATE_TOKENS: each */
	int64_t excess;		/* in all; without anything to compare with the time that it waited */
	uint32_t compared;	/* requests */
	struct seq_late_part parts[SEQ_PARTS]; /* those that explain a tenth or more, the largest first */
	uint32_t n_parts;
};

/* Whether the request was late in that way. */
bool seq_late_find(const struct process *p, const struct seq_typicals *t, const struct seq_request *r,
	enum seq_kind kind, struct seq_late *ret);

/* The time that it waited for the rows of another request, of what the verdict is about; -1: not known. */
int64_t seq_late_wait(const struct seq_request *r, const struct seq_wait *wait, enum seq_kind kind);

/* "ttft", "tpot", "no_token". */
const char *seq_kind_name(enum seq_kind kind);

#endif
