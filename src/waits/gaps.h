/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The gaps between the steps of each context, and who caused them: waits/way_back.h. In user space, from the steps' records
 * and the logs of the CPUs.
 */
#ifndef INFTRACE_WAITS_GAPS_H
#define INFTRACE_WAITS_GAPS_H

#include <stddef.h>
#include <stdint.h>

#include "engine/spec.h"
#include "waits/way_back.h"

struct gaps;

/* log: the logs belong to the caller. probes must outlive the gaps. */
struct gaps *gaps_new(const struct wait_log *log, const struct probe_table *probes);
void gaps_free(struct gaps *g);

/* A window opens: nothing came before. */
void gaps_open(struct gaps *g, uint64_t open_ns);

/* Replaces the list of a step's workers by who ran while these, and the step's own thread, waited for a CPU. g NULL: nobody is
 * known. */
void gaps_behind(struct gaps *g, struct rec_step *r);

void gaps_step(struct gaps *g, const struct rec_step *r);

/* A server passes a request on to its engine, by h: passes on what that waited for. id: of the request. */
void gaps_sent(struct gaps *g, const struct rec_hdr *h, uint64_t id, void (*cb)(const struct rec_hdr *h, size_t size, void *arg), void *arg);

/* The first part of an answer was written, as h, a REC_ANSWERED, says: likewise. */
void gaps_answered(struct gaps *g, const struct rec_hdr *h, void (*cb)(const struct rec_hdr *h, size_t size, void *arg), void *arg);

/* Passes on what the step waited for: all that this takes has been logged by its end. Without this call it comes with the gaps. */
void gaps_waits(struct gaps *g, const struct rec_step *r, void (*cb)(const struct rec_hdr *h, size_t size, void *arg), void *arg);

/* Passes on the gaps before the steps that were given before the previous call, in the order in which these began. Call it when
 * every step that was sent before the previous call has been given. all: there will be no more steps. */
void gaps_settled(struct gaps *g, bool all, void (*cb)(const struct rec_hdr *h, size_t size, void *arg), void *arg);

#endif
