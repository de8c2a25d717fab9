/* SPDX-License-Identifier: BSD-2-Clause */
/* A recording, from the checks to the summary. */
#ifndef INFTRACE_RECORD_RUN_H
#define INFTRACE_RECORD_RUN_H

#include "record/options.h"

/* Returns an exit code. */
int record_run(struct record_options *o);

#endif
