/* SPDX-License-Identifier: BSD-2-Clause */
/* Which recordings are of one host: by the names that were given, by the kernel's boot id, or by their clocks. */
#ifndef INFTRACE_LINK_PLACE_H
#define INFTRACE_LINK_PLACE_H

#include "link/boot.h"

struct link;
struct linked;

/* Whether it is inftrace's, and so of a host whose CLOCK_BOOTTIME it has. */
bool place_is_recording(const struct linked *d);

/* Sets the host of all recordings. -errno with l->error set: what they say contradicts the names or each other, or is not enough. */
int place_recordings(struct link *l);

/* The host of this name, which is added if it is new. */
unsigned int place_name(struct link *l, const char *name);

/* What the recording says of its boot. */
struct boot place_boot(const struct linked *d);

#endif
