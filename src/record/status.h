/* SPDX-License-Identifier: BSD-2-Clause */
/* The line that now and then shows the progress of a recording. */
#ifndef INFTRACE_RECORD_STATUS_H
#define INFTRACE_RECORD_STATUS_H

#include <stdint.h>

#include "record/windows.h"

struct status {
	uint64_t begun_ns; /* of the run */
	uint64_t last_ns, records, steps; /* at the previous line */
};

void status_begin(struct status *s, uint64_t now_ns);

/* Shows the line if it is time for it. */
void status_show(struct status *s, const struct windows *w, uint64_t now_ns);

#endif
