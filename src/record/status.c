// SPDX-License-Identifier: BSD-2-Clause
#include "record/status.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "util/clock.h"
#include "util/log.h"

#define TTY_NS NSEC_PER_SEC
#define FILE_NS (10 * NSEC_PER_SEC)

void status_begin(struct status *s, uint64_t now_ns)
{
	*s = (struct status){ .begun_ns = now_ns, .last_ns = now_ns };
}

void status_show(struct status *s, const struct windows *w, uint64_t now)
{
	uint64_t period = isatty(STDERR_FILENO) ? TTY_NS : FILE_NS, records, span = now - s->last_ns;
	const char *state = "";
	struct window_totals t;
	char text[256];

	if (span < period)
		return;
	windows_totals(w, &t);
	records = total_of(t.records);
	if (record_by_time(w->o) && !w->recorder)
		state = w->open ? "  window open" : "  window closed";
	snprintf(text, sizeof(text),
		"%" PRIu64 " s  %" PRIu64 " steps (%" PRIu64 "/s)  %" PRIu64 " records/s  %.1f MB  %" PRIu64
		" lost%s",
		(now - s->begun_ns) / NSEC_PER_SEC, t.steps, (t.steps - s->steps) * NSEC_PER_SEC / span,
		(records - s->records) * NSEC_PER_SEC / span, (double)t.bytes / 1e6, total_of(t.lost), state);
	log_status(text);
	s->last_ns = now;
	s->records = records;
	s->steps = t.steps;
}
