/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Adds to waits the stack of the thread that ended them. That was sent first, but perhaps through another ring, so that it may
 * be read after the wait: then the wait is held until all rings have been read once more, and what they had is unwound.
 */
#ifndef INFTRACE_RECORD_WAKER_JOIN_H
#define INFTRACE_RECORD_WAKER_JOIN_H

#include "record.h"

struct waker_join;
typedef void (*waker_join_cb)(void *arg, const struct rec_stack *r);

/* cb: takes each record once. Returns NULL without memory. */
struct waker_join *waker_join_new(waker_join_cb cb, void *arg);
void waker_join_free(struct waker_join *j);

/* A stack, in the order in which they were unwound. */
void waker_join_take(struct waker_join *j, struct rec_stack *r);

/* All rings have been read. taken: samples read from them so far; collected: those of them that were passed to waker_join_take(). */
void waker_join_round(struct waker_join *j, uint64_t taken, uint64_t collected);

/* Nothing else comes: passes on what is held. */
void waker_join_finish(struct waker_join *j);

#endif
