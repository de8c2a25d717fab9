/* SPDX-License-Identifier: BSD-2-Clause */
/* The gaps of the recent past, to tell afterwards who caused a request to wait. */
#ifndef INFTRACE_WAITS_GAP_LOG_H
#define INFTRACE_WAITS_GAP_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "waits/causes.h"

struct gap_log;

struct gap_log *gap_log_new(void);
void gap_log_free(struct gap_log *l);

/* Keeps a copy. The oldest gaps make room once all of them have GAP_LOG_BYTES. */
#define GAP_LOG_BYTES (32u << 20)
void gap_log_add(struct gap_log *l, const struct rec_gap *gap);

/*
 * Adds the causes of the time within from_ns..to_ns in which the context ran no step. Returns that time: it is what was added.
 * Time before its first gap that is still known, or after its last one, is not counted, except that it is unknown with
 * `queued`: up to its first gap.
 */
uint64_t gap_log_sum(const struct gap_log *l, uint32_t tgid, uint64_t context, uint64_t from_ns, uint64_t to_ns, bool queued, struct causes *c);

/*
 * Of a log of REC_SENT alone: adds the causes of the time from from_ns until what `id` stands for (struct rec_gap, `context`) was passed
 * on, which was at to_ns at the latest. Returns when that was; 0: not known.
 */
uint64_t gap_log_sent(const struct gap_log *l, uint64_t id, uint64_t from_ns, uint64_t to_ns, struct causes *c);

#endif
