/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Limits the steps of a window for each process separately: what a process does after its last one is left
 * out. Records come in any order, so steps are held until all earlier ones must have arrived; other records
 * that began after the last step are kept if they arrive before it is known to be the last.
 */
#ifndef INFTRACE_RECORD_STEP_LIMIT_H
#define INFTRACE_RECORD_STEP_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "capture/ringbuf.h"
#include "record.h"

struct step_limit;
struct tasks;

/* -ENOMEM. */
int step_limit_new(uint32_t steps, struct step_limit **ret_limit);
void step_limit_free(struct step_limit *l);

/* A window opens. */
void step_limit_reset(struct step_limit *l);

enum step_limit_take {
	STEP_LIMIT_PASS,
	STEP_LIMIT_DROP,
	STEP_LIMIT_HELD, /* a copy; see below */
};
enum step_limit_take step_limit_take(struct step_limit *l, const struct rec_hdr *h, size_t size);

/* Every record that was sent before until_ns has been taken: hands over the steps to keep, in their
 * order. */
void step_limit_release(struct step_limit *l, uint64_t until_ns, record_cb cb, void *arg);

/* Does the same at each settled() of sinks. */
void step_limit_settled(struct step_limit *l, uint64_t now_ns, record_cb cb, void *arg);

/* Whether all living targets have had their steps, but for parents of those that have none; false if there are none. */
bool step_limit_over(struct step_limit *l, struct tasks *tasks);

#endif
