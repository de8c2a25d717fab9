/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How the clocks of recordings relate: to the wall clock, by the boot of their machine, and by messages between
 * hosts.
 */
#ifndef INFTRACE_LINK_HOST_CLOCK_H
#define INFTRACE_LINK_HOST_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/host_id.h"

/* Later times, of the year 2043, are taken for damage: sums of two of them stay far from overflow. */
#define LINK_NS_MAX (INT64_MAX / 4)

static inline bool link_time_fits(int64_t ns)
{
	return ns > -LINK_NS_MAX && ns < LINK_NS_MAX;
}

/* Whether recordings are of one boot of one machine, and so have one CLOCK_BOOTTIME. */

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

/* How the clock of a file relates to the wall clock, CLOCK_REALTIME, from readings of both at the same instants. */

#define CLOCK_POINTS_MAX (1u << 20) /* 60 days of one each 5 s */

struct link_clock {
	struct clock_point {
		int64_t own_ns;
		int64_t ahead_ns; /* wall clock - own */
	} * points;
	size_t n, size;
};

/* In any order. -E2BIG: over CLOCK_POINTS_MAX. */
int link_clock_add(struct link_clock *c, int64_t own_ns, int64_t real_ns);
void link_clock_sort(struct link_clock *c);
void link_clock_clear(struct link_clock *c);

/* The wall clock's lead at this time: between two readings as if it had changed evenly. 0 without readings. */
int64_t link_clock_ahead(const struct link_clock *c, int64_t own_ns);

/* By how much the lead varies over this time, as it does when the wall clock is set: what is unknown of it. */
int64_t link_clock_spread(const struct link_clock *c, int64_t from_ns, int64_t to_ns);

/* Reads nanoseconds as traces and profiles have them in JSON, where numbers of that size are text. false: it is none, or not before 2043. */
bool link_clock_text(const char *text, int64_t *ret_ns);

/*
 * How far the clocks of two hosts are apart, from messages that both have recorded.
 *
 * No message is read before it was sent. One from us to them says what theirs - ours is at most, one from them to us what it
 * is at least, at one instant of our clock. The clocks' rates differ, but evenly, so theirs - ours is a straight line over our
 * time. All lines that every message allows are between two bounds that leave most open at one of the ends of the recording:
 * the line found goes through their middles there, and no allowed line is further away from it than the residual.
 */

#define HOST_BOUNDS_MAX (1u << 20) /* of each direction */
/* Linux lets NTP slew a clock by 500 ppm (MAXFREQ in <linux/timex.h>), each host's. */
#define HOST_DRIFT_MAX 1e-3

/* theirs - ours at this instant of our clock is at least, or at most, ns. */
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
	uint64_t left_out; /* over HOST_BOUNDS_MAX, or of times that are out of the question */
};

enum host_known {
	HOST_NOTHING,     /* no messages */
	HOST_AT_LEAST,    /* only messages to us: low_ns */
	HOST_AT_MOST,     /* only messages to them: high_ns */
	HOST_BOTH,        /* a line and a residual */
	HOST_CONTRADICTS, /* no line is allowed by all messages */
};

struct host_clock {
	enum host_known known;
	int64_t from_ns, to_ns;             /* of our clock: what the rest holds for */
	int64_t low_ns[2], high_ns[2];      /* theirs - ours at from_ns and to_ns */
	int64_t ahead_ns[2];                /* HOST_BOTH: the middle of these */
	int64_t residual_ns;                /* HOST_BOTH: what is unknown of the line at most, anywhere between from_ns and to_ns */
	uint32_t low_message, high_message; /* that bound it most; HOST_CONTRADICTS: that do not go together */
	int64_t apart_ns;                   /* HOST_CONTRADICTS: by so much, whatever the line */
};

/*
 * Adds a message that was sent at one time of its sender's clock, no later than that, and had been read at one of its
 * receiver's, no earlier. from_us: we sent it. `message` is the caller's number for it.
 */
void host_messages_add(struct host_messages *m, bool from_us, int64_t sent_ns, int64_t received_ns, uint32_t message);
void host_messages_clear(struct host_messages *m);

/* What they say of the time between two instants of our clock. Reorders and thins m. -EINVAL: from_ns > to_ns, or too far apart. */
int host_clock_find(struct host_messages *m, int64_t from_ns, int64_t to_ns, struct host_clock *ret);

/* HOST_BOTH: theirs - ours at an instant of our clock. */
int64_t host_clock_ahead(const struct host_clock *c, int64_t at_ns);

#endif
