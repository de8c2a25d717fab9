/* SPDX-License-Identifier: BSD-2-Clause */
/* inftrace top: shows a recording while it runs. */
#ifndef INFTRACE_TOP_TOP_H
#define INFTRACE_TOP_TOP_H

#include "record/options.h"

struct top_options {
	uint64_t delay_ns;
	uint32_t count; /* updates; 0: no limit */
	bool batch;     /* no screen */
};

/* Runs the recording and shows it. Returns an exit code. */
int top_run(struct record_options *o, const struct top_options *t);

#endif
