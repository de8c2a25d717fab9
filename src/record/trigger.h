/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The expressions of --trigger: which record is a reason to dump the flight recorder.
 *
 *   request_ttft>2s  a request had no first token for so long after its first step, in a batch or alone: told as
 *                    soon as a step ends after that
 *   request_tpot>T   a token of a request came so long after the one before it
 *   queue>T          a request waited so long from its first byte on a socket to its first step, where the two can be
 *                    joined: told after both are over
 *   step>150ms       an engine step of any kind; decode>T, prefill>T: only of this kind
 *   STATE>50ms       within a step, the thread that called it was longer than this in a state of the breakdown:
 *                    runnable, blocked_futex, ...; blocked: in all the blocked_ ones together
 *   gpu_idle>T       within a step, a GPU had nothing to do for longer than this at a stretch, since nothing had been launched; with
 *                    record --gpu, told some time after the step
 *   ttft>2s          from the beginning of a request's first prefill step to the end of its last, or from the first
 *                    byte of one on a socket to the first part of its answer
 *   rate<10          tokens per second of a process' decode steps, over its last second of decoding (rate.h)
 *   lost>0           more records than this were lost since the last such hit
 *   exit, crash      a target has ended; by a signal
 */
#ifndef INFTRACE_RECORD_TRIGGER_H
#define INFTRACE_RECORD_TRIGGER_H

#include <stdbool.h>
#include <stdint.h>

#include "record.h"
#include "record/trigger_hit.h"

struct probe_table;
struct trigger_set;

/* Adds an expression to *set, which is created if it is NULL. On failure one line has been printed;
 * -EINVAL, -ENOMEM. */
int trigger_parse(struct trigger_set **set, const char *text);
void trigger_free(struct trigger_set *set);

/* Whether an expression is about a GPU. */
bool trigger_needs_gpu(const struct trigger_set *set);

/*
 * Call before the first record. After a hit, others are only counted during the cool-down, and
 * after max_hits (0: no limit) for ever. `probes` must outlive the set. -ENOMEM.
 */
int trigger_start(struct trigger_set *set, const struct probe_table *probes, uint64_t cooldown_ns,
	uint32_t max_hits);

/*
 * Takes a record of a step, of what a GPU did in one, a task or a request on a socket; others are ignored. NULL: no hit, or
 * one that is only counted. A hit is valid until the next call.
 */
const struct trigger_hit *trigger_record(struct trigger_set *set, const struct rec_hdr *h);

/* See struct sink_ops: by now steps are in order as far as possible. */
const struct trigger_hit *trigger_settled(struct trigger_set *set);

/* `n` steps were lost: what a request waited for may have been in one of them. */
void trigger_lost_steps(struct trigger_set *set, uint64_t n);

/* total_lost: records of all kinds since the start. */
const struct trigger_hit *trigger_loss(
	struct trigger_set *set, uint64_t total_lost, uint64_t now_ns);

void trigger_counts(const struct trigger_set *set, struct trigger_counts *ret_counts);

/* At the end: prints a line for each expression. */
void trigger_summary(const struct trigger_set *set);

#endif
