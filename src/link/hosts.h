/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the clocks of hosts are, by messages between them. */
#ifndef INFTRACE_LINK_HOSTS_H
#define INFTRACE_LINK_HOSTS_H

#include "link/host_clock.h"

struct link;
struct linked;

/* A host beside another one, whose clock its own was compared with. */
struct link_host {
	bool placed;       /* its clock is known: it is that of the timeline, or the rest holds */
	unsigned int to;   /* placed: the host it was compared with; the reference's: itself */
	unsigned int hops; /* from the reference */
	struct host_clock clock; /* theirs - that of `to`; also where one direction alone is known, of the reference: not placed then */
	uint64_t sent, received; /* messages from and to `to` */
	int64_t residual_ns;     /* of all hops */
};

/* Sets l->placed for all hosts that messages connect with the reference's. -errno with l->error set: they contradict each other. */
int hosts_relate(struct link *l);

/* How far the host's CLOCK_BOOTTIME is ahead of the reference's, at this time of its own. Only of one that is placed. */
int64_t host_ahead(const struct link *l, unsigned int host, int64_t own_ns);

/* When it is known to within the residual, by the file's clock: while it and the other hosts up to the reference were recorded. */
struct host_span {
	int64_t first_ns, last_ns;
	int64_t middle_ns; /* of these two */
	int64_t change_ns; /* of the lead, from the first to the last */
};
struct host_span host_span(const struct link *l, const struct linked *d);

#endif
