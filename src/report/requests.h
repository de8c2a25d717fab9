/* SPDX-License-Identifier: BSD-2-Clause */
/* The requests of a process, derived from its steps, for profiles and traces alike. */
#ifndef INFTRACE_REPORT_REQUESTS_H
#define INFTRACE_REPORT_REQUESTS_H

#include "report/model.h"
#include "report/stats.h"

/* The names of the phases in which a prompt is read and in which tokens are produced. */
struct phase_names {
	uint32_t prefill, decode;
};

struct request_summary {
	uint64_t count, prompt_tokens, output_tokens; /* of requests that are not mixed */
	uint64_t mixed;                               /* lower bound: with shared steps, or overlapping others in one context */
	bool by_lines;                                /* from lines of requests: then only `mixed` ones of shared steps are unknown */
	uint64_t shared_steps;                        /* steps with rows of several sequences */
	uint64_t max_sequences;                       /* in one step */
	uint64_t shared_tokens;                       /* tokens from these steps, at least */
	/* of `count`: */
	uint64_t began_before; /* began before the recording, so the time to first token is unknown */
	uint64_t lost;         /* steps were lost meanwhile */
	LIST(int64_t, ttft);   /* these two only of requests that are not mixed */
	LIST(int64_t, tpot);
	uint64_t tokens; /* from all decode and shared steps */
};

/* Uses the steps as left by model_finish(). */
void requests_find(const struct process *p, const struct model *m, const struct phase_names *names,
	struct request_summary *ret);

/* Counts a step with rows of several sequences. */
struct step_seen;
void requests_add_shared(struct request_summary *rs, const struct step_seen *s);

/* Converts a step for step_requests_add(). False: it belongs to no request. */
bool requests_seen(const struct step *s, bool prefill, bool decode, struct step_seen *ret);

/* ---- Why a request was late: compares its times with those of requests with prompts of similar length. ---- */

enum request_late_kind {
	REQUEST_LATE_FIRST,  /* the first token */
	REQUEST_LATE_TOKENS, /* the tokens after the first */
	REQUEST_LATE_NONE,   /* it never got a token */
	REQUEST_LATE_WRITTEN, /* its first token was written long after the step that gave it */
	REQUEST_LATE_ANSWER, /* its answer was written long after its last step */
	REQUEST_LATE_KINDS,
};

/* Requests that are compared with one another. */
struct request_typical {
	uint32_t class;    /* the length of their prompts, as a class */
	uint32_t compared; /* 0: too few */
	double written, answered; /* medians */
	double first;      /* medians up to the first token */
	double first_parts[TIME_PARTS];
	double token; /* and for each token after it */
	double token_parts[TIME_PARTS];
	double states[TIME_PARTS][STATES]; /* for the whole request; TIME_OWN_DECODE and TIME_BETWEEN per token */
};

struct request_typicals {
	struct request_typical *rows; /* sorted by class */
	size_t len, size;
};

/* A part of the time in question. */
struct request_late_part {
	enum request_time part;
	int64_t ns, typical;
	int64_t more;     /* ns beyond typical; without a typical one, the waiting part of ns */
	uint8_t state;    /* the state that explains most of the excess; STATE_NONE: none does, or unknown */
	int64_t state_ns; /* its excess */
};

struct request_late {
	enum request_late_kind kind;
	int64_t value, typical;                     /* for REQUEST_LATE_TOKENS: per token */
	int64_t excess;                             /* of the whole time; without a typical one, the time that it waited */
	int64_t held;                               /* REQUEST_LATE_ANSWER: of it, in calls that blocked while writing the answer */
	uint32_t compared;                          /* number of requests compared with */
	struct request_late_part parts[TIME_PARTS]; /* those that explain a tenth or more, the largest first */
	uint32_t n_parts;
};

/* Whether the request was late in that way. */
bool request_late_find(const struct process *p, const struct request_typicals *t, const struct request *r,
	enum request_late_kind kind, struct request_late *ret);

/* How long it waited for the rows of another request, within the time that the verdict is about; -1: unknown. */
int64_t request_late_wait(const struct request *r, const struct request_wait *wait, enum request_late_kind kind);

#define SLOT_HOLDERS_MAX 4

/* Who had the slots of the context while a request was queued. */
struct slot_holders {
	uint32_t n, overtook; /* requests that had one; those with a known queue that came later and were taken first */
	uint32_t n_longest;
	struct request_wait longest[SLOT_HOLDERS_MAX]; /* how long each had one meanwhile, the longest first */
};

void slot_holders_find(const struct process *p, const struct request *r, struct slot_holders *ret);

/* ---- The requests in batches of a process, in numbers. ---- */

/* Limits of TTFT and mean TPOT, in ns. 0: none. */
struct slo {
	int64_t ttft, tpot;
};

struct slo_result {
	struct slo slo;                          /* both 0: none given */
	uint64_t kept, missed_ttft, missed_tpot; /* a request may miss both */
	uint64_t judged;
	uint64_t unknown; /* with unknown times */
	int64_t time;     /* from the start of the first request to the end of the last, summed over recordings */
};

/* A request that was late, by its index among the process' requests. */
struct request_late_ref {
	int64_t excess;
	uint32_t request;
	enum request_late_kind kind;
};

/* A request for whose rows others waited. */
struct request_culprit {
	int64_t ns, worst;
	uint64_t victims;
	uint32_t number, recording, sequence;
	uint32_t worst_of; /* index of the request that waited longest for it */
};

/* Which request waited for which. */
struct request_pair {
	int64_t ns;
	uint32_t request; /* its index */
	uint32_t number, sequence;
};

#define REQUEST_PAIRS_MAX 64

/* Steps by the number of sequences with rows in them. */
struct occupancy_row {
	uint32_t from, to;
	uint64_t steps, rows, sequences;
	int64_t time;
};

#define OCCUPANCY_ROWS 8

struct batch_summary {
	uint64_t count, prompt_tokens, cached_tokens, output_tokens;
	uint64_t cancelled, began_before, unfinished, lost, unparted;
	struct percentiles tpot, total, queued; /* queued: only of requests that were */
	uint64_t unjoined;                      /* of unparted: only their queue is unknown */
	int64_t full;                           /* of the time in queues: all slots were taken */
	int64_t refused[REFUSALS];              /* likewise: the engine's scheduler let no other request in */
	uint64_t preempted, preemptions, recomputed_tokens; /* requests that were, how often in all, and tokens computed once more */
	int64_t preempted_time, recompute;
	int64_t parts[TIME_PARTS], parts_total, states[TIME_PARTS][STATES];
	struct request_typicals typicals;
	LIST(struct request_late_ref, late);          /* the largest excess first */
	LIST(struct request_culprit, culprits);       /* the longest first */
	struct request_pair pairs[REQUEST_PAIRS_MAX]; /* the longest first */
	size_t n_pairs;
	int64_t unnamed; /* of the time for others: for unknown requests */
	struct occupancy_row occupancy[OCCUPANCY_ROWS];
	uint64_t batches, max_sequences; /* steps whose sequences are known */
	struct slo_result slo;
};

void batch_summary_make(const struct process *p, struct batch_summary *ret);

/* Counts how many requests kept the SLO. */
void slo_judge(const struct process *p, const struct slo *slo, struct slo_result *ret);

/* Parses "ttft=500ms,tpot=50ms", or one of them. Returns 0, or -EINVAL with a line for the user in `why`. */
#define SLO_WHY_MAX 256
int slo_parse(const char *text, struct slo *ret, char why[SLO_WHY_MAX]);

#endif
