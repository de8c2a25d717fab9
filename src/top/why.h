/* SPDX-License-Identifier: BSD-2-Clause */
/* inftrace why: what the targets do, or wait for, now; and where the last seconds went. */
#ifndef INFTRACE_TOP_WHY_H
#define INFTRACE_TOP_WHY_H

#include "record/options.h"

/* Records for duration_ns, and prints one screen. Returns an exit code. */
int why_run(struct record_options *o, uint64_t duration_ns);

#endif
