/* SPDX-License-Identifier: BSD-2-Clause */
/* A reason to dump, and how many there were. */
#ifndef INFTRACE_RECORD_TRIGGER_HIT_H
#define INFTRACE_RECORD_TRIGGER_HIT_H

#include <stdint.h>

#define TRIGGER_REASON_MAX 192

/* More than this many expressions are refused. */
#define TRIGGERS_MAX 16

struct trigger_hit {
	const char *expr;                /* as it was typed */
	char reason[TRIGGER_REASON_MAX]; /* for people, beginning with the expression */
	uint64_t ns;                     /* CLOCK_BOOTTIME at the end of what was too long */
	uint32_t tgid;                   /* 0: no particular process */
};

struct trigger_counts {
	uint64_t hits;            /* reported ones */
	uint64_t cooling, beyond; /* others: during a cool-down, after the last */
};

#endif
