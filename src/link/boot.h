/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether recordings are of one boot of one machine, and so have one CLOCK_BOOTTIME. */
#ifndef INFTRACE_LINK_BOOT_H
#define INFTRACE_LINK_BOOT_H

#include <stdbool.h>
#include <stdint.h>

#include "util/host_id.h"

/* Clocks of recordings in which the wall clock is as far ahead of CLOCK_BOOTTIME, to within this, agree. */
#define BOOT_AGREE_NS INT64_C(1000000000)

/* What a recording says of its boot. */
struct boot {
	struct host_id id;
	int64_t lead_ns; /* of the wall clock over the machine's CLOCK_BOOTTIME */
};

/* In the order of how sure it is. Of what several recordings of a host say, the greatest counts. */
enum boot_fit {
	BOOT_UNLIKELY, /* without a boot id in both of them: the clocks do not agree */
	BOOT_LIKELY,   /* likewise, but they do */
	BOOT_OTHER,    /* they have two boot ids */
	BOOT_SAME,     /* they have one */
};

enum boot_fit boot_compare(const struct boot *a, const struct boot *b);

/* The host that a recording is of. All zero: none is found yet. */
struct boot_choice {
	enum boot_fit fit; /* BOOT_SAME or BOOT_LIKELY: one is found */
	uint32_t host;
	bool several; /* others are as likely */
};

/* Considers a host whose recordings fit like that. */
void boot_choose(struct boot_choice *c, uint32_t host, enum boot_fit fit);

#endif
