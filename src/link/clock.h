/* SPDX-License-Identifier: BSD-2-Clause */
/* How the clock of a file relates to the wall clock, CLOCK_REALTIME, from readings of both at the same instants. */
#ifndef INFTRACE_LINK_CLOCK_H
#define INFTRACE_LINK_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLOCK_POINTS_MAX (1u << 20) /* 60 days of one each 5 s */

struct link_clock {
	struct clock_point {
		int64_t own_ns;
		int64_t ahead_ns; /* wall clock - own */
	} * points;
	size_t n, size;
};

/* In any order. -ENOMEM; -E2BIG: over CLOCK_POINTS_MAX. */
int link_clock_add(struct link_clock *c, int64_t own_ns, int64_t real_ns);
void link_clock_sort(struct link_clock *c);
void link_clock_clear(struct link_clock *c);

/* The wall clock's lead at this time: between two readings as if it had changed evenly. 0 without readings. */
int64_t link_clock_ahead(const struct link_clock *c, int64_t own_ns);

/* By how much the lead varies over this time, as it does when the wall clock is set: what is unknown of it. */
int64_t link_clock_spread(const struct link_clock *c, int64_t from_ns, int64_t to_ns);

/* Reads nanoseconds as traces and profiles have them in JSON, where numbers of that size are text. false: it is none, or not before 2043. */
bool link_clock_text(const char *text, int64_t *ret_ns);

#endif
