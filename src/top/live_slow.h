/* SPDX-License-Identifier: BSD-2-Clause */
/* The slow steps of the last minute, each with its cause as in inftrace report. */
#ifndef INFTRACE_TOP_LIVE_SLOW_H
#define INFTRACE_TOP_LIVE_SLOW_H

#include "top/live.h"

struct slow_steps;

/* Functions that return an int return 0 or -ENOMEM. */
int slow_steps_new(struct slow_steps **ret);
void slow_steps_free(struct slow_steps *s);

/* Adds a step; steps come in the order in which they began, as far as it is known. */
int slow_steps_add(struct slow_steps *s, const struct live_step *step);

/* Judges the new steps, and fills in the frame's slow steps. */
int slow_steps_frame(struct slow_steps *s, int64_t now, struct live_frame *f);

#endif
