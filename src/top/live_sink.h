/* SPDX-License-Identifier: BSD-2-Clause */
/* Feeds records to the model of inftrace top. */
#ifndef INFTRACE_TOP_LIVE_SINK_H
#define INFTRACE_TOP_LIVE_SINK_H

#include "sink/sink.h"
#include "top/live.h"

/* The recording has ended: the sink still exists, and its model can still be fed. */
typedef void (*live_close_cb)(const struct window_totals *t, void *arg);

/* `l` and `rec` must outlive it. close: called when the sink is closed. -ENOMEM. */
int live_sink_new(struct live *l, const struct recording *rec, live_close_cb close, void *arg,
	struct sink **ret_sink);

/* Fills in what the profile would say about the step. */
void live_step_from(struct live_step *ret, const struct recording *rec, const struct rec_step *r);

#endif
