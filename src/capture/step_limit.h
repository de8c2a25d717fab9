/* SPDX-License-Identifier: BSD-2-Clause */
/* Limits the steps of a window for each process by itself: what a process does behind its last one is left
 * out. Records come in any order, so what began behind that step and comes before it is kept. */
#ifndef INFTRACE_STEP_LIMIT_H
#define INFTRACE_STEP_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "record.h"

struct step_limit;
struct tasks;

/* -ENOMEM. */
int step_limit_new(uint32_t steps, struct step_limit **ret_limit);
void step_limit_free(struct step_limit *l);

/* A window opens. */
void step_limit_reset(struct step_limit *l);

/* Whether the record is to be kept. */
bool step_limit_take(struct step_limit *l, const struct rec_hdr *h);

/* Whether all targets that live have had their steps; false also when there are none. */
bool step_limit_over(struct step_limit *l, struct tasks *tasks);

#endif
