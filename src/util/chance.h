/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether a difference may be chance. */
#ifndef INFTRACE_CHANCE_H
#define INFTRACE_CHANCE_H

#include <stdbool.h>

/* Anything less likely than this, one recording in 40, is not taken for chance. */
#define CHANCE_LEAST 0.025

/* Returns the probability of k or more hits in n tries that each hit with probability p. Thread-safe. */
double chance_at_least(double k, double n, double p);

/*
 * Whether the function with the most samples is certain enough to be named: its lead would be unlikely if it and the next one
 * were equally hot. With no other function this takes six samples.
 */
bool chance_is_clear(double samples, double next);

#endif
