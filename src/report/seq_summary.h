/* SPDX-License-Identifier: BSD-2-Clause */
/* The requests in batches of a process, in numbers. */
#ifndef INFTRACE_REPORT_SEQ_SUMMARY_H
#define INFTRACE_REPORT_SEQ_SUMMARY_H

#include "report/seq_late.h"
#include "report/stats.h"

/* What a service has promised: to the first token, and on average for each later one. 0: nothing. */
struct slo {
	int64_t ttft, tpot;
};

struct slo_result {
	struct slo slo;                          /* both 0: none given */
	uint64_t kept, missed_ttft, missed_tpot; /* a request may miss both */
	uint64_t judged;
	uint64_t unknown; /* with unknown times */
	int64_t time;     /* from the start of the first request to the end of the last, of each recording */
};

/* A request that was late, by its index among the process' requests. */
struct seq_late_ref {
	int64_t excess;
	uint32_t request;
	enum seq_kind kind;
};

/* A request for whose rows others waited. */
struct seq_culprit {
	int64_t ns, worst;
	uint64_t victims;
	uint32_t number, recording, sequence;
	uint32_t worst_of; /* index of the request that waited longest for it */
};

/* Which request waited for which. */
struct seq_pair {
	int64_t ns;
	uint32_t request; /* its index */
	uint32_t number, sequence;
};

#define SEQ_PAIRS_MAX 64

/* Steps by the number of sequences with rows in them. */
struct occupancy_row {
	uint32_t from, to;
	uint64_t steps, rows, sequences;
	int64_t time;
};

#define OCCUPANCY_ROWS 8

struct seq_summary {
	uint64_t count, prompt_tokens, cached_tokens, output_tokens;
	uint64_t cancelled, began_before, unfinished, lost, unparted;
	struct percentiles tpot, total, queued; /* queued: of those that were queued */
	uint64_t unjoined; /* of unparted: their queue is not known, that of others is */
	int64_t parts[SEQ_PARTS], parts_total, states[SEQ_PARTS][STATES];
	struct seq_typicals typicals;
	struct seq_late_ref *late; /* the largest excess first */
	size_t n_late, late_size;
	struct seq_culprit *culprits; /* the longest first */
	size_t n_culprits, culprits_size;
	struct seq_pair pairs[SEQ_PAIRS_MAX]; /* the longest first */
	size_t n_pairs;
	int64_t unnamed; /* of the time for others: for whom is unknown */
	struct occupancy_row occupancy[OCCUPANCY_ROWS];
	uint64_t batches, max_sequences; /* steps whose sequences are known */
	struct slo_result slo;
};

/* Returns 0 or -ENOMEM; call seq_summary_free in both cases. */
int seq_summary_make(const struct process *p, struct seq_summary *ret);
void seq_summary_free(struct seq_summary *s);

/* Counts how many requests kept it. */
void slo_judge(const struct process *p, const struct slo *slo, struct slo_result *ret);

/* "ttft=500ms,tpot=50ms", or one of them. Returns 0, or -EINVAL with a line for the user. */
#define SLO_WHY_MAX 256
int slo_parse(const char *text, struct slo *ret, char why[SLO_WHY_MAX]);

#endif
