/* SPDX-License-Identifier: BSD-2-Clause */
/* Unwinds samples in their order, in a thread of its own. While some MB of them wait, new ones are dropped and counted. */
#ifndef INFTRACE_RECORD_UNWINDER_H
#define INFTRACE_RECORD_UNWINDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capture/ringbuf.h"
#include "record.h"
#include "target/tasks.h"

struct stacks;
struct unwinder;

/* stacks: must outlive the result. period_ns: CPU time between two samples. -errno. */
int unwinder_new(struct stacks *stacks, uint64_t period_ns, struct unwinder **ret_unwinder);
void unwinder_free(struct unwinder *u);

/* Takes a copy of the sample. */
void unwinder_sample(struct unwinder *u, const struct rec_sample *r, size_t size);
/* news: NEWS_EXEC, NEWS_MAPPED or NEWS_GONE. at_ns: when it happened (CLOCK_BOOTTIME). Samples from before that may still come. */
void unwinder_process(struct unwinder *u, uint32_t tgid, enum process_news news, uint64_t at_ns);

/* Passes unwound samples on as REC_STACK, in the calling thread. */
void unwinder_collect(struct unwinder *u, record_cb cb, void *arg);

/* Whether all samples that were taken before the previous call that returned true have been passed on. */
bool unwinder_settled(struct unwinder *u);

/* Waits for the samples that are waiting, and passes them on. */
void unwinder_finish(struct unwinder *u, record_cb cb, void *arg);

/* Bytes of samples that wait to be unwound. */
size_t unwinder_waiting(struct unwinder *u);

uint64_t unwinder_dropped(const struct unwinder *u);

#endif
