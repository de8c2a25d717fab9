// SPDX-License-Identifier: BSD-2-Clause
#include "util/counters.h"

#include <stddef.h>
#include <string.h>

static const struct {
	const char *name;
	const char *counters[PMU_MAX];
} sets[COUNTER_SETS] = {
	[COUNTERS_HARDWARE] = { "hardware",
		{ [COUNTER_INSTRUCTIONS] = "instructions", [COUNTER_CYCLES] = "cycles", [COUNTER_LLC_MISSES] = "llc_misses" } },
	[COUNTERS_SOFTWARE] = { "software", { "cpu_clock_ns", "page_faults" } },
};

const char *counter_name(enum counter_set set, unsigned int i)
{
	return set < COUNTER_SETS && i < PMU_MAX ? sets[set].counters[i] : NULL;
}

enum counter_set counter_set_parse(const char *text)
{
	for (enum counter_set set = COUNTERS_NONE + 1; set < COUNTER_SETS; set++) {
		if (!strcmp(text, sets[set].name))
			return set;
	}
	return COUNTERS_NONE;
}
