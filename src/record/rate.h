/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tokens per second of each process, over its last second of decoding: the times from the end of
 * one step to the end of the following decode step, as many as make up a second. After a second
 * without any step, in which nobody can have asked for tokens, it starts afresh.
 */
#ifndef INFTRACE_RECORD_RATE_H
#define INFTRACE_RECORD_RATE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/step_requests.h"

struct rate {
	uint64_t tokens, ns;
};

struct rates;

/* -ENOMEM. */
int rates_new(struct rates **ret_rates);
void rates_free(struct rates *rs);

/* Takes a step, in the order in which they began. Returns whether there is a whole second of decoding. */
bool rates_step(struct rates *rs, const struct step_seen *s, struct rate *ret_rate);

/* Starts this process' second afresh. */
void rates_forget(struct rates *rs, uint32_t tgid);

/* `limit`: tokens in 10^9 seconds. */
bool rate_below(const struct rate *r, uint64_t limit);

#endif
