/* SPDX-License-Identifier: BSD-2-Clause */
/* What the report says about a request, in words. */
#ifndef INFTRACE_REPORT_SEQ_WORDS_H
#define INFTRACE_REPORT_SEQ_WORDS_H

#include "report/seq_summary.h"
#include "report/words.h"

/* One printable sentence: "request 17 (sequence 3, 512 prompt tokens), first token after 1.90 s instead of 240 ms:
 * 1.40 s queued; 310 ms for request 21 (2048 prompt tokens)". Returns buf. */
const char *seq_words_late(const struct process *p, const struct seq_request *r, const struct seq_late *late,
	char buf[SENTENCE_MAX]);

/* "request 21 (sequence 3, 2048 prompt tokens): 1.93 s, by 7 requests (310 ms by request 17)". Returns buf. */
const char *seq_words_culprit(const struct process *p, const struct seq_culprit *c, char buf[SENTENCE_MAX]);

/* "goodput 91.2 % (912 of 1000 requests, 3.21 per s) with ttft <= 500 ms, tpot <= 50 ms; ...". Returns buf. */
const char *seq_words_slo(const struct slo_result *r, char buf[SENTENCE_MAX]);

/* The name of a part of the time of requests: "queued", "own prefill", ... */
const char *seq_words_part(enum seq_part part);

#endif
