/* SPDX-License-Identifier: BSD-2-Clause */
/* What the page draws of a process: bins, so that it opens at once however long the recording is,
 * and each of the slowest steps. */
#ifndef INFTRACE_REPORT_PLOT_H
#define INFTRACE_REPORT_PLOT_H

#include "report/json.h"
#include "report/summary.h"

/*
 * {"phase": NAME, "rows": [[t, steps, p25, p50, p75], ...], "slow": [{t, y, state, text}, ...], "dt":
 * width, "own": [[share per state], ...], "workers": ...}: times are milliseconds, y and the percentiles
 * are those of one step with the pause before it; shares are thousandths, with states in the order of
 * record.h. Returns NULL if there is no memory (then b says so) or there are no steps.
 */
struct json_object *plot_object(struct json_build *b, const struct model *m,
	const struct process *p, const struct phase_names *names, const struct summary *sum);

#endif
