/* SPDX-License-Identifier: BSD-2-Clause */
/* Records into the model of inftrace top. */
#ifndef INFTRACE_TOP_LIVE_SINK_H
#define INFTRACE_TOP_LIVE_SINK_H

#include "sink/sink.h"
#include "top/live.h"

/* The end of the recording: the sink is still there, its model is still fed. */
typedef void (*live_close_cb)(const struct window_totals *t, void *arg);

/* `l` and `rec` must outlive it. close: called by the sink's close. -ENOMEM. */
int live_sink_new(struct live *l, const struct recording *rec, live_close_cb close, void *arg,
	struct sink **ret_sink);

/* What the profile would say of the step. */
void live_step_from(struct live_step *ret, const struct recording *rec, const struct rec_step *r);

#endif
