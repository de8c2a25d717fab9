/* SPDX-License-Identifier: BSD-2-Clause */
/* What differs by chance. */
#ifndef INFTRACE_CHANCE_H
#define INFTRACE_CHANCE_H

#include <stdbool.h>

/* What is less likely than this is not taken for chance: one recording in 40. */
#define CHANCE_LEAST 0.025

/* How likely k or more of n are, if each is with the probability p. May be called by several threads. */
double chance_at_least(double k, double n, double p);

/*
 * Whether the function with the most samples is certain enough to be named: it is if they would be strange were it and the
 * next one equally hot. With no other function that takes six samples.
 */
bool chance_is_clear(double samples, double next);

#endif
