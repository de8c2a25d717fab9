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
	LINK_PFTRACE, /* inftrace's, or another program's with readings of CLOCK_REALTIME */
	LINK_CHROME,  /* inftrace's Chrome JSON: times since its beginning */
	LINK_KINETO,  /* times since baseTimeNanoseconds of CLOCK_REALTIME */
	LINK_PROFILE, /* inftrace's JSON lines: no clock, only archived */
	LINK_ET,      /* execution trace: no clock, archived with its Kineto trace */
};

/* A call that has a number in Kineto: a launch, what it launched, or an operator. */
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

/* Self-check of a Kineto trace: no kernel may begin before the call that launched it. */
struct launch_check {
	uint64_t kernels;  /* with their launch in the file */
	uint64_t early;    /* of them, begun before their launch */
	int64_t least_ns;  /* the shortest time from a launch to what it launched */
	uint64_t unpaired; /* kernels without a launch */
	uint64_t left_out; /* over NUMBERED_MAX */
};

struct link_file {
	const char *path;
	const char *given_host; /* NULL: none was given */
	enum link_kind kind;
	bool torn;                 /* it ends within a packet or between events */
	int64_t first_ns, last_ns; /* by its own clock; first > last: nothing has a time */
	uint64_t events;
	struct link_clock clock;    /* of its own clock: CLOCK_BOOTTIME (also for Chrome JSON) without a time namespace's shift, or Kineto's */
	struct host_id id;          /* of inftrace's files, unless too old to have one */
	int64_t begin_ns;           /* own clock - the numbers in the file */
	struct spans spans;         /* of Kineto */
	struct numbereds operators; /* of Kineto: by "Record function id" */
	struct launch_check launches;
	struct messages messages; /* of inftrace's files with -e messages; by its own clock */
};

/*
 * Reads a file once, in bounded memory. Returns 0, or -errno with the reason in `why`, printable and without the name.
 * Call link_file_clear in both cases. path and host must outlive it.
 */
int link_file_read(struct link_file *f, const char *path, const char *host, bool is_et, char why[LINK_WHY_MAX]);
void link_file_clear(struct link_file *f);

/* Reads the file again, for calls between two times of its own clock whose names have one of the n sorted keys. */
int link_file_spans(
	const struct link_file *f, const uint64_t *keys, size_t n, int64_t from_ns, int64_t to_ns, struct spans *ret, char why[LINK_WHY_MAX]);

/* Whether the file is on a timeline. */
static inline bool link_file_timed(const struct link_file *f)
{
	return f->kind <= LINK_KINETO;
}

/* Converts the file's own clock to the wall clock. */
static inline int64_t link_file_real(const struct link_file *f, int64_t own_ns)
{
	return own_ns + link_clock_ahead(&f->clock, own_ns);
}

void numbereds_sort(struct numbereds *l); /* by number, then time */
void numbereds_clear(struct numbereds *l);

/* Returns the first entry with this number in a sorted list; NULL: none. */
const struct numbered *numbereds_find(const struct numbereds *l, uint64_t number);

/* Which recordings are of one host: by the names that were given, by the kernel's boot id, or by their clocks. */

struct link;
struct linked;

/* Whether its clock is its host's CLOCK_BOOTTIME, as in inftrace's recordings. */
bool place_is_recording(const struct linked *d);

/* Sets the host of all recordings. -errno with l->error set: they contradict the names or each other, or do not say enough. */
int place_recordings(struct link *l);

/* Returns the host of this name, added if it is new. */
unsigned int place_name(struct link *l, const char *name);

struct boot place_boot(const struct linked *d);

/* How the clocks of hosts relate, by messages between them. */

/* A host, and the other host whose clock its own was compared with. */
struct link_host {
	bool placed;             /* its clock is known: the timeline's, or related as follows */
	unsigned int to;         /* placed: the host it was compared with; itself for the reference's */
	unsigned int hops;       /* from the reference */
	struct host_clock clock; /* its clock - that of `to`; not placed: messages go one way, to or from the reference's host */
	uint64_t sent, received; /* messages from and to `to` */
	int64_t residual_ns;     /* sum over all hops */
};

/* Sets l->placed for all hosts that messages connect with the reference's. -errno with l->error set: messages contradict each other. */
int hosts_relate(struct link *l);

/* Returns how far a placed host's CLOCK_BOOTTIME is ahead of the reference's, at a time of its own. */
int64_t host_ahead(const struct link *l, unsigned int host, int64_t own_ns);

/* When the lead is known to within the residual, by the file's clock: while all hosts from it to the reference were recorded. */
struct host_span {
	int64_t first_ns, last_ns;
	int64_t middle_ns;
	int64_t change_ns; /* of the lead, from the first to the last */
};
struct host_span host_span(const struct link *l, const struct linked *d);

/* What is taken from the traces of Kineto, PyTorch's profiler. */

struct kineto;

/* Its calls, operators and times go into f. */
struct kineto *kineto_new(struct link_file *f);
void kineto_free(struct kineto *k);

/* Takes the trace's baseTimeNanoseconds; without it, as before PyTorch 2.5, times are since 1970. */
void kineto_base(struct kineto *k, int64_t base_ns);

/* Takes a slice, with its times as in the file. */
void kineto_event(struct kineto *k, const struct trace_event *e, int64_t start_ns, int64_t end_ns);

/* Whether the trace read so far is Kineto's. */
bool kineto_is(const struct kineto *k);

/* Call after the last event. Converts times to the wall clock and compares kernels with their launches. */
void kineto_finish(struct kineto *k);

/* Execution traces of PyTorch, Chakra's tools and inftrace, and whether one is of the same run as a Kineto trace. */

#define ET_NODES_MAX (1u << 22)

/* What et_check() counts in an execution trace. */
struct et_check {
	uint64_t nodes;
	uint64_t operators;    /* nodes with an rf_id */
	uint64_t found;        /* of them in the Kineto trace, with the same name */
	uint64_t renamed;      /* of them there with another name */
	uint64_t missing_deps; /* dependencies on nodes that are not in the file */
};

/*
 * Reads f's file. kineto NULL: no comparison. Returns 0, or -errno with the reason in `why`, as link_file_read: the file cannot
 * be read, two nodes have the same id, or dependencies form a cycle.
 */
int et_check(const struct link_file *f, const struct link_file *kineto, struct et_check *ret, char why[LINK_WHY_MAX]);

#endif
