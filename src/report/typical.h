/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is typical of a step: the medians of the steps around it that have the same process, phase
 * and size, and how far steps deviate from them by chance.
 */
#ifndef INFTRACE_REPORT_TYPICAL_H
#define INFTRACE_REPORT_TYPICAL_H

#include "report/model.h"

/* Times are per unit of the step's size: see step_size. */
struct typical {
	double total, own[STATES], workers[STATES];
	double noise;          /* how far totals exceed the median by chance */
	double least;          /* an excess too small to matter, however steady they are */
	double own_noise[STATES]; /* the same for the calling thread's time in each state */
	double gap, gap_noise; /* not per unit */
	uint32_t compared;     /* the number of steps that it is taken from; 0: too few */
	uint32_t first;        /* where these begin in the process' `grouped` */
};

/*
 * The size that times are divided by before they are compared. Up to a few tokens a step costs what
 * reading the weights costs, so only steps with exactly the same number are compared; beyond that,
 * steps with similar numbers, per token.
 */
double step_size(const struct step *s);
double steps_size(const struct steps *s, size_t i);

/* The class of a number of tokens within which times are compared: the number itself, or half an octave. */
uint32_t tokens_class(uint32_t n_tokens);

/* Sets grouped and typicals of the process, and typical of its steps. Returns 0 or -ENOMEM. */
int typical_find(struct process *p);

static inline const struct typical *step_typical(const struct process *p, const struct step *s)
{
	return &p->typicals[s->typical];
}

#endif
