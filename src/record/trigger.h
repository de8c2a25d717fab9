/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The expressions of --trigger: which record is a reason to dump the flight recorder.
 *
 *   request_ttft>2s  a request had no first token for so long after it began, in a batch or alone: told as soon as
 *                    a step ends behind that. With the time on its socket, where it can be joined with one
 *   request_tpot>T   a token of a request came so long after the one before it
 *   queue>T          a request waited so long from its first byte on a socket to its first step, where that is known
 *   step>150ms       an engine step of any kind; decode>T, prefill>T: of this one
 *   STATE>50ms       the thread that called a step was so long in a state of the breakdown within
 * it: runnable, blocked_futex, ...; blocked: in all the blocked_ ones together ttft>2s from the
 * beginning of a request's first prefill step to the end of its last, or from the first byte of one
 * on a socket to the first part of its answer rate<10          tokens per second of a process'
 * decode steps, over its last second of decoding lost>0           so many more records were lost
 * since the last such hit exit, crash      a target has ended; by a signal
 *
 * For a second of decoding see rate.h.
 */
#ifndef INFTRACE_RECORD_TRIGGER_H
#define INFTRACE_RECORD_TRIGGER_H

#include <stdbool.h>
#include <stdint.h>

#include "record.h"
#include "record/trigger_hit.h"

struct probe_table;
struct trigger_set;

/* Adds an expression to *set, which is made when it is NULL. On failure one line has been printed;
 * -EINVAL, -ENOMEM. */
int trigger_parse(struct trigger_set **set, const char *text);
void trigger_free(struct trigger_set *set);

/*
 * Before the first record. After a hit others are only counted for the time of the cool-down, and
 * behind max_hits (0: no limit) for ever. `probes` must outlive the set. -ENOMEM.
 */
int trigger_start(struct trigger_set *set, const struct probe_table *probes, uint64_t cooldown_ns,
	uint32_t max_hits);

/*
 * A record of a step, a task or a request on a socket; others are no reason.
 * NULL: no hit, or one that is only counted. A hit is valid until the next call.
 */
const struct trigger_hit *trigger_record(struct trigger_set *set, const struct rec_hdr *h);

/* See struct sink_ops: steps are in order now as far as they can be. */
const struct trigger_hit *trigger_settled(struct trigger_set *set);

/* total_lost: records of all kinds since the start. */
const struct trigger_hit *trigger_loss(
	struct trigger_set *set, uint64_t total_lost, uint64_t now_ns);

void trigger_counts(const struct trigger_set *set, struct trigger_counts *ret_counts);

/* At the end: a line for each expression. */
void trigger_summary(const struct trigger_set *set);

#endif
