// SPDX-License-Identifier: BSD-2-Clause
#include "sink/counts.h"

#include <string.h>

#include "util/fmt.h"

bool counts_ipc(const struct counters *c, const uint64_t *n, uint64_t *ret_ipc)
{
	if (c->set != COUNTERS_HARDWARE || !counters_have(c, COUNTER_INSTRUCTIONS) || !counters_have(c, COUNTER_CYCLES) || !n[COUNTER_CYCLES])
		return false;
	*ret_ipc = (uint64_t)((unsigned __int128)n[COUNTER_INSTRUCTIONS] * 1000 / n[COUNTER_CYCLES]);
	return true;
}

static char *fmt_key(char *p, const char *name, bool *first)
{
	if (!*first)
		*p++ = ',';
	*first = false;
	p = fmt_json_str(p, name, strlen(name));
	*p++ = ':';
	return p;
}

char *counts_fmt(char *p, const struct counters *c, const uint64_t *n, bool *first)
{
	uint64_t ipc;

	for (unsigned int i = 0; i < PMU_MAX; i++) {
		if (counters_have(c, i))
			p = fmt_u64(fmt_key(p, counter_name(c->set, i), first), n[i]);
	}
	if (counts_ipc(c, n, &ipc))
		p = fmt_us(fmt_key(p, "ipc", first), ipc); /* in thousandths, too */
	return p;
}
