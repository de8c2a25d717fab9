/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Collectives (NCCL, RCCL) of several processes: the calls in a recording, and which calls of several recordings
 * belong together.
 */
#ifndef INFTRACE_LINK_RANKS_H
#define INFTRACE_LINK_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "read/json_source.h"
#include "util/host_id.h"

/* The collectives in a recording: calls of NCCL (RCCL has the same names), and when their communicators were made. */

#define COLLECTIVES_MAX (1u << 21) /* calls per file; 96 MB */
#define COLLECTIVES_WHY_MAX 256

struct collective_call {
	int64_t from_ns, to_ns; /* of the call, CLOCK_BOOTTIME of its machine */
	uint64_t comm;          /* the communicator's address in the process */
	uint64_t key;           /* equal for calls that may be one collective: hash of function, bytes and type */
	uint64_t bytes;
	uint32_t pid, tid;
	uint8_t function; /* for collective_name() */
};

/* A call that made a communicator. */
struct communicator {
	int64_t ns; /* when it returned */
	uint64_t comm;
	uint64_t id; /* the same in all ranks, and almost surely in no other communicator; 0: unknown */
	uint32_t pid, ranks, rank;
};

/* Calls may be missing between these times. */
struct collective_loss {
	int64_t from_ns, to_ns;
};

/* All zero: empty. collectives_read() sorts calls by process and begin, communicators by process, address and time, and losses by time;
 * no loss touches the next. */
struct collectives {
	struct collective_call *calls;
	struct communicator *made;
	struct collective_loss *losses;
	size_t n_calls, calls_size, n_made, made_size, n_losses, losses_size;
	bool has_clock;
	int64_t boot_ns, real_ns; /* its first reading of both clocks */
	struct host_id id;        /* with shift 0, since no time here includes one */
	uint64_t left_out;        /* calls over COLLECTIVES_MAX; the last loss begins at the first of them */
};

/*
 * Reads the recording from an open source: a .pftrace, or inftrace's Chrome JSON. Other traces yield nothing. Returns 0, or
 * -errno with the reason in `why`, printable, and what comes before the damage in *ret. Call collectives_clear() in any case.
 */
int collectives_read(struct json_source *source, struct collectives *ret, char why[COLLECTIVES_WHY_MAX]);
void collectives_clear(struct collectives *c);

/* "ncclAllReduce". */
const char *collective_name(uint8_t function);

/*
 * Which calls of the recordings of several processes are one collective.
 *
 * A rank is a communicator in a process. Ranks whose communicator was made while they were recorded form a group if its id is the
 * same, and their n-th calls are one collective. Otherwise, and after lost records, calls belong together if exactly one shift of one
 * rank's calls against the other's makes them all agree in function, bytes and type, RANKS_APART_NS apart at most. If several shifts
 * do (each call is like the one before), the match is unknown and nothing is reported.
 */

#define RANKS_MAX 1024
#define RANKS_APART_NS INT64_C(1000000000)
/* Fewer calls may agree by chance. */
#define RANKS_AGREE_MIN 8
#define RANKS_NONE UINT32_MAX

/* How far a host's CLOCK_BOOTTIME is ahead of the timeline's: a line between two instants of its own. All zero: unknown. */
struct host_place {
	bool known;
	int64_t first_ns, last_ns; /* between these it is known to within residual_ns */
	int64_t ahead_first_ns, ahead_last_ns;
	int64_t residual_ns;
};

/* Its members in the manifest of an archive, as attributes inftrace.NAME.FILE. */
#define HOST_PLACE_ATTRIBUTES(ATTRIBUTE)                     \
	ATTRIBUTE(first_ns, "boottime_first_ns")             \
	ATTRIBUTE(last_ns, "boottime_last_ns")               \
	ATTRIBUTE(ahead_first_ns, "boottime_ahead_first_ns") \
	ATTRIBUTE(ahead_last_ns, "boottime_ahead_last_ns")   \
	ATTRIBUTE(residual_ns, "boottime_residual_ns")

struct rank_call {
	int64_t own_ns, at_ns; /* when it began: by its host's CLOCK_BOOTTIME, and by the timeline's */
	uint64_t key, bytes;
	uint32_t tid;
	uint32_t segment; /* no call is missing between two calls of one segment */
	uint8_t function;
	bool placed; /* at_ns is known to within the host's residual */
};

struct rank {
	uint32_t host, pid;
	uint64_t comm, id;       /* id 0: unknown */
	int64_t made_ns;         /* INT64_MIN: not seen */
	uint32_t ranks, rank;    /* of the communicator; ranks 0: unknown */
	uint32_t counted;        /* the segment that begins with the communicator's first call; RANKS_NONE: none */
	struct rank_call *calls; /* after ranks_group(): sorted by own_ns */
	size_t n, size;
};

/* Two or more ranks that take part in the same collectives. Each call of the first rank is a collective. */
struct rank_group {
	uint32_t *members; /* indices into the ranks; the first has the most calls */
	uint32_t **calls;  /* per member: its call for each call of the first member, or RANKS_NONE */
	size_t n;
	uint32_t ranks;      /* in the communicator; 0: unknown */
	uint64_t mismatched; /* calls with the same number that differ in function or bytes */
	uint64_t unplaced;   /* calls whose collective is unknown */
};

/* All zero: empty. */
struct ranks {
	struct rank *list[RANKS_MAX];
	size_t n;
	struct rank_group *groups;
	size_t n_groups, groups_size;
	uint32_t segments;
	uint64_t left_out; /* calls of ranks over RANKS_MAX */
	uint64_t work;     /* comparisons so far */
	bool gave_up;      /* after too many comparisons: some groups may be missing */
};

/* Adds a recording of a host. A call that several recordings have counts once. */
void ranks_add(struct ranks *r, uint32_t host, const struct host_place *place, const struct collectives *c);

/* Finds the groups, after all recordings were added. */
void ranks_group(struct ranks *r);
void ranks_clear(struct ranks *r);

/* Converts a host's CLOCK_BOOTTIME to the timeline's. */
int64_t host_place_at(const struct host_place *p, int64_t own_ns);

#endif
