/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How the clocks of recordings relate: to the wall clock, through the boot of their machine, and through messages
 * between hosts.
 */
#ifndef INFTRACE_LINK_HOST_CLOCK_H
#define INFTRACE_LINK_HOST_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/host_id.h"

/* Later times, from the year 2043 on, are taken for damage; sums of two times stay far from overflow. */
#define LINK_NS_MAX (INT64_MAX / 4)

static inline bool link_time_fits(int64_t ns)
{
	return ns > -LINK_NS_MAX && ns < LINK_NS_MAX;
}

/* Whether recordings are of one boot of one machine, and so share CLOCK_BOOTTIME. */

/* The clocks of two recordings agree if their leads of the wall clock over CLOCK_BOOTTIME differ by no more than this. */
#define BOOT_AGREE_NS INT64_C(1000000000)

/* What a recording says about its boot. */
struct boot {
	struct host_id id;
	int64_t lead_ns; /* of the wall clock over the machine's CLOCK_BOOTTIME */
};

/* In increasing certainty: among several recordings of a host the greatest fit counts. */
enum boot_fit {
	BOOT_UNLIKELY, /* not both have a boot id; the clocks disagree */
	BOOT_LIKELY,   /* not both have a boot id; the clocks agree */
	BOOT_OTHER,    /* the boot ids differ */
	BOOT_SAME,     /* the boot ids are equal */
};

enum boot_fit boot_compare(const struct boot *a, const struct boot *b);

/* The host of a recording. All zero: none found yet. */
struct boot_choice {
	enum boot_fit fit; /* BOOT_SAME or BOOT_LIKELY: found */
	uint32_t host;
	bool several; /* others fit as well */
};

/* Considers a host whose recordings fit to this degree. */
void boot_choose(struct boot_choice *c, uint32_t host, enum boot_fit fit);

/* How the clock of a file relates to the wall clock, CLOCK_REALTIME, from readings of both at the same instants. */

#define CLOCK_POINTS_MAX (1u << 20) /* 60 days at one per 5 s */

struct link_clock {
	struct clock_point {
		int64_t own_ns;
		int64_t ahead_ns; /* wall clock - own */
	} * points;
	size_t n, size;
};

/* Adds readings in any order. -E2BIG: over CLOCK_POINTS_MAX. */
int link_clock_add(struct link_clock *c, int64_t own_ns, int64_t real_ns);
void link_clock_sort(struct link_clock *c);
void link_clock_clear(struct link_clock *c);

/* Returns the wall clock's lead at this time, interpolated linearly between readings; 0 without readings. */
int64_t link_clock_ahead(const struct link_clock *c, int64_t own_ns);

/* Returns how much the lead varies over this time, as when the wall clock is set: its uncertainty. */
int64_t link_clock_spread(const struct link_clock *c, int64_t from_ns, int64_t to_ns);

/* Parses nanoseconds from JSON, where numbers of that size are text. false: not a number, or not before 2043. */
bool link_clock_text(const char *text, int64_t *ret_ns);

/*
 * How far the clocks of two hosts are apart, from messages that both have recorded.
 *
 * No message is read before it was sent. A message from us to them bounds theirs - ours from above, one from them to us from
 * below, at one instant of our clock. The clocks' rates differ by a constant, so theirs - ours is a straight line over our
 * time. The lines that all messages allow lie between two bounds, which are widest apart at one of the ends of the recording:
 * the line found goes through the middle of the bounds at both ends, and no allowed line is further from it than the residual.
 */

#define HOST_BOUNDS_MAX (1u << 20) /* per direction */
/* Linux lets NTP slew each host's clock by 500 ppm (MAXFREQ in <linux/timex.h>). */
#define HOST_DRIFT_MAX 1e-3

/* theirs - ours, at instant at_ns of our clock, is at least (or at most) ns. */
struct host_bound {
	int64_t at_ns, ns;
	uint32_t message;
};

struct host_bounds {
	struct host_bound *list;
	size_t n, size;
};

/* All zero: empty. */
struct host_messages {
	struct host_bounds low, high;
	uint64_t left_out; /* over HOST_BOUNDS_MAX, or with impossible times */
};

enum host_known {
	HOST_NOTHING,     /* no messages */
	HOST_AT_LEAST,    /* only messages to us: low_ns */
	HOST_AT_MOST,     /* only messages to them: high_ns */
	HOST_BOTH,        /* a line and a residual */
	HOST_CONTRADICTS, /* no line fits all messages */
};

struct host_clock {
	enum host_known known;
	int64_t from_ns, to_ns;             /* by our clock: when the rest holds */
	int64_t low_ns[2], high_ns[2];      /* theirs - ours at from_ns and to_ns */
	int64_t ahead_ns[2];                /* HOST_BOTH: the middle of low_ns and high_ns */
	int64_t residual_ns;                /* HOST_BOTH: the line's largest error between from_ns and to_ns */
	uint32_t low_message, high_message; /* the tightest bounds; HOST_CONTRADICTS: two that contradict */
	int64_t apart_ns;                   /* HOST_CONTRADICTS: by at least this much for any line */
};

/*
 * Adds a message: sent no earlier than sent_ns by its sender's clock, and read by received_ns of its receiver's.
 * from_us: we sent it. `message` is the caller's number for it.
 */
void host_messages_add(struct host_messages *m, bool from_us, int64_t sent_ns, int64_t received_ns, uint32_t message);
void host_messages_clear(struct host_messages *m);

/* Finds the bounds between two instants of our clock. Reorders and thins m. -EINVAL: from_ns > to_ns, or a time is out of range. */
int host_clock_find(struct host_messages *m, int64_t from_ns, int64_t to_ns, struct host_clock *ret);

/* HOST_BOTH: returns theirs - ours at an instant of our clock. */
int64_t host_clock_ahead(const struct host_clock *c, int64_t at_ns);

#endif
