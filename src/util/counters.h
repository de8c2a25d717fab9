/* SPDX-License-Identifier: BSD-2-Clause */
/* Which counters a recording reads, and what they are called. */
#ifndef INFTRACE_COUNTERS_H
#define INFTRACE_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>

#include "record.h"

enum counter_set {
	COUNTERS_NONE,
	COUNTERS_HARDWARE, /* of the CPU: enum hardware_counter */
	COUNTERS_SOFTWARE, /* of the kernel, which every machine has */
	COUNTER_SETS,
};

enum hardware_counter {
	COUNTER_INSTRUCTIONS,
	COUNTER_CYCLES,
	COUNTER_LLC_MISSES,
};

struct counters {
	enum counter_set set;
	uint8_t mask; /* 1 << counter: those that there are */
};

/* The counter's name, which is its key in the profile; NULL: the set has no such one. */
const char *counter_name(enum counter_set set, unsigned int i);

/* Of the option --counters; COUNTERS_NONE: it is none. */
enum counter_set counter_set_parse(const char *text);

static inline bool counters_have(const struct counters *c, unsigned int i)
{
	return c->mask >> i & 1;
}

#endif
