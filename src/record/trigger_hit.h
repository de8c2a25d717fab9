/* SPDX-License-Identifier: BSD-2-Clause */
/* A reason to dump, and how many there were. */
#ifndef INFTRACE_RECORD_TRIGGER_HIT_H
#define INFTRACE_RECORD_TRIGGER_HIT_H

#include <stdint.h>

#define TRIGGER_REASON_MAX 192

/* More than this many expressions are refused. */
#define TRIGGERS_MAX 16

struct trigger_hit {
	const char *expr;                /* as it was written */
	char reason[TRIGGER_REASON_MAX]; /* a text for people, which begins with it */
	uint64_t ns;                     /* CLOCK_BOOTTIME of the end of what was too long */
	uint32_t tgid;                   /* 0: of no process */
};

struct trigger_counts {
	uint64_t hits;            /* that were told */
	uint64_t cooling, beyond; /* that were not: in a cool-down, behind the last */
};

#endif
