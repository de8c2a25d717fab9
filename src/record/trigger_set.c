// SPDX-License-Identifier: BSD-2-Clause
#include "record/trigger_set.h"

#include <stdarg.h>
#include <stdio.h>

#include "util/clock.h"

static bool is_cooling(const struct trigger_set *set, const struct trigger *t, uint64_t ns)
{
	/* what led to a crash may have been reported, but not the end: only other crashes count */
	uint64_t last = t->kind == KIND_CRASH ? set->last_crash_ns : set->last_ns;
	/* records may arrive out of order */
	uint64_t since = ns > last ? ns - last : last - ns;

	return last && since < set->cooldown_ns;
}

bool trigger_is_told(struct trigger_set *set, struct trigger *t, uint64_t ns, uint32_t tgid)
{
	bool beyond = set->max_hits && set->counts.hits >= set->max_hits;

	if (beyond || set->pending || is_cooling(set, t, ns)) {
		set->counts.beyond += beyond;
		set->counts.cooling += !beyond;
		t->left_out++;
		return false;
	}
	set->counts.hits++;
	t->hits++;
	set->last_ns = ns;
	if (t->kind == KIND_CRASH)
		set->last_crash_ns = ns;
	set->pending = true;
	set->hit = (struct trigger_hit){ .expr = t->expr, .ns = ns, .tgid = tgid };
	return true;
}

void trigger_tell(struct trigger_set *set, const struct trigger *t, const char *fmt, ...)
{
	char *reason = set->hit.reason;
	int n = snprintf(reason, TRIGGER_REASON_MAX, "%.60s: ", t->expr);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(reason + n, TRIGGER_REASON_MAX - (size_t)n, fmt, ap);
	va_end(ap);
}

const struct trigger_hit *trigger_take(struct trigger_set *set)
{
	bool pending = set->pending;

	set->pending = false;
	return pending ? &set->hit : NULL;
}

const char *trigger_time(char buf[TIME_TEXT_MAX], uint64_t ns)
{
	if (ns < 1000000)
		snprintf(buf, TIME_TEXT_MAX, "%.1f us", (double)ns / 1e3);
	else if (ns < 10 * NSEC_PER_SEC)
		snprintf(buf, TIME_TEXT_MAX, "%.1f ms", (double)ns / 1e6);
	else
		snprintf(buf, TIME_TEXT_MAX, "%.2f s", (double)ns / 1e9);
	return buf;
}
