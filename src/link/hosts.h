/* SPDX-License-Identifier: BSD-2-Clause */
/* The files to be linked, and which host each is of. */
#ifndef INFTRACE_LINK_HOSTS_H
#define INFTRACE_LINK_HOSTS_H

#include <stdbool.h>

#include "link/host_clock.h"
#include "link/match.h"
#include "read/trace.h"
#include "util/host_id.h"

/* A file to be linked: what it is, when it was recorded, and by which clock. */

#define LINK_WHY_MAX 384

enum link_kind {
	LINK_PFTRACE, /* inftrace's, or of another program with readings of CLOCK_REALTIME */
	LINK_CHROME,  /* inftrace's Chrome JSON: counts from its beginning */
	LINK_KINETO,  /* counts from baseTimeNanoseconds of CLOCK_REALTIME */
	LINK_PROFILE, /* inftrace's JSON lines: no clock, goes along */
	LINK_ET,      /* PyTorch's execution trace: no clock, goes along with its Kineto trace */
};

/* Of a call that has a number in Kineto: of a launch, of what it launched, or of an operator. */
struct numbered {
	uint64_t number;
	int64_t ns;
	uint64_t name; /* hash */
};

struct numbereds {
	struct numbered *list;
	size_t n, size;
	uint64_t left_out; /* over NUMBERED_MAX */
};

#define NUMBERED_MAX (1u << 22)

/* What Kineto's trace says about itself: no kernel begins before the call that launched it. */
struct launch_check {
	uint64_t kernels;  /* whose launch is in the file */
	uint64_t early;    /* of them, before it */
	int64_t least_ns;  /* the shortest time from a launch to what it launched */
	uint64_t unpaired; /* kernels without a launch */
	uint64_t left_out; /* not looked at */
};

struct link_file {
	const char *path;
	const char *given_host; /* NULL: none was given */
	enum link_kind kind;
	bool torn;                 /* it ends within a packet or between events */
	int64_t first_ns, last_ns; /* by the own clock; first > last: nothing with a time */
	uint64_t events;
	struct link_clock clock;    /* own clock: CLOCK_BOOTTIME (also that of a Chrome JSON), without a time namespace's shift, or Kineto's */
	struct host_id id;          /* of inftrace's, unless they are older than that */
	int64_t begin_ns;           /* own clock - the numbers in the file */
	struct spans spans;         /* of Kineto */
	struct numbereds operators; /* of Kineto: by "Record function id" */
	struct launch_check launches;
	struct messages messages; /* of inftrace's, with -e messages; by the own clock */
};

/*
 * Reads a file once, in bounded memory. Returns 0, or -errno with the reason in `why`, printable and without the name.
 * Call link_file_clear in both cases. path and host must outlive it.
 */
int link_file_read(struct link_file *f, const char *path, const char *host, bool is_et, char why[LINK_WHY_MAX]);
void link_file_clear(struct link_file *f);

/* Reads it again, for calls from one time to another (own clock) whose names have one of the n sorted keys. */
int link_file_spans(
	const struct link_file *f, const uint64_t *keys, size_t n, int64_t from_ns, int64_t to_ns, struct spans *ret, char why[LINK_WHY_MAX]);

/* Whether it is on a timeline. */
static inline bool link_file_timed(const struct link_file *f)
{
	return f->kind <= LINK_KINETO;
}

/* Its own clock as wall clock. */
static inline int64_t link_file_real(const struct link_file *f, int64_t own_ns)
{
	return own_ns + link_clock_ahead(&f->clock, own_ns);
}

void numbereds_sort(struct numbereds *l); /* by number, then time */
void numbereds_clear(struct numbereds *l);

/* For each number the first of it; NULL: none. Of a sorted list. */
const struct numbered *numbereds_find(const struct numbereds *l, uint64_t number);

/* Which recordings are of one host: by the names that were given, by the kernel's boot id, or by their clocks. */

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

/* Where the clocks of hosts are, by messages between them. */

/* A host beside another one, whose clock its own was compared with. */
struct link_host {
	bool placed;             /* its clock is known: it is the timeline's, or the rest holds */
	unsigned int to;         /* placed: the host it was compared with; the reference's: itself */
	unsigned int hops;       /* from the reference */
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

/* Kineto's traces, PyTorch's profiler: what is taken from their events. */

struct kineto;

/* f gets its calls, operators and times. */
struct kineto *kineto_new(struct link_file *f);
void kineto_free(struct kineto *k);

/* The trace's baseTimeNanoseconds; without it, as before PyTorch 2.5, times are since 1970. */
void kineto_base(struct kineto *k, int64_t base_ns);

/* A slice with its times as they are in the file. */
void kineto_event(struct kineto *k, const struct trace_event *e, int64_t start_ns, int64_t end_ns);

/* Whether what has been read is of Kineto. */
bool kineto_is(const struct kineto *k);

/* After the last event: times become wall-clock times, kernels are compared with their launches. */
void kineto_finish(struct kineto *k);

/* Execution traces of PyTorch, Chakra's tools and inftrace, and whether one is of the same run as a Kineto trace. */

#define ET_NODES_MAX (1u << 22)

/* Of the operators of an execution trace. */
struct et_check {
	uint64_t nodes;
	uint64_t operators;    /* nodes with a number, rf_id */
	uint64_t found;        /* of them in the Kineto trace, with the same name */
	uint64_t renamed;      /* there with another name */
	uint64_t missing_deps; /* dependencies on nodes that are not in the file */
};

/*
 * Reads f's file. kineto NULL: it is not compared. Returns 0, or -errno with the reason in `why`, as link_file_read: it cannot
 * be read, or its dependencies form a cycle.
 */
int et_check(const struct link_file *f, const struct link_file *kineto, struct et_check *ret, char why[LINK_WHY_MAX]);

#endif
