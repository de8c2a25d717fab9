/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tokens per second of each process, over its last second of decoding: the times from the end of
 * one step to the end of the decode step behind it, as many as make a second. Where no step was
 * under way for a second, nobody has asked for tokens, and it begins anew.
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

/* A step, in the order in which they began. Returns whether there is a second of decoding. */
bool rates_step(struct rates *rs, const struct step_seen *s, struct rate *ret_rate);

/* The second of this process begins anew. */
void rates_forget(struct rates *rs, uint32_t tgid);

/* `limit`: tokens in 10^9 seconds. */
bool rate_below(const struct rate *r, uint64_t limit);

#endif
